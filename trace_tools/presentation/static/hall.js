// Slides: a page's own blocks, large, one at a time, and the presenter's window.
//
// A slide (`place`) is a block of the page (a title, a paragraph, a figure, a question) or, in a listing, one line. Slides are
// in order of execution. A line is shown once, at its first execution: a helper's second call and a loop's next iteration are
// skipped, and the margins then show the last one. `l` and `h` go through every step, as on the page. Deeper parts are left
// out until they are opened.
const lectureHall = ({ steps, make, stand, stop, say, spoken, later, start, here }) => {
  const $ = (id) => document.getElementById(id);
  const NOTE = "details.note:not(.others)", TITLE = "h1, h2, h3, h4, h5, h6";
  const root = document.documentElement, main = $("text"), title = document.querySelector("main > h1").textContent;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, styled(hallStyle)];
  const button = (label, sign, act) => {
    const made = make("button", "", sign);
    Object.assign(made, { type: "button", ariaLabel: label, title: label });
    made.addEventListener("click", act);
    return made;
  };
  const clock = (since) => {
    const s = Math.max(0, Math.floor((Date.now() - since) / 1000)), two = (n) => String(n).padStart(2, "0");
    return `${s < 3600 ? "" : `${Math.floor(s / 3600)}:`}${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  };
  const began = () => {  // kept from section to section, if the window has storage
    const key = `hall-${document.querySelector(".bar .home").textContent}`;
    try {
      if (!sessionStorage.getItem(key)) sessionStorage.setItem(key, Date.now());
      return Number(sessionStorage.getItem(key));
    } catch { return Date.now(); }
  };
  let since = 0;

  // --- the slides ---

  let places = [], at = -1, deep = false;
  let notice = "";  // read aloud before the slide, once
  let indexOf = new Map();  // element → index of its slide
  const calls = (place) => {  // number of functions around it
    let depth = 0;
    for (let box = place.spot; box; box = box.parentElement.closest(".called")) depth++;
    return depth;
  };
  const plan = () => {
    const found = [], lines = new Set();
    let note = main.querySelector(NOTE);
    const add = (block, spot = block) => found.push({ blocks: [block], spot, first: steps.standing.get(spot.id)?.[0] ?? -1, note });
    const inListing = (box) => {
      const called = box.closest(".called"), defined = called?.id.startsWith("def-");
      for (const part of box.children) {
        if (part.matches(".under")) for (const call of part.querySelectorAll(":scope > .called")) inside(call);
        if (!part.matches(".row")) continue;
        const [, source, line] = /^(?:call-\d+-|def-.*-(?=L))?(.*L)(\d+)$/.exec(part.id) ?? [], own = [...part.querySelectorAll(".code > code")];
        const isNew = (nth) => lines.size < lines.add(source + (Number(line) + nth)).size;
        if (defined) own.forEach((one, nth) => { if (isNew(nth) && one.textContent.trim()) add(box, one); });
        else if ((steps.standing.has(part.id) || (called && !part.previousElementSibling)) && own.map((_, nth) => isNew(nth)).some(Boolean)) add(box, part);
      }
    };
    const inside = (box) => {
      for (const block of box.children) {
        if (block.matches(".listing")) inListing(block);
        else if (block.matches("section, .called, .waits")) inside(block);
        else if (block.matches(".deeper")) {
          if (!deep && !block.open) continue;
          add(block.querySelector(`summary > :is(${TITLE})`));
          inside(block);
        } else if (block.matches(NOTE)) note = block;
        else if (block.matches(".reference") && found.at(-1)?.blocks.at(-1) === block.previousElementSibling && block.previousElementSibling.matches(".reference")) found.at(-1).blocks.push(block);
        else if (block.matches(`${TITLE}, .prose, figure, .ask, .reference`)) add(block);
      }
    };
    inside(main);
    let key = -1;
    for (const place of found) key = place.key = place.first < 0 ? key : place.first;
    places = found.sort((one, other) => one.key - other.key);
    folds.ariaPressed = String(places.some(({ spot }) => spot.closest("details.deeper")));
    indexOf = new Map(places.map(({ spot }, index) => [spot, index]));
  };
  const isLeftOut = (step) => {  // a note, a folded part, or a line that is not shown and has the anchor of the title above it
    const box = $(steps.anchor[step]);
    const isHidden = box?.matches(TITLE) && steps.standing.get(box.id)[0] !== step;
    return !box || isHidden || box.closest(".note") || (!deep && box.closest(".deeper:not([open])"));
  };
  const text = (element) => {
    const copy = element.cloneNode(true);
    for (const part of copy.querySelectorAll(".permalink, [role=tooltip], .n, .copy")) part.remove();
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const brief = (words, most) => (words.length > most ? `${words.slice(0, most - 1)}…` : words);
  const label = ({ spot }) => {
    const said = spot.matches("figure") ? spot.querySelector("h3, figcaption, .answer, td") : spot.matches(".row") ? spot.querySelector(".code") : spot;
    return brief(text(said ?? spot) || "Figure", 70);
  };
  const part = () => {  // the heading above
    for (let index = at; index >= 0; index--) if (places[index].spot.matches(TITLE)) return text(places[index].spot);
    return title;
  };

  // --- showing a slide ---

  const marks = [];  // [element, class]
  let shown = null, spotted = [];
  const fits = new Map();
  const unmark = () => {
    for (const [element, name] of [...marks.splice(0), ...spotted.splice(0)]) element.classList.remove(name);
    shown = null;
  };
  const give = (list, element, name) => { element.classList.add(name); list.push([element, name]); };
  const expose = (spot, blocks) => {
    const changed = blocks[0] !== shown;
    if (changed) {
      unmark();
      shown = blocks[0];
      for (const block of blocks) give(marks, block, "now");
      for (let box = shown.parentElement; box !== main; box = box.parentElement) {
        give(marks, box, "way");
        if (box.tagName === "DETAILS") box.open = true;
        if (box.matches(".under")) give(marks, box.previousElementSibling, "from");
      }
    }
    for (const [element, name] of spotted.splice(0)) element.classList.remove(name);
    const listing = spot.matches(".row, .code > code");
    if (listing) {
      give(spotted, spot, "spot");
      if (spot.matches("code")) give(spotted, spot.closest(".row"), "holds");
      for (const row of shown.children) {
        const stops = row.matches(".row") && steps.standing.get(row.id);
        if (stops && stops[0] > here()) give(spotted, row, "ahead");
      }
      spot.scrollIntoView({ block: "center", behavior: "instant" });
    } else if (changed) {
      fit(blocks);
      main.scrollTop = 0;
    }
  };
  const fit = (blocks) => {  // shrink a slide that is too high, down to three quarters; a higher one is paged
    const room = main.clientHeight, key = `${innerWidth} ${room} ${places.findIndex((place) => place.blocks === blocks)}`;
    let size = fits.get(key) ?? 1;
    main.style.setProperty("--fit", size);
    if (fits.has(key)) return;
    for (let look = 0; look < 3 && size > 0.75 && main.scrollHeight > room; look++) {  // smaller type changes the line breaks
      size = Math.max(0.75, size * (look ? room / main.scrollHeight : Math.sqrt(room / main.scrollHeight)));
      main.style.setProperty("--fit", size);
    }
    fits.set(key, size);
  };

  const bar = make("nav"), done = make("i"), where = make("b"), then = make("span", "wide"), time = make("span", "time");
  bar.id = "hall";
  bar.ariaLabel = "Slides";
  const said = make("span", "words", where, " ", then);
  const folds = button("Deeper parts (d)", "+", () => move("deep")), beside = button("Presenter's window (n)", "▤", () => openPresenter());
  folds.hidden = !main.querySelector("details.deeper");
  beside.className = "wide";
  bar.append(done, button("Previous (←)", "←", () => move("back")), button("Next (→)", "→", () => move("on")),
    button("Over functions (↓)", "↷", () => move("over")), said, time,
    folds, beside, button("Close the slides (Esc)", "×", () => leave()));
  const draw = () => {
    const next = places[at + 1];
    where.replaceChildren(make("span", "wide", `${part()} · `), `${at + 1} of ${places.length}`);
    then.textContent = next ? `next: ${label(next)}` : turn("next") ? `next: ${text(turn("next")).replace(/^Next/, "")}` : "";
    done.style.width = `${100 * (at + 1) / places.length}%`;
    if (!document.activeElement?.checkVisibility() || document.activeElement === document.body) main.focus({ preventScroll: true });
    tell();
    later();
  };
  const arrive = (index, step) => {
    at = index;
    stand(step);
    expose(places[at].spot, places[at].blocks);
    draw();
  };
  const isOwn = () => steps.anchor[here()] === places[at].spot.id;
  const go = (index, way) => {
    const place = places[index], stops = steps.standing.get(place.spot.id);
    if (!stops) return arrive(index, way > 0 ? Math.max(here(), place.key) : place.key);
    const strictly = way < 0 && at >= 0 && isOwn() ? 1 : 0;
    const step = way > 0 ? stops.find((stop) => stop > here()) ?? stops.at(-1)
      : way < 0 ? stops.findLast((stop) => stop <= here() - strictly) ?? stops[0] : stops[0];
    arrive(index, step);
  };
  const visit = (step) => {  // a step of the run, on any slide
    const spot = $(steps.anchor[step]);
    if (!spot) return;
    const index = indexOf.get(spot) ?? places.findLastIndex(({ key, first }) => first >= 0 && key <= step);
    at = Math.max(0, index);
    stand(step);
    expose(spot, indexOf.has(spot) ? places[at].blocks : [spot.closest(".listing") ?? spot]);
    draw();
  };
  const turn = (rel) => document.querySelector(`nav.turn [rel=${rel}]`);
  const leaf = (rel) => {
    const link = turn(rel);
    if (link) location.href = `${link.href}#hall${rel === "prev" ? "-end" : ""}`;
    else say(rel === "next" ? "This is the end of the last section." : "This is the beginning of the first section.");
  };
  const nearest = (way, fits) => {
    let index = at + way;
    while (places[index] && !fits(calls(places[index]))) index += way;
    return places[index] ? go(index, way) : leaf(way > 0 ? "next" : "prev");
  };
  const byStep = (way) => {
    let step = way < 0 && !isOwn() ? here() : here() + way;
    while (step >= 0 && step < steps.number.length && isLeftOut(step)) step += way;
    if (step >= 0 && step < steps.number.length) visit(step);
    else say(step < 0 ? "This is the first step." : "This is the last step.");
  };
  const more = () => !shown.matches(".listing") && main.scrollTop + main.clientHeight < main.scrollHeight - 8;
  const moves = {
    on: () => (more() ? main.scrollBy({ top: 0.8 * main.clientHeight, behavior: "instant" }) : nearest(1, () => true)),
    back: () => nearest(-1, () => true),
    over: () => nearest(1, (depth) => depth <= calls(places[at])),
    under: () => nearest(-1, (depth) => depth <= calls(places[at])),
    out: () => nearest(1, (depth) => depth < calls(places[at]) || calls(places[at]) === 1),
    step: () => byStep(1),
    unstep: () => byStep(-1),
    first: () => go(0, 0),
    last: () => go(places.length - 1, 0),
    leave: () => leave(),
    notes: () => openPresenter(),
    deep: () => {
      const { spot } = places[at], before = places.length;
      deep = folds.ariaPressed === "false";
      if (!deep) for (const box of main.querySelectorAll("details.deeper")) box.open = false;
      plan();
      notice = !deep ? "Deeper parts are hidden. " : places.length === before ? "This page has no deeper parts. " : "Deeper parts are shown. ";
      go(indexOf.get(spot) ?? Math.max(0, places.findLastIndex(({ key }) => key <= here())), 0);
    },
  };
  const KEYS = { ArrowRight: "on", PageDown: "on", " ": "on", ArrowLeft: "back", PageUp: "back", ArrowDown: "over", j: "over",
    ArrowUp: "under", k: "under", u: "out", l: "step", h: "unstep", Home: "first", End: "last", Escape: "leave", p: "leave",
    n: "notes", d: "deep" };
  const move = (way) => moves[way]();
  const key = (event) => {  // whether the slides use this key
    const { target } = event, way = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
    if (!way || (event.key === " " && target.closest?.("button, summary, a, input"))) return false;
    if (way !== "leave" && target.matches?.("input, [tabindex='0']") && (target.matches("input") || target.scrollWidth > target.clientWidth)) return false;
    event.preventDefault();
    if (presenting) window.opener?.postMessage({ presenter: true, way }, "*"); else move(way);
    return true;
  };

  // --- opening and closing ---

  const hall = { on: false, key, move: (way) => moves[way]?.(), visit };
  hall.address = () => `#hall-${at + 1}${isOwn() ? `-${steps.number[here()]}` : ""}`;
  hall.spoken = () => {
    const { spot } = places[at], code = spot.matches(".row, .code > code");
    const before = notice;
    notice = "";
    return `${before}${at + 1} of ${places.length}. ${brief(text(spot.querySelector?.(".code") ?? spot), 300)}${code && isOwn() ? ` ${spoken()}` : ""}`;
  };
  hall.enter = (place) => {
    const [, asked, number] = /^#hall(?:-(end|\d+))?(?:-(\d+))?$/.exec(place) ?? [];
    if (place === "#presenter") return present();
    if (hall.on && place === "") return leave();
    if (hall.on && !place.startsWith("#hall")) return follow(decodeURIComponent(place.slice(1)));
    const top = document.querySelector(".bar").getBoundingClientRect().bottom, stepping = !$("panel").hidden;
    plan();
    const inSight = places.findIndex(({ spot }) => spot.checkVisibility() && spot.getBoundingClientRect().bottom > top);
    stop();
    hall.on = true;
    since ||= began();
    root.classList.add("hall");
    document.body.append(bar);
    main.tabIndex = -1;
    main.focus({ preventScroll: true });
    const step = number && steps.number.findLastIndex((own) => own <= number);
    if (place === "" && stepping && here() >= 0) visit(here());
    else if (place === "") go(Math.max(0, inSight), 0);
    else if (step >= 0 && !isLeftOut(step)) visit(step);
    else go(asked === "end" ? places.length - 1 : Math.min(places.length, asked || 1) - 1, 0);
  };
  const follow = (id) => {  // go to the slide of an address on this page
    const aim = $(id);
    if (!aim) return;
    for (let box = aim.closest(".deeper"); box; box = box.parentElement.closest(".deeper")) box.open = true;
    plan();
    const index = places.findIndex(({ spot }) => spot === aim || spot.contains(aim) || aim.contains(spot));
    if (index >= 0) go(index, 0);
  };
  const leave = () => {
    if (!hall.on) return;
    const { spot } = places[at];
    hall.on = false;
    unmark();
    main.removeAttribute("tabindex");
    main.style.removeProperty("--fit");
    root.classList.remove("hall");
    bar.remove();
    stop();
    spot.scrollIntoView({ block: "center", behavior: "instant" });
    $("hall-open").focus({ preventScroll: true });
    say("Slides closed.");
    try { history.replaceState(null, "", `#${spot.closest("[id]").id}`); } catch { /* too many in a row */ }
    tell();
  };
  addEventListener("resize", () => { if (hall.on) { shown = null; expose(places[at].spot, places[at].blocks); } });

  // --- the presenter's window ---
  //
  // A second window with this page's address. Two pages of `file://` share no storage and cannot access each other, but they
  // can exchange messages: this window asks its opener once a second for its position, in any section.

  let presenter = null, presenting = false;
  const openPresenter = () => {
    if (presenter && !presenter.closed) return presenter.focus();
    presenter = window.open(`${location.href.replace(/#.*/, "")}#presenter`, "presenter", "popup,width=820,height=620");
    if (presenter) return;
    notice = `${(then.textContent = "The browser blocked the second window. Allow pop-ups for this page.")} `;
    later();
  };
  const noteOf = (note) => (note ? [...note.querySelectorAll(".prose > *")].map(text).join("\n\n") : "");
  const tell = () => {
    if (!presenter || presenter.closed) return;
    const next = places[at + 1];
    presenter.postMessage({ hall: hall.on ? {
      title, part: part(), at: at + 1, of: places.length, now: label(places[at]), next: next ? label(next) : then.textContent.replace("next: ", ""),
      step: steps.number[here()] ?? 0, steps: steps.total, note: noteOf(places[at].note), since,
    } : null }, "*");
  };
  addEventListener("message", ({ source, data }) => {
    if (presenting || !data?.presenter || source?.opener !== window) return;
    presenter = source;
    if (data.since) since = Math.min(since || data.since, data.since);
    if (hall.on && data.way in moves && data.way !== "notes") move(data.way); else tell();
  });
  const present = () => {
    if (presenting) return;
    presenting = hall.on = true;
    stop();
    document.title = `Presenter · ${document.title}`;
    root.classList.add("presenter");
    const field = (name) => make("p", name);
    const [head, now, next, note, foot] = ["head", "doing", "next", "note-text", "foot"].map(field);
    const act = (way) => () => window.opener?.postMessage({ presenter: true, way }, "*");
    const box = make("main", "", make("h1", "hidden", "Presenter"), head, now, next, note, foot,
      make("p", "buttons", button("Previous", "←", act("back")), button("Next", "→", act("on")), button("Over functions", "↷", act("over"))));
    box.id = "presenter";
    document.body.append(box);
    let heard = 0, begun = 0;
    note.textContent = noteOf(main.querySelector(NOTE));  // from this page, until the first message
    head.textContent = title;
    addEventListener("message", ({ source, data }) => {
      if (source !== window.opener || data?.hall === undefined) return;
      heard = Date.now();
      if (!data.hall) { now.textContent = "The slides are closed. Press p in the lecture's window."; next.textContent = ""; return; }
      const { title, part, at, of, step, steps, since } = data.hall;
      begun = since;
      head.textContent = `${title} · ${part === title ? "" : `${part} · `}${at} of ${of} · step ${step} of ${steps}`;
      now.textContent = data.hall.now;
      next.textContent = `Next: ${data.hall.next}`;
      note.textContent = data.hall.note || "No note for this section.";
      tick();
    });
    const tick = () => {
      const at = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
      foot.textContent = begun ? `${clock(begun)} · ${at}` : at;
    };
    const ask = () => {
      const gone = !window.opener || window.opener.closed;
      if (!gone) window.opener.postMessage({ presenter: true, since: begun }, "*");
      if (gone) now.textContent = "This window is not connected to any slides. Press n on the slides.";
      else if (Date.now() - heard > 4000 && heard) now.textContent = "The slides do not respond.";
      tick();
    };
    ask();
    setInterval(ask, 1000);
  };
  setInterval(() => { if (hall.on && !presenting) time.textContent = clock(since); }, 1000);
  return hall;
};
