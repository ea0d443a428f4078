// Search: what the lecture says, its code, claims and names, on all pages of one machine.
//
// `search.py` packed the places that can be found into columns, a file that is read when the reader first asks. The best come
// first: titles, then the lines where a name gets its value, then claims and text, then other code.
(() => {
  const WEIGHTS = { section: 44, heading: 34, name: 30, failed: 14, text: 12, claim: 9, table: 8, figure: 8, exercise: 8, link: 8, code: 7, note: 5 };
  const SAID = { section: "section", heading: "heading", name: "name", text: "text", claim: "claim ✓", failed: "claim ✗",
    table: "table", figure: "figure", exercise: "exercise", link: "reference", note: "note",
    code: "code" };
  const SHOWN = 60, BEFORE = 50, AROUND = 170;
  const CODE = ["code", "claim", "failed"];
  // A line that gives names a value: an assignment, a loop, a function or class, an import.
  const BINDS = /^(?:async )?(?:def|class) (\w+)|^((?:[\w.]+, )*[\w.]+)(?:: [^=]+)? [-+*/@%&|^]?=(?!=)|^(?:async )?for ([\w, ]+) in |^(?:from .+ )?import ([\w., ]+)/;
  const $ = (id) => document.getElementById(id);
  const dialog = $("search"), field = $("search-for"), list = $("search-found"), said = $("search-said"), opener = $("search-open");
  const folder = dialog.dataset.folder;  // of the pages that are searched
  const here = location.pathname.split("/").at(-1).replace(/\.html$/, "") || "index";

  // --- the index ---

  const read = (packed) => {
    const places = sums(packed.page), kinds = table(packed.kind), anchors = table(packed.anchor);
    const first = sums(packed.first), last = sums(packed.last), also = table(packed.also), bound = new Set();
    const entries = packed.text.map((text, at) => {
      let nth = 0;
      const anchor = anchors[at].includes("#") ? anchors[at].replace(/#/g, () => (nth++ ? last[at] : first[at])) : anchors[at];
      const names = CODE.includes(kinds[at]) ? namesIn(text, also[at]) : [];
      const fresh = names.filter((name) => !bound.has(`${places[at]} ${name}`));
      for (const name of fresh) bound.add(`${places[at]} ${name}`);
      const [page, title] = packed.pages[places[at]], address = folder + page;
      return { kind: kinds[at], address, title, anchor, text, also: also[at], fresh };
    });
    return { entries, reach: packed.reach };
  };
  const namesIn = (text, also) => {
    const found = BINDS.exec(text);
    const names = found ? (found[1] ?? found[2] ?? found[3] ?? found[4]).split(/[, ]+/) : [];
    return [...names, ...(also ? also.split(", ") : [])];
  };
  let known = null;
  const load = () => new Promise((done, fail) => {
    const script = Object.assign(document.createElement("script"), { src: `${folder}search-index.js`, onload: done, onerror: fail });
    document.head.append(script);
  });
  const index = () => (known ??= load().then(() => unpack(searchIndex)).then(read));

  // --- finding ---

  const SMALL = /^(?:an?|and|are|at|can|do|does|for|how|in|is|it|many|much|of|on|the|to|what|when|which|why|with)$/i;
  const stem = (word) => (/^[a-z]{5,}$/i.test(word) ? word.replace(/(?:izers?|ations?|ions?|ings?|ers?|ies|ed|es|s|e|y)$/i, "") : word);
  const terms = (query) => {
    const words = query.match(/"[^"]+"|\S+/gu) ?? [], large = words.filter((word) => !SMALL.test(word));
    return (large.length ? large : words).map((term) => {
      const plain = term.replaceAll('"', ""), whole = plain !== term || stem(plain).length < 3 ? plain : stem(plain);
      const escaped = whole.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ +/g, "\\s+");
      return plain && { plain, pattern: new RegExp(whole === plain ? escaped : `${escaped}\\p{L}{0,5}`, "giu") };
    }).filter(Boolean);
  };

  const LETTER = /[\p{L}\p{N}]/u, WORD = /[\p{L}\p{N}_]/u;
  const quality = (text, { plain, pattern }) => {  // 4 a word, 3 part of a name, 2 how a word begins, 1 inside one
    let best = 0;
    for (const found of text.matchAll(pattern)) {
      const before = text[found.index - 1] ?? "", after = text[found.index + found[0].length] ?? "";
      const begins = !LETTER.test(before) || !LETTER.test(plain[0]), ends = !LETTER.test(after) || !LETTER.test(plain.at(-1));
      best = Math.max(best, !begins ? 1 : !ends ? 2 : WORD.test(before) || WORD.test(after) ? 3 : 4);
      if (best === 4) break;
    }
    return plain.length === 1 && best < 3 && LETTER.test(plain) ? 0 : best;  // a letter inside a word is no find
  };
  const rate = (entry, wanted) => {
    let sum = 0, met = 0;
    for (const term of wanted) {
      const best = Math.max(quality(entry.text, term), entry.also ? quality(entry.also, term) : 0);
      met += best > 0;
      sum += best || (quality(entry.title, term) && 1);  // the page's title speaks for what stands on it
    }
    if (met < wanted.length / 2 || !met) return 0;
    sum *= (met / wanted.length) ** 2;  // what has all the words comes first
    const names = entry.fresh.length && wanted.length === 1 ? Math.max(...entry.fresh.map((name) => likeness(name, wanted[0].plain))) : 0;
    const weight = Math.max(WEIGHTS[entry.kind], WEIGHTS.name * names);
    return weight * (sum / wanted.length) * (entry.address === here ? 1.05 : 1);
  };
  const likeness = (name, asked) => {  // a name that is what was asked, has it for a part, begins with it, holds it
    const one = name.toLowerCase(), other = asked.toLowerCase();
    return one === other ? 1 : one.split(/[_.]/).includes(other) ? 0.7 : one.startsWith(other) ? 0.6 : one.includes(other) ? 0.4 : 0;
  };
  const find = (entries, wanted) => {
    const found = entries.map((entry, at) => ({ entry, at, score: rate(entry, wanted) })).filter(({ score }) => score > 0);
    return found.sort((a, b) => b.score - a.score || a.at - b.at);
  };

  // --- showing ---

  const make = (tag, name, ...inside) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside);
    return made;
  };
  const marked = (text, wanted) => {  // the text with what was found in <mark>
    const spans = wanted.flatMap(({ pattern }) => [...text.matchAll(pattern)].map((found) => [found.index, found.index + found[0].length]));
    spans.sort(([a], [b]) => a - b);
    const parts = [];
    let at = 0;
    for (const [from, to] of spans) {
      if (from < at) continue;
      parts.push(text.slice(at, from), make("mark", "", text.slice(from, to)));
      at = to;
    }
    return [...parts, text.slice(at)];
  };
  const around = (entry, wanted) => {  // the line of code, or the words around the first find
    const at = Math.max(0, Math.min(...wanted.map(({ pattern }) => (entry.text.search(pattern) + 1 || Infinity) - 1), Infinity));
    if (CODE.includes(entry.kind)) {
      const from = Number.isFinite(at) ? entry.text.lastIndexOf("\n", at) + 1 : 0;
      return entry.text.slice(from).split("\n", 1)[0].trim();
    }
    const from = !Number.isFinite(at) || at <= BEFORE || entry.text.length <= AROUND ? 0 : entry.text.indexOf(" ", at - BEFORE) + 1;
    const end = entry.text.length <= from + AROUND ? entry.text.length : entry.text.lastIndexOf(" ", from + AROUND);
    return (from ? "… " : "") + entry.text.slice(from, end) + (end < entry.text.length ? " …" : "");
  };
  const option = ({ entry }, wanted, place) => {
    const code = CODE.includes(entry.kind), line = code ? /L(\d+)$/.exec(entry.anchor) : null;
    const kind = entry.kind === "code" && entry.fresh.some((name) => likeness(name, wanted[0].plain)) ? "name" : entry.kind;
    const snippet = make(code ? "code" : "span", "snippet", ...marked(around(entry, wanted), wanted));
    const where = make("span", "where", make("span", "kind", SAID[kind]), ` ${entry.title}${line ? `, line ${line[1]}` : ""}`);
    const link = make("a", "", snippet, where);
    if (entry.also && !wanted.every((term) => quality(entry.text, term))) where.append(", with ", make("code", "", ...marked(entry.also, wanted)));
    link.role = "option";
    link.id = `search-${place}`;
    link.tabIndex = -1;
    link.ariaSelected = "false";
    link.href = (entry.address === here ? "" : `${entry.address}.html`) + (entry.anchor ? `#${entry.anchor}` : entry.address === here ? "#text" : "");
    return link;
  };

  let active = -1, turn = 0;
  const activate = (place) => {
    const options = list.children;
    if (options[active]) options[active].ariaSelected = "false";
    active = options.length ? (place + options.length) % options.length : -1;
    if (active < 0) return field.removeAttribute("aria-activedescendant");
    options[active].ariaSelected = "true";
    field.setAttribute("aria-activedescendant", options[active].id);
    options[active].scrollIntoView({ block: "nearest", behavior: "instant" });
  };
  const show = async () => {
    const wanted = terms(field.value), mine = ++turn;
    let told = "";
    try {
      const { entries, reach } = await index();
      if (mine !== turn) return;  // an older question
      const found = wanted.length ? find(entries, wanted) : [];
      list.replaceChildren(...found.slice(0, SHOWN).map((one, place) => option(one, wanted, place)));
      told = !wanted.length ? "" : found.length > SHOWN ? `${found.length.toLocaleString("en")} places, the best ${SHOWN} of them here.`
        : found.length ? `${found.length} ${found.length === 1 ? "place" : "places"}.` : "Nothing found.";
      told = [told, reach].filter(Boolean).join(" ");
    } catch {
      told = "The index of the search, search-index.js, can't be read.";
      known = null;
    }
    said.textContent = told;
    field.ariaExpanded = String(list.children.length > 0);
    list.hidden = !list.children.length;
    activate(0);
  };

  // --- events ---

  const open = () => {
    if (document.querySelector("dialog[open]")) return;
    dialog.showModal();
    field.select();
    show();
  };
  const follow = (link) => {  // on this page, the address may be the one it has already
    dialog.close();
    const target = link.hash && link.pathname === location.pathname && $(decodeURIComponent(link.hash.slice(1)));
    if (target) setTimeout(() => arrive(target));
  };
  const arrive = (target) => {
    reveal(target);
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
    target.scrollIntoView({ block: target.offsetHeight > innerHeight / 2 ? "start" : "center", behavior: "instant" });
  };
  field.addEventListener("input", show);
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) activate(Math.abs(step) > 1 ? Math.max(0, Math.min(list.children.length - 1, active + step)) : active + step);
    else if (event.key === "Enter" && active >= 0) list.children[active].click();
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) follow(link);
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // the ground around it
  opener.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("textarea, select, input:not([type=range], [type=checkbox])")) return;
    event.preventDefault();
    open();
  });
  opener.hidden = typeof DecompressionStream === "undefined";
})();
