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
