hallStyle = "@media screen{.hall{--u:min(1vw,1.78vh);overflow:hidden;scroll-behavior:auto}.hall body{height:100dvh;display:grid;grid-template:minmax(0,1fr) auto / minmax(0,1fr);overflow:hidden}.hall :is(.bar,.contents,.panel,.skip,nav.turn,.meta,.notice,.machines,.permalink,.copy,.n){display:none}.hall .wrap{display:block;max-width:none;width:100%;min-height:0;margin:0}.hall main{height:100%;max-width:none;overflow-y:auto;padding:calc(2 * var(--u)) max(4.5 * var(--u),1rem);outline:0;touch-action:pan-y pinch-zoom;display:grid;grid-template-columns:minmax(0,1fr);align-content:safe center;font-size:calc(max(2.1 * var(--u),1.12rem) * var(--fit,1));line-height:1.5}.hall :is(main,main .way) > :not(.way,.now,.from){display:none}.hall main .way > summary{padding-left:0}.hall main :is(.way,.now,.from){margin-block:0;max-width:none}.hall main .way{border-block:0 !important}.hall .called.way > summary{display:list-item;list-style:none;font-size:max(1.05 * var(--u),12px);padding:0.4em 0}.hall .called.way > summary code{font-size:1em}.hall .under.way{padding:0 0 0 1.5em;border-left:2px solid var(--link);margin:0}.hall .listing.way{border:0;background:none}.hall .from > .code{max-height:4.65em;overflow:hidden}.hall .current:not(.row){box-shadow:none}.hall main :is(.prose,.reference,figcaption,.ask){max-width:40em}.hall main :is(h1,h2,h3,h4,h5,h6).now{font-size:1.75em;max-width:24em;line-height:1.2;text-wrap:balance}.hall main h1.now{font-size:2.1em}.hall main .prose{font-size:1em}.hall main .prose > :first-child{margin-top:0}.hall main .prose > :last-child{margin-bottom:0}.hall main .reference{font-size:0.8em;margin:0.35em 0}.hall main .reference .by{font-size:0.8em}.hall main :is(.prose,.scroll) :is(table,pre){font-size:0.78em}.hall main :is(.prose,.scroll) th{font-size:0.86em}.hall main :is(figcaption,.label,.ranges){font-size:0.62em}.hall main figure h3{font-size:0.9em;margin:0 0 0.5em}.hall main figure svg{width:100%;max-width:none;height:auto;max-height:calc(70vh * var(--fit,1))}.hall main figure img{width:100%;max-height:70vh;object-fit:contain;object-position:0 0}.hall main .ask{padding:1em 1.2em}.hall main .ask :is(.answering,fieldset,details){font-size:0.78em}.hall main .ask summary{font-size:0.85em}.hall main .ask input[type=\"radio\"]{width:0.8em;height:0.8em}.hall .varied > [role=\"tooltip\"]{font-size:0.5em}.hall main .listing{font-size:max(1.5 * var(--u),14px);line-height:1.55;margin:0 calc(-1 * var(--u))}.hall main .under .listing{margin:0}.hall main .unran > summary{font-size:0.7em;line-height:2}.hall .row{background:none;box-shadow:none}.hall .row:not(.spot,.holds) .code > code,.hall .row:not(.spot,.holds) .code > code *,.hall .holds .code > code:not(.spot),.hall .holds .code > code:not(.spot) *{color:var(--soft)}.hall .spot{background:var(--mark);box-shadow:inset 0.3em 0 var(--link)}.hall :is(.ahead,.from) > .beside,.hall .ahead + .under{visibility:hidden}.hall .listing.now > .under{padding-block:0 0.3em}.hall .listing.now > .under > .called,.hall .under > .label,.hall .o:is(.call,.time,.uncounted,.count,.runs),.hall .listing.now > .under:not(:has(> :not(.called,.label))){display:none}.hall .under :is(pre,.failure,.caught,.warned){font-size:0.78em}.hall .row::after{display:none}.hall main .beside{border:0}.hall main .beside.tall:not(.whole,.covered){height:auto;max-height:none;overflow:visible}.hall .unfold{display:none}.hall .beside :is(.it,small,.facts,.grid,.storage,.label){font-size:0.85em}.hall button.cover{font-size:max(0.9 * var(--u),12px)}.hall .live > *{margin-right:1.2em;font-size:1em}#hall{position:relative;display:flex;align-items:center;gap:0.8em;padding:0.35em 1em;border-top:1px solid var(--line);background:var(--paper);color:var(--soft);font:max(0.9 * var(--u),13px)/1.4 var(--sans)}#hall i{position:absolute;left:0;top:-2px;height:2px;background:var(--link)}:is(#hall,#presenter) button{font:inherit;min-width:2.6em;min-height:2em;color:inherit;background:none;border:1px solid var(--line);border-radius:6px;cursor:pointer}#hall .words{flex:1;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}#hall b{font-weight:600;color:var(--ink)}#hall [aria-pressed=\"true\"]{background:var(--mark)}#hall .time{font-variant-numeric:tabular-nums}.presenter body > :not(#presenter){display:none}.presenter #presenter{max-width:60rem;margin:0 auto;padding:1.2rem 1.6rem;font:20px/1.45 var(--sans)}#presenter p{margin:0 0 0.8rem}#presenter .head{color:var(--soft);font-size:16px}#presenter .doing{font-size:19px}#presenter .next{font-weight:600}#presenter .note-text{font-size:26px;white-space:pre-line;border-block:1px solid var(--line);padding:0.8rem 0}#presenter .foot{font-size:34px;font-variant-numeric:tabular-nums}#presenter button{margin-right:0.6rem;min-width:4rem;min-height:2.6rem}}@media screen and (min-width:801px){.hall main figure svg{min-width:0}.hall .row{grid-template-columns:minmax(0,1fr) minmax(0,24vw)}.hall main .beside{font-size:max(1.15 * var(--u),12.5px);line-height:max(2.325 * var(--u),21.7px);padding-block:0}.hall .called[id^=\"def-\"] .row{grid-template-columns:minmax(0,1fr)}}@media screen and (max-width:800px){.hall .under.way{padding-left:0.6em}.hall .ahead > .beside{display:none}.hall main > * > .listing,.hall main > .listing{margin:0 -1rem}#hall .wide,#hall .time{display:none}#hall button{min-width:3.2em;min-height:3em}}@media print{#hall,#presenter{display:none}}";
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
const began = () => {
try {
if (!sessionStorage.getItem("hall")) sessionStorage.setItem("hall", Date.now());
return Number(sessionStorage.getItem("hall"));
} catch { return Date.now(); }
};
let since = 0;
let places = [], at = -1, deep = false;
let notice = "";
let indexOf = new Map();
const calls = (place) => {
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
else if (block.matches("section, .called, .next")) inside(block);
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
const isLeftOut = (step) => {
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
const part = () => {
for (let index = at; index >= 0; index--) if (places[index].spot.matches(TITLE)) return text(places[index].spot);
return title;
};
const marks = [];
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
const fit = (blocks) => {
const room = main.clientHeight, key = `${innerWidth} ${room} ${places.findIndex((place) => place.blocks === blocks)}`;
let size = fits.get(key) ?? 1;
main.style.setProperty("--fit", size);
if (fits.has(key)) return;
for (let look = 0; look < 3 && size > 0.75 && main.scrollHeight > room; look++) {
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
const visit = (step) => {
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
const key = (event) => {
const { target } = event, way = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
if (!way || (event.key === " " && target.closest?.("button, summary, a, input"))) return false;
if (way !== "leave" && target.matches?.("input, [tabindex='0']") && (target.matches("input") || target.scrollWidth > target.clientWidth)) return false;
event.preventDefault();
if (presenting) window.opener?.postMessage({ presenter: true, way }, "*"); else move(way);
return true;
};
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
const follow = (id) => {
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
note.textContent = noteOf(main.querySelector(NOTE));
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
