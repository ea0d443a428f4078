// Filters, and jumping from one difference to the next (n, p), in a report on two traces.
"use strict";
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
    current.closest("details.passage").open = true;
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
    for (let box = row; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
    if (row.classList.contains("execution")) { current?.classList.remove("current"); current = row; count(); }
  });
  addEventListener("beforeprint", () => document.querySelectorAll("details.passage, details.more").forEach((box) => { box.open = true; }));
  count();
})();
