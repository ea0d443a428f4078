// Search the lecture's text, code, claims and names on all pages of one machine, by the beginnings of words.
//
// `search.py` wrote the entries, in the same file as this code. An entry is found if it has every word of the query;
// titles come first, then names where they are assigned, then text, then other code.
{
  const { $, make } = page;
  const WEIGHTS = { section: 9, heading: 8, row: 5, text: 5, exercise: 4, failed: 4, claim: 3, table: 3, figure: 3, link: 3, code: 2, note: 2 };
  const NAMES = { row: "report", claim: "claim ✓", failed: "claim ✗", link: "reference" };  // of kinds, where they differ
  const SHOWN = 12, AROUND = 170, BEFORE = 50;  // results; characters of a text, and of it before the first match
  const CODE = ["code", "claim", "failed"];
  const STOP = new Set(("a an and are as at be by can do does for from get go has have how i if in is it its many me much my need not of on "
    + "or our should so than that the there this to too use was we what when where which why will with you your mean means vs").split(" "));
  const BINDS = /^(?:async )?(?:def|class) (\w+)|^((?:[\w.]+, )*[\w.]+)(?:: [^=]+)? =(?!=)|^(?:async )?for ([\w, ]+) in /;
  const dialog = $("search"), field = $("search-for"), list = $("search-found"), status = $("search-status");
  const here = location.pathname.split("/").at(-1).replace(/\.html$/, "") || "index";

  // --- the index ---

  const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
  const stem = (word) => (/^[a-z]{5,}$/.test(word) ? word.replace(/(?:izers?|ations?|ions?|ings?|ers?|ies|ed|es|s|e|y)$/, "") : word);
  const rooted = (text) => wordsOf(text).filter((word) => !STOP.has(word)).map(stem);
  const namesOf = ({ kind, text, also }) => {  // that code assigns or inspects, or that a text introduces
    const bound = CODE.includes(kind) ? BINDS.exec(text)?.slice(1).find(Boolean) ?? "" : "";
    return CODE.includes(kind) || kind === "text" ? `${bound}, ${also}`.split(", ").map((name) => wordsOf(name).map(stem).join(" ")).filter(Boolean) : [];
  };
  const read = ({ entries, pages, synonyms }) => ({ synonyms, entries: [...entries.map(([kind, place, anchor, text, also, under]) => {
    const [address, title] = pages[place];
    return { kind, address, title, anchor, text, also, under };
  }), ...(dialog.dataset.rows ? inReport() : [])].map((entry) => ({
    ...entry, own: wordsOf(`${entry.text} ${entry.also}`), said: rooted(`${entry.text} ${entry.also}`).join(" "), above: wordsOf(`${entry.under} ${entry.title}`), names: namesOf(entry),
  })) });
  const inReport = () => {  // the headings and rows of this page, if it is a report
    let title = "";
    return [...document.querySelectorAll(`main :is(h2, h3), :is(${dialog.dataset.rows})`)].map((element, nth) => {
      const kind = element.matches("h2, h3") ? "heading" : "row", parts = [...element.querySelectorAll(":scope > :is(th, td), .l > code, .obs > *")];
      const text = (parts.length ? parts : [element]).map((part) => part.textContent.replace(/\s+/g, " ").trim()).filter(Boolean).join(" · ");
      const target = element.id ? element : element.querySelector("[id]") ?? Object.assign(element, { id: `row-${nth}` });
      if (kind === "heading") title = text;
      return { kind, address: here, title, anchor: target.id, text, also: "", under: "" };
    });
  };
  const index = page.unpack(page.searchIndex).then(read);

  // --- finding ---

  // The beginnings of a query's words, and the same with one synonym instead of another.
  const wanted = (query, synonyms) => {
    const roots = rooted(query).length ? rooted(query) : wordsOf(query).map(stem), isSaid = (phrase) => ` ${wordsOf(query).join(" ")} `.includes(` ${wordsOf(phrase).join(" ")} `);
    return [roots, ...synonyms.flatMap((group) => group.filter(isSaid).flatMap((one) => group.filter((other) => other !== one)
      .map((other) => [...rooted(other), ...roots.filter((root) => !rooted(one).includes(root))])))];
  };
  const begins = (words, root) => words.some((word) => word.startsWith(root));
  const rate = ({ kind, own, said, above, text, names }, roots) => {
    const inside = roots.filter((root) => begins(own, root)).length;
    if (!inside || !roots.every((root) => begins(own, root) || begins(above, root))) return 0;
    const asked = roots.join(" "), name = names.includes(asked) ? 7.5 : Math.max(0, ...names.map((name) => (name.startsWith(asked) ? 7 : name.includes(asked) ? 6 : 0)));
    const together = said.includes(asked) ? 1.5 : 1;
    return Math.max(name, WEIGHTS[kind]) * together * (inside / roots.length) * (text.length < 200 ? 1.2 : 1);
  };
  const find = (entries, queries) => entries.map((entry) => ({ entry, score: Math.max(...queries.map((roots) => rate(entry, roots))) }))
    .filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
  const found = ({ entries, synonyms }, query) => {  // if no entry has all words: those that have most of them
    const code = query.toLowerCase().split(/\s+/).filter((word) => /[\p{L}\p{N}][.[(]+[\p{L}\p{N}]/u.test(word));  // "x.stride": as it is written
    const queries = wanted(query, synonyms), [roots] = queries;
    const all = find(entries.filter(({ text, also }) => code.every((word) => `${text} ${also}`.toLowerCase().includes(word))), queries);
    if (all.length || roots.length < 2 || code.length) return [all, roots, []];
    const words = wordsOf(query), fewer = words.filter((word) => roots.includes(stem(word))).map((left) => [left, find(entries, wanted(words.filter((word) => word !== left).join(" "), synonyms))]);
    const [left, most] = fewer.reduce((best, other) => ((other[1][0]?.score ?? 0) > (best[1][0]?.score ?? 0) ? other : best));
    return [most, roots, [left]];
  };

  // --- showing ---

  const marked = (text, roots) => text.split(/([\p{L}\p{N}]+)/u)
    .map((part) => (roots.some((root) => root && part.toLowerCase().startsWith(root)) ? make("mark", "", part) : part));
  const excerpt = ({ kind, text }, roots) => {  // the line of code, or the words around the first match
    const at = Math.max(0, Math.min(...roots.map((root) => text.toLowerCase().search(new RegExp(`(?<![\\p{L}\\p{N}])${root}`, "u"))).filter((place) => place >= 0), text.length));
    const met = (line) => roots.filter((root) => begins(wordsOf(line), root)).length;
    if (CODE.includes(kind)) return text.split("\n").reduce((best, line) => (met(line) > met(best) ? line : best)).trim();
    const from = at === text.length || at <= BEFORE || text.length <= AROUND ? 0 : text.indexOf(" ", at - BEFORE) + 1;
    const end = text.length <= from + AROUND ? text.length : text.lastIndexOf(" ", from + AROUND);
    return (from ? "… " : "") + text.slice(from, end) + (end < text.length ? " …" : "");
  };
  const option = (entry, roots, place) => {
    const { kind, address, title, anchor, also, own, names } = entry, isName = kind === "code" && names.some((name) => name.includes(roots.join(" ")));
    const line = CODE.includes(kind) ? /L(\d+)$/.exec(anchor) : null;
    const where = make("span", "where", make("span", "kind", isName ? "name" : NAMES[kind] ?? kind), ` ${title}${line ? `, line ${line[1]}` : ""}`);
    if (also && !roots.every((root) => begins(wordsOf(entry.text), root)) && roots.some((root) => begins(own, root))) where.append(", with ", make("code", "", ...marked(also, roots)));
    return make("a", { role: "option", id: `search-${place}`, tabIndex: -1, ariaSelected: "false",
      href: (address === here ? "" : `${dialog.dataset.folder}${address}.html`) + (anchor ? `#${anchor}` : address === here ? "#text" : "") },
    make(line ? "code" : "span", "snippet", ...marked(excerpt(entry, roots), roots)), where);
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
  page.lookUp = async () => {
    const mine = ++turn, all = await index;
    if (mine !== turn) return;  // an older query
    const [results, roots, missed] = field.value.trim() ? found(all, field.value) : [[], [], []], count = results.length;
    list.replaceChildren(...results.slice(0, SHOWN).map(({ entry }, place) => option(entry, roots, place)));
    status.textContent = (!field.value.trim() ? "" : count > SHOWN ? `${count.toLocaleString("en")} results; the best ${SHOWN} are listed.`
      : count === 1 ? "1 result." : count ? `${count} results.` : "No results.") + (missed.length && count ? ` No result has all words; these lack “${missed}”.` : "");
    field.ariaExpanded = String(count > 0);
    list.hidden = !count;
    activate(0);
  };

  // --- events ---

  field.addEventListener("input", page.lookUp);
  field.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 }[event.key];
    if (step) activate(Math.abs(step) > 1 ? Math.max(0, Math.min(list.children.length - 1, active + step)) : active + step);
    else if (event.key === "Enter" && active >= 0) list.children[active].click();
    else return;
    event.preventDefault();
  });
  list.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    dialog.close();
    const target = link.hash && link.pathname === location.pathname && $(decodeURIComponent(link.hash.slice(1)));
    if (target) setTimeout(() => {  // on this page, the address may not change
      page.reveal(target);
      target.tabIndex = -1;
      target.focus({ preventScroll: true });
      target.scrollIntoView({ block: target.offsetHeight > innerHeight / 2 ? "start" : "center", behavior: "instant" });
    });
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });  // the backdrop
}
