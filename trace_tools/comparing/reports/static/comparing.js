"use strict";
// In the tables of all machines: only the rows with some words, whatever is folded.
(() => {
  const rows = [...document.querySelectorAll(".whole table.side tbody tr")];
  if (!rows.length) return;
  const words = rows.map((row) => row.textContent.toLowerCase());
  const boxes = [...document.querySelectorAll(".whole, .whole .more")].filter((box) => box.querySelector("table.side"));
  const line = document.createElement("p");
  line.className = "finder";
  line.innerHTML = '<label>Rows with <input type="search" autocomplete="off" spellcheck="false"></label> <output aria-live="polite"></output>';
  const [input, said] = [line.querySelector("input"), line.querySelector("output")];
  let before = null; // which boxes were open
  input.addEventListener("input", () => {
    const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, at) => {
      row.hidden = !asked.every((word) => words[at].includes(word));
      found += !row.hidden;
    });
    if (asked.length) before ??= boxes.map((box) => box.open);
    for (const box of boxes) {
      const some = [...box.querySelectorAll("table.side tbody tr")].some((row) => !row.hidden);
      box.hidden = !some;
      if (asked.length) box.open = some;
    }
    if (!asked.length && before) { boxes.forEach((box, at) => { box.open = before[at]; }); before = null; }
    said.textContent = asked.length ? `${found} of ${rows.length}` : "";
  });
  document.querySelector(".whole").before(line);
})();
// Filters, and jumping from one difference to the next (n, p), in a report on two traces.
(() => {
  const form = document.querySelector(".filters");
  if (!form) return;
  form.hidden = false;
  const places = [...document.querySelectorAll(".place")];
  const executions = places.flatMap((place) => [...place.querySelectorAll(".execution")]);
  const said = form.querySelector("output");
  let current = null;

  const show = (element, on) => { on ? element.removeAttribute("data-off") : element.setAttribute("data-off", ""); };
  const isShown = (element) => !element.closest("[data-off]");
  const level = (execution) => Math.max(0, ...[...execution.querySelectorAll(".obs:not([data-off])")].map((o) => +o.dataset.level),
    execution.querySelector(".only") ? 1 : 0);

  const filter = () => {
    const least = +form.elements.least.value;
    const wanted = new Set([...form.querySelectorAll("[name=aspect]:checked")].map((box) => box.value));
    for (const place of places) {
      let any = false;
      for (const execution of place.querySelectorAll(".execution")) {
        let kept = false;
        for (const line of execution.querySelectorAll(".obs")) {
          const on = wanted.has(line.dataset.aspect) && +line.dataset.level >= least;
          show(line, on);
          kept ||= on;
        }
        const bare = !execution.querySelector(".obs") && (least === 0 || (execution.querySelector(".only") && least < 2));
        show(execution, kept || bare);
        any ||= kept || bare;
      }
      show(place, any);
    }
    for (const passage of document.querySelectorAll(".passage")) show(passage, !!passage.querySelector(".place:not([data-off])"));
    for (const part of document.querySelectorAll(".part")) show(part, !!part.querySelector(".passage:not([data-off])"));
    count();
  };

  const targets = () => {
    const shown = executions.filter(isShown);
    const matter = shown.filter((execution) => level(execution) === 2);
    return matter.length ? matter : shown.filter((execution) => level(execution) > 0);
  };

  const count = () => {
    const found = targets();
    const at = found.indexOf(current);
    said.textContent = found.length ? `${at < 0 ? "–" : at + 1} of ${found.length}` : "no difference shown";
  };

  const jump = (step) => {
    const found = targets();
    if (!found.length) return;
    const follows = (other) => current.compareDocumentPosition(other) & (step > 0 ? 4 : 2); // 4: stands after it, 2: before
    const rest = current ? found.filter((other) => other !== current && follows(other)) : found;
    const next = rest.length ? rest.at(step > 0 ? 0 : -1) : found.at(step > 0 ? 0 : -1);
    current?.classList.remove("current");
    current = next;
    reveal(current);
    current.classList.add("current");
    current.scrollIntoView({ block: "center" });
    current.focus({ preventScroll: true });
    history.replaceState(null, "", "#" + current.id);
    count();
  };

  form.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelectorAll("[data-jump]").forEach((button) => button.addEventListener("click", () => jump(+button.dataset.jump)));
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input[type=text], textarea, select")) return;
    if (event.key === "n") jump(1);
    else if (event.key === "p") jump(-1);
    else return;
    event.preventDefault();
  });
  // A link from what matters leads to its row, whatever the filters hide.
  document.addEventListener("click", (event) => {
    const target = event.target.closest('a[href^="#r"], a[href^="#f"]');
    const row = target && document.getElementById(target.getAttribute("href").slice(1));
    if (!row) return;
    for (const hidden of [row.closest(".place"), row.closest(".passage"), row.closest(".part"), row, ...row.querySelectorAll(".obs")]) if (hidden) show(hidden, true);
    reveal(row);
    if (row.classList.contains("execution")) { current?.classList.remove("current"); current = row; count(); }
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details:is(.passage, .more, .whole)").forEach((box) => { box.open = true; }));
  count();
})();
