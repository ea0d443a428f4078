// Search the lecture's text, code, claims and names on all pages of one machine.
//
// `search.py` wrote the entries, in the same file as this code. Results are ranked: titles first, then lines that
// assign a name, then claims and text, then other code.
const lookUp = (() => {
  const WEIGHTS = { section: 44, heading: 34, name: 30, failed: 14, row: 16, text: 12, claim: 9, table: 8, figure: 8, exercise: 8, link: 8, code: 7, note: 5 };
  const SAID = { section: "section", heading: "heading", name: "name", row: "report", text: "text", claim: "claim ✓", failed: "claim ✗",
    table: "table", figure: "figure", exercise: "exercise", link: "reference", note: "note",
    code: "code" };
  const SHOWN = 60, BEFORE = 50, AROUND = 170;
  const ABOVE = 0.9, NEAR = 60;  // weight of a match in the heading above; characters
  const CODE = ["code", "claim", "failed"];
  // A line that binds names: an assignment, a loop, a function or class.
  const BINDS = /^(?:async )?(?:def|class) (\w+)|^((?:[\w.]+, )*[\w.]+)(?:: [^=]+)? [-+*/@%&|^]?=(?!=)|^(?:async )?for ([\w, ]+) in /;
  const $ = (id) => document.getElementById(id);
  const dialog = $("search"), field = $("search-for"), list = $("search-found"), said = $("search-said");
  const folder = dialog.dataset.folder;  // of the searched pages
  const here = location.pathname.split("/").at(-1).replace(/\.html$/, "") || "index";

  // --- the index ---

  const read = (packed) => {
    const bound = new Set();
    const entries = packed.entries.map(([kind, place, anchor, text, also, under]) => {
      const names = CODE.includes(kind) ? namesIn(text, also) : kind === "text" && also ? also.split(", ") : [];
      const of = kind === "text" ? "" : place;  // a term is introduced once in the lecture, a name once on a page
      const fresh = names.filter((name) => !bound.has(`${of} ${name}`));
      for (const name of fresh) bound.add(`${of} ${name}`);
      const [page, title] = packed.pages[place], address = folder + page;
      return { kind, address, title, anchor, text, also, under, fresh };
    });
    return { entries, same: packed.same };
  };
  const namesIn = (text, also) => {
    const found = BINDS.exec(text);
    const names = found ? (found[1] ?? found[2] ?? found[3]).split(/[, ]+/) : [];
    return [...names, ...(also ? also.split(", ") : [])];
  };
  const inReport = () => {  // the headings and rows of this page, if it is a report
    let title = "";
    return [...document.querySelectorAll(`main :is(h2, h3), :is(${dialog.dataset.rows})`)].map((element, nth) => {
      const isHeading = element.matches("h2, h3"), parts = [...element.querySelectorAll(":scope > :is(th, td), .l > code, .obs > *")];
      const text = (parts.length ? parts : [element]).map((part) => part.textContent.replace(/\s+/g, " ").trim()).filter(Boolean).join(" · ");
      const aim = element.id ? element : element.querySelector("[id]") ?? Object.assign(element, { id: `row-${nth}` });
      if (isHeading) title = text;
      return { kind: isHeading ? "heading" : "row", address: here, title, anchor: aim.id, text, also: "", under: "", fresh: [] };
    });
  };
  const index = unpack(searchIndex).then(read).then((found) => {
    if (dialog.dataset.rows) found.entries.push(...inReport());
    return found;
  });

  // --- finding ---

  const BOUND = "[\\p{L}_]";
  const SMALL = /^(?:an?|and|are|as|at|be|by|can|do(?:es)?|for|from|get|go|has|have|how|i|if|in|is|it|its|many|me|much|my|need|not|of|on|or|our|should|so|than|that|the|there|this|to|use|was|we|what|when|where|which|why|will|with|you|your)$/i;
  const stem = (word) => (/^[a-z]{5,}$/i.test(word) ? word.replace(/(?:izers?|ations?|ions?|ings?|ers?|ies|ed|es|s|e|y)$/i, "") : word);
  const escaped = (words) => words.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/[-_\s]+/g, "[-_\\s]+");
  const loosely = (word) => {  // as written, or with another ending
    const root = stem(word);
    return root.length < 3 || root === word ? escaped(word) : `${escaped(root)}\\p{L}{0,5}`;
  };
  // The words of a query. An abbreviation defined in the lecture also matches its long form, and vice versa.
  const terms = (query, same) => {
    const known = [], rest = same.reduce((left, [short, long]) => {
      const either = new RegExp(`(?<!${BOUND})(?:${escaped(short)}s?|${escaped(long)})(?!${BOUND})`, "giu");
      return left.replace(either, (found) => { known.push({ plain: found, pattern: either }); return " "; });
    }, query);
    const words = rest.match(/"[^"]+"|\S+/gu) ?? [], large = words.filter((word) => !SMALL.test(word));
    return [...known, ...(large.length || known.length ? large : words).map((term) => {
      const plain = term.replaceAll('"', "");
      return plain && { plain, pattern: new RegExp(plain !== term ? escaped(plain) : loosely(plain), "giu") };
    }).filter(Boolean)];
  };

  const LETTER = /[\p{L}\p{N}]/u, WORD = /[\p{L}\p{N}_]/u;
  const quality = (text, { plain, pattern }) => {  // 4 a word, 3 part of a name, 2 the beginning of a word, 1 inside a word
    let best = 0;
    for (const found of text.matchAll(pattern)) {
      const before = text[found.index - 1] ?? "", after = text[found.index + found[0].length] ?? "";
      const begins = !LETTER.test(before) || !LETTER.test(plain[0]), ends = !LETTER.test(after) || !LETTER.test(plain.at(-1));
      best = Math.max(best, !begins ? 1 : !ends ? 2 : WORD.test(before) || WORD.test(after) ? 3 : 4);
      if (best === 4) break;
    }
    return best < (plain.length === 1 && LETTER.test(plain) ? 3 : plain.length < 4 ? 2 : 1) ? 0 : best;  // short words match only at a beginning
  };
  const isNear = (text, wanted) => {  // whether all terms occur within about a line
    const places = wanted.map(({ pattern }) => [...text.matchAll(pattern)].map(({ index }) => index));
    return places[0].some((at) => places.every((list) => list.some((other) => Math.abs(other - at) < NEAR)));
  };
  const match = (entry, term) => {  // matches in the heading above and in the page's title count less
    const own = Math.max(quality(entry.text, term), entry.also ? quality(entry.also, term) : 0);
    return own || (quality(entry.under, term) > 2 && ABOVE) || (quality(entry.title, term) && ABOVE / 2) || 0;
  };
  const likeness = (name, asked) => {  // a name that equals the query, has it as a part, begins with it, contains it
    const one = name.toLowerCase(), other = asked.toLowerCase();
    return one === other ? 1 : one.split(/[_.]/).includes(other) ? 0.7 : one.startsWith(other) ? 0.6 : one.includes(other) ? 0.4 : 0;
  };
  const spelt = (words) => words.toLowerCase().split(/[-_\s]+/).map(stem).join(" ");
  const find = (entries, wanted, query) => {
    const matches = entries.map((entry) => wanted.map((term) => match(entry, term)));
    const rarity = wanted.map((_, nth) => Math.log(1 + entries.length / (1 + matches.filter((found) => found[nth] > ABOVE).length)));
    const all = rarity.reduce((sum, one) => sum + one, 0), asked = spelt(query);
    const whole = new RegExp(`(?<!\\p{L})${query.trim().split(/\s+/).map(loosely).join("[-_\\s]+")}`, "iu");
    const rate = (entry, found) => {
      const met = rarity.reduce((sum, one, nth) => sum + (found[nth] ? one : 0), 0) / all;
      if (found.filter(Boolean).length < wanted.length / 2 || Math.max(...found) <= ABOVE) return 0;
      const sum = rarity.reduce((sum, one, nth) => sum + one * found[nth], 0) / all;
      const names = Math.max(0, ...entry.fresh.map((name) => (wanted.length === 1 ? likeness(name, wanted[0].plain) : spelt(name) === asked ? 1 : 0)));
      const weight = Math.max(WEIGHTS[entry.kind], WEIGHTS.name * names);
      const together = wanted.length < 2 ? 1 : whole.test(entry.text) ? 1.5 : Math.min(...found) <= ABOVE || isNear(entry.text, wanted) ? 1 : 0.6;
      return weight * sum * met ** 3 * together * (entry.address === here ? 1.05 : 1);  // entries with all terms come first
    };
    const found = entries.map((entry, at) => ({ entry, at, score: rate(entry, matches[at]), missed: wanted.filter((_, nth) => !matches[at][nth]) })).filter(({ score }) => score > 0);
    return found.sort((a, b) => b.score - a.score || a.at - b.at);
  };

  // --- showing ---

  const make = (tag, name, ...inside) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside);
    return made;
  };
  const marked = (text, wanted) => {  // the text with its matches in <mark>
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
  const around = (entry, wanted) => {  // the line of code, or the words around the first match
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
    const mine = ++turn, { entries, same } = await index;
    if (mine !== turn) return;  // an older query
    const wanted = terms(field.value, same), found = wanted.length ? find(entries, wanted, field.value) : [];
    list.replaceChildren(...found.slice(0, SHOWN).map((one, place) => option(one, wanted, place)));
    const told = !wanted.length ? "" : found.length > SHOWN ? `${found.length.toLocaleString("en")} results; the best ${SHOWN} are listed.`
      : found.length ? found.length === 1 ? "1 result." : `${found.length} results.` : "No results.";
    const missed = (found[0]?.missed ?? []).map(({ plain }) => `“${plain}”`);
    said.textContent = [told, missed.length ? `No result has all words; the first one lacks ${missed.join(", ")}.` : ""].filter(Boolean).join(" ");
    field.ariaExpanded = String(list.children.length > 0);
    list.hidden = !list.children.length;
    activate(0);
  };

  // --- events ---

  const follow = (link) => {  // on this page, the address may not change
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
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // the backdrop
  return show;
})();
