// Show other machines in columns next to the lines, jump to lines that differ, and keep the position when the reader
// switches to another machine's page.
//
// `columns.py` packed them: for each machine, rows of [anchor, entries]; an entry is [kind, label, name, text, note,
// differs], and its text is null if it equals this machine's.
(() => {
  const KINDS = ["value", "held", "failed", "time", "memory", "absent", "other"];
  const SIGNS = { held: "✓ ", failed: "✗ " };
  const $ = (id) => document.getElementById(id);
  const box = $("machines"), main = $("text");
  if (!box) return;

  const make = (tag, name, ...inside) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    made.append(...inside);
    return made;
  };
  const line = ([kind, label, name, text, note, differs]) => {
    const sign = (differs ? "≠ " : "") + (SIGNS[KINDS[kind]] ?? "") + (label ? `${label}: ` : "");
    const said = make("p", differs ? "differs" : KINDS[kind], sign);
    if (name) said.append(name, " ");
    if (text !== null) said.append(make("b", "", text));
    if (note) said.append(" ", make("small", "", note));
    return said;
  };
  const cell = (entries, machine, place) => {
    const made = make("div", "other"), told = entries.filter(([, , , text, note]) => text !== null || note);
    const order = ["time", "memory"], rank = (entry) => (order.indexOf(KINDS[entry[0]]) + 3) % 3;  // time first
    made.append(...told.toSorted((a, b) => rank(a) - rank(b)).map(line));
    const seen = (list) => list.some(([kind]) => ["value", "held"].includes(KINDS[kind]));
    if (seen(entries) && !seen(told)) made.append(make("p", "same", "="));
    if (entries.some((entry) => entry[5])) made.classList.add("differs");
    if (!told.length) made.classList.add("alike");
    made.dataset.machine = machine;
    made.style.setProperty("--column", 3 + place);
    return made;
  };

  const compare = (columns) => {
    const choices = [...box.querySelectorAll("input")], names = choices.map((choice) => choice.value);
    let differing = [], at = -1;

    const draw = () => {
      const chosen = choices.flatMap((choice, place) => (choice.checked ? [place] : []));
      main.querySelectorAll(".other, .heads").forEach((made) => made.remove());
      main.querySelectorAll(".row.differs").forEach((row) => row.classList.remove("differs"));
      document.body.classList.toggle("comparing", chosen.length > 0);
      document.documentElement.style.setProperty("--others", chosen.length);
      box.querySelectorAll("p[data-of]").forEach((note) => { note.hidden = !chosen.includes(Number(note.dataset.of)); });
      chosen.forEach((place, column) => {
        for (const [anchor, entries] of columns[place]) {
          const row = $(anchor), made = cell(entries, names[place], column);
          row?.append(made);
          if (made.matches(".differs")) row?.classList.add("differs");
        }
      });
      for (const listing of chosen.length ? main.querySelectorAll(".listing") : []) {
        const heads = make("div", "heads", make("i"), make("span", "", "here"), ...chosen.map((place) => Object.assign(make("span", "", names[place]), { title: names[place] })));
        heads.ariaHidden = "true";
        if (listing.querySelector(":scope > .row > .other")) listing.prepend(heads);
      }
      differing = [...main.querySelectorAll(".row.differs")];
      at = -1;
      if (chosen.length && matchMedia("(max-width: 1500px)").matches) document.querySelector(".contents > details").open = false;
      $("differing").hidden = !differing.length;
      $("differs-now").textContent = differing.length === 1 ? "1 line differs" : `${differing.length} lines differ`;
    };
    const jump = (way) => {
      at = (at + way + differing.length + (at < 0 && way < 0 ? 1 : 0)) % differing.length;
      reveal(differing[at]);
      differing[at].scrollIntoView({ block: "center" });
      $("differs-now").textContent = `${at + 1} of ${differing.length}`;
    };
    const chosen = addressed("compare", names);
    choices.forEach((choice) => { choice.checked = chosen.get().includes(choice.value); });
    const choose = () => {
      chosen.set(names.filter((_, place) => choices[place].checked));
      draw();
    };
    box.addEventListener("change", choose);
    $("differs-back").addEventListener("click", () => jump(-1));
    $("differs-on").addEventListener("click", () => jump(1));
    document.addEventListener("keydown", ({ key, target, ctrlKey, metaKey }) => {
      if ("[]".includes(key) && differing.length && !ctrlKey && !metaKey && !target.closest("input, textarea, select, dialog[open]")) jump(key === "[" ? -1 : 1);
    });
    if (choices.some((choice) => choice.checked)) draw();
  };

  // If the player is closed, keep the line at the top of the window.
  document.querySelector(".seg")?.addEventListener("click", (event) => {
    const machine = event.target.closest("a"), panel = $("panel");
    if (!machine || (panel && !panel.hidden)) return;
    const place = placeInSight();
    if (place) machine.hash = `#${place.id}`;
  });

  if (typeof DecompressionStream === "undefined") return;
  box.hidden = false;  // before the page scrolls to an anchor below it
  requestAnimationFrame(() => setTimeout(() => unpack(sectionData.columns).then(({ columns }) => compare(columns), () => {})));
})();
