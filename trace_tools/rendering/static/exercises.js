// Questions: what a reader answers is judged here, and what was right is remembered. The answers are folded on the page.
(() => {
  const store = {
    get: (key) => { try { return localStorage.getItem(`asked-${key}`); } catch { return null; } },
    set: (key) => { try { localStorage.setItem(`asked-${key}`, "right"); } catch { /* a page may have no storage */ } },
  };
  const PREFIX = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
    m: 1e-3, µ: 1e-6, μ: 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
  const TIMES = { s: 1, min: 60, h: 3600, days: 86400, day: 86400, d: 86400 };
  const WORDS = { thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12 };

  // "560 GB", "5.6e11", "5.6·10^11", "1,120,000", "3/4", "12%", "2^30", "144 days" → a number; NaN for anything else.
  const parsed = (text, unit) => {
    const superscript = (all) => `^${[...all].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)).map((at) => (at ? at - 1 : "-")).join("")}`;
    let rest = text.trim().replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, superscript).replace(/(\d)[,_\u202f\u00a0](?=\d{3})/g, "$1").replace(/[−–]/g, "-");
    const one = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)/i;
    const factor = () => {
      const found = rest.match(one);
      if (!found) return NaN;
      rest = rest.slice(found[0].length).trimStart();
      const power = rest.match(/^(?:\^|\*\*)\s*(-?\d+(?:\.\d+)?)/);
      if (power) rest = rest.slice(power[0].length).trimStart();
      return power ? Number(found[0]) ** Number(power[1]) : Number(found[0]);
    };
    let value = factor();
    for (let by = rest.match(/^(?:[·×*/]|x(?=\s*\d))/); by; by = rest.match(/^(?:[·×*/]|x(?=\s*\d))/)) {
      rest = rest.slice(by[0].length).trimStart();
      value = by[0] === "/" ? value / factor() : value * factor();
    }
    if (rest === "" || rest === unit) return value;
    if (rest === "%") return unit === "%" ? value : value / 100;
    if (rest in WORDS) return value * WORDS[rest];
    if (unit === "s" && rest in TIMES) return value * TIMES[rest];
    const bare = unit && rest.endsWith(unit) ? rest.slice(0, -unit.length).trim() : rest;
    return bare in PREFIX ? value * PREFIX[bare] : NaN;
  };
  const near = (value, low, high, within) =>
    value >= low - within * Math.abs(low) - 1e-12 * Math.abs(low) && value <= high + within * Math.abs(high) + 1e-12 * Math.abs(high);

  const element = (name, attributes, ...inside) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...inside);
    return made;
  };

  document.querySelectorAll(".ask").forEach((box) => {
    const { kind, right, within, unit, slips } = JSON.parse(box.dataset.answer);
    const key = box.dataset.asked;
    const verdict = element("output", { className: "verdict" });
    verdict.role = "status";
    const solution = box.querySelector(".solution");
    const judge = (state, words) => {
      box.classList.toggle("right", state === "right");
      box.classList.toggle("wrong", state === "wrong");
      verdict.innerHTML = words;  // of the lecture, written by the renderer
      if (state === "right") { store.set(key); solution.open = true; }
    };
    const answering = element("div", { className: "answering" });
    if (kind === "choice") {
      const list = box.querySelector(".choices");
      const group = element("fieldset", {}, element("legend", { className: "hidden", textContent: "Your answer" }));
      [...list.children].forEach((item) => {
        const button = element("input", { type: "radio", name: box.id, value: item.dataset.choice });
        button.addEventListener("change", () => {
          const known = slips.find(([slip]) => slip === item.dataset.choice);
          if (item.dataset.choice === right) judge("right", "✓ Right.");
          else judge("wrong", known ? `✗ ${known[1]}` : "✗ Not that one.");
        });
        const shown = element("span", {});
        shown.append(...item.childNodes);
        group.append(element("label", {}, button, shown));
      });
      list.replaceWith(group);
      answering.append(verdict);
    } else if (kind === "number") {
      const field = element("input", { type: "text", autocomplete: "off", spellcheck: false, size: 14 });
      field.inputMode = unit ? "text" : "decimal";
      const check = () => {
        if (!field.value.trim()) return;
        const value = parsed(field.value, unit);
        const known = slips.find(([slip]) => typeof slip === "number" && near(value, slip, slip, within));
        if (Number.isNaN(value)) judge("", "That can’t be read as a number: 5.6e11, 560 GB, 3/4 and 12% can.");
        else if (near(value, right[0], right[1], within)) judge("right", "✓ Right.");
        else if (known) judge("wrong", `✗ ${known[1]}`);
        else judge("wrong", value !== 0 && right[0] !== 0 && (value / right[0] > 1.5 || value / right[0] < 0.67)
          ? `✗ Not that: it is ${Math.abs(value) > Math.abs(right[0]) ? "less" : "more"}.` : "✗ Close, and not near enough.");
      };
      field.addEventListener("keydown", (event) => { event.stopPropagation(); if (event.key === "Enter") check(); });
      const button = element("button", { type: "button", textContent: "Check" });
      button.addEventListener("click", check);
      answering.append(element("label", {}, "Your answer ", field, unit ? ` ${unit}` : ""), button, verdict);
    } else {
      const button = element("button", { type: "button", textContent: "I had it" });
      button.addEventListener("click", () => judge("right", "✓ Remembered."));
      solution.append(element("div", { className: "answering" }, button, verdict));
    }
    if (answering.childNodes.length) box.insertBefore(answering, box.querySelector(".hint, .solution"));
    if (store.get(key)) { box.classList.add("right"); verdict.textContent = "✓ Answered before."; }
  });
})();
