// What the server adds to a page: it tells what is being done and what is wrong, and loads the page again, at the
// same place, when it has become another one.
(() => {
  "use strict";
  const box = document.getElementById("live");
  const digest = document.querySelector('meta[name="live-page"]')?.content;
  const KEPT = "live-place";
  const PIECES = "main .row, main .prose > *, main h1, main h2, main h3, main .meta, main .notice";

  // --- the place: the first pieces in sight, by their text, for lines move when others are written above them ---

  const key = (piece) => piece.textContent.trim().slice(0, 200);
  const remember = () => {
    const seen = new Map(), pieces = [];
    for (const piece of document.querySelectorAll(PIECES)) {
      const nth = (seen.get(key(piece)) ?? -1) + 1, { top, bottom } = piece.getBoundingClientRect();
      seen.set(key(piece), nth);
      if (bottom > 60 && top < innerHeight && key(piece)) pieces.push([key(piece), nth, top]);
    }
    const open = [...document.querySelectorAll("main details")].map((one) => one.open);
    const place = { page: location.pathname, hash: location.hash, y: scrollY, pieces: pieces.slice(0, 20), open };
    try { sessionStorage.setItem(KEPT, JSON.stringify(place)); } catch { /* no storage: the page begins at its top */ }
  };
  const recall = () => {
    try {
      const place = JSON.parse(sessionStorage.getItem(KEPT));
      sessionStorage.removeItem(KEPT);
      return place?.page === location.pathname && place.hash === location.hash ? place : null;
    } catch { return null; }
  };
  const goBack = ({ y, pieces, open }) => {
    const details = document.querySelectorAll("main details");
    if (details.length === open.length) details.forEach((one, place) => { one.open = open[place]; });
    const groups = new Map();
    for (const piece of document.querySelectorAll(PIECES)) {
      (groups.get(key(piece)) ?? groups.set(key(piece), []).get(key(piece))).push(piece);
    }
    const [text, nth, top] = pieces.find(([text, nth]) => groups.get(text)?.[nth]) ?? [];
    const now = text === undefined ? 0 : groups.get(text)[nth].getBoundingClientRect().top;
    scrollTo({ top: text === undefined ? y : scrollY + now - top, behavior: "instant" });
  };
  const place = recall();
  if (place) {
    history.scrollRestoration = "manual";  // for this load: what the browser restores is a distance from the top
    addEventListener("DOMContentLoaded", () => goBack(place));  // when the page's own scripts have made of it what they do
    if (/^#step-\d+$/.test(location.hash)) {  // the player brings its step into sight once it has read the steps
      const watcher = new MutationObserver(() => {
        if (!document.body.classList.contains("stepping")) return;
        watcher.disconnect();
        goBack(place);
      });
      watcher.observe(document.body, { attributeFilter: ["class"] });
    }
  }

  // --- what the server says ---

  const make = (tag, text, name = "") => {
    const made = document.createElement(tag);
    made.textContent = text;
    made.className = name;
    return made;
  };
  const tell = ({ doing, problems, link }) => {
    const lines = problems.map((problem) => make("p", problem, "wrong"));
    if (link && `/${link}` !== location.pathname) {
      const shown = make("a", "What the lecture did up to that point");
      shown.href = `/${link}`;
      lines.push(shown);
    }
    if (doing) lines.push(make("p", `${doing} …`, "doing"));
    box.replaceChildren(...lines);
    box.classList.toggle("bad", problems.length > 0);
    box.hidden = !lines.length;
  };

  let edition;
  const check = async () => {
    const answer = await fetch(location.pathname, { method: "HEAD", cache: "no-store" });
    if (!answer.ok && answer.status !== 404) return;  // it can't be made: this one stays
    if (answer.headers.get("ETag") === `"${digest}"`) return;
    remember();
    location.reload();
  };
  const listen = () => {
    const source = new EventSource("/-/notices");
    source.addEventListener("message", (event) => {
      const notice = JSON.parse(event.data);
      tell(notice);
      if (notice.edition === edition) return;
      edition = notice.edition;
      check().catch(() => {});
    });
    source.addEventListener("error", () => {
      edition = undefined;  // of another server, it may be, when it answers again
      tell({ problems: [], doing: "The server has ended; waiting for it to restart" });
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 2000);
    });
  };
  listen();
})();
