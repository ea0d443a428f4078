// Slides: a page's own blocks, large, one place at a time, and the presenter's window.
//
// A place is a heading with its first block, a paragraph, a question, a figure or table, or a whole listing; a short paragraph
// is shown with the code or figure it introduces, a long one leaves its last sentence there. Places are in order of execution.
// A listing is shown once, at its first call. `l` and `h` go through every step, line by line, as on the page. Deeper parts are
// left out until they are opened.
const lectureHall = ({ steps, make, stand, stop, say, spoken, later, start, here }) => {
  const $ = (id) => document.getElementById(id);
  const NOTE = "details.note:not(.others)", TITLE = "h1, h2, h3, h4, h5, h6";
  const root = document.documentElement, main = $("text"), title = document.querySelector("main > h1").textContent;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, styled(hallStyle)];
  const button = (word, key, act) => {
    const made = make("button", "", word, make("kbd", "wide", key));
    Object.assign(made, { type: "button", ariaKeyShortcuts: key });
    made.lastChild.ariaHidden = "true";
    made.addEventListener("click", act);
    return made;
  };
  const clock = (seconds) => {
    const s = Math.max(0, Math.floor(seconds)), two = (n) => String(n).padStart(2, "0");
    return `${s < 3600 ? "" : `${Math.floor(s / 3600)}:`}${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  };
  const began = () => {  // kept from section to section, if the window has storage
    const kept = storedForTab("began");
    if (!kept.get()) kept.set(Date.now());
    return Number(kept.get() ?? Date.now());
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
  const SHORT = 240;  // characters of a paragraph that shares the place of what follows it
  const introduction = (block) => {  // the paragraph before a listing or a figure, or the question they answer
    let it = block;
    do {
      const before = it.previousElementSibling;
      it = before?.matches("summary") && it.parentElement.matches(".waits") ? it.parentElement : before;
    } while (it?.matches(".listing, figure, .note, .waits"));
    return it?.matches(".prose") ? it : it?.matches(".ask") ? it.querySelector(".prose") : null;
  };
  const isDefinition = (listing) => Boolean(listing.closest(".called")?.id.startsWith("def-"));
  const stopsOf = (listing) => [...listing.querySelectorAll(":scope > .row")].flatMap((row) => steps.standing.get(row.id) ?? []);
  const plan = () => {
    const found = [], lines = new Set();
    let titles = [];  // without a block so far
    const add = (block, stops = []) => {
      const before = block.matches(".listing, figure") ? introduction(block) : null, last = found.at(-1);
      const first = Math.min(...[...titles, block].map((one) => steps.standing.get(one.id)?.[0] ?? Infinity), ...stops);
      const isJoined = before && last?.spot === before && !titles.length && text(before).length <= SHORT;
      if (isJoined) Object.assign(last, { blocks: [...last.blocks, block], spot: block, first: Math.min(last.first, first) });
      else found.push({ blocks: [...titles, block], spot: block, first, heading: titles.at(-1) ?? block.closest("section, main").querySelector(TITLE), led: isJoined ? null : before });
      titles = [];
    };
    const isNewListing = (box) => {  // whether it has a line that no place has shown
      const called = box.closest(".called"), defined = isDefinition(box);
      let isNew = false;
      for (const part of box.querySelectorAll(":scope > .row")) {
        const [, source, line] = /^(?:call-\d+-|def-.*-(?=L))?(.*L)(\d+)$/.exec(part.id) ?? [], own = [...part.querySelectorAll(".code > code")];
        if (!defined && !steps.standing.has(part.id) && !(called && !part.previousElementSibling)) continue;
        own.forEach((one, nth) => {
          if (lines.size < lines.add(source + (Number(line) + nth)).size && (!defined || one.textContent.trim())) isNew = true;
        });
      }
      return isNew;
    };
    const inListing = (box) => {
      if (isNewListing(box)) {
        add(box, isDefinition(box) ? [] : stopsOf(box));
      }
      for (const call of box.querySelectorAll(":scope > .under > .called")) inside(call);
    };
    const inside = (box) => {
      for (const block of box.children) {
        if (block.matches(".listing")) inListing(block);
        else if (block.matches("section, .called, .waits")) inside(block);
        else if (block.matches(".deeper")) {
          if (!deep && !block.open) continue;
          titles.push(block.querySelector(`summary > :is(${TITLE})`));
          inside(block);
        } else if (block.matches(".reference") && found.length && !titles.length) found.at(-1).blocks.push(block);
        else if (block.matches(TITLE)) titles.push(block);
        else if (block.matches(".prose, figure, .ask, .reference")) add(block);
      }
    };
    inside(main);
    let key = -1, latest = -1;
    for (const place of found) {  // without a step: after all above it or, in a function, after the last place above it
      key = place.key = place.first < Infinity ? place.first : calls(place) > 1 ? key : latest;
      latest = Math.max(latest, key);
    }
    places = found.sort((one, other) => one.key - other.key);
    folds.ariaPressed = String(places.some(({ spot }) => spot.closest("details.deeper")));
    indexOf = new Map(places.flatMap(({ blocks }, index) => blocks.map((block) => [block, index])));
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
  const label = ({ blocks: [begins], spot }) => {
    if (begins.matches(TITLE)) return brief(text(begins), 70);
    const said = spot.matches("figure") ? spot.querySelector("h3, figcaption, .answer, td") : spot.matches(".listing") ? spot.querySelector(".code") : spot;
    return brief(text(said ?? spot) || "Figure", 70);
  };
  const headingOf = ({ heading }) => (heading?.closest("main") ? text(heading) : title);
  const lastSentence = (prose) => {  // a copy, with its links and code
    const last = prose.lastElementChild?.matches("ul, ol") ? prose.lastElementChild.lastElementChild : prose.lastElementChild ?? prose;
    const range = document.createRange(), made = make("p", "led");
    range.selectNodeContents(last);
    const said = range.toString(), from = Intl.Segmenter ? [...new Intl.Segmenter("en", { granularity: "sentence" }).segment(said)].at(-1)?.index ?? 0 : 0;
    const walk = document.createTreeWalker(last, NodeFilter.SHOW_TEXT);
    for (let left = from; walk.nextNode(); left -= walk.currentNode.length) {
      if (left < walk.currentNode.length) { range.setStart(walk.currentNode, Math.max(0, left)); break; }
    }
    made.append(range.cloneContents());
    for (const part of made.querySelectorAll("[id], [tabindex]")) { part.removeAttribute("id"); part.removeAttribute("tabindex"); }
    for (const part of made.querySelectorAll("[role=tooltip]")) part.remove();
    return made;
  };

  // --- showing a slide ---

  const marks = [];  // [element, class]
  let shown = null, spotted = [], led = null;
  const fits = new Map();
  const unmark = () => {
    for (const [element, name] of [...marks.splice(0), ...spotted.splice(0)]) element.classList.remove(name);
    led?.remove();
    shown = led = null;
  };
  const give = (list, element, name) => { element.classList.add(name); list.push([element, name]); };
  const expose = ({ blocks, led: before }, line = null) => {  // a place; with `line`, that line of its listing
    const changed = blocks[0] !== shown;
    if (changed) {
      unmark();
      shown = blocks[0];
      for (const block of blocks) {
        give(marks, block, "now");
        for (let box = block.parentElement; box !== main; box = box.parentElement) {
          give(marks, box, "way");
          if (box.tagName === "DETAILS") box.open = true;
          if (box.matches(".under")) give(marks, box.previousElementSibling, "from");
        }
      }
      if (before) main.prepend(led = lastSentence(before));
    }
    for (const [element, name] of spotted.splice(0)) element.classList.remove(name);
    if (line) {
      const listing = line.closest(".listing");
      give(spotted, listing, "lined");
      give(spotted, line, "spot");
      if (line.matches("code")) give(spotted, line.closest(".row"), "holds");
      for (const row of listing.children) {
        const stops = row.matches(".row") && steps.standing.get(row.id);
        if (stops && stops[0] > here()) give(spotted, row, "ahead");
      }
    }
    if (changed) {
      fit(blocks);
      main.scrollTop = 0;
    }
    line?.scrollIntoView({ block: "center", behavior: "instant" });
  };
  const fit = (blocks) => {  // shrink what is too high, down to three quarters; what is still higher is scrolled
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

  const top = make("p");
  top.id = "hall-top";
  const bar = make("nav"), done = make("i"), where = make("b"), then = make("span", "wide"), time = make("span", "time");
  bar.id = "hall";
  bar.ariaLabel = "Slides";
  const said = make("span", "words", where, " ", then);
  const folds = button("Deeper parts", "d", () => move("deep")), beside = button("Presenter's window", "n", () => openPresenter());
  folds.hidden = !main.querySelector("details.deeper");
  beside.classList.add("wide");
  bar.append(done, button("Back", "←", () => move("back")), button("Next", "→", () => move("on")),
    button("Over calls", "↓", () => move("over")), said, time, folds, beside, button("Close", "Esc", () => leave()));
  let lined = false;  // whether one line of a listing is marked
  const draw = () => {
    const next = places[at + 1], heading = headingOf(places[at]);
    where.textContent = `${at + 1} of ${places.length}`;
    const isTitle = places[at].blocks.includes(places[at].heading);  // it is large, below
    top.replaceChildren(title, ...(heading === title || isTitle ? [] : [make("b", "", heading)]));
    top.hidden = isTitle && heading === title;
    const after = next ? label(next) : turn("next") && text(turn("next")).replace("Next", "");
    then.textContent = more() ? "next: the rest of this block" : after ? `next: ${after}` : "";
    done.style.width = `${100 * (at + 1) / places.length}%`;
    if (!document.activeElement?.checkVisibility() || document.activeElement === document.body) main.focus({ preventScroll: true });
    tell();
    later();
  };
  const arrive = (index, step) => {
    at = index;
    lined = false;
    stand(step);
    expose(places[at]);
    draw();
  };
  const go = (index, way) => {  // to a place; a listing is shown as it is after its last line
    const place = places[index], stops = steps.standing.get(place.spot.id);
    if (place.spot.matches(".listing")) {
      const own = isDefinition(place.spot) ? [] : stopsOf(place.spot);
      const frame = steps.frame[Math.min(...own)];
      return arrive(index, own.length ? Math.max(...own.filter((stop) => steps.frame[stop] === frame)) : place.key);
    }
    if (!stops) return arrive(index, way > 0 ? Math.max(here(), place.key) : place.key);
    arrive(index, way > 0 ? stops.find((stop) => stop > here()) ?? stops[0] : way < 0 ? stops.findLast((stop) => stop < here()) ?? stops[0] : stops[0]);
  };
  const placeOf = (spot) => indexOf.get(spot) ?? indexOf.get(spot?.closest(".listing"));
  const visit = (step) => {  // a step of the run: its line, or the place of its text
    const spot = $(steps.anchor[step]);
    if (!spot) return;
    const index = placeOf(spot), listing = spot.closest(".listing");
    at = Math.max(0, index ?? places.findLastIndex(({ key, first }) => first !== Infinity && key <= step));
    lined = Boolean(listing) && spot.matches(".row");
    stand(step);
    expose(index !== undefined ? places[at] : { blocks: [listing ?? spot] }, lined ? spot : null);
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
    const place = places[at], isWhole = !lined && place.spot.matches(".listing") && !isDefinition(place.spot) && $(steps.anchor[here()])?.matches(".row");
    let step = isWhole ? (way > 0 ? Math.min(...stopsOf(place.spot)) : here()) : here() + way;
    while (step >= 0 && step < steps.number.length && isLeftOut(step)) step += way;
    if (step >= 0 && step < steps.number.length) visit(step);
    else say(step < 0 ? "This is the first step." : "This is the last step.");
  };
  const more = () => !lined && main.scrollTop + main.clientHeight < main.scrollHeight - 8;
  const pageDown = () => { main.scrollBy({ top: 0.8 * main.clientHeight, behavior: "instant" }); draw(); };
  const moves = {
    on: () => (more() ? pageDown() : nearest(1, () => true)),
    back: () => nearest(-1, () => true),
    over: () => (more() ? pageDown() : nearest(1, (depth) => depth <= calls(places[at]))),
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
  hall.address = () => `#hall-${at + 1}${lined ? `-${steps.number[here()]}` : ""}`;
  hall.spoken = () => {
    const before = notice, { blocks } = places[at], line = lined && $(steps.anchor[here()])?.querySelector(".code");
    notice = "";
    return `${before}${`${at + 1} of ${places.length}`}. ${brief(line ? text(line) : blocks.map(text).join(" "), 300)}${line ? ` ${spoken()}` : ""}`;
  };
  hall.enter = (place) => {
    const [, asked, number] = /^#hall(?:-(end|\d+))?(?:-(\d+))?$/.exec(place) ?? [];
    if (place === "#presenter") return present();
    if (hall.on && place === "") return leave();
    if (hall.on && !place.startsWith("#hall")) return follow(decodeURIComponent(place.slice(1)));
    const edge = document.querySelector(".bar").getBoundingClientRect().bottom, stepping = !$("panel").hidden;
    plan();
    const inSight = places.findIndex(({ blocks }) => blocks.some((one) => one.checkVisibility() && one.getBoundingClientRect().bottom > edge));
    stop();
    hall.on = true;
    since ||= began();
    root.classList.add("hall");
    document.querySelector(".wrap").before(top);
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
    const index = placeOf(aim) ?? places.findIndex(({ blocks }) => blocks.some((one) => one.contains(aim) || aim.contains(one)));
    if (index >= 0) go(index, 0);
  };
  const leave = () => {
    if (!hall.on) return;
    const spot = (lined && $(steps.anchor[here()])) || places[at].blocks[0];
    hall.on = false;
    unmark();
    main.removeAttribute("tabindex");
    main.style.removeProperty("--fit");
    root.classList.remove("hall");
    bar.remove();
    top.remove();
    stop();
    spot.scrollIntoView({ block: "center", behavior: "instant" });
    $("hall-open").focus({ preventScroll: true });
    say("Slides closed.");
    try { history.replaceState(null, "", `#${(spot.closest("[id]:not(#text)") ?? spot.querySelector("[id]") ?? main).id}`); } catch { /* too many in a row */ }
    tell();
  };
  addEventListener("resize", () => { if (hall.on && !presenting) { const line = lined && $(steps.anchor[here()]); unmark(); expose(places[at], line); draw(); } });

  // --- the presenter's window ---
  //
  // A second window with this page's address. Two pages of `file://` share no storage and cannot access each other, but they
  // can exchange messages: this window asks its opener once a second for its position, in any section.

  let presenter = null, presenting = false;
  const openPresenter = () => {
    if (presenter && !presenter.closed) return presenter.focus();
    presenter = window.open(`${location.href.replace(/#.*/, "")}#presenter`, "presenter", "popup,width=900,height=760");
    if (presenter) return;
    notice = `${(then.textContent = "The browser blocked the second window. Allow pop-ups for this page.")} `;
    later();
  };
  const minutes = (heading) => Number(heading?.dataset.minutes ?? 0);  // planned: the reading time of what is directly below
  const noteAt = (spot) => {  // the last one above it in its part, else that of the part around it
    for (let box = spot; box !== main; box = box.parentElement) {
      for (let it = box; it; it = it.previousElementSibling) if (it.matches(NOTE)) return it;
    }
    return main.querySelector(NOTE);
  };
  const noteOf = (note) => (note ? [...note.querySelectorAll(".prose > *")].map(text).join("\n\n") : "");
  const outline = () => [...new Set(places.flatMap(({ blocks, heading }) => [...blocks.filter((block) => block.matches(TITLE)), heading]))]
    .filter(Boolean).map((heading) => [text(heading), minutes(heading)]);
  const tell = () => {
    if (!presenter || presenter.closed) return;
    const next = places[at + 1];
    presenter.postMessage({ hall: hall.on ? {
      title, heading: headingOf(places[at]), outline: outline(), at: at + 1, of: places.length, now: label(places[at]), next: next ? label(next) : then.textContent.replace("next: ", ""),
      note: noteOf(noteAt(places[at].spot)), since,
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
    const [head, now, next, note] = ["head", "doing", "next", "note-text"].map(field), body = make("tbody"), since = make("b"), day = make("b");
    const act = (way) => () => window.opener?.postMessage({ presenter: true, way }, "*");
    const column = (name) => Object.assign(make("th", "", name), { scope: "col" });
    const box = make("main", "", make("h1", "hidden", "Presenter"), head, now, next, note,
      make("div", "outline", make("table", "", make("thead", "", make("tr", "", column("heading"), column("planned, min:s"), column("spent, min:s"))), body)),
      make("p", "foot", "since the slides began ", since, " · time of day ", day),
      make("p", "buttons", button("Back", "←", act("back")), button("Next", "→", act("on")), button("Over calls", "↓", act("over"))));
    box.id = "presenter";
    document.body.append(box);
    let heard = 0, begun = 0, told = null, ticked = 0;
    const spent = new Map();  // heading of a section → seconds
    note.textContent = noteOf(main.querySelector(NOTE));  // from this page, until the first message
    head.textContent = title;
    const row = (name, planned, seconds, current) => {
      const made = make("tr", current ? "current" : "", Object.assign(make("th", "", name), { scope: "row" }), make("td", "", planned ? clock(60 * planned) : ""),
        make("td", planned && seconds > 60 * planned ? "late" : "", seconds ? clock(seconds) : ""));
      if (current) made.ariaCurrent = "true";
      return made;
    };
    const key = (heading) => `${told.title}\n${heading}`;
    const tick = () => {
      const passed = ticked ? (Date.now() - ticked) / 1000 : 0;
      ticked = Date.now();
      if (told) {
        spent.set(key(told.heading), (spent.get(key(told.heading)) ?? 0) + passed);
        const all = told.outline.map(([name, planned]) => [name, planned, spent.get(key(name)) ?? 0]);
        body.replaceChildren(...all.map(([name, planned, seconds]) => row(name, planned, seconds, name === told.heading)),
          row("This section", ...[1, 2].map((column) => all.reduce((sum, it) => sum + it[column], 0)), false));
      }
      since.textContent = begun ? clock((Date.now() - begun) / 1000) : "–";
      day.textContent = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
    };
    addEventListener("message", ({ source, data }) => {
      if (source !== window.opener || data?.hall === undefined) return;
      heard = Date.now();
      tick();  // the time until now belongs to the heading until now
      told = data.hall;
      if (!told) { now.textContent = "The slides are closed. Press p in the lecture's window."; next.textContent = ""; return; }
      begun = told.since;
      head.textContent = `${told.title} · ${`${told.at} of ${told.of}`}`;
      now.textContent = `Now: ${told.now}`;
      next.textContent = `Next: ${told.next}`;
      note.textContent = told.note || "No note for this section.";
      tick();
      const row = body.querySelector(".current"), list = body.closest(".outline");
      if (row) list.scrollTop = row.offsetTop - list.clientHeight / 2;
    });
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
  setInterval(() => { if (hall.on && !presenting) time.textContent = clock((Date.now() - since) / 1000); }, 1000);
  return hall;
};
