siteMachines = {"list": [{"name": "AMD EPYC", "folder": "amd-epyc-2-cores", "sections": ["00-overview", "01-napkin-math", "02-memory-accounting", "03-tensors-from-the-inside", "04-einops-and-jaxtyping", "05-compute-accounting", "06-arithmetic-intensity", "07-gradients", "08-models", "09-randomness-and-data", "10-optimizers", "11-training-loop", "12-mixed-precision", "13-memory-of-a-training-step", "14-using-less-memory", "15-saving-and-resuming", "16-summary"]}, {"name": "Intel(R) Xeon(R) Processor", "folder": "intel-xeon-2-cores", "sections": ["00-overview", "01-napkin-math", "02-memory-accounting", "03-tensors-from-the-inside", "04-einops-and-jaxtyping", "05-compute-accounting", "06-arithmetic-intensity", "07-gradients", "08-models", "09-randomness-and-data", "10-optimizers", "11-training-loop", "12-mixed-precision", "13-memory-of-a-training-step", "14-using-less-memory", "15-saving-and-resuming", "16-summary"]}], "report": "diff/index.html"};
machinesStyle = "\n/* Other machines in columns next to the lines. */\n.machines { margin: 0.6rem 0 0; padding: 0; border: 0; color: var(--soft); display: flex; flex-wrap: wrap; gap: 0.1rem 1.3rem; align-items: center; }\n.machines legend { float: left; padding: 0; font-size: inherit; }\n.machines label { cursor: pointer; min-height: 24px; }\n.machines input { accent-color: var(--link); vertical-align: -0.1em; }\n.machines small { color: var(--soft); }\n.machines p { flex: 1 0 100%; margin: 0; }\n#differing { display: flex; align-items: center; gap: 0.3rem; }\n#differing output { display: inline-block; min-width: 7em; text-align: center; color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }\n.comparing { --margin: clamp(15rem, 22vw, 22rem); }\n.comparing .wrap { max-width: 118rem; }\n.comparing .called { --margin: clamp(13rem, 20vw, 20rem); }\n.comparing .listing > :is(.row, .heads) { grid-template-columns: minmax(0, 1fr) minmax(0, var(--margin)) repeat(var(--others), minmax(0, clamp(8.5rem, 13vw, 15rem))); }\n.heads { display: grid; font: 600 11.5px/1.7 var(--sans); color: var(--soft); border-bottom: 1px solid var(--line); }\n.heads span { padding: 0.1rem 0.6rem; border-left: 1px solid var(--line); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }\n.comparing .row > .code { grid-area: 1 / 1; }\n.comparing .row > .beside { grid-area: 1 / 2; }\n.other { grid-area: 1 / var(--column); border-left: 1px solid var(--line); padding: 0 0.6rem; font-size: 12px; color: var(--soft); min-width: 0; overflow-wrap: anywhere; }\n.other p { margin: 0; padding-left: 0.9em; text-indent: -0.9em; font: inherit; }\n.other b { font-weight: 400; color: var(--ink); }\n.other small { font-size: 0.95em; }\n.other .same { font-style: italic; }\n.other p.differs, .other p.differs :is(b, small) { color: var(--warn); font-weight: 600; }\n.other.differs { background: var(--warn-ground); }\n.row.differs { box-shadow: inset 3px 0 var(--warn); }\n.row.differs.current { box-shadow: inset 3px 0 var(--link); }\n@media screen and (max-width: 1500px) {\n  .comparing:not(.stepping) .wrap { grid-template-columns: minmax(0, 1fr); }\n  .comparing:not(.stepping) .wrap > main { grid-area: 2 / 1; }\n  .comparing .contents { position: static; max-height: none; padding: 0.6rem 1.25rem 0; }\n  .comparing .contents summary { display: list-item; cursor: pointer; color: var(--soft); }\n}\n@media screen and (min-width: 801px) { .comparing main { padding-left: 1.5rem; } }\n@media screen and (max-width: 800px) {\n  .comparing .bar > .home, .comparing #step-large { display: none; }\n  #differing { flex: 1; }\n  #differing output { min-width: 0; font-size: 12px; }\n  .heads { display: none; }\n  .comparing .listing > .row { grid-template-columns: minmax(0, 1fr); }\n  .comparing .row > :is(.code, .beside) { grid-area: auto; }\n  .other { grid-area: auto / 1 / auto / -1; border-left: 3px solid var(--line); margin: 0 1rem 0.3rem 0.8rem; padding: 0 0.6rem; line-height: 1.7; }\n  .other::before { content: attr(data-machine); font: 600 11px/1.6 var(--sans); }\n  .other.alike { display: none; }\n  .row.differs > .other.differs { border-color: var(--warn); }\n}\n@media print { .machines { display: none; } .comparing { --margin: 28%; } .other { font-size: 7.5pt; } }\n";
// The machines of a site: a menu that switches between them, and another machine's results in a column next to the lines.
//
// `siteMachines` lists the machines. The data of a section's page has `lines` (`columns.py`): [key, anchor, time in ns,
// results], where a result is [kind, label, name, text]. Those of another machine come from its own file, loaded when a
// reader chooses it. Lines match by their keys: a checksum of the line's code, and its turn among equal lines of the page.
(() => {
  const menu = document.querySelector(".menu"), main = document.getElementById("text");
  if (!menu) return;
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, styled(machinesStyle)];
  const make = (tag, name, ...inside) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside);
    return made;
  };

  const root = new URL(menu.dataset.root, location.href), inside = decodeURIComponent(location.pathname.slice(root.pathname.length)).split("/");
  const slug = inside.pop().replace(/\.html$/, ""), here = inside.join("/"), { list, report } = siteMachines;
  const link = ({ folder, sections, name }) => {
    const made = Object.assign(make("a", "", name), { href: `${root.href}${folder}/${sections.includes(slug) ? slug : "index"}.html` });
    if (folder === here) made.ariaCurrent = "true";
    return made;
  };
  menu.querySelector("nav").prepend(...list.map(link));
  // If the player is closed, keep the line at the top of the window.
  menu.addEventListener("click", ({ target }) => {
    const machine = target.closest("nav a"), panel = document.getElementById("panel");
    if (!machine || (panel && !panel.hidden)) return;
    const place = placeInSight();
    if (place) machine.hash = `#${place.id}`;
  });

  const others = list.filter(({ folder, sections }) => folder !== here && sections.includes(slug));
  if (!others.length || typeof sectionData === "undefined" || typeof DecompressionStream === "undefined") return;

  const own = sectionData, loaded = new Map();
  const load = (folder) => new Promise((done, fail) => {
    const onload = () => {  // the script replaced this page's data
      const theirs = sectionData;
      sectionData = own;
      unpack(theirs.lines).then(done, fail);
    };
    document.head.append(Object.assign(document.createElement("script"), { src: `${root.href}${folder}/${slug}.js`, onload, onerror: fail }));
  });
  const linesOf = (folder) => loaded.get(folder) ?? loaded.set(folder, folder === here ? unpack(own.lines) : load(folder)).get(folder);

  const SIGNS = { held: "✓ ", failed: "✗ ", caught: "↯ " };
  const isTime = ([kind]) => kind === "time";
  const readAs = ([kind, label, name, text]) => (kind === "held" ? [kind, label] : [kind, label, name, text]).join("\n");  // a claim that held may have other sides
  const ratioOf = (theirs, ours) => {
    const ratio = theirs / ours, times = Math.max(ratio, 1 / ratio);
    if (times < 1.05) return "≈";
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
      const line = make("p", differs ? "differs" : kind, (differs ? "≠ " : "") + (SIGNS[kind] ?? "") + (label ? `${label}: ` : "") + (subject ? `${subject} ` : ""), make("b", "", text));
      if (isTime(result) && ns && theirNs) line.append(" ", make("small", "", ratioOf(theirNs, ns)));
      made.append(line);
    }
    const isSame = theirs?.some((result) => !isTime(result)) && !made.querySelector("p:not(.time)");
    if (isSame) made.append(make("p", "same", "="));
    made.classList.toggle("alike", isSame && made.childElementCount === 1);
    made.classList.toggle("differs", made.querySelector(".differs") !== null);
    return made;
  };

  const box = make("fieldset", "machines", make("legend", "", "Compare with")), said = make("p", "label");
  for (const machine of others) {
    machine.choice = Object.assign(make("input"), { type: "checkbox", value: machine.folder });
    box.append(make("label", "", machine.choice, ` ${machine.name}`));
  }
  box.id = "machines";
  box.append(said);
  menu.querySelector("nav").after(box);
  const counter = make("span"), output = make("output");
  counter.id = "differing";
  counter.hidden = true;
  const step = (sign, key, way, title) => {
    const made = Object.assign(make("button", "", sign), { type: "button", title: `${title} line that differs (${key})`, onclick: () => jump(way) });
    made.setAttribute("aria-keyshortcuts", key);
    return made;
  };
  counter.append(step("↑", "[", -1, "Previous"), output, step("↓", "]", 1, "Next"));
  menu.after(counter);

  // Why another machine's lines cannot be shown, or "".
  const problemOf = (lines, theirs) => {
    if (!theirs) return "its results cannot be loaded.";
    return lines.some(([key]) => theirs.has(key)) ? "" : "this section has other lines there.";
  };
  let differing = [], at = -1, drawn = 0;
  const draw = async () => {
    const chosen = others.filter(({ choice }) => choice.checked), turn = (drawn += 1), lines = await linesOf(here);
    const theirs = await Promise.all(chosen.map(({ folder }) => linesOf(folder).then((all) => new Map(all.map((line) => [line[0], line])), () => null)));
    if (turn !== drawn) return;  // another choice was made meanwhile
    main.querySelectorAll(".other, .heads").forEach((made) => made.remove());
    main.querySelectorAll(".row.differs").forEach((row) => row.classList.remove("differs"));
    const problems = theirs.map((all) => problemOf(lines, all)), shown = chosen.filter((_, place) => !problems[place]);
    shown.forEach((machine, column) => {
      const known = theirs[chosen.indexOf(machine)];
      for (const line of lines) {
        const [key, anchor] = line, row = document.getElementById(anchor), there = known.get(key);
        if (!row || !(there ? there[3].length : key.endsWith(":1"))) continue;
        const made = cell(machine.name, line, there);
        made.style.setProperty("--column", 3 + column);
        row.append(made);
        if (made.matches(".differs")) row.classList.add("differs");
      }
    });
    document.body.classList.toggle("comparing", shown.length > 0);
    document.documentElement.style.setProperty("--others", shown.length);
    for (const listing of shown.length ? main.querySelectorAll(".listing") : []) {
      const heads = make("div", "heads", make("i"), make("span", "", "here"), ...shown.map(({ name }) => Object.assign(make("span", "", name), { title: name })));
      heads.ariaHidden = "true";
      if (listing.querySelector(":scope > .row > .other")) listing.prepend(heads);
    }
    const notes = chosen.map(({ name }, place) => (problems[place] ? `${name}: ${problems[place]} ` : ""));
    if (shown.length) notes.push("≠ marks results that read differently. ");
    if (chosen.length && report) notes.push(Object.assign(make("a", "", "The report says which differences matter."), { href: root.href + report }));
    said.replaceChildren(...notes);
    differing = [...main.querySelectorAll(".row.differs")];
    at = -1;
    if (shown.length && matchMedia("(max-width: 1500px)").matches) document.querySelector(".contents > details").open = false;
    counter.hidden = !differing.length;
    output.textContent = differing.length === 1 ? "1 line differs" : `${differing.length} lines differ`;
  };
  const jump = (way) => {
    at = (at + way + differing.length + (at < 0 && way < 0 ? 1 : 0)) % differing.length;
    reveal(differing[at]);
    differing[at].scrollIntoView({ block: "center" });
    output.textContent = `${at + 1} of ${differing.length}`;
  };
  const kept = addressed("compare", others.map(({ folder }) => folder));
  for (const { choice, folder } of others) choice.checked = kept.get().includes(folder);
  box.addEventListener("change", () => {
    kept.set(others.filter(({ choice }) => choice.checked).map(({ folder }) => folder));
    draw();
  });
  document.addEventListener("keydown", ({ key, target, ctrlKey, metaKey }) => {
    if ("[]".includes(key) && differing.length && !ctrlKey && !metaKey && !target.closest("input, textarea, select, dialog[open]")) jump(key === "[" ? -1 : 1);
  });
  if (others.some(({ choice }) => choice.checked)) draw();
})();
