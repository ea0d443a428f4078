page.sectionStyle = "/* The player: its buttons in the bar, its panel instead of the contents, the current line. */\n.player { display: flex; gap: 0.5rem; align-items: center; white-space: nowrap; }\nbody:not(.stepping) :is(#step-back, #step-now, #step-over, #step-end), .stepping .idle { display: none; }\n.player output { color: var(--soft); font-variant-numeric: tabular-nums; min-width: 8.5em; text-align: center; }\n#step-done { position: absolute; left: 0; bottom: -1px; width: 100%; height: 2px; border: 0; appearance: none; background: none; }\n#step-done::-webkit-progress-bar { background: none; }\n#step-done::-webkit-progress-value { background: var(--link); }\n#step-done::-moz-progress-bar { background: var(--link); }\n.stepping .row > .code code { cursor: pointer; }\n.row.caller { background: color-mix(in srgb, var(--mark) 45%, transparent); }\n.row.current { box-shadow: inset 3px 0 var(--link); }\n:is(.prose, figure, .reference, h2, h3, h4, h5, h6).current { box-shadow: -1rem 0 var(--paper), calc(-1rem - 3px) 0 var(--link); }\n.current { scroll-margin-block: 4rem 30vh; }\n.stepping .wrap { grid-template-columns: clamp(16rem, 24vw, 23rem) minmax(0, calc(var(--measure) + var(--margin) + var(--others, 0) * 15rem + 4rem)); }\n.stepping .contents { display: none; }\n.panel section:not(:has(tr, .turns:not([hidden]))) + section > h3 { margin-top: 0.3rem; }\n.stepping main, .panel { touch-action: pan-y pinch-zoom; }\n.panel { position: sticky; top: 2.9rem; align-self: start; max-height: calc(100vh - 2.9rem); contain: layout paint style; overflow-y: auto; padding: 1.2rem 0.9rem 2rem 1.25rem;\n  border-right: 1px solid var(--line); font: 0.8125rem/1.5 var(--sans); }\n#step-status { position: fixed; top: 0; margin: 0; }\n.panel p { margin: 0.15rem 0; overflow-wrap: anywhere; }\n.panel .where { color: var(--soft); font-variant-numeric: tabular-nums; }\n.panel pre { font: 0.75rem/1.5 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; background: var(--code); margin: 0.3rem 0; padding: 0.3rem 0.5rem; max-height: 12rem; overflow-y: auto; }\n.panel h3 { max-width: none; font: 600 0.8125rem/1.4 var(--sans); margin: 1rem 0 0.25rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }\n.panel h3 code { font: 600 0.7812rem/1.4 var(--mono); }\n.panel small { color: var(--soft); font-weight: 400; font-size: 0.7188rem; }\n.turns { display: block; color: var(--soft); font-size: 0.75rem; }\n.turns input { display: block; width: 100%; margin: 0.1rem 0 0.3rem; accent-color: var(--link); }\n.vars, .vars > tbody { display: block; font: 0.75rem/1.45 var(--mono); }\n.vars > tbody > tr { display: flex; flex-wrap: wrap; border-bottom: 2px solid var(--paper); padding: 0.18rem 0.35rem; }\n.vars > tbody > tr > th { flex: 0 1 auto; min-width: 42%; padding: 0 0.5rem 0 0; text-align: left; font-weight: 400; color: var(--soft); overflow-wrap: break-word; }\n.vars > tbody > tr > td { flex: 1 1 7rem; min-width: 0; padding: 0; overflow-wrap: anywhere; }\n.vars .grid { font-size: 0.6875rem; }\n.vars .storage, .vars small { display: block; font-size: 0.6875rem; }\n.vars :is(.new, .changed, .written) { background: var(--mark); box-shadow: inset 3px 0 var(--link); }\n.vars :is(.new, .changed, .written) > th { color: var(--ink); }\n.vars .alias { background: color-mix(in srgb, var(--mark) 60%, transparent); box-shadow: inset 3px 0 var(--warn); }\n.live > * { display: inline-block; padding-left: 1.1em; text-indent: -1.1em; margin-right: 0.9rem; }\n@media screen {\n  .beside.alive { display: flex; justify-content: flex-start; }\n  .alive > :not(.live) { display: none; }\n  .later { display: none !important; }\n}\ndialog { font: 0.9062rem/1.5 var(--sans); color: var(--ink); background: var(--paper); border: 1px solid var(--soft); border-radius: 9px; max-width: min(38rem, 92vw); padding: 1.2rem 1.5rem; }\ndialog h2 { margin: 0 0 0.4rem; }\ndialog table { border-collapse: collapse; }\ndialog th { text-align: left; font-weight: 400; white-space: nowrap; padding: 0.15rem 1.2rem 0.15rem 0; vertical-align: top; }\ndialog fieldset { border: 1px solid var(--line); border-radius: 7px; margin: 0.9rem 0; }\ndialog label { display: block; padding: 0.15rem 0; }\nkbd { font: 0.75rem/1.3 var(--mono); border: 1px solid var(--line); border-bottom-width: 2px; border-radius: 4px; padding: 0.05rem 0.35rem; background: var(--code); }\n@media screen and (max-width: 1100px) {\n  /* The panel is in the lower part of the window; the text scrolls above it, so that they do not overlap. */\n  body.stepping { height: 100dvh; display: grid; grid-template-rows: auto minmax(0, 1fr); overflow: hidden; }\n  .stepping .wrap { grid-template: minmax(0, 1fr) auto / minmax(0, 1fr); min-height: 0; width: 100%; }\n  .stepping .wrap > main { grid-area: 1 / 1; overflow-y: auto; min-height: 0; }\n  .stepping .wrap > .panel { grid-area: 2 / 1; position: static; max-height: 36dvh; border: 0; border-top: 2px solid var(--line); padding: 0.5rem 1.25rem 0.8rem;\n    display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 0 1.5rem; align-content: start; }\n  .panel .at { grid-column: 1 / -1; }\n  .panel h3 { margin-top: 0.3rem; padding-top: 0.4rem; }\n  .stepping .current { scroll-margin-block: 1rem 3rem; }\n}\n@media screen and (max-width: 800px) {\n  .bar { gap: 0.4rem; }\n  .player { gap: 0.3rem; }\n  .player output { min-width: 0; font-size: 0.75rem; }\n  .stepping .bar > :is(.home, .menu, .switch, #differing, #search-open, #theme) { display: none; }\n  .stepping .player { flex: 1; justify-content: space-between; }\n  .alive:has(> .live:empty) { display: none; }\n  .player button { min-height: 2.2rem; min-width: 2.2rem; }\n  :is(#step-large, #step-on) span:not(.hidden), #step-help { display: none; }\n  :is(.prose, figure, .reference, h2, h3, h4, h5, h6).current { box-shadow: -0.5rem 0 var(--paper), calc(-0.5rem - 3px) 0 var(--link); }\n}\n@media print { .panel, #step-done, .live { display: none; } .row.current, .row.caller { background: none; box-shadow: none; } }\n/* Large type, for a lecture hall: hundredths of the largest 16:9 area, one column, headings at the top. */\n@media screen {\n  .large { font-size: min(1.92vw, 3.41vh); --measure: 44rem; --margin: 17rem; scroll-padding-top: 3rem; }\n  .large :is(.bar, .contents, .panel, nav.turn, .machines, .meta, .copy, .drawn, .permalink, .reference) { display: none; }\n  .large body.stepping { display: block; height: auto; overflow: visible; }\n  .large .wrap { display: block; max-width: none; }\n  .large main { max-width: none; padding: 1rem 1.5rem 100vh; overflow: visible; }\n  .large h2 { position: sticky; top: 0; z-index: 1; max-width: none; margin-top: 1rem; padding: 0.3rem 0; background: var(--paper); border-bottom: 1px solid var(--line); }\n  .large .current { scroll-margin-block: 0 30vh; }\n  .large section:has(> h2) { scroll-margin-top: -3rem; }\n  .large .explore { zoom: 0.7; scroll-margin: 0; }\n  .large :is(.scroll, .narrow) svg { width: min(100%, 44rem); max-height: 55vh; }\n}\n\n/* Other machines in columns next to the lines. */\n.machines { margin: 0.6rem 0 0; padding: 0; border: 0; color: var(--soft); display: flex; flex-wrap: wrap; gap: 0.1rem 1.3rem; align-items: center; }\n.machines legend { float: left; padding: 0; font-size: inherit; }\n.machines label { cursor: pointer; min-height: 24px; }\n.machines input { accent-color: var(--link); vertical-align: -0.1em; }\n.machines p { flex: 1 0 100%; margin: 0; }\n#differing { display: flex; align-items: center; gap: 0.3rem; }\n#differing output { display: inline-block; min-width: 7em; text-align: center; color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }\n.comparing { --margin: clamp(13rem, 18vw, 22rem); }\n.comparing .called { --margin: clamp(13rem, 20vw, 20rem); }\n.comparing .listing > :is(.row, .heads) { grid-template-columns: minmax(0, 1fr) minmax(0, var(--margin)) repeat(var(--others), minmax(0, clamp(8.5rem, 13vw, 15rem))); }\n.heads { display: grid; font: 600 0.7188rem/1.7 var(--sans); color: var(--soft); border-bottom: 1px solid var(--line); }\n.heads span { padding: 0.1rem 0.6rem; border-left: 1px solid var(--line); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }\n.comparing .row > .code { grid-area: 1 / 1; }\n.comparing .row > .beside { grid-area: 1 / 2; }\n.other { grid-area: 1 / var(--column); border-left: 1px solid var(--line); padding: 0 0.6rem; font-size: 0.75rem; color: var(--soft); min-width: 0; overflow-wrap: anywhere; }\n.other p { margin: 0; padding-left: 0.9em; text-indent: -0.9em; font: inherit; }\n.other .same { font-style: italic; }\n.other p.differs, .other p.differs :is(b, small) { color: var(--warn); font-weight: 600; }\n.other.differs { background: var(--warn-ground); }\n.row.differs { box-shadow: inset 3px 0 var(--warn); }\n.row.differs.current { box-shadow: inset 3px 0 var(--link); }\n@media screen and (max-width: 800px) {\n  .comparing .bar > :is(.home, .switch), .comparing #step-large { display: none; }\n  #differing { flex: 1; }\n  #differing output { min-width: 0; font-size: 0.75rem; }\n  .heads { display: none; }\n  .comparing .listing > .row { grid-template-columns: minmax(0, 1fr); }\n  .comparing .row > :is(.code, .beside) { grid-area: auto; }\n  .other { grid-area: auto / 1 / auto / -1; border-left: 3px solid var(--line); margin: 0 1rem 0.3rem 0.8rem; padding: 0 0.6rem; line-height: 1.7; }\n  .other::before { content: attr(data-machine); font: 600 0.6875rem/1.6 var(--sans); }\n  .other.alike { display: none; }\n  .row.differs > .other.differs { border-color: var(--warn); }\n}\n@media print { .comparing { --margin: 28%; } .other { font-size: 7.5pt; } }\n";
// The player: step through the run, one statement at a time.
//
// `player.py` wrote the stops (each step's position, with the values observed there) and the frames (calls). A stop is
// an index; readers count from 1. The panel shows the state after a stop's statement: values observed on the line of
// a call are shown at that line, not inside the call. No state is stored per step; it is computed at each key press.
document.adoptedStyleSheets = [...document.adoptedStyleSheets, page.styled(page.sectionStyle)];
{
  const { $, make, reveal } = page;
  const CHANGES = ["", "new", "changed", "written", ""];
  const NOTES = ["held", "failed", "failed", "caught", "printed", "warning"];
  const SIGNS = { held: "✓ ", failed: "✗ ", caught: "↯ ", printed: "", warning: "Warning: " };
  const main = $("text"), panel = $("panel");
  const steps = {};  // what `read` makes of the page's data; nothing changes it
  const now = {  // all that changes
    here: -1, before: -1,  // the stop that is shown, and the one shown before it
    part: 0,  // how many of its outputs are shown (@animate)
    animate: false,  // whether the page is in large type, revealed step by step
    pieces: null,  // then: each piece of the page, with the position that reveals it
    marked: [],  // the lines of the stack: [element, class]
    waiting: 0,  // the timer of what is updated with a delay
  };

  const grouped = (keys) => {
    const groups = new Map();
    keys.forEach((key, place) => (groups.get(key) ?? groups.set(key, []).get(key)).push(place));
    return groups;
  };

  const read = ({ stops, frames, narrations, shared }) => {
    const column = (name) => stops.map((stop) => stop[name]), frame = (nth) => frames.map((values) => values[nth]);
    const entries = stops.flatMap(({ seen }, stop) => seen.map((entry) => [stop, ...entry])), seen = { shared };
    ["stop", "name", "text", "grid", "change", "storage"].forEach((name, nth) => { seen[name] = entries.map((entry) => entry[nth]); });
    const columns = { narrations, seen, count: stops.length, names: frame(0), of: frame(1), calls: frame(2), totals: frame(3) };
    for (const name of ["frame", "anchor", "line", "code", "memory", "execution", "inside", "time", "same"]) columns[name] = column(name);
    columns.outputs = new Map(stops.flatMap(({ outputs }, stop) => (outputs > 1 ? [[stop, outputs]] : [])));
    columns.depth = [];
    const depth = (at) => (columns.depth[at] ??= columns.of[at] < 0 ? 0 : 1 + depth(columns.frame[columns.of[at]]));
    frames.forEach((_, at) => depth(at));
    columns.executions = grouped(columns.same);
    columns.standing = grouped(columns.anchor);
    columns.within = grouped(columns.frame);
    columns.seenAt = grouped(seen.stop);
    columns.seenIn = grouped(seen.stop.map((stop) => columns.frame[stop]));
    columns.noted = new Map(stops.flatMap(({ notes }, stop) => (notes.length ? [[stop, notes.map(([kind, text]) => [NOTES[kind], text])]] : [])));
    return columns;
  };

  // --- moving ---

  const above = (stop) => {  // the next stop outside this call
    for (let at = stop + 1; at < steps.count; at++) if (steps.depth[steps.frame[at]] < steps.depth[steps.frame[stop]]) return at;
    return -1;
  };
  const over = (stop, way) => {  // the nearest stop outside called functions; the page's parts are calls too, and are read
    const called = (at) => $(steps.anchor[at])?.closest(".called"), isInside = (at) => steps.depth[steps.frame[at]] > steps.depth[steps.frame[stop]];
    let at = stop + way;
    while (isInside(at) && called(at) !== called(stop)) at += way;
    return at;
  };
  const addressed = () => (location.hash.length > 1 ? steps.standing.get(location.hash.slice(1))?.[0] : undefined);
  const start = () => {  // the line in the address, else the first visible one
    if (addressed() !== undefined) return addressed();
    const top = document.querySelector(".bar").getBoundingClientRect().bottom;
    for (const [anchor, stops] of steps.standing) {
      const box = $(anchor)?.getBoundingClientRect();
      if (box?.bottom > top && $(anchor).checkVisibility()) return stops[0];
    }
    return 0;
  };
  const inHall = (way) => {  // the next piece of the page: not inside folds, no heading or source, no line for a second time
    let at = now.here + way;
    const passed = (stop, place) => !place || place === placeOf(now.here) || steps.standing.get(steps.anchor[stop])[0] < stop
      || place.closest("h2, h3, h4, h5, h6, .reference, details:is(.called, .deeper):not([open])");
    while (at >= 0 && at < steps.count && passed(at, placeOf(at))) at += way;
    return at;
  };
  const outputs = () => (now.animate ? steps.outputs.get(now.here) ?? 1 : 1);

  const move = (way) => {
    const stepping = panel.hidden === false;
    if (now.here < 0 || !stepping) return "lj".includes(way) ? go(now.here < 0 ? start() : now.here) : undefined;
    if ("lj".includes(way) && now.part + 1 < outputs()) return show(now.here, now.part + 1);
    const to = { ...(now.animate ? { l: () => inHall(1), h: () => inHall(-1) } : { l: () => now.here + 1, h: () => now.here - 1 }), j: () => over(now.here, 1), k: () => over(now.here, -1),
      u: () => above(now.here), Home: () => 0, End: () => steps.count - 1 }[way]();
    if (way === "u" && to < 0) return say("This call ends with the section.");
    if (to < 0 || to >= steps.count) return say(to < 0 ? "This is the first step." : "This is the last step.");
    show(to, 0);
  };
  const go = (stop) => show(stop, 0);

  const stand = (stop) => {  // set the current stop and mark it on the page; -1: none yet
    now.before = stop === now.here ? now.before : now.here;
    now.here = stop;
    mark();
    drawRows();
  };
  const open = (isOpen) => {  // the panel stands where the contents stood
    panel.hidden = !isOpen;
    document.body.classList.toggle("stepping", isOpen);
  };
  const show = (stop, output) => {
    now.part = output;
    if (panel.hidden) open(true);
    stand(stop);
    if (now.animate) uncoverPage();
    drawPanel();
    $("step-now").textContent = `step ${(now.here + 1).toLocaleString("en")} / ${steps.count.toLocaleString("en")}`;
    $("step-done").value = now.here + 1;
    scroll();
    later();
  };
  const stop = () => {
    if (!panel.hidden) open(false);
    uncoverPage();
    drawRows();
  };

  // --- on the page ---

  const stack = () => {  // innermost first: [frame, the stop in it]
    const calls = [];
    for (let at = now.here; at >= 0; at = steps.of[steps.frame[at]]) calls.push([steps.frame[at], at]);
    return calls;
  };
  const placeOf = (stop) => {  // a line that is not on the page is shown at the line before it, in its call
    const within = steps.within.get(steps.frame[stop]);
    let at = within.indexOf(stop);
    while (steps.code[within[at]]) at--;
    return $(steps.anchor[within[at] ?? stop]);
  };
  const mark = () => {
    for (const [element, name] of now.marked) {
      element.classList.remove(name);
      element.removeAttribute("aria-current");
    }
    now.marked = stack().map(([, stop], depth) => [placeOf(stop), depth ? "caller" : "current"])
      .filter(([element], place, all) => element && all.findIndex(([other]) => other === element) === place);
    for (const [element, name] of now.marked) element.classList.add(name);
    now.marked[0]?.[0].setAttribute("aria-current", "step");
  };
  const scroll = () => {
    const at = placeOf(now.here);
    if (!panel.contains(document.activeElement)) panel.scrollTop = 0;  // a slider stays under the finger that moves it
    if (!at) return;
    reveal(at);
    if (now.animate) (at.closest("section") ?? main).scrollIntoView({ block: "start", behavior: "instant" });
    at.scrollIntoView({ block: "nearest", behavior: "instant" });
  };

  // Next to a line that ran several times, show the results of the current call and iteration.
  const alive = new Map();  // row → [key of the shown stop, the element that shows it]
  const renamed = new Map();  // summary of a call → its original text
  const rowsOf = new Map();  // frame → its rows, with their steps in this call
  const rows = (frame) => {
    if (!rowsOf.has(frame)) rowsOf.set(frame, grouped(steps.within.get(frame).map((stop) => steps.anchor[stop])));
    return rowsOf.get(frame);
  };
  const drawRows = () => {
    const wanted = new Map(), called = new Map();
    if (!panel.hidden) for (const [frame] of stack()) {
      const within = steps.within.get(frame);
      for (const [anchor, places] of rows(frame)) {
        if (wanted.has(anchor) || steps.standing.get(anchor).length < 2) continue;
        let low = 0, high = places.length;  // the last one that began
        while (low < high) { const middle = (low + high) >> 1; if (within[places[middle]] > now.here) high = middle; else low = middle + 1; }
        wanted.set(anchor, low ? within[places[low - 1]] : -1);
      }
      const summary = $(steps.anchor[within[0]])?.closest(".called")?.firstElementChild;
      if (summary && !called.has(summary)) called.set(summary, steps.calls[frame]);
    }
    for (const [anchor, [, drawn]] of alive) if (!wanted.has(anchor)) {
      drawn.parentElement.classList.remove("alive");
      if (drawn.nextElementSibling) drawn.remove(); else drawn.parentElement.remove();
      alive.delete(anchor);
    }
    for (const [anchor, stop] of wanted) {
      const [shown, old] = alive.get(anchor) ?? [], key = `${stop} ${stop + (steps.inside[stop] ?? 0) < now.here}`;
      if (shown === key) continue;
      const row = $(anchor), drawn = old ?? make("div", "live");
      if (!row?.matches(".row")) continue;
      const beside = old?.parentElement ?? row.querySelector(".beside") ?? make("div", "beside");
      if (!beside.parentElement) row.querySelector(".code").after(beside);
      drawn.replaceChildren(...resultsOf(stop));
      if (!old) { beside.prepend(drawn); beside.classList.add("alive"); }
      alive.set(anchor, [key, drawn]);
    }
    for (const [summary, text] of renamed) if (!called.has(summary)) { summary.lastChild.data = text; renamed.delete(summary); }
    for (const [summary, number] of called) {
      const text = summary.lastChild;
      if (text.nodeType !== Node.TEXT_NODE) continue;
      if (!renamed.has(summary)) renamed.set(summary, text.data);
      text.data = renamed.get(summary).replace(/[\d,]+/, number.toLocaleString("en"));
    }
  };
  const resultsOf = (stop) => {
    if (stop < 0) return [];
    const list = steps.executions.get(steps.same[stop]), results = [];
    if (list.length > 1) results.push(make("small", "", `${steps.execution[stop]} of ${steps.execution[list.at(-1)]}`));
    for (const entry of steps.seenAt.get(stop) ?? []) {
      if (steps.seen.change[entry] === 4 || !isKnown(entry, now.here)) continue;
      results.push(make("span", "", make("b", "", steps.seen.name[entry] + (/^\w+\[/.test(steps.seen.text[entry]) ? " " : " = ")), textOf(entry)));
    }
    for (const [kind, text] of steps.noted.get(stop) ?? []) if (kind !== "printed") results.push(make("span", kind, kind === "held" ? "✓" : SIGNS[kind] + text));
    return results;
  };

  // In large type: each piece of the page, with the position that reveals it.
  const arrange = () => {
    const numbers = new Map(), counts = new Map();
    for (const [number, stop] of steps.narrations) {
      const nth = counts.get(stop) ?? 0;
      counts.set(stop, nth + 1);
      numbers.set(`said-${number}`, stop + (steps.outputs.has(stop) ? nth / 1000 : 0));
    }
    const own = (element) => numbers.get(element.id) ?? steps.standing.get(element.id)?.[0];
    const leaves = [...main.querySelectorAll(".row, .under > :not(.called), .prose, .ask, .reference, figure, h2, h3, h4, h5, h6")]
      .filter((leaf) => !leaf.parentElement.closest(".prose, .ask, figure"));
    const at = leaves.map((leaf) => own(leaf.closest(".under")?.contains(leaf) && !leaf.matches(".row, .prose, .ask")
      ? leaf.closest(".under").previousElementSibling : leaf));
    for (let place = at.length - 2; place >= 0; place--) at[place] ??= at[place + 1];  // revealed with the next piece
    for (let place = 1; place < at.length; place++) at[place] ??= at[place - 1];
    now.pieces = new Map();
    leaves.forEach((leaf, place) => {
      for (let box = leaf; box !== main; box = box.parentElement) {
        now.pieces.set(box, Math.min(now.pieces.get(box) ?? Infinity, at[place] ?? 0));
      }
    });
  };
  const uncoverPage = () => {
    if (!now.pieces && !now.animate) return;
    if (!now.pieces) arrange();
    const until = now.animate && !panel.hidden ? now.here + now.part / 1000 : Infinity;
    for (const [piece, at] of now.pieces) piece.classList.toggle("later", at > until);
  };

  // --- the panel ---

  const isKnown = (entry, at) => {
    const stop = steps.seen.stop[entry];
    return steps.seen.change[entry] >= 8 ? stop <= at : stop === at || (stop < at && stop + steps.inside[stop] < at);
  };
  const isMasked = (stop) => !now.animate && $(steps.anchor[stop])?.closest("[data-follows]:not(.shown)");  // on the page
  const textOf = (entry) => (isMasked(steps.seen.stop[entry]) ? "?" : steps.seen.text[entry]);
  const known = (frame) => {  // name → the last known entry with its value
    const found = new Map();
    for (const entry of steps.seenIn.get(frame) ?? []) {
      if (steps.seen.stop[entry] > now.here) break;
      if (!isKnown(entry, now.here)) continue;
      if (steps.seen.change[entry] === 4) found.delete(steps.seen.name[entry]);
      else found.set(steps.seen.name[entry], entry);
    }
    return found;
  };
  const isFresh = (entry) => (now.before >= 0 && now.before < now.here ? !isKnown(entry, now.before) : steps.seen.stop[entry] === now.here);

  const gridOf = (text) => {
    const grid = make("table", "grid");
    for (const line of text.split("\n")) grid.append(make("tr", "", ...line.split("\t").map((cell) => make("td", "", cell))));
    return make("div", { className: "gridbox", tabIndex: 0, role: "group", ariaLabel: "Elements" }, grid);
  };
  const labelled = (storage) => {
    const place = steps.seen.shared.indexOf(storage);
    return place < 0 ? [] : [make("span", `storage s${place % 6 + 1}`, make("span", "dot"), `storage ${storage}`)];
  };
  const variable = (entry, change) => {
    const parts = steps.seen.name[entry].split(/(?<=\W)(?=\w)/);  // line breaks allowed in an expression
    const row = make("tr", change, make("th", "", ...parts.flatMap((part) => [make("wbr"), part]).slice(1)));
    row.firstChild.scope = "row";
    const cell = make("td", "", textOf(entry), ...labelled(steps.seen.storage[entry]));
    if (steps.seen.grid[entry] && !isMasked(steps.seen.stop[entry])) cell.append(gridOf(steps.seen.grid[entry]));
    const words = { alias: "written through another name" }[change] ?? change;
    if (words) cell.append(make("small", "", words));
    row.append(cell);
    return row;
  };

  const boxes = [];  // one per depth of the stack, kept so that a slider keeps its focus
  const boxAt = (depth) => {
    if (boxes[depth]) return boxes[depth];
    const title = make("h3"), slider = make("input", { type: "range", min: 1 }), label = make("label", "turns"), text = make("span"), body = make("tbody");
    const from = make("p", "where");
    label.append(text, slider);
    const box = make("section", "", title, from, label, make("table", "vars", body));
    const made = (boxes[depth] = { box, title, slider, label, text, from, body, list: [] });
    slider.addEventListener("input", () => go(made.list[slider.value - 1]));
    panel.append(box);
    return made;
  };
  const drawFrame = ([frame, stop], depth, names, writes) => {
    const { box, title, slider, label, text, from, body } = boxAt(depth);
    const list = (boxes[depth].list = steps.executions.get(steps.same[stop]));
    box.hidden = false;
    const call = steps.totals[frame] > 1 ? make("small", "", ` call ${steps.calls[frame]} of ${steps.totals[frame]}`) : "";
    title.replaceChildren(make("code", "", steps.names[frame]), call, ...(depth ? [make("small", "", ` at line ${steps.line[stop]}`)] : []));
    label.hidden = list.length < 2;
    slider.max = list.length;
    slider.value = list.indexOf(stop) + 1;
    text.textContent = `line ${steps.line[stop]}: execution ${steps.execution[stop]} of ${steps.execution[list.at(-1)]}`;
    const caller = steps.of[frame];
    from.hidden = depth > 0;  // the others say the line that they are at
    from.textContent = caller < 0 ? "The section's own function" : `Called by ${steps.names[steps.frame[caller]]}, line ${steps.line[caller]}`;
    const rank = ["alias", ""], changes = [...names.values()].map((entry) => {
      const storage = steps.seen.storage[entry];
      return [entry, isFresh(entry) ? CHANGES[steps.seen.change[entry] % 8] : storage && writes.has(storage) ? "alias" : ""];
    });
    changes.sort(([, one], [, other]) => rank.indexOf(one) - rank.indexOf(other));  // changed names first
    body.replaceChildren(...changes.map(([entry, change]) => variable(entry, change)));
  };
  const head = make("div", { id: "step-at", className: "at" });
  const drawPanel = () => {
    const calls = stack(), names = calls.map(([frame]) => known(frame)), writes = new Set();
    for (const found of names) {
      for (const entry of found.values()) {
        if (isFresh(entry) && steps.seen.change[entry] % 8 === 3) writes.add(steps.seen.storage[entry]);
      }
    }
    drawHead();
    calls.forEach((call, depth) => drawFrame(call, depth, names[depth], writes));
    for (const { box, body } of boxes.slice(calls.length)) {
      box.hidden = true;
      body.replaceChildren();
    }
  };
  const drawHead = () => {
    const cost = [steps.time[now.here], steps.memory[now.here]].filter(Boolean).join(" · ");
    const lines = [make("p", "where", `line ${steps.line[now.here]}` + (cost ? ` · ${cost}` : ""))];
    if (steps.code[now.here]) lines.push(make("pre", "", steps.code[now.here]));
    for (const [kind, text] of steps.noted.get(now.here) ?? []) lines.push(make(kind === "printed" ? "pre" : "p", kind, SIGNS[kind] + (isMasked(now.here) ? "?" : text)));
    head.replaceChildren(...lines);
  };

  // --- updated with a delay: the address, and the text for screen readers ---

  const say = (text) => { $("step-status").textContent = text; };
  const description = () => {
    const place = `Step ${now.here + 1} of ${steps.count}, line ${steps.line[now.here]}, ${steps.names[steps.frame[now.here]]}.`;
    const fresh = [...known(steps.frame[now.here]).values()].filter(isFresh).slice(0, 3);
    const notes = (steps.noted.get(now.here) ?? []).map(([kind, text]) => `${kind}: ${text}.`);
    return [place, ...fresh.map((entry) => `${steps.seen.name[entry]}: ${textOf(entry)}.`), ...notes].join(" ");
  };
  const settle = () => {
    say(description());
    try { history.replaceState(null, "", `#step-${now.here + 1}`); } catch { /* too many in a row */ }
  };
  const later = () => { clearTimeout(now.waiting); now.waiting = setTimeout(settle, 250); };

  // --- large type, for a lecture hall: the page without bar, contents and panel, revealed step by step ---

  const enlarge = () => {
    now.animate = document.documentElement.classList.toggle("large");
    if (now.animate) go(now.here < 0 ? start() : now.here);
    else stop();
    say(now.animate ? "Large type: on." : "Large type: off.");
    scroll();
  };

  // --- keys, buttons, touch, the address ---

  const isTheirs = (target) => target.matches("input[type=range]") || (target.scrollWidth > target.clientWidth && target.matches("[tabindex]"));
  // A key that moves; false where it belongs to a slider or a table, or scrolls the page outside the player.
  const moves = (way, withShift = way) => ({ key, shiftKey, target }) => {
    const named = /^(Arrow|Home|End)/.test(key);
    if (named && (isTheirs(target) || (panel.hidden && key !== "ArrowRight"))) return false;
    move(shiftKey && named ? withShift : way);
  };
  const remote = (way) => () => (now.animate ? move(way) : false);  // keys of a remote control; else they scroll
  const addKeys = () => {
    Object.assign(page.keys, {
      ArrowRight: moves("l", "j"), ArrowLeft: moves("h", "k"), " ": remote("l"), PageDown: remote("l"), PageUp: remote("h"), ArrowDown: moves("j"), ArrowUp: moves("k"), Home: moves("Home"), End: moves("End"),
      l: moves("l"), h: moves("h"), j: moves("j"), k: moves("k"), u: moves("u"),
      p: enlarge, q: () => say(page.questionsFirst.toggle()),
      e: () => (panel.hidden && now.here >= 0 ? go(now.here) : stop()),
      Escape: () => (now.animate ? enlarge() : panel.hidden ? false : stop()),
      "?": () => $("keys").showModal(),
    });
  };
  const addClicks = () => {
    document.addEventListener("click", ({ target }) => {
      const machine = target.closest(".seg a"), row = target.closest(".code") && !target.closest("a") && target.closest(".row");
      if (machine && !panel.hidden) machine.hash = `#step-${now.here + 1}`;
      const stops = row && !String(getSelection()) && steps.standing.get(row.id);
      if (stops) go(stops.find((stop) => stop > now.here) ?? stops[0]);  // a second click on the line goes to its next execution
    });
    for (const [name, way] of [["back", "h"], ["over", "j"], ["on", "l"]]) $(`step-${name}`).addEventListener("click", () => move(way));
    $("step-large").addEventListener("click", enlarge);
    $("step-end").addEventListener("click", () => { stop(); $("step-on").focus(); });
    $("step-help").addEventListener("click", page.keys["?"]);
    $("keys-close").addEventListener("click", () => $("keys").close());
    $("mode-letters").checked = page.lettersAreKeys.get();
    $("mode-letters").addEventListener("change", ({ target }) => page.lettersAreKeys.of.set(target.checked ? "" : "off"));
  };
  const addSwipes = () => {
    let touched = null;  // where it began, outside elements that scroll sideways
    document.addEventListener("touchstart", ({ target, touches: [at, second] }) => {
      touched = second || target.closest("input, .scroll, .gridbox, .dragged, dialog") ? null : at;
    }, { passive: true });
    document.addEventListener("touchend", ({ changedTouches: [at] }) => {
      const across = touched && at.clientX - touched.clientX;
      if (Math.abs(across) < 45 || Math.abs(across) < 2 * Math.abs(at.clientY - touched.clientY)) return;
      if (!panel.hidden) move(across < 0 ? "l" : "h");
    });
  };
  const follow = () => {  // go to the step in the address, or while stepping to its line
    const number = Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? NaN);
    if (number >= 1) go(Math.min(number, steps.count) - 1);
    else if (addressed() !== undefined && !panel.hidden) go(addressed());
  };
  const play = (data) => {
    Object.assign(steps, read(data));
    panel.append(head);
    addKeys();
    addClicks();
    addSwipes();
    addEventListener("hashchange", follow);
    matchMedia("(max-width: 1100px)").addEventListener("change", () => { if (!panel.hidden) scroll(); });  // another element scrolls
    $("player").hidden = $("step-done").hidden = false;
    follow();
  };

  // After the first paint. If the steps cannot be unpacked, the page works without a player.
  if (panel && typeof DecompressionStream !== "undefined") {
    requestAnimationFrame(() => setTimeout(() => page.unpack(page.section.steps).then(play, () => {})));
  }
}
// Figures with inputs. The page's data lists each figure's inputs and results; `arithmetic.py` wrote the formulas.
{
  const { make } = page;
  const STEPS = 1000, POINTS = 120, BARS = 8;  // of a slider, a curve, a stack of bars
  const SVG = "http://www.w3.org/2000/svg";

  // Write a number as `formats.py` does, but for the last digit of a tie.
  const general = (x, n) => {
    const [digits, power] = x.toExponential(n - 1).split("e").map(Number);
    return x && (power < -4 || power >= n) ? `${digits}e${power}` : String(Number(x.toPrecision(n)));
  };
  const number = (x) => {
    const size = Math.abs(x);
    if (!(size >= 1 && size < 1e7)) return general(x, 4);
    const rounded = Number(x.toFixed(Math.max(4 - String(Math.trunc(size)).length, 0)));
    return size >= 9999.5 ? rounded.toLocaleString("en") : String(rounded);
  };
  const percent = (x) => (x >= 9.95 ? `${x.toFixed(0)}%` : x >= 0.095 ? `${x.toFixed(1)}%` : x ? "< 0.1%" : "0%");
  const written = page.written = (x, { unit = "", ladder, times = 1, most = Infinity } = {}) => {
    if (typeof x === "boolean") return x ? "yes" : "no";
    if (unit === "%") return percent(100 * x);
    if (unit === "") return number(x);
    const size = Math.abs(x);
    if (size >= 1e300) return `${number(x)} ${unit}`;
    if (!ladder) return `${size >= 1e4 && size < 1e15 ? Math.round(x).toLocaleString("en") : general(x, 4)} ${unit}`;
    if (size >= most) return `${general(x, 4)} ${ladder.at(-1)[1]}`;
    const [factor, name] = ladder.find(([step]) => step === 0 || Number(general((size * times) / step, 4)) >= 1);
    return `${general((x * times) / (factor || 1), 4)} ${name}`;
  };

  const brief = (x) => (typeof x !== "number" || (Number.isInteger(x) && Math.abs(x) < 1000) ? x : Number(x.toPrecision(2)));  // two digits in a sentence

  const draw = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  // Positions from 0 to 1 on an axis or a slider, and back.
  const axis = (low, high, log) => {
    const [at, back] = log ? [Math.log, Math.exp] : [(x) => x, (x) => x];
    const span = at(high) - at(low);
    return { low, high, log, place: (x) => (at(x) - at(low)) / span, value: (place) => back(at(low) + place * span) };
  };
  const ticks = ({ low, high, log }, most) => {
    if (log && high / low >= 30) {
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), each = Math.ceil((last - first) / most) || 1;
      return Array.from({ length: Math.floor((last - first) / each) + 1 }, (_, n) => Number(`1e${first + n * each}`));
    }
    const rough = (high - low) / Math.min(most, 5), power = 10 ** Math.floor(Math.log10(rough)), step = power * [1, 2, 5, 10].find((k) => k * power >= rough);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
  };
  const typed = (x, { unit, ladder, times }) => {  // as text for a field or an axis; the value itself is kept elsewhere
    const steps = ladder && !times ? ladder.map(([factor, name]) => [factor, ` ${name.slice(0, -unit.length)}`]) : unit ? [] : [[1e12, "T"], [1e9, "B"], [1e6, "M"]];
    const [factor, name] = steps.find(([step]) => step && Math.abs(x) >= step) ?? [1, ""];
    const text = String(Number((x / factor).toPrecision(factor > 1 ? 4 : 7)));
    return `${Math.abs(x) < 1e6 && !name ? text.replace(/^\d{5,}$/, (all) => Number(all).toLocaleString("en")) : text}${name.trimEnd()}`;
  };

  // The values of a figure: a number for each parameter, and each menu's row, -1 for custom values.
  const valuesOf = (known, formula) => {
    const { inputs, menus, results, parameters } = known;
    const every = [...inputs, ...menus.flatMap((menu) => menu.columns)], named = new Map(every.map((input) => [input.name, input]));
    const given = new Map(), rows = menus.map(() => 0), across = menus.findIndex((menu) => menu.label === known.across);
    const choose = (index, row) => {
      rows[index] = row;
      if (row >= 0) menus[index].columns.forEach((input, n) => given.set(input.name, menus[index].rows[row][1][n]));
    };
    const reset = () => {
      for (const input of inputs) given.set(input.name, input.value);
      menus.forEach((_, index) => choose(index, 0));
    };
    const answer = (changed = {}) => {  // for the values with some changes; null without a result
      try {
        const found = formula(...parameters.map((name) => changed[name] ?? given.get(name)));
        if (found.some((value) => typeof value !== "boolean" && !Number.isFinite(value))) return null;
        return new Map(results.map((result, n) => [result.name, found[n]]));
      } catch { return null; }
    };
    const allows = (input, x) => x >= input.low && x <= input.high && (!input.whole || Number.isInteger(x));
    const set = (input, x) => {
      const within = Math.min(input.high, Math.max(input.low, x));
      given.set(input.name, input.whole ? Math.round(within) : within);
    };
    const row = (index) => menus[index].rows[rows[index]]?.[0] ?? menus[index].own;
    // The rows of the menu that the drawing compares: [name, their values, number].
    const others = () => (across < 0 ? [] : menus[across].rows.map(([name, numbers], nth) => [name, Object.fromEntries(menus[across].columns.map((input, n) => [input.name, numbers[n]])), nth]));
    reset();
    return { ...known, named, given, rows, across, choose, reset, answer, allows, set, row, others };
  };
  const scale = (input) => axis(input.low, input.high, input.log);
  const near = (input, place) => Number(scale(input).value(place).toPrecision(3));
  const nudged = (input, now, key) => {  // arrow keys: a hundredth of the range, at least 1 for whole numbers
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[key];
    if (by === undefined) return { Home: input.low, End: input.high }[key];
    const next = near(input, scale(input).place(now) + by / 100);
    if (input.whole ? Math.round(next) !== now : next !== now) return next;
    return now + Math.sign(by) * (input.whole ? 1 : (input.high - input.low) / STEPS);
  };

  // --- controls ---

  // The fields, sliders and menus of a figure; `change` is called with the moved input and the field that is typed into.
  const controlsOf = (figure, values, change, addressOf) => {
    const { inputs, menus, named, given, rows, choose, reset, allows, set } = values;
    const id = (name) => `${figure.id}-${name}`;
    const nudge = (input, event) => {
      const next = nudged(input, given.get(input.name), event.key);
      if (next === undefined) return;
      event.preventDefault();
      event.stopPropagation();  // the page also uses these keys
      set(input, next);
      change(input);
    };
    const fields = new Map();  // parameter → its field and slider
    const control = (input) => {
      const wrong = make("span", { className: "wrong", id: id(`${input.name}-wrong`) });
      const field = make("input", { type: "text", id: id(input.name), autocomplete: "off", spellcheck: false });
      const slider = make("input", { type: "range", min: 0, max: STEPS, step: 1, ariaLabel: input.label });
      field.setAttribute("aria-describedby", wrong.id);
      field.addEventListener("input", () => {
        const x = page.parsed(field.value, input.unit), fine = allows(input, x), range = `rom ${typed(input.low, input)} to ${typed(input.high, input)}`;
        field.ariaInvalid = String(!fine);
        wrong.textContent = fine ? "" : input.whole ? `A whole number f${range}` : `F${range}`;
        if (fine) { given.set(input.name, x); change(input, field); }
      });
      field.addEventListener("change", () => { if (field.ariaInvalid !== "true") field.value = typed(given.get(input.name), input); });
      slider.addEventListener("input", () => { set(input, near(input, slider.value / STEPS)); change(input); });
      slider.addEventListener("keydown", (event) => nudge(input, event));
      fields.set(input.name, { field, slider, wrong });
      return make("div", "control", make("label", { htmlFor: field.id, textContent: input.label }), make("span", "", field, input.unit ? ` ${input.unit}` : ""), slider, wrong);
    };
    const owns = menus.map((menu) => make("div", "own", ...(menu.own ? menu.columns.map(control) : [])));
    const selects = menus.map((menu, index) => {
      const names = menu.rows.map(([name]) => name);
      const select = make("select", { id: id(`menu-${index}`) }, ...[...names, ...(menu.own ? [menu.own] : [])].map((name) => make("option", { textContent: name })));
      select.addEventListener("change", () => { choose(index, select.selectedIndex < names.length ? select.selectedIndex : -1); change(); });
      return select;
    });
    const status = make("span", { role: "status" });
    const copy = async () => {
      await page.copied(location.href.replace(/#.*$/, "") + addressOf());
      status.textContent = "Copied.";
      setTimeout(() => { status.textContent = ""; }, 2000);
    };
    const box = make("div", "controls",
      ...menus.flatMap((menu, index) => [make("div", "control", make("label", { htmlFor: selects[index].id, textContent: menu.label }), selects[index]), owns[index]]),
      ...inputs.map(control),
      make("p", "buttons", make("button", { type: "button", textContent: "Copy a link to these values", onclick: copy }),
        make("button", { type: "button", textContent: "Reset to the lecture's values", onclick: () => { reset(); change(); } }), status));
    const draw = (moved, typing) => {  // the values in their fields, but for the one that is typed into
      selects.forEach((select, index) => {
        select.selectedIndex = rows[index] < 0 ? menus[index].rows.length : rows[index];
        owns[index].hidden = rows[index] >= 0;
      });
      for (const [name, { field, slider, wrong }] of fields) {
        const input = named.get(name), x = given.get(name), place = scale(input).place(x);
        if (field !== typing) { field.value = typed(x, input); field.ariaInvalid = "false"; wrong.textContent = ""; }
        if (input !== moved || Math.abs(slider.value / STEPS - place) > 1 / STEPS) slider.value = Math.round(STEPS * place);
        slider.ariaValueText = written(x, input);
      }
    };
    return { box, draw, nudge };
  };

  // --- the address: values that differ from the lecture's ---

  const addressOf = ({ inputs, menus, rows, given }, key) => {
    const changed = new URLSearchParams();
    menus.forEach((menu, index) => {
      if (rows[index] > 0) changed.set(menu.label, menu.rows[rows[index]][0]);
      else if (rows[index] < 0) for (const input of menu.columns) changed.set(input.name, given.get(input.name));
    });
    for (const input of inputs) if (given.get(input.name) !== input.value) changed.set(input.name, given.get(input.name));
    return `#${encodeURIComponent(key)}?${changed}`;
  };
  const restored = ({ inputs, menus, rows, given, choose, reset, allows }, key) => {  // whether the address is of this figure
    const [name, query] = location.hash.slice(1).split("?");
    if (name !== encodeURIComponent(key) || query === undefined) return false;
    const changed = new URLSearchParams(query);
    reset();
    menus.forEach((menu, index) => {
      const row = menu.rows.findIndex(([label]) => label === changed.get(menu.label));
      if (row >= 0) choose(index, row);
      else if (menu.own && menu.columns.some((input) => changed.has(input.name))) choose(index, -1);
    });
    for (const input of [...inputs, ...menus.flatMap((menu, index) => (rows[index] < 0 ? menu.columns : []))]) {
      const x = changed.get(input.name) ? Number(changed.get(input.name)) : NaN;
      if (allows(input, x)) given.set(input.name, x);
    }
    return true;
  };

  // --- the drawing ---

  const size = (svg, width, height) => { for (const [key, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", width], ["height", height]]) svg.setAttribute(key, value); };
  const bars = (values, svg, now, width, em) => {
    const { stack, limit: limiting, results, given, rows, across, row, answer } = values;
    const limited = (found, changed) => (limiting === null ? 0 : found.get(limiting) ?? changed[limiting] ?? given.get(limiting));
    const sum = (found) => stack.reduce((total, name) => total + found.get(name), 0);
    const all = values.others().filter(([, , nth]) => nth < BARS || nth === rows[across]).map(([name, changed, nth]) => [name, answer(changed), nth === rows[across], changed]);
    if (!all.some(([, , here]) => here)) all.unshift([across < 0 ? "" : row(across), now, true, {}]);
    const there = all.filter(([, found]) => found), unit = results.find((result) => result.name === stack[0]);
    const most = 1.02 * Math.max(...there.map(([, found, , changed]) => Math.max(sum(found), limited(found, changed)))) || 1;
    let left = 0, line = 0;
    stack.forEach((name, n) => {
      const { label } = results.find((result) => result.name === name), wide = (1.1 + 0.56 * label.length) * em;
      if (left && left + wide > width) [left, line] = [0, line + 1.4 * em];
      svg.append(draw("rect", { class: `s${(n % 6) + 1}`, x: left, y: line + 0.2 * em, width: 0.8 * em, height: 0.8 * em }), draw("text", { x: left + 1.1 * em, y: line + 0.95 * em }, label));
      left += wide + 1.5 * em;
    });
    const high = 3.1 * em, top = line + 1.9 * em;
    size(svg, width, top + there.length * high);
    there.forEach(([name, found, here, changed], nth) => {
      const y = top + nth * high, limit = limited(found, changed);
      const over = limiting !== null && sum(found) > limit;
      svg.append(draw("text", { class: here ? "here" : "", x: 0, y: y + em }, name),
        draw("text", { class: `${here ? "here" : ""}${over ? " over" : ""}`, x: width, y: y + em, "text-anchor": "end" }, `${written(sum(found), unit)}${over ? ", over the limit" : ""}`));
      stack.reduce((left, part, n) => {
        const wide = (Math.max(0, found.get(part)) / most) * width;
        svg.append(draw("rect", { class: `s${(n % 6) + 1}${here ? "" : " faint"}`, x: left, y: y + 1.4 * em, width: wide, height: 1.1 * em }));
        return left + wide;
      }, 0);
      if (limiting !== null) {
        const x = (limit / most) * width;
        svg.append(draw("path", { class: "limit", d: `M${x} ${y + 1.15 * em}v${1.6 * em}` }));
      }
    });
    svg.setAttribute("role", "img");
    const label = there.map(([name, found]) => `${name ? `${name}: ` : ""}${written(sum(found), unit)}`).join("; ");
    svg.setAttribute("aria-label", `${label}${limiting === null ? "" : `. The limit is ${written(limited(now, {}), unit)}`}`);
  };

  const curve = (values, svg, point, now, width, em) => {  // returns the dragged input, and where a pixel is on its axis
    const { named, given, results, rows, across, row, answer } = values;
    const [of, to] = values.curve.map((name, n) => (n ? results.find((result) => result.name === name) : named.get(name)));
    const x = scale(of), high = 19 * em, bottom = high - 3.4 * em, top = 1.6 * em;
    const spots = Array.from({ length: POINTS + 1 }, (_, n) => x.value(n / POINTS)).map((at) => (of.whole ? Math.round(at) : at));
    if (now) spots.push(given.get(of.name));
    spots.sort((a, b) => a - b);
    const line = (changed) => spots.map((at) => [at, answer({ ...changed, [of.name]: at })?.get(to.name)]).filter(([, y]) => y !== undefined);
    // Three curves: this one, and the nearest above and below it that can be told from it.
    const own = [across < 0 ? "" : row(across), line({})], end = ([, found]) => found.at(-1)?.[1] ?? NaN;
    const others = values.others().filter(([, , nth]) => nth !== rows[across]).map(([name, changed]) => [name, line(changed)]).sort((one, other) => end(one) - end(other));
    const apart = [others.findLast((other) => end(other) < end(own) / 1.4), others.find((other) => end(other) > end(own) * 1.4)];
    const lines = [...apart.filter(Boolean), own];
    const heights = lines.flatMap(([, found]) => found.map(([, y]) => y));
    const [low, most] = heights.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
    if (!(most >= low)) return null;
    const log = low > 0 && most / low >= 20, y = log ? axis(low / 1.3, most * 1.3, true) : axis(Math.min(0, low), most + (most === low ? 1 : 0), false);
    const long = (words, each = 0.56) => (0.4 + each * Math.max(0, ...words.map((word) => word.length))) * em;  // about as wide
    const levels = ticks(y, 6).map((at) => [at, to.ladder && !(to.times && at >= 1) ? written(at, to) : typed(at, to)]);
    // At the ends of the curves, from the top, their names; on a phone in two lines.
    const broken = (name) => { const at = width > 38 * em ? -1 : name.indexOf(" ", name.length / 2 - 4); return at < 0 ? [name] : [name.slice(0, at), name.slice(at + 1)]; };
    const names = lines.length > 1 ? lines.map((one) => [broken(one[0]), one]).sort(([, one], [, other]) => end(other) - end(one)) : [];
    const left = long(levels.map(([, word]) => word)) + 0.4 * em, right = width - (names.length ? long(names.flatMap(([words]) => words), 0.7) : 0.8 * em);
    const px = (at) => left + x.place(at) * (right - left), py = (at) => bottom - y.place(at) * (bottom - top);
    const grip = { place: (pixel) => (pixel - left) / (right - left), width, input: of };
    size(svg, width, high);
    const words = [];  // above the lines
    for (const at of ticks(x, Math.floor(width / (6 * em)))) {
      const place = px(at), anchor = place < 3 * em ? "start" : place > width - 3 * em ? "end" : "middle";
      svg.append(draw("path", { d: `M${place} ${bottom}v${0.35 * em}` }));
      words.push(draw("text", { class: "soft", x: anchor === "start" ? left : place, y: bottom + 1.4 * em, "text-anchor": anchor }, typed(at, of)));
    }
    for (const [at, word] of levels) {
      svg.append(draw("path", { d: `M${left} ${py(at)}H${right}` }));
      words.push(draw("text", { class: "soft", x: left - 0.4 * em, y: py(at) + 0.35 * em, "text-anchor": "end" }, word));
    }
    words.push(draw("text", { class: "soft", x: (left + right) / 2, y: high - 0.3 * em, "text-anchor": "middle" }, of.label + (of.unit && !of.label.includes(of.unit) ? `, ${of.unit}` : "")),
      draw("text", { class: "soft", x: 0, y: 0.9 * em }, to.label + (to.unit && !to.ladder && to.unit !== to.label ? `, ${to.unit}` : "")));
    for (const [name, found] of lines) {
      const path = draw("path", { class: found === lines.at(-1)[1] ? "curve" : "other", d: found.map(([at, h], n) => `${n ? "L" : "M"}${px(at).toFixed(1)} ${py(h).toFixed(1)}`).join("") });
      if (name) path.append(draw("title", {}, name));
      svg.append(path);
    }
    let free = 0;  // below the names so far
    for (const [name, one] of names) {
      free = Math.max(free, py(end(one)) - 0.6 * name.length * em);
      for (const part of name) words.push(draw("text", { class: one === own ? "here" : "soft", x: right + 0.4 * em, y: (free += 1.2 * em) - 0.25 * em }, part));
    }
    svg.append(...words);
    svg.setAttribute("aria-hidden", "true");
    point.hidden = !now;
    if (!now) return grip;
    const at = given.get(of.name), h = now.get(to.name), x0 = px(at), y0 = py(h);
    svg.append(draw("path", { class: "guide", d: `M${x0} ${bottom}V${y0}` }), draw("text", { class: "here", x: x0 + (x0 > (left + right) / 2 ? -em : em), y: Math.max(y0 - 0.8 * em, em), "text-anchor": x0 > (left + right) / 2 ? "end" : "start" }, written(brief(h), to)));
    point.style.left = `${(100 * x0) / width}%`;
    point.style.top = `${(100 * y0) / high}%`;
    point.ariaLabel = of.label;
    Object.assign(point, { ariaValueMin: String(of.low), ariaValueMax: String(of.high), ariaValueNow: String(at), ariaValueText: `${written(at, of)}: ${written(h, to)}` });
    return grip;
  };

  // --- a figure: the sentence, the table, the drawing ---

  const sentence = (values, parts, now) => parts.flatMap((part) => {
    if (typeof part === "string") return [part];
    const [name, then, otherwise] = part, { menus, results, named, given } = values;
    if (then) return sentence(values, now.get(name) ? then : otherwise, now);
    const menu = menus.findIndex(({ label }) => label === name), result = results.find((one) => one.name === name);
    return [make("b", { textContent: result ? written(brief(now.get(name)), result) : menu >= 0 ? values.row(menu) : written(given.get(name), named.get(name)) })];
  });
  const wake = (figure, formula, known, key) => {
    const values = valuesOf(known, formula), answer = figure.querySelector(".answer");
    const svg = draw("svg", {}), point = make("div", { className: "point", role: "slider", tabIndex: 0 }), stage = make("div", "stage", svg);
    let grip = null, waiting = 0, drawn = 0;

    const picture = (now) => {
      const em = parseFloat(getComputedStyle(stage).fontSize);
      drawn = stage.clientWidth;
      if (!drawn) return;
      svg.replaceChildren();
      if (now && known.stack) bars(values, svg, now, drawn, em);
      if (known.curve) grip = curve(values, svg, point, now, drawn, em) ?? grip;
    };
    const update = (moved, typing) => {
      const now = values.answer();
      answer.replaceChildren(...(now ? sentence(values, known.says, now) : ["There is no result for these values."]));
      controls.draw(moved, typing);
      picture(now);
    };
    const change = (moved, typing) => {  // the address is replaced, so that Back leaves the page; browsers limit the rate
      update(moved, typing);
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        try { history.replaceState(null, "", addressOf(values, key)); } catch { /* not allowed on this page */ }
      }, 250);
    };
    const restore = () => {
      if (!restored(values, key)) return;
      update();
      page.reveal(figure);
      figure.scrollIntoView({ block: "start" });
    };
    const addDragging = () => {
      stage.append(point);
      stage.classList.add("dragged");
      point.addEventListener("keydown", (event) => controls.nudge(values.named.get(known.curve[0]), event));
      const drag = ({ clientX }) => {
        const box = stage.getBoundingClientRect();
        values.set(grip.input, near(grip.input, Math.min(1, Math.max(0, grip.place(((clientX - box.left) / box.width) * grip.width)))));
        change(grip.input);
      };
      stage.addEventListener("pointerdown", (event) => {
        if (event.button || !grip) return;
        stage.setPointerCapture(event.pointerId);
        event.preventDefault();
        point.focus({ preventScroll: true });
        drag(event);
      });
      stage.addEventListener("pointermove", (event) => { if (stage.hasPointerCapture(event.pointerId)) drag(event); });
    };

    const controls = controlsOf(figure, values, change, () => addressOf(values, key));
    answer.setAttribute("role", "status");
    if (known.curve || known.stack) answer.after(stage);
    (stage.isConnected ? stage : answer).after(controls.box);
    figure.classList.add("awake");
    if (known.curve) addDragging();
    update();
    new ResizeObserver(() => { if (stage.clientWidth !== drawn) picture(values.answer()); }).observe(stage);
    restore();
    addEventListener("hashchange", restore);
  };

  const [figures, formulas] = page.explored ?? [{}, []], keys = new Set();
  Object.entries(figures).forEach(([id, known], n) => {
    const figure = page.$(id);
    if (!figure) return;
    let key = known.name;
    while (keys.has(key)) key += "-";  // a second figure of the same function
    keys.add(key);
    wake(figure, formulas[n], known, key);
  });
}
