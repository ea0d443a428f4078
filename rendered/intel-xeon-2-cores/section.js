sectionStyle = ".grid td.lit { background: var(--mark); }\n.storage.lit { text-decoration: underline; }\n.row.lit > .code { box-shadow: inset 3px 0 0 var(--link); }\n.drawn a.lit rect, .drawn a.lit circle { stroke: var(--ink); stroke-width: 2; }\n\n/* The player: its buttons in the bar, its panel instead of the contents, the current line. */\n.player { display: flex; gap: 0.5rem; align-items: center; white-space: nowrap; }\nbody:not(.stepping) :is(#step-back, #step-now, #step-over, #step-end), .stepping .idle { display: none; }\n.player output { color: var(--soft); font-variant-numeric: tabular-nums; min-width: 8.5em; text-align: center; }\n.player button:hover, #theme:hover { color: var(--ink); border-color: var(--soft); }\n#step-done { position: absolute; left: 0; bottom: -1px; width: 100%; height: 2px; border: 0; appearance: none; background: none; }\n#step-done::-webkit-progress-bar { background: none; }\n#step-done::-webkit-progress-value { background: var(--link); }\n#step-done::-moz-progress-bar { background: var(--link); }\n.stepping .row > .code code { cursor: pointer; }\n.row.caller { background: color-mix(in srgb, var(--mark) 45%, transparent); }\n.row.current { box-shadow: inset 3px 0 var(--link); }\n:is(.prose, figure, .note, .reference, h2, h3, h4, h5, h6).current { box-shadow: -1rem 0 var(--paper), calc(-1rem - 3px) 0 var(--link); }\n.current { scroll-margin-block: 4rem 30vh; }\n.stepping .wrap { grid-template-columns: clamp(16rem, 24vw, 23rem) minmax(0, 1fr); max-width: 99rem; }\n.panel .contents { position: static; max-height: none; padding: 1rem 0 0; margin: 1.5rem 0 0; border: 0; border-top: 1px solid var(--line); overflow: visible; }\n.panel section:not(:has(tr, .turns:not([hidden]))) + section > h3 { margin-top: 0.3rem; }\n.stepping main, .panel { touch-action: pan-y pinch-zoom; }\n.panel { position: sticky; top: 2.9rem; align-self: start; max-height: calc(100vh - 2.9rem); contain: layout paint style; overflow-y: auto; padding: 1.2rem 0.9rem 2rem 1.25rem;\n  border-right: 1px solid var(--line); font: 13px/1.5 var(--sans); }\n#step-said { position: fixed; top: 0; margin: 0; }\n.panel p { margin: 0.15rem 0; overflow-wrap: anywhere; }\n.panel .where { color: var(--soft); font-variant-numeric: tabular-nums; }\n.panel pre { font: 12px/1.5 var(--mono); white-space: pre-wrap; overflow-wrap: anywhere; background: var(--code); margin: 0.3rem 0; padding: 0.3rem 0.5rem; max-height: 12rem; overflow-y: auto; }\n.panel .held { color: var(--ok); }\n.panel .failed { color: var(--bad); font-weight: 600; }\n.panel :is(.caught, .warning) { color: var(--warn); background: none; border: 0; padding: 0; font-size: inherit; }\n.panel h3 { max-width: none; font: 600 13px/1.4 var(--sans); margin: 1rem 0 0.25rem; padding-top: 0.6rem; border-top: 1px solid var(--line); }\n.panel h3 code { font: 600 12.5px/1.4 var(--mono); }\n.panel small { color: var(--soft); font-weight: 400; font-size: 11.5px; }\n.turns { display: block; color: var(--soft); font-size: 12px; }\n.turns input { display: block; width: 100%; margin: 0.1rem 0 0.3rem; accent-color: var(--link); }\n.vars, .vars > tbody { display: block; font: 12px/1.45 var(--mono); }\n.vars > tbody > tr { display: flex; flex-wrap: wrap; border-bottom: 2px solid var(--paper); padding: 0.18rem 0.35rem; }\n.vars > tbody > tr > th { flex: 0 1 auto; min-width: 42%; padding: 0 0.5rem 0 0; text-align: left; font-weight: 400; color: var(--soft); overflow-wrap: break-word; }\n.vars > tbody > tr > td { flex: 1 1 7rem; min-width: 0; padding: 0; overflow-wrap: anywhere; }\n.vars .grid { font-size: 11px; }\n.vars .storage, .vars small { display: block; font-size: 11px; }\n.vars :is(.new, .changed, .written) { background: var(--mark); box-shadow: inset 3px 0 var(--link); }\n.vars :is(.new, .changed, .written) > th { color: var(--ink); }\n.vars .alias { background: color-mix(in srgb, var(--mark) 60%, transparent); box-shadow: inset 3px 0 var(--warn); }\n.vars .alias small { color: var(--warn); }\n.live > * { display: inline-block; padding-left: 1.1em; text-indent: -1.1em; margin-right: 0.9rem; }\n.live :is(b, small) { font-weight: 400; color: var(--ink); }\n.live small { color: var(--soft); }\n.live .held { color: var(--ok); }\n.live .failed { color: var(--bad); font-weight: 600; }\n.live .caught { color: var(--warn); background: none; border: 0; padding-block: 0; margin-block: 0; font: inherit; }\n@media screen {\n  .beside.alive { display: flex; justify-content: flex-start; }\n  .alive > :not(.live) { display: none; }\n  .later { display: none !important; }\n}\ndialog { font: 14.5px/1.5 var(--sans); color: var(--ink); background: var(--paper); border: 1px solid var(--soft); border-radius: 9px; max-width: min(38rem, 92vw); padding: 1.2rem 1.5rem; }\ndialog::backdrop { background: rgb(0 0 0 / 45%); }\ndialog h2 { margin: 0 0 0.4rem; }\ndialog table { border-collapse: collapse; }\ndialog th { text-align: left; font-weight: 400; white-space: nowrap; padding: 0.15rem 1.2rem 0.15rem 0; vertical-align: top; }\ndialog fieldset { border: 1px solid var(--line); border-radius: 7px; margin: 0.9rem 0; }\ndialog label { display: block; padding: 0.15rem 0; }\ndialog button { font: inherit; padding: 0.25rem 0.9rem; border: 1px solid var(--soft); border-radius: 7px; background: none; color: inherit; cursor: pointer; }\nkbd { font: 12px/1.3 var(--mono); border: 1px solid var(--line); border-bottom-width: 2px; border-radius: 4px; padding: 0.05rem 0.35rem; background: var(--code); }\n@media screen and (max-width: 1100px) {\n  /* The panel is in the lower part of the window; the text scrolls above it, so that they do not overlap. */\n  body.stepping { height: 100dvh; display: grid; grid-template-rows: auto minmax(0, 1fr); overflow: hidden; }\n  .stepping .wrap { display: grid; grid-template: minmax(0, 1fr) auto / minmax(0, 1fr); min-height: 0; width: 100%; }\n  .stepping .wrap > main { grid-area: 1 / 1; overflow-y: auto; min-height: 0; }\n  .stepping .wrap > .panel { grid-area: 2 / 1; position: static; max-height: 36dvh; border: 0; border-top: 2px solid var(--line); padding: 0.5rem 1.25rem 0.8rem;\n    display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); gap: 0 1.5rem; align-content: start; }\n  .panel .at { grid-column: 1 / -1; }\n  .panel .contents { display: none; }\n  .panel h3 { margin-top: 0.3rem; padding-top: 0.4rem; }\n  .stepping .current { scroll-margin-block: 1rem 3rem; }\n}\n@media screen and (max-width: 800px) {\n  .bar { gap: 0.4rem; }\n  .player { gap: 0.3rem; }\n  .player output { min-width: 0; font-size: 12px; }\n  .stepping .bar > :is(.home, .menu, #differing, #search-open, #theme), body:not(.stepping) #step-help, .idle { display: none; }\n  .stepping .player { flex: 1; justify-content: space-between; }\n  .alive:has(> .live:empty) { display: none; }\n  .player button { min-height: 2.2rem; min-width: 2.2rem; }\n  #step-large span { display: none; }\n  :is(.prose, figure, .note, .reference, h2, h3, h4, h5, h6).current { box-shadow: -0.5rem 0 var(--paper), calc(-0.5rem - 3px) 0 var(--link); }\n}\n@media print { .panel, .player, #step-done, .live { display: none; } .row.current, .row.caller { background: none; box-shadow: none; } }\n/* Large type, for a lecture hall. */\n@media screen {\n  .large :is(.bar, .contents, nav.turn, .machines, .meta) { display: none; }\n  .large .wrap { max-width: none; }\n  .large main { max-width: none; font-size: 1.5em; }\n  .large .panel { top: 0; font-size: 1.3em; }\n}\n/* Lower bounds of times on machines that were not traced. */\n.floor { border-left: 2px dashed var(--soft); padding-left: 0.5rem; font: italic 12px/1.5 var(--sans); color: var(--soft); grid-column: 1 / -1; flex-basis: 100%; }\n#floors { max-width: 68ch; font: 13.5px/1.5 var(--sans); color: var(--soft); }\n.machines select { font: inherit; max-width: 100%; color: var(--ink); background: var(--code); border: 1px solid var(--line); border-radius: 6px; padding: 0.05rem 0.3rem; }\n@media print { #floors { display: none; } }\n.explore.awake { display: grid; grid-template: \"c c\" \"f a\" \"f s\" \"f t\" 1fr / minmax(14rem, 17rem) minmax(0, 1fr); gap: 0 1.8rem; }\n.explore.awake > figcaption { grid-area: c; }\n.explore.awake > .answer { grid-area: a; min-height: 4.6em; }\n.explore.awake > .stage { grid-area: s; }\n.explore.awake > .scroll { grid-area: t; }\n.explore .controls { grid-area: f; font-size: 14px; }\n.explore .control { display: grid; grid-template-columns: minmax(0, 1fr) fit-content(60%); gap: 0 0.6rem; align-items: baseline; margin-bottom: 0.5rem; }\n.explore .control:has(select) { grid-template-columns: minmax(0, 1fr); }\n.explore .control > * { min-width: 0; overflow-wrap: anywhere; }\n.explore .own { margin-left: 0.8rem; }\n.explore [type=\"text\"], .explore select { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--soft); border-radius: 5px; padding: 0.15rem 0.4rem;\n  min-height: 1.75rem; }\n.explore [type=\"text\"] { width: 6.5rem; text-align: right; font-variant-numeric: tabular-nums; }\n.explore select { width: 100%; }\n.explore [aria-invalid=\"true\"] { border-color: var(--bad); outline-color: var(--bad); }\n.explore [type=\"range\"] { grid-column: 1 / -1; width: 100%; min-height: 1.6rem; margin: 0; accent-color: var(--link); }\n.explore [type=\"range\"]::-moz-range-thumb { background: var(--link); border: 0; }\n.explore .wrong { grid-column: 1 / -1; color: var(--bad); font-size: 13px; }\n.explore .buttons { display: flex; flex-wrap: wrap; gap: 0.5rem; margin: 0.7rem 0 0.4rem; }\n.explore button { font: inherit; padding: 0.2rem 0.7rem; color: var(--link); background: none; border: 1px solid var(--line); border-radius: 6px; cursor: pointer; }\n.explore .stage { position: relative; font: 13px/1.3 var(--sans); margin: 0.3rem 0 0.8rem; }\n.explore .stage svg { display: block; max-width: 100%; height: auto; }\n.explore .dragged { cursor: ew-resize; touch-action: pan-y; }\n.explore .point { position: absolute; width: 24px; height: 24px; margin: -12px; border-radius: 50%; background: var(--s2); border: 6px solid transparent; background-clip: padding-box; }\n.explore text { fill: var(--ink); font: inherit; paint-order: stroke; stroke: var(--paper); stroke-width: 3px; stroke-linejoin: round; }\n.explore text.soft { fill: var(--soft); }\n.explore text.here { font-weight: 600; }\n.explore text.over { fill: var(--bad); }\n.explore rect { fill: var(--own); }\n.explore rect.faint { opacity: 0.4; }\n.explore path { fill: none; stroke: var(--line); }\n.explore path.curve { stroke: var(--s1); stroke-width: 2.3; stroke-linejoin: round; }\n.explore path.other { stroke: var(--soft); opacity: 0.35; }\n.explore path.guide { stroke: var(--s2); stroke-dasharray: 3 3; }\n.explore path.limit { stroke: var(--bad); stroke-width: 2; stroke-dasharray: 4 3; }\n@media screen {\n  .explore.awake .given { display: none; }\n}\n@media screen and (max-width: 800px) {\n  .explore { padding: 0.6rem 0.7rem; margin-inline: -0.4rem; }\n  .explore.awake { grid-template: \"c\" \"a\" \"s\" \"f\" \"t\" / minmax(0, 1fr); }\n  .explore.awake > .answer { min-height: 6em; }\n}\n@media screen {\n}\n@media print {\n  .explore.awake { grid-template: \"c\" \"a\" \"s\" \"t\" / minmax(0, 1fr); }\n  .explore :is(.controls, .point) { display: none; }\n  .explore { break-inside: auto; }\n  .explore .stage { break-inside: avoid; }\n  .explore.awake > .answer { min-height: 0; }\n}\n";
// Indent the rest of a long line that a narrow column breaks, so that it does not look like a statement.
for (const code of document.querySelectorAll(".code > code")) {
  const blanks = /^ */.exec(code.textContent)[0].length;
  if (blanks && code.textContent.length > 44) code.style.setProperty("--in", `${Math.min(blanks, 12) + 4}ch`);
}
// Highlight related elements on hover and focus: an element of a storage in every tensor that views it, the tensors of a
// storage, and a line with its marks in the figures of measurements.
(() => {
  const at = (cell, box) => {  // the position in its storage: the offset, plus each index times its stride
    const [storage, offset, down, across] = box.dataset.cells.split(" ");
    return `${storage} ${Number(offset) + cell.parentNode.rowIndex * Number(down) + cell.cellIndex * Number(across)}`;
  };
  const cells = (place) => [...document.querySelectorAll(".gridbox[data-cells]")].flatMap((box) =>
    box.dataset.cells.startsWith(`${place.split(" ")[0]} `) ? [...box.querySelectorAll("td")].filter((cell) => at(cell, box) === place) : []);
  const links = (row) => (row.id ? [...document.querySelectorAll(`.drawn a[href$="#${CSS.escape(row.id)}"]`)] : []);
  const together = (over) => {
    const cell = over.closest(".gridbox[data-cells] td"), storage = over.closest(".storage"), link = over.closest(".drawn a[href]");
    if (cell) return cells(at(cell, cell.closest(".gridbox")));
    if (storage) return [...document.querySelectorAll(".storage")].filter((other) => other.textContent === storage.textContent);
    if (link) return [document.getElementById(link.getAttribute("href").split("#")[1])].filter(Boolean);
    const row = over.closest(".row[id]");
    return row ? links(row) : [];
  };
  let lit = [];
  const light = (event) => {
    const found = event.target instanceof Element ? together(event.target) : [];
    for (const one of lit) one.classList.remove("lit");
    lit = found.length > 1 || (found.length && !found.includes(event.target)) ? found : [];
    for (const one of lit) one.classList.add("lit");
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, light);
})();
// The player: step through the run, one statement at a time.
//
// `player.py` wrote the stops (each step's position, with the values observed there) and the frames (calls). A stop is
// an index; readers count from 1. The panel shows the state after a stop's statement: values observed on the line of
// a call are shown at that line, not inside the call. No state is stored per step; it is computed at each key press.
document.adoptedStyleSheets = [...document.adoptedStyleSheets, styled(sectionStyle)];  // of all parts of this script
(() => {
  const CHANGES = ["", "new", "changed", "written", ""];
  const NOTES = ["held", "failed", "failed", "caught", "printed", "warning"];
  const SIGNS = { held: "✓ ", failed: "✗ ", caught: "↯ ", printed: "", warning: "Warning: " };
  const $ = (id) => document.getElementById(id);
  const main = $("text"), panel = $("panel");
  if (!panel || typeof DecompressionStream === "undefined") return;

  const make = (tag, name, ...inside) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside);
    return made;
  };

  // --- the block ---

  const grouped = (keys) => {
    const groups = new Map();
    keys.forEach((key, place) => (groups.get(key) ?? groups.set(key, []).get(key)).push(place));
    return groups;
  };

  const read = ({ stops, frames, said, shared }) => {
    const column = (name) => stops.map((stop) => stop[name]), frame = (nth) => frames.map((one) => one[nth]);
    const entries = stops.flatMap(({ seen }, stop) => seen.map((entry) => [stop, ...entry])), seen = { shared };
    ["stop", "name", "text", "grid", "change", "storage"].forEach((name, nth) => { seen[name] = entries.map((entry) => entry[nth]); });
    const columns = { said, seen, names: frame(0), of: frame(1), calls: frame(2), totals: frame(3) };
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

  const play = (steps) => {
    const { seen } = steps, count = steps.line.length;
    let animate = false;  // reveal the page step by step
    let here = -1, before = -1, part = 0;  // shown stop, previously shown stop, outputs shown of it (@animate)
    let marked = [];

    // --- moving ---

    const above = (stop) => {  // the next stop outside this call
      for (let at = stop + 1; at < count; at++) if (steps.depth[steps.frame[at]] < steps.depth[steps.frame[stop]]) return at;
      return -1;
    };
    const over = (stop, way) => {  // the nearest stop that is not inside a call
      let at = stop + way;
      while (steps.depth[steps.frame[at]] > steps.depth[steps.frame[stop]]) at += way;
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
    const outputs = () => (animate ? steps.outputs.get(here) ?? 1 : 1);

    const move = (way) => {
      const stepping = panel.hidden === false;
      if (here < 0 || !stepping) return "lj".includes(way) ? go(here < 0 ? start() : here) : undefined;
      if ("lj".includes(way) && part + 1 < outputs()) return show(here, part + 1);
      const to = { l: () => here + 1, h: () => here - 1, j: () => over(here, 1), k: () => over(here, -1),
        u: () => above(here), Home: () => 0, End: () => count - 1 }[way]();
      if (way === "u" && to < 0) return say("This call ends with the section.");
      if (to < 0 || to >= count) return say(to < 0 ? "This is the first step." : "This is the last step.");
      show(to, 0);
    };
    const go = (stop) => show(stop, 0);

    const stand = (stop) => {  // set the current stop and mark it on the page; -1: none yet
      before = stop === here ? before : here;
      here = stop;
      mark();
      drawRows();
    };
    const contents = document.querySelector(".contents");
    const open = (isOpen) => {  // the panel is above the contents, in their column
      panel.hidden = !isOpen;
      document.body.classList.toggle("stepping", isOpen);
      if (contents) { if (isOpen) panel.append(contents); else main.after(contents); }
    };
    const show = (stop, output) => {
      part = output;
      if (panel.hidden) open(true);
      stand(stop);
      if (animate) uncoverPage();
      drawPanel();
      $("step-now").textContent = `step ${(here + 1).toLocaleString("en")} / ${count.toLocaleString("en")}`;
      $("step-done").value = here + 1;
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
      for (let at = here; at >= 0; at = steps.of[steps.frame[at]]) calls.push([steps.frame[at], at]);
      return calls;
    };
    const placeOf = (stop) => {  // a line that is not on the page is shown at the line before it, in its call
      const within = steps.within.get(steps.frame[stop]);
      let at = within.indexOf(stop);
      while (steps.code[within[at]]) at--;
      return $(steps.anchor[within[at] ?? stop]);
    };
    const mark = () => {
      for (const [element, name] of marked) {
        element.classList.remove(name);
        element.removeAttribute("aria-current");
      }
      marked = stack().map(([, stop], depth) => [placeOf(stop), depth ? "caller" : "current"])
        .filter(([element], place, all) => element && all.findIndex(([other]) => other === element) === place);
      for (const [element, name] of marked) element.classList.add(name);
      marked[0]?.[0].setAttribute("aria-current", "step");
    };
    const scroll = () => {
      const at = placeOf(here);
      if (!panel.contains(document.activeElement)) panel.scrollTop = 0;  // a slider stays under the finger that moves it
      if (!at) return;
      reveal(at);
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
          while (low < high) { const middle = (low + high) >> 1; if (within[places[middle]] > here) high = middle; else low = middle + 1; }
          wanted.set(anchor, low ? within[places[low - 1]] : -1);
        }
        const summary = $(steps.anchor[within[0]])?.closest(".called")?.firstElementChild;
        if (summary && !called.has(summary)) called.set(summary, steps.calls[frame]);
      }
      for (const [anchor, [, told]] of alive) if (!wanted.has(anchor)) {
        told.parentElement.classList.remove("alive");
        if (told.nextElementSibling) told.remove(); else told.parentElement.remove();
        alive.delete(anchor);
      }
      for (const [anchor, stop] of wanted) {
        const [shown, old] = alive.get(anchor) ?? [], key = `${stop} ${stop + (steps.inside[stop] ?? 0) < here}`;
        if (shown === key) continue;
        const row = $(anchor), told = old ?? make("div", "live");
        if (!row?.matches(".row")) continue;
        const beside = old?.parentElement ?? row.querySelector(".beside") ?? make("div", "beside");
        if (!beside.parentElement) row.querySelector(".code").after(beside);
        told.replaceChildren(...toldOf(stop));
        if (!old) { beside.prepend(told); beside.classList.add("alive"); }
        alive.set(anchor, [key, told]);
      }
      for (const [summary, said] of renamed) if (!called.has(summary)) { summary.lastChild.data = said; renamed.delete(summary); }
      for (const [summary, number] of called) {
        const text = summary.lastChild;
        if (text.nodeType !== Node.TEXT_NODE) continue;
        if (!renamed.has(summary)) renamed.set(summary, text.data);
        text.data = renamed.get(summary).replace(/[\d,]+/, number.toLocaleString("en"));
      }
    };
    const toldOf = (stop) => {
      if (stop < 0) return [];
      const list = steps.executions.get(steps.same[stop]), told = [];
      if (list.length > 1) told.push(make("small", "", `${steps.execution[stop]} of ${steps.execution[list.at(-1)]}`));
      for (const entry of steps.seenAt.get(stop) ?? []) {
        if (seen.change[entry] === 4 || !isKnown(entry, here)) continue;
        told.push(make("span", "", make("b", "", seen.name[entry] + (/^\w+\[/.test(seen.text[entry]) ? " " : " = ")), seen.text[entry]));
      }
      for (const [kind, text] of steps.noted.get(stop) ?? []) if (kind !== "printed") told.push(make("span", kind, kind === "held" ? "✓" : SIGNS[kind] + text));
      return told;
    };

    // Animate mode: each piece of the page, with the position that reveals it.
    let pieces = null;
    const arrange = () => {
      const said = new Map(), counts = new Map();
      for (const [number, stop] of steps.said) {
        const nth = counts.get(stop) ?? 0;
        counts.set(stop, nth + 1);
        said.set(`said-${number}`, stop + (steps.outputs.has(stop) ? nth / 1000 : 0));
      }
      const own = (element) => said.get(element.id) ?? steps.standing.get(element.id)?.[0];
      const leaves = [...main.querySelectorAll(".row, .under > :not(.called), .prose, .note, .reference, figure, h2, h3, h4, h5, h6")]
        .filter((leaf) => !leaf.parentElement.closest(".prose, .note, figure"));
      const at = leaves.map((leaf) => own(leaf.closest(".under")?.contains(leaf) && !leaf.matches(".row, .prose, .note")
        ? leaf.closest(".under").previousElementSibling : leaf));
      for (let place = at.length - 2; place >= 0; place--) at[place] ??= at[place + 1];  // revealed with the next piece
      for (let place = 1; place < at.length; place++) at[place] ??= at[place - 1];
      pieces = new Map();
      leaves.forEach((leaf, place) => {
        for (let box = leaf; box !== main; box = box.parentElement) {
          pieces.set(box, Math.min(pieces.get(box) ?? Infinity, at[place] ?? 0));
        }
      });
    };
    const uncoverPage = () => {
      if (!pieces && !animate) return;
      if (!pieces) arrange();
      const until = animate && !panel.hidden ? here + part / 1000 : Infinity;
      for (const [piece, at] of pieces) piece.classList.toggle("later", at > until);
    };

    // --- the panel ---

    const isKnown = (entry, at) => {
      const stop = seen.stop[entry];
      return seen.change[entry] >= 8 ? stop <= at : stop === at || (stop < at && stop + steps.inside[stop] < at);
    };
    const known = (frame) => {  // name → the last known entry with its value
      const found = new Map();
      for (const entry of steps.seenIn.get(frame) ?? []) {
        if (seen.stop[entry] > here) break;
        if (!isKnown(entry, here)) continue;
        if (seen.change[entry] === 4) found.delete(seen.name[entry]);
        else found.set(seen.name[entry], entry);
      }
      return found;
    };
    const isFresh = (entry) => (before >= 0 && before < here ? !isKnown(entry, before) : seen.stop[entry] === here);

    const gridOf = (text) => {
      const grid = make("table", "grid");
      for (const line of text.split("\n")) grid.append(make("tr", "", ...line.split("\t").map((cell) => make("td", "", cell))));
      const box = make("div", "gridbox", grid);
      box.tabIndex = 0;
      box.role = "group";
      box.ariaLabel = "Elements";
      return box;
    };
    const labelled = (storage) => {
      const place = seen.shared.indexOf(storage);
      return place < 0 ? [] : [make("span", `storage s${place % 6 + 1}`, make("span", "dot"), `storage ${storage}`)];
    };
    const variable = (entry, change) => {
      const parts = seen.name[entry].split(/(?<=\W)(?=\w)/);  // line breaks allowed in an expression
      const row = make("tr", change, make("th", "", ...parts.flatMap((part) => [make("wbr"), part]).slice(1)));
      row.firstChild.scope = "row";
      const cell = make("td", "", seen.text[entry], ...labelled(seen.storage[entry]));
      if (seen.grid[entry]) cell.append(gridOf(seen.grid[entry]));
      const told = { alias: "written through another name" }[change] ?? change;
      if (told) cell.append(make("small", "", told));
      row.append(cell);
      return row;
    };

    const boxes = [];  // one per depth of the stack, kept so that a slider keeps its focus
    const boxAt = (depth) => {
      if (boxes[depth]) return boxes[depth];
      const title = make("h3"), slider = make("input"), label = make("label", "turns"), text = make("span"), body = make("tbody");
      const from = make("p", "where");
      slider.type = "range";
      slider.min = 1;
      label.append(text, slider);
      const box = make("section", "", title, from, label, make("table", "vars", body));
      const made = (boxes[depth] = { box, title, slider, label, text, from, body, list: [] });
      slider.addEventListener("input", () => go(made.list[slider.value - 1]));
      if (contents) contents.before(box); else panel.append(box);
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
      const rank = ["alias", ""], told = [...names.values()].map((entry) => {
        const storage = seen.storage[entry];
        return [entry, isFresh(entry) ? CHANGES[seen.change[entry] % 8] : storage && writes.has(storage) ? "alias" : ""];
      });
      told.sort(([, one], [, other]) => rank.indexOf(one) - rank.indexOf(other));  // changed names first
      body.replaceChildren(...told.map(([entry, change]) => variable(entry, change)));
    };
    const head = make("div", "at");
    head.id = "step-at";
    panel.append(head);
    const drawPanel = () => {
      const calls = stack(), names = calls.map(([frame]) => known(frame)), writes = new Set();
      for (const found of names) {
        for (const entry of found.values()) {
          if (isFresh(entry) && seen.change[entry] % 8 === 3) writes.add(seen.storage[entry]);
        }
      }
      drawHead();
      calls.forEach((call, depth) => drawFrame(call, depth, names[depth], writes));
      for (const { box, body } of boxes.slice(calls.length)) {
        box.hidden = true;
        body.replaceChildren();
      }
    };
    const ASSIGNS = /^\s*([A-Za-z_][\w.]*(?:\[[^\]=]*\])?(?:\s*,\s*\*?[A-Za-z_][\w.]*)*)\s*(?::[^=]*)?(?:[-+*/@%&|^]|\*\*|\/\/)?=(?!=)/;
    const does = () => {  // one sentence: what the line did, beside the values below
      const row = placeOf(here), code = steps.code[here] || (row?.matches(".row") ? row.querySelector(".code > code").textContent : "");
      const calls = steps.inside[here], assigned = ASSIGNS.exec(code)?.[1].replace(/\s+/g, "").split(",");
      const told = new Set((steps.seenAt.get(here) ?? []).map((entry) => seen.name[entry].split(/\W/)[0]));
      const unseen = (assigned ?? []).filter((name) => !told.has(name.split(/\W/)[0]));
      return [
        calls ? calls === 1 ? "Calls: 1 step inside it." : `Calls: ${calls.toLocaleString("en")} steps inside it.` : "",
        unseen.length ? unseen.length > 1 ? `Assigns ${unseen.join(" and ")}; their values were not inspected.` : `Assigns ${unseen[0]}; its value was not inspected.` : "",
        row?.matches(".prose, .reference, .note, .ask, figure") && !steps.code[here] ? "Writes the highlighted block." : "",
        /^\s*return\b/.test(code) && !told.size ? "Returns to its caller." : "",
      ].filter(Boolean).join(" ");
    };
    const drawHead = () => {
      const cost = [steps.time[here], steps.memory[here]].filter(Boolean).join(" · ");
      const lines = [make("p", "where", `line ${steps.line[here]}` + (cost ? ` · ${cost}` : ""))];
      if (steps.code[here]) lines.push(make("pre", "", steps.code[here]));
      const words = does();
      if (words) lines.push(make("p", "", words));
      for (const [kind, text] of steps.noted.get(here) ?? []) lines.push(make(kind === "printed" ? "pre" : "p", kind, SIGNS[kind] + text));
      head.replaceChildren(...lines);
    };

    // --- updated with a delay: the address, and the text for screen readers ---

    let waiting = 0;
    const say = (text) => { $("step-said").textContent = text; };
    const spoken = () => {
      const place = `Step ${here + 1} of ${count}, line ${steps.line[here]}, ${steps.names[steps.frame[here]]}.`;
      const fresh = [...known(steps.frame[here]).values()].filter(isFresh).slice(0, 3);
      const notes = (steps.noted.get(here) ?? []).map(([kind, text]) => `${kind}: ${text}.`);
      return [place, ...fresh.map((entry) => `${seen.name[entry]}: ${seen.text[entry]}.`), ...notes].join(" ");
    };
    const settle = () => {
      say(spoken());
      try { history.replaceState(null, "", `#step-${here + 1}`); } catch { /* too many in a row */ }
    };
    const later = () => { clearTimeout(waiting); waiting = setTimeout(settle, 250); };

    // --- animate, large type ---

    const setAnimate = (on) => {
      animate = on;
      part = 0;
      $("mode-animate").checked = on;
      uncoverPage();
      if (here >= 0 && !panel.hidden) drawPanel();
      drawRows();
    };
    const toggleAnimate = () => {
      setAnimate(!animate);
      try { sessionStorage.setItem("animate", animate ? "on" : ""); } catch { /* no storage */ }
      say(animate ? "Reveal step by step: on." : "Reveal step by step: off.");
    };

    // Large type for a lecture hall: the text and the panel, without bar and contents.
    const enlarge = () => {
      const on = document.documentElement.classList.toggle("large");
      say(on ? "Large type: on." : "Large type: off.");
      if (here >= 0 && !panel.hidden) scroll();
    };

    // --- events ---

    const KEYS = { ArrowRight: "l", ArrowLeft: "h", ArrowDown: "j", ArrowUp: "k" };
    const letters = { A: toggleAnimate, Q: () => say(thinkFirst.toggle()), P: () => enlarge(), O: () => say(thinkFirst.showHere()),
      "?": () => $("keys").showModal(), Escape: stop, E: () => (panel.hidden && here >= 0 ? go(here) : stop()) };
    document.addEventListener("keydown", (event) => {
      const { key, target } = event, arrow = key.startsWith("Arrow"), away = panel.hidden;
      const letter = letters[key] ?? letters[key.toUpperCase()];  // with Shift, as in edtrace, or without
      if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
      if (/^[a-z]$/i.test(key) && !lettersAreKeys.get()) return;
      if (target.closest("textarea, select, dialog[open], input:not([type=range], [type=checkbox])")) return;
      const own = target.matches("input[type=range]") || (target.scrollWidth > target.clientWidth && target.matches("[tabindex]"));
      if ((arrow || key === "Home" || key === "End") && own) return;  // these keys move a slider or scroll a table
      if (away && ["ArrowUp", "ArrowDown", "ArrowLeft", "Home", "End", "Escape"].includes(key)) return;  // outside the player, these keys scroll
      if (event.shiftKey && arrow) move({ ArrowRight: "j", ArrowLeft: "k" }[key] ?? KEYS[key]);
      else if (["h", "j", "k", "l", "u", "Home", "End"].includes(key) || arrow) move(KEYS[key] ?? key);
      else if (letter) letter();
      else return;
      event.preventDefault();
    });
    document.addEventListener("click", (event) => {
      const { target } = event;
      const machine = target.closest(".seg a");
      if (machine && !panel.hidden) machine.hash = `#step-${here + 1}`;
      const row = target.closest(".code") && !target.closest("a") && target.closest(".row");
      const stops = row && !String(getSelection()) && steps.standing.get(row.id);
      if (stops) go(stops.find((stop) => stop > here) ?? stops[0]);  // a second click on the line goes to its next execution
    });
    for (const [name, way] of [["back", "h"], ["over", "j"], ["on", "l"]]) $(`step-${name}`).addEventListener("click", () => move(way));
    $("step-large").addEventListener("click", letters.P);
    $("step-end").addEventListener("click", () => { stop(); $("step-on").focus(); });
    $("mode-core").checked = printsCore.get() === "core";
    $("mode-core").addEventListener("change", ({ target }) => printsCore.set(target.checked ? "core" : ""));
    $("mode-letters").checked = lettersAreKeys.get();
    $("mode-letters").addEventListener("change", ({ target }) => lettersAreKeys.of.set(target.checked ? "" : "off"));
    let touched = null;  // start of a swipe, outside elements that scroll sideways
    document.addEventListener("touchstart", ({ target, touches: [at, second] }) => {
      touched = second || target.closest("input, .scroll, .gridbox, .drawnbox, dialog") ? null : at;
    }, { passive: true });
    document.addEventListener("touchend", ({ changedTouches: [at] }) => {
      const across = touched && at.clientX - touched.clientX;
      if (Math.abs(across) < 45 || Math.abs(across) < 2 * Math.abs(at.clientY - touched.clientY)) return;
      if (!panel.hidden) move(across < 0 ? "l" : "h");
    });
    $("step-help").addEventListener("click", letters["?"]);
    $("keys-close").addEventListener("click", () => $("keys").close());
    $("mode-animate").addEventListener("change", toggleAnimate);

    const follow = () => {  // go to the step in the address, or while stepping to its line
      const number = Number(/^#step-(\d+)$/.exec(location.hash)?.[1] ?? NaN);
      if (number >= 1) go(Math.min(number, count) - 1);
      else if (addressed() !== undefined && !panel.hidden) go(addressed());
    };
    addEventListener("hashchange", follow);
    matchMedia("(max-width: 1100px)").addEventListener("change", () => { if (!panel.hidden) scroll(); });  // another element scrolls
    $("player").hidden = $("step-done").hidden = false;
    try { if (sessionStorage.getItem("animate")) setAnimate(true); } catch { /* no storage */ }
    follow();
  };

  // After the first paint. If the steps cannot be unpacked, the page works without a player.
  requestAnimationFrame(() => setTimeout(() => unpack(sectionData.steps).then(read).then(play, () => {})));
})();
// Show lower bounds from another machine's datasheet next to this machine's times. `columns.py` made the texts: for each
// machine its name, a note on it, and a text for each anchor.
(() => {
  const box = document.getElementById("floors");
  if (!box || typeof DecompressionStream === "undefined") return;
  const choice = box.querySelector("select"), about = box.querySelector("small");

  const draw = ({ anchors, machines }) => {
    document.querySelectorAll("#text .floor").forEach((made) => made.remove());
    const [name, known, texts] = machines[choice.selectedIndex - 1] ?? ["", "", []];
    about.textContent = known;
    texts.forEach((text, place) => {
      const row = document.getElementById(anchors[place]);
      if (!text || !row) return;
      let beside = row.querySelector(":scope > .beside");
      if (!beside) row.append(beside = Object.assign(document.createElement("div"), { className: "beside" }));
      beside.append(Object.assign(document.createElement("div"), { className: "floor", textContent: `on ${name}: ${text}`, title: "lower bound, computed from the datasheet" }));
    });
  };

  box.hidden = false;
  requestAnimationFrame(() => setTimeout(() => unpack(sectionData.floors).then((floors) => {
    choice.append(...floors.machines.map(([name]) => new Option(name, name)));
    const chosen = addressed("bounds", floors.machines.map(([name]) => name));
    choice.value = chosen.get()[0] ?? "";
    choice.addEventListener("change", () => {
      chosen.set(choice.value ? [choice.value] : []);
      draw(floors);
    });
    if (choice.value) draw(floors);
  }, () => {})));
})();
// Parse numbers that readers type.
// "560 GB", "5.6e11", "5.6·10^11", "1,120,000", "3/4", "12%", "2^30", "144 days", "~40", "40x", "40,5" → a number; NaN for
// anything else. A comma before three digits groups them, unless only a 0 is before it.
const parsed = (() => {
  const PREFIX = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
    m: 1e-3, µ: 1e-6, μ: 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
  const TIMES = { s: 1, min: 60, h: 3600, days: 86400, day: 86400, d: 86400 };
  const WORDS = { B: 1e9, b: 1e9, thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12 };
  return (text, unit) => {
    const superscript = (all) => `^${[...all].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)).map((at) => (at ? at - 1 : "-")).join("")}`;
    let rest = text.trim().replace(/^(?:[~≈∼]|about)\s*/i, "").replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, superscript).replace(/[−–]/g, "-")
      .replace(/(?<![\d.,])(\d+),(\d+)(?![\d.,])/g, (all, whole, part) => (part.length !== 3 || whole === "0" ? `${whole}.${part}` : all))
      .replace(/(\d)[,_\u202f\u00a0](?=\d{3}(?!\d))/g, "$1");
    const BY = /^(?:[·*/]|[x×](?=\s*[-+.\d]))/, one = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)/i;
    const factor = () => {
      const found = rest.match(one);
      if (!found) return NaN;
      rest = rest.slice(found[0].length).trimStart();
      const power = rest.match(/^(?:\^|\*\*)\s*(-?\d+(?:\.\d+)?)/);
      if (power) rest = rest.slice(power[0].length).trimStart();
      return power ? Number(found[0]) ** Number(power[1]) : Number(found[0]);
    };
    let value = factor();
    for (let by = rest.match(BY); by; by = rest.match(BY)) {
      rest = rest.slice(by[0].length).trimStart();
      value = by[0] === "/" ? value / factor() : value * factor();
    }
    if (rest === "" || rest === unit) return value;
    if (!unit && /^(?:x|×|times|-?fold)$/.test(rest)) return value;
    if (rest === "%") return unit === "%" ? value : value / 100;
    if (rest in WORDS) return value * WORDS[rest];
    if (unit === "s" && rest in TIMES) return value * TIMES[rest];
    const bare = unit && rest.endsWith(unit) ? rest.slice(0, -unit.length).trim() : rest;
    return bare in PREFIX ? value * PREFIX[bare] : NaN;
  };
})();
// Check readers' answers to questions and remember the correct ones. The solutions are folded on the page.
(() => {
  const near = (value, low, high, within) =>
    value >= low - within * Math.abs(low) - 1e-12 * Math.abs(low) && value <= high + within * Math.abs(high) + 1e-12 * Math.abs(high);

  const element = (name, attributes, ...inside) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...inside);
    return made;
  };

  document.querySelectorAll(".ask").forEach((box) => {
    const { kind, right, within, unit, slips } = JSON.parse(box.dataset.answer);
    const answered = storedHere(`answer ${box.dataset.asked}`, box), before = answered.get();
    const verdict = element("output", { className: "verdict" });
    verdict.role = "status";
    const solution = box.querySelector(".solution");
    const judge = (state, words, answer = "yes") => {
      box.classList.toggle("right", state === "right");
      box.classList.toggle("wrong", state === "wrong");
      verdict.innerHTML = words;  // the lecture's text, written by the renderer
      if (state !== "right") return;
      answered.set(answer);
      solution.open = true;
      if (box.nextElementSibling?.matches(".waits")) box.nextElementSibling.open = true;
    };
    let again = kind === "text";  // whether the answer that was right is right on this page, where numbers may differ
    const answering = element("div", { className: "answering" });
    if (kind === "choice") {
      const list = box.querySelector(".choices");
      const group = element("fieldset", {}, element("legend", { className: "hidden", textContent: "Your answer" }));
      [...list.children].forEach((item) => {
        const button = element("input", { type: "radio", name: box.id, value: item.dataset.choice });
        if (button.value === before) { button.checked = true; again = before === right; }
        button.addEventListener("change", () => {
          const known = slips.find(([slip]) => slip === item.dataset.choice);
          if (item.dataset.choice === right) judge("right", "✓ Right.", right);
          else judge("wrong", known ? `✗ ${known[1]}` : "✗ Not this one.");
        });
        const shown = element("span", {});
        shown.append(...item.childNodes);
        group.append(element("label", {}, button, shown));
      });
      list.replaceWith(group);
      answering.append(verdict);
    } else if (kind === "number") {
      const field = element("input", { type: "text", autocomplete: "off", spellcheck: false, size: 14 });
      field.inputMode = unit ? "text" : "decimal";
      const enough = within ? `: within ${Number((100 * within).toPrecision(3))}% is right.` : ": the exact number is required.";
      if (before) { field.value = before; again = near(parsed(before, unit), right[0], right[1], within); }
      const check = () => {
        if (!field.value.trim()) return;
        const value = parsed(field.value, unit);
        const known = slips.find(([slip]) => typeof slip === "number" && near(value, slip, slip, within));
        if (Number.isNaN(value)) judge("", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%.");
        else if (near(value, right[0], right[1], within)) judge("right", "✓ Right.", field.value.trim());
        else if (known) judge("wrong", `✗ ${known[1]}`);
        else judge("wrong", value !== 0 && right[0] !== 0 && (value / right[0] > 1.5 || value / right[0] < 0.67)
          ? Math.abs(value) > Math.abs(right[0]) ? "✗ No, the answer is smaller." : "✗ No, the answer is larger." : "✗ Close, but not close enough" + enough);
      };
      field.addEventListener("focus", () => field.select());
      field.addEventListener("keydown", (event) => { event.stopPropagation(); if (event.key === "Enter") check(); });
      const button = element("button", { type: "button", textContent: "Check" });
      button.addEventListener("click", check);
      answering.append(element("label", {}, "Your answer ", field, unit ? ` ${unit}` : ""), button, verdict);
    } else {
      const button = element("button", { type: "button", textContent: "I got it right" });
      button.addEventListener("click", () => judge("right", "✓ Saved."));
      solution.append(element("div", { className: "answering" }, button, verdict));
    }
    if (answering.childNodes.length) box.insertBefore(answering, box.querySelector(".hint, .solution"));
    if (before) verdict.textContent = again ? "✓ Answered earlier." : "✓ Answered earlier, when another answer was right.";
  });
})();
// Figures with inputs. The page's data lists each figure's inputs and results; `arithmetic.py` wrote the formulas.

// Write a number as `formats.py` does: rounded half to even, to n digits or to a number of decimals.
const written = (() => {
  const scientific = (x, n) => {  // n digits of a number above 0, and its power of ten
    const [mantissa, power] = x.toExponential(100).split("e"), all = mantissa.replace(".", "");
    const head = all.slice(0, n), tail = all.slice(n), half = "5".padEnd(tail.length, "0");
    const up = tail > half || (tail === half && Number(head.at(-1) ?? 0) % 2);
    const digits = up ? String(BigInt(head || 0) + 1n).padStart(n, "0") : head;
    return digits.length > n ? [digits.slice(0, n || 1), Number(power) + 1] : [digits, Number(power)];
  };
  const placed = (digits, power) => (power < 0 ? `0.${"0".repeat(-power - 1)}${digits}`
    : digits.length <= power + 1 ? digits.padEnd(power + 1, "0") : `${digits.slice(0, power + 1)}.${digits.slice(power + 1)}`);
  const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  const signed = (write) => (x, n) => (x < 0 ? `-${write(-x, n)}` : write(x, n));
  const general = signed((x, n) => {
    if (x === 0) return "0";
    const [digits, power] = scientific(x, n);
    return power < -4 || power >= n ? `${bare(placed(digits, 0))}e${power}` : bare(placed(digits, power));
  });
  const fixed = signed((x, places) => {
    const n = x === 0 ? -1 : Number(x.toExponential(100).split("e")[1]) + 1 + places;
    const [digits, power] = n < 0 ? ["", 0] : scientific(x, n);
    return digits === "" ? (places ? `0.${"0".repeat(places)}` : "0") : placed(digits.padEnd(power + 1 + places, "0"), power);
  });
  const apart = (text) => text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const number = (x) => {
    const size = Math.abs(x);
    if (!(size >= 1 && size < 1e7)) return general(x, 4);
    const text = bare(fixed(x, Math.max(4 - String(Math.trunc(size)).length, 0)));
    return size >= 9999.5 ? apart(text) : text;
  };
  const percent = (x) => (x >= 9.95 ? `${fixed(x, 0)}%` : x >= 0.095 ? `${fixed(x, 1)}%` : x ? "< 0.1%" : "0%");
  return (x, { unit = "", ladder, times = 1, most = Infinity } = {}, digits = 4) => {
    if (typeof x === "boolean") return x ? "yes" : "no";
    if (unit === "%") return percent(100 * x);
    if (unit === "") return number(x);
    if (Math.abs(x) >= 1e300) return `${number(x)} ${unit}`;
    if (!ladder) return `${Math.abs(x) >= 1e4 && Math.abs(x) < 1e15 ? apart(fixed(x, 0)) : general(x, digits)} ${unit}`;
    if (Math.abs(x) >= most) return `${general(x, digits)} ${ladder.at(-1)[1]}`;
    const size = Math.abs(x * times), [factor, name] = ladder.find(([step]) => step === 0 || Number(general(size / step, digits)) >= 1);
    return `${general((x * times) / (factor || 1), digits)} ${name}`;
  };
})();

const explore = (figures, formulas) => {
  const STEPS = 1000, POINTS = 120, BARS = 8;
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes = {}, ...inside) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...inside);
    return made;
  };
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
  const typed = (x, { unit, ladder, times }) => {  // as text for a field, which reads it back as the same number
    const steps = ladder && !times ? ladder.map(([factor, name]) => [factor, ` ${name.slice(0, -unit.length)}`]) : unit ? [] : [[1e12, "T"], [1e9, "B"], [1e6, "M"]];
    const [factor, name] = steps.find(([step]) => step && Math.abs(x) >= step) ?? [1, ""];
    const text = String(Number((x / factor).toPrecision(7)));
    return `${Math.abs(x) < 1e6 && !name ? text.replace(/^\d{5,}$/, (all) => Number(all).toLocaleString("en")) : text}${name.trimEnd()}`;
  };

  const awake = (figure, formula, known, key) => {
    const { inputs, menus, results, parameters } = known;
    const every = [...inputs, ...menus.flatMap((menu) => menu.columns)], named = new Map(every.map((it) => [it.name, it]));
    const given = new Map(), rows = menus.map(() => 0);  // the values: a number for each parameter, and each menu's row, -1 for custom values
    const reset = () => {
      for (const it of inputs) given.set(it.name, it.value);
      menus.forEach((menu, index) => choose(index, 0));
    };
    const choose = (index, row) => {
      rows[index] = row;
      if (row >= 0) menus[index].columns.forEach((it, n) => given.set(it.name, menus[index].rows[row][1][n]));
    };
    const answer = (changed = {}) => {  // for the values with some changes; null without a result
      try {
        const found = formula(...parameters.map((name) => changed[name] ?? given.get(name)));
        if (found.some((it) => typeof it !== "boolean" && !Number.isFinite(it))) return null;
        return new Map(results.map((it, n) => [it.name, found[n]]));
      } catch { return null; }
    };
    const allows = (it, x) => x >= it.low && x <= it.high && (!it.whole || Number.isInteger(x));
    const across = menus.findIndex((menu) => menu.label === known.across);
    const others = () => (across < 0 ? [] : menus[across].rows.map(([name, numbers], row) => [name, Object.fromEntries(menus[across].columns.map((it, n) => [it.name, numbers[n]])), row]));

    // --- controls ---

    const id = (name) => `${figure.id}-${name}`;
    const set = (it, x) => {
      const within = Math.min(it.high, Math.max(it.low, x));
      given.set(it.name, it.whole ? Math.round(within) : within);
      update(it);
    };
    const scale = (it) => axis(it.low, it.high, it.log);
    const near = (it, place) => Number(scale(it).value(place).toPrecision(3));
    const nudge = (it, event) => {  // arrow keys: a hundredth of the range, at least 1 for whole numbers
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
      if (by === undefined && event.key !== "Home" && event.key !== "End") return;
      event.preventDefault();
      event.stopPropagation();  // the page also uses these keys
      const now = given.get(it.name), next = by === undefined ? (event.key === "Home" ? it.low : it.high) : near(it, scale(it).place(now) + by / 100);
      set(it, by && (it.whole ? Math.round(next) === now : next === now) ? now + Math.sign(by) * (it.whole ? 1 : (it.high - it.low) / STEPS) : next);
    };
    const fields = new Map();  // parameter → its field and slider
    const control = (it) => {
      const field = make("input", { type: "text", id: id(it.name), autocomplete: "off", spellcheck: false });
      const slider = make("input", { type: "range", min: 0, max: STEPS, step: 1, ariaLabel: it.label });
      const wrong = make("span", { className: "wrong", id: id(`${it.name}-wrong`) });
      field.setAttribute("aria-describedby", wrong.id);
      field.addEventListener("input", () => {
        const x = parsed(field.value, it.unit), fine = allows(it, x);
        field.ariaInvalid = String(!fine);
        wrong.textContent = fine ? "" : it.whole ? `A whole number from ${typed(it.low, it)} to ${typed(it.high, it)}` : `From ${typed(it.low, it)} to ${typed(it.high, it)}`;
        if (fine) { given.set(it.name, x); update(it, field); }
      });
      field.addEventListener("change", () => { if (field.ariaInvalid !== "true") field.value = typed(given.get(it.name), it); });
      slider.addEventListener("input", () => set(it, near(it, slider.value / STEPS)));
      slider.addEventListener("keydown", (event) => nudge(it, event));
      fields.set(it.name, { field, slider, wrong });
      return make("div", { className: "control" }, make("label", { htmlFor: field.id, textContent: it.label }), make("span", {}, field, it.unit ? ` ${it.unit}` : ""), slider, wrong);
    };
    const owns = menus.map((menu) => make("div", { className: "own" }, ...(menu.own ? menu.columns.map(control) : [])));
    const selects = menus.map((menu, index) => {
      const names = menu.rows.map(([name]) => name);
      const select = make("select", { id: id(`menu-${index}`) }, ...[...names, ...(menu.own ? [menu.own] : [])].map((name) => make("option", { textContent: name })));
      select.addEventListener("change", () => { choose(index, select.selectedIndex < names.length ? select.selectedIndex : -1); update(); });
      return select;
    });
    const controls = make("div", { className: "controls" },
      ...menus.flatMap((menu, index) => [make("div", { className: "control" }, make("label", { htmlFor: selects[index].id, textContent: menu.label }), selects[index]), owns[index]]),
      ...inputs.map(control));
    const heard = make("span", { role: "status" });
    const link = make("button", { type: "button", textContent: "Copy a link to these values" });
    const back = make("button", { type: "button", textContent: "Reset to the lecture's values" });
    controls.append(make("p", { className: "buttons" }, link, back, heard));
    link.addEventListener("click", async () => {
      await copied(location.href.replace(/#.*$/, "") + address());
      heard.textContent = "Copied.";
      setTimeout(() => { heard.textContent = ""; }, 2000);
    });
    back.addEventListener("click", () => { reset(); update(); });

    // --- the address: values that differ from the lecture's ---

    const address = () => {
      const changed = new URLSearchParams();
      menus.forEach((menu, index) => {
        if (rows[index] > 0) changed.set(menu.label, menu.rows[rows[index]][0]);
        else if (rows[index] < 0) for (const it of menu.columns) changed.set(it.name, given.get(it.name));
      });
      for (const it of inputs) if (given.get(it.name) !== it.value) changed.set(it.name, given.get(it.name));
      return `#${encodeURIComponent(key)}?${changed}`;
    };
    let waiting = 0;
    const remember = () => {  // replaced, so that Back leaves the page; browsers limit the rate
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        try { history.replaceState(null, "", address()); } catch { /* not allowed on this page */ }
      }, 250);
    };
    const restore = () => {
      const [name, query] = location.hash.slice(1).split("?");
      if (name !== encodeURIComponent(key) || query === undefined) return;
      const changed = new URLSearchParams(query);
      reset();
      menus.forEach((menu, index) => {
        const row = menu.rows.findIndex(([it]) => it === changed.get(menu.label));
        if (row >= 0) choose(index, row);
        else if (menu.own && menu.columns.some((it) => changed.has(it.name))) choose(index, -1);
      });
      for (const it of [...inputs, ...menus.flatMap((menu, index) => (rows[index] < 0 ? menu.columns : []))]) {
        const x = changed.has(it.name) && changed.get(it.name) !== "" ? Number(changed.get(it.name)) : NaN;
        if (allows(it, x)) given.set(it.name, x);
      }
      update(null, null, true);
      reveal(figure);
      figure.scrollIntoView({ block: "start" });
    };

    // --- the sentence, the table, the drawing ---

    const said = figure.querySelector(".answer");
    said.setAttribute("role", "status");
    const listed = [...inputs, ...menus.flatMap((menu) => (menu.own ? menu.columns : []))];
    const cells = [...figure.querySelectorAll("td")];
    const stage = make("div", { className: "stage" });
    const svg = draw("svg", {}), point = make("div", { className: "point", role: "slider", tabIndex: 0 });
    stage.append(svg);
    if (known.curve || known.stack) said.after(stage);
    (stage.isConnected ? stage : said).after(controls);
    figure.classList.add("awake");

    const sentence = (parts, now) => parts.flatMap((part) => {
      if (typeof part === "string") return [part];
      const [name, then, otherwise] = part;
      if (then) return sentence(now.get(name) ? then : otherwise, now);
      const menu = menus.findIndex((it) => it.label === name), result = results.find((it) => it.name === name);
      return [make("b", { textContent: result ? written(now.get(name), result) : menu >= 0 ? row(menu) : written(given.get(name), named.get(name)) })];
    });
    const row = (index) => menus[index].rows[rows[index]]?.[0] ?? menus[index].own;
    const update = (moved = null, typing = null, restoring = false) => {
      const now = answer();
      said.replaceChildren(...(now ? sentence(known.says, now) : ["There is no result for these values."]));
      const texts = [...menus.map((_, index) => row(index)), ...listed.map((it) => written(given.get(it.name), it)), ...results.map((it) => (now ? written(now.get(it.name), it.unit === it.label ? {} : it) : "–"))];
      cells.forEach((cell, n) => { cell.textContent = texts[n]; });
      selects.forEach((select, index) => {
        select.selectedIndex = rows[index] < 0 ? menus[index].rows.length : rows[index];
        owns[index].hidden = rows[index] >= 0;
      });
      for (const [name, { field, slider, wrong }] of fields) {
        const it = named.get(name), x = given.get(name);
        if (field !== typing) { field.value = typed(x, it); field.ariaInvalid = "false"; wrong.textContent = ""; }
        if (it !== moved || Math.abs(slider.value / STEPS - scale(it).place(x)) > 1 / STEPS) slider.value = Math.round(STEPS * scale(it).place(x));
        slider.ariaValueText = written(x, it);
      }
      picture(now);
      if (!restoring && shown) remember();
    };
    let shown = false;

    const picture = (now) => {
      const width = stage.clientWidth, em = parseFloat(getComputedStyle(stage).fontSize);
      if (!width || !(known.curve || known.stack)) return;
      svg.replaceChildren();
      if (now && known.stack) bars(now, width, em);
      if (known.curve) curve(now, width, em);
    };
    const size = (width, height) => { svg.setAttribute("viewBox", `0 0 ${width} ${height}`); svg.setAttribute("width", width); svg.setAttribute("height", height); };

    const bars = (now, width, em) => {
      const limited = (found, changed) => (known.limit === null ? 0 : found.get(known.limit) ?? changed[known.limit] ?? given.get(known.limit));
      const sum = (found) => known.stack.reduce((total, name) => total + found.get(name), 0);
      const all = others().filter(([, , nth]) => nth < BARS || nth === rows[across]).map(([name, changed, nth]) => [name, answer(changed), nth === rows[across], changed]);
      if (!all.some(([, , here]) => here)) all.unshift([across < 0 ? "" : row(across), now, true, {}]);
      const there = all.filter(([, found]) => found), unit = results.find((it) => it.name === known.stack[0]);
      const most = 1.02 * Math.max(...there.map(([, found, , changed]) => Math.max(sum(found), limited(found, changed)))) || 1;
      let left = 0, line = 0;
      known.stack.forEach((name, n) => {
        const { label } = results.find((it) => it.name === name), wide = (1.1 + 0.56 * label.length) * em;
        if (left && left + wide > width) [left, line] = [0, line + 1.4 * em];
        svg.append(draw("rect", { class: `s${(n % 6) + 1}`, x: left, y: line + 0.2 * em, width: 0.8 * em, height: 0.8 * em }), draw("text", { x: left + 1.1 * em, y: line + 0.95 * em }, label));
        left += wide + 1.5 * em;
      });
      const high = 3.1 * em, top = line + 1.9 * em;
      size(width, top + there.length * high);
      there.forEach(([name, found, here, changed], nth) => {
        const y = top + nth * high, limit = limited(found, changed);
        const over = known.limit !== null && sum(found) > limit;
        svg.append(draw("text", { class: here ? "here" : "", x: 0, y: y + em }, name),
          draw("text", { class: `${here ? "here" : ""}${over ? " over" : ""}`, x: width, y: y + em, "text-anchor": "end" }, `${written(sum(found), unit)}${over ? ", over the limit" : ""}`));
        known.stack.reduce((left, part, n) => {
          const wide = (Math.max(0, found.get(part)) / most) * width;
          svg.append(draw("rect", { class: `s${(n % 6) + 1}${here ? "" : " faint"}`, x: left, y: y + 1.4 * em, width: wide, height: 1.1 * em }));
          return left + wide;
        }, 0);
        if (known.limit !== null) {
          const x = (limit / most) * width;
          svg.append(draw("path", { class: "limit", d: `M${x} ${y + 1.15 * em}v${1.6 * em}` }));
        }
      });
      svg.setAttribute("role", "img");
      const told = there.map(([name, found]) => `${name ? `${name}: ` : ""}${written(sum(found), unit)}`).join("; ");
      svg.setAttribute("aria-label", `${told}${known.limit === null ? "" : `. The limit is ${written(limited(now, {}), unit)}`}`);
    };

    let grip = null;  // the dragged input, and a pixel's position on its axis
    const curve = (now, width, em) => {
      const [of, to] = known.curve.map((name, n) => (n ? results.find((it) => it.name === name) : named.get(name)));
      const x = scale(of), high = 19 * em, bottom = high - 3.4 * em, top = 1.6 * em;
      const spots = Array.from({ length: POINTS + 1 }, (_, n) => x.value(n / POINTS)).map((at) => (of.whole ? Math.round(at) : at));
      if (now) spots.push(given.get(of.name));
      spots.sort((a, b) => a - b);
      const line = (changed) => spots.map((at) => [at, answer({ ...changed, [of.name]: at })?.get(to.name)]).filter(([, y]) => y !== undefined);
      const here = across < 0 ? "" : row(across), lines = [...others().filter(([, , nth]) => nth !== rows[across]).map(([name, changed]) => [name, line(changed)]), [here, line({})]];
      const heights = lines.flatMap(([, found]) => found.map(([, y]) => y));
      const [low, most] = heights.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
      if (!(most >= low)) return;
      const log = low > 0 && most / low >= 20, y = log ? axis(low / 1.3, most * 1.3, true) : axis(Math.min(0, low), most + (most === low ? 1 : 0), false);
      const long = (words) => (0.4 + 0.56 * Math.max(0, ...words.map((word) => word.length))) * em;  // about as wide
      const levels = ticks(y, 6).map((at) => [at, to.ladder && !(to.times && at >= 1) ? written(at, to) : typed(at, to)]);
      const names = lines.length > 1 ? lines.map(([name]) => name) : [], beside = width > 38 * em ? long(names) : 0;  // else the names are inside
      const left = long(levels.map(([, word]) => word)) + 0.4 * em, right = width - (beside || 0.8 * em);
      const px = (at) => left + x.place(at) * (right - left), py = (at) => bottom - y.place(at) * (bottom - top);
      grip = { place: (pixel) => (pixel - left) / (right - left), width, of };
      size(width, high);
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
      // The names of the curves at their ends: this one's, the highest and the lowest, and others where there is room.
      const ends = lines.filter(([name, found]) => name && names.length && found.length).map(([name, found], nth) => [name, py(found.at(-1)[1]), nth === lines.length - 1]);
      ends.sort(([, a], [, b]) => a - b);
      const rank = ([, , own], nth) => (own ? 0 : nth === 0 || nth === ends.length - 1 ? 1 : 2), taken = [];
      for (const [name, at, own] of ends.map((end, nth) => [rank(end, nth), end]).filter(([order]) => beside || order < 2).sort(([a], [b]) => a - b).map(([, end]) => end)) {
        if (taken.some((other) => Math.abs(other - at) < 1.2 * em)) continue;
        taken.push(at);
        words.push(draw("text", { class: own ? "here" : "soft", x: beside ? right + 0.4 * em : right, y: at + (beside ? 0.35 : -0.4) * em, "text-anchor": beside ? "start" : "end" }, name));
      }
      svg.append(...words);
      svg.setAttribute("aria-hidden", "true");
      point.hidden = !now;
      if (!now) return;
      const at = given.get(of.name), h = now.get(to.name), x0 = px(at), y0 = py(h);
      svg.append(draw("path", { class: "guide", d: `M${x0} ${bottom}V${y0}` }), draw("text", { class: "here", x: x0 + (x0 > width / 2 ? -em : em), y: Math.max(y0 - 0.8 * em, em), "text-anchor": x0 > width / 2 ? "end" : "start" }, written(h, to)));
      point.style.left = `${(100 * x0) / width}%`;
      point.style.top = `${(100 * y0) / high}%`;
      point.ariaLabel = of.label;
      Object.assign(point, { ariaValueMin: String(of.low), ariaValueMax: String(of.high), ariaValueNow: String(at), ariaValueText: `${written(at, of)}: ${written(h, to)}` });
    };
    if (known.curve) {
      stage.append(point);
      stage.classList.add("dragged");
      point.addEventListener("keydown", (event) => nudge(named.get(known.curve[0]), event));
      const drag = ({ clientX }) => {
        const box = stage.getBoundingClientRect();
        set(grip.of, near(grip.of, Math.min(1, Math.max(0, grip.place(((clientX - box.left) / box.width) * grip.width)))));
      };
      stage.addEventListener("pointerdown", (event) => {
        if (event.button || !grip) return;
        stage.setPointerCapture(event.pointerId);
        event.preventDefault();
        point.focus({ preventScroll: true });
        drag(event);
      });
      stage.addEventListener("pointermove", (event) => { if (stage.hasPointerCapture(event.pointerId)) drag(event); });
      stage.addEventListener("touchstart", (event) => event.stopPropagation(), { passive: true });  // prevents a swipe of the page
    }
    let drawn = stage.clientWidth;
    new ResizeObserver(() => { if (stage.clientWidth !== drawn) { drawn = stage.clientWidth; picture(answer()); } }).observe(stage);
    reset();
    update();
    shown = true;
    restore();
    addEventListener("hashchange", restore);
  };

  const keys = new Set();
  Object.entries(figures).forEach(([id, known], n) => {
    const figure = document.getElementById(id);
    if (!figure) return;
    let key = known.name;
    while (keys.has(key)) key += "-";  // a second figure of the same function
    keys.add(key);
    awake(figure, formulas[n], known, key);
  });
};
if (typeof explored !== "undefined") explore(...explored);
