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
