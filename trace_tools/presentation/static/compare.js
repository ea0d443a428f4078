// The machines of a site: a menu that switches between them, another machine's results in a column next to the lines, and
// the lower bounds of times on machines that were not traced.
//
// `page.machines` lists the machines. The data of a section's page has `lines` (`columns.py`): [key, anchor, time in ns,
// results], where a result is [kind, label, name, text]. Those of another machine come from its own file, loaded when a
// reader chooses it. Lines match by their keys: a checksum of the line's code, and its turn among equal lines of the page.
{
  const { make, unpack } = page;
  const menu = document.querySelector(".menu"), main = page.$("text");
  const site = menu && { root: new URL(menu.dataset.root, location.href), slug: "", folder: "", others: [] };  // and the machines to compare
  const columns = { loaded: new Map(), differing: [], at: -1, drawn: 0 };  // what is shown of them

  const switching = () => {  // links to the same section on other machines
    const parts = decodeURIComponent(location.pathname.slice(site.root.pathname.length)).split("/"), { list } = page.machines;
    site.slug = parts.pop().replace(/\.html$/, "");
    site.folder = parts.join("/");
    site.others = list.filter(({ folder, sections }) => folder !== site.folder && sections.includes(site.slug));
    menu.querySelector("nav").prepend(...list.map(({ folder, sections, name }) => make("a", {
      href: `${site.root.href}${folder}/${sections.includes(site.slug) ? site.slug : "index"}.html`, textContent: name, ariaCurrent: folder === site.folder ? "true" : null,
    })));
    // If the player is closed, keep the line at the top of the window.
    menu.addEventListener("click", ({ target }) => {
      const machine = target.closest("nav a"), panel = page.$("panel");
      if (!machine || (panel && !panel.hidden)) return;
      const place = page.placeInSight();
      if (place) machine.hash = `#${place.id}`;
    });
  };

  const load = (folder) => new Promise((done, fail) => {
    const own = page.section, onload = () => {  // the script replaced this page's data
      const theirs = page.section;
      page.section = own;
      unpack(theirs.lines).then(done, fail);
    };
    document.head.append(make("script", { src: `${site.root.href}${folder}/${site.slug}.js`, onload, onerror: fail }));
  });
  const linesOf = (folder) => {
    const { loaded } = columns;
    if (!loaded.has(folder)) loaded.set(folder, folder === site.folder ? unpack(page.section.lines) : load(folder));
    return loaded.get(folder);
  };

  const SIGNS = { held: "✓ ", failed: "✗ ", caught: "↯ " };
  const isTime = ([kind]) => kind === "time";
  const readAs = ([kind, label, name, text]) => (kind === "held" ? [kind, label] : [kind, label, name, text]).join("\n");  // a claim that held may have other sides
  const ratioOf = (theirs, ours) => {
    const ratio = theirs / ours, times = Math.max(ratio, 1 / ratio);
    if (times < 1.05) return "as long";
    return `${times < 100 ? Number(times.toPrecision(2)) : Math.round(times).toLocaleString("en")}× ${ratio > 1 ? "slower" : "faster"}`;
  };
  // The cell of a line: its time with the ratio, and the results that read differently; "=" if none does.
  const cell = (name, [, , ns, results], [, , theirNs, theirs] = [, , null, null]) => {
    const made = make("div", "other"), ours = new Set(results.map(readAs));
    made.dataset.machine = name;
    if (!theirs) made.append(make("p", "differs", "≠ no result there"));
    for (const result of (theirs ?? []).toSorted((a, b) => isTime(b) - isTime(a))) {
      const [kind, label, subject, text] = result, differs = !isTime(result) && !/\bvaries\b/.test(text);
      if (!isTime(result) && ours.has(readAs(result))) continue;
      const words = (differs ? "≠ " : "") + (SIGNS[kind] ?? "") + (label ? `${label}: ` : "") + (subject ? `${subject} ` : "");
      const line = make("p", differs ? "differs" : kind, words, make("b", isTime(result) ? "" : "mask", make("span", "", text)));
      if (isTime(result) && ns && theirNs) line.append(" ", make("small", "", ratioOf(theirNs, ns)));
      made.append(line);
    }
    const isSame = theirs?.some((result) => !isTime(result)) && !made.querySelector("p:not(.time)");
    if (isSame) made.append(make("p", "same", "="));
    made.classList.toggle("alike", isSame && made.childElementCount === 1);
    made.classList.toggle("differs", made.querySelector(".differs") !== null);
    return made;
  };
  // Why another machine's lines cannot be shown, or "".
  const problemOf = (lines, theirs) => {
    if (!theirs) return "its results cannot be loaded.";
    return lines.some(([key]) => theirs.has(key)) ? "" : "this section has other lines there.";
  };
  const drawColumn = (lines, theirs, name, column) => {
    for (const line of lines) {
      const [key, anchor] = line, row = page.$(anchor), there = theirs.get(key);
      if (!row || !(there ? there[3].length : key.endsWith(":1"))) continue;
      const made = cell(name, line, there);
      made.style.setProperty("--column", 3 + column);
      row.append(made);
      if (made.matches(".differs")) row.classList.add("differs");
    }
  };
  const drawHeads = (names) => {
    for (const listing of names.length ? main.querySelectorAll(".listing") : []) {
      if (!listing.querySelector(":scope > .row > .other")) continue;
      const heads = names.map((name) => make("span", { title: name, textContent: name }));
      listing.prepend(make("div", { className: "heads", ariaHidden: "true" }, make("i"), make("span", "", "here"), ...heads));
    }
  };
  const draw = async (status, counter) => {
    const chosen = site.others.filter(({ choice }) => choice.checked), turn = (columns.drawn += 1), lines = await linesOf(site.folder);
    const theirs = await Promise.all(chosen.map(({ folder }) => linesOf(folder).then((all) => new Map(all.map((line) => [line[0], line])), () => null)));
    if (turn !== columns.drawn) return;  // another choice was made meanwhile
    main.querySelectorAll(".other, .heads").forEach((made) => made.remove());
    main.querySelectorAll(".row.differs").forEach((row) => row.classList.remove("differs"));
    const problems = theirs.map((all) => problemOf(lines, all)), shown = chosen.filter((_, place) => !problems[place]);
    shown.forEach((machine, column) => drawColumn(lines, theirs[chosen.indexOf(machine)], machine.name, column));
    document.body.classList.toggle("comparing", shown.length > 0);
    document.documentElement.style.setProperty("--others", shown.length);
    drawHeads(shown.map(({ name }) => name));
    const notes = chosen.map(({ name }, place) => (problems[place] ? `${name}: ${problems[place]} ` : ""));
    if (shown.length) notes.push("= marks equal results, ≠ results that read differently. ");
    const { report } = page.machines;
    if (chosen.length && report) notes.push(make("a", { textContent: "The report says which differences matter.", href: site.root.href + report }));
    status.replaceChildren(...notes);
    columns.differing = [...main.querySelectorAll(".row.differs")];
    columns.at = -1;
    const count = columns.differing.length;
    counter.parentElement.hidden = !count;
    counter.textContent = count === 1 ? "1 line differs" : `${count} lines differ`;
  };
  const jump = (way, counter) => {
    const { differing, at } = columns, count = differing.length;
    if (!count) return false;
    columns.at = (at + way + count + (at < 0 && way < 0 ? 1 : 0)) % count;
    page.reveal(differing[columns.at]);
    differing[columns.at].scrollIntoView({ block: "center" });
    counter.textContent = `${columns.at + 1} of ${count}`;
    return true;
  };
  const comparing = () => {  // the choice of machines, and the buttons that go to the lines that differ
    const status = make("p", "label"), counter = make("output"), { others } = site;
    for (const machine of others) machine.choice = make("input", { type: "checkbox", value: machine.folder });
    const box = make("fieldset", { id: "machines", className: "machines" }, make("legend", "", "Compare with"),
      ...others.map(({ choice, name }) => make("label", "", choice, ` ${name}`)), status);
    menu.querySelector("nav").after(box);
    const step = (sign, key, way, title) => {
      page.keys[key] = () => jump(way, counter);
      const button = make("button", { type: "button", title: `${title} line that differs (${key})`, onclick: page.keys[key] }, sign);
      button.setAttribute("aria-keyshortcuts", key);
      return button;
    };
    menu.after(make("span", { id: "differing", hidden: true }, step("↑", "[", -1, "Previous"), counter, step("↓", "]", 1, "Next")));
    const kept = page.addressed("compare", others.map(({ folder }) => folder));
    for (const { choice, folder } of others) choice.checked = kept.get().includes(folder);
    box.addEventListener("change", () => {
      kept.set(others.filter(({ choice }) => choice.checked).map(({ folder }) => folder));
      draw(status, counter);
    });
    if (others.some(({ choice }) => choice.checked)) draw(status, counter);
  };

  // Lower bounds from another machine's datasheet next to this machine's times. `columns.py` made the texts: for each machine
  // its name, a note on it, and a text for each anchor.
  const drawBounds = ({ anchors, machines }, number, about) => {
    document.querySelectorAll("#text .floor").forEach((made) => made.remove());
    const [name, known, texts] = machines[number] ?? ["", "", []];
    about.textContent = known;
    texts.forEach((text, place) => {
      const row = page.$(anchors[place]);
      if (!text || !row) return;
      let beside = row.querySelector(":scope > .beside");
      if (!beside) row.append(beside = make("div", "beside"));
      beside.append(make("div", { className: "floor", textContent: `on ${name}: ${text}`, title: "lower bound, computed from the datasheet" }));
    });
  };
  const bounding = (box) => {
    const choice = box.querySelector("select"), about = box.querySelector("small");
    box.hidden = false;
    requestAnimationFrame(() => setTimeout(() => unpack(page.section.floors).then((floors) => {
      choice.append(...floors.machines.map(([name]) => new Option(name, name)));
      const kept = page.addressed("bounds", floors.machines.map(([name]) => name));
      const show = () => drawBounds(floors, choice.selectedIndex - 1, about);
      choice.value = kept.get()[0] ?? "";
      choice.addEventListener("change", () => {
        kept.set(choice.value ? [choice.value] : []);
        show();
      });
      if (choice.value) show();
    }, () => {})));
  };

  const canUnpack = page.section && typeof DecompressionStream !== "undefined";
  if (site && page.machines) {
    switching();
    if (site.others.length && canUnpack) comparing();
  }
  if (page.$("floors") && canUnpack) bounding(page.$("floors"));
}
