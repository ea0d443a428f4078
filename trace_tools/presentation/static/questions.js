// Think first: what follows a question is folded until the reader answers it or asks for it. Readers can turn this off for all
// pages. Only their own clicks and keys are remembered; links, steps, the search and paper open folds for now (`reveal`).
page.thinkFirst = (() => {
  const { stored, storedHere, make } = page;
  const folds = [...document.querySelectorAll("details.waits")], boxes = [...document.querySelectorAll("#mode-think")];
  const questionOf = (fold) => fold.previousElementSibling;
  const passed = (fold) => storedHere(`passed ${questionOf(fold).dataset.asked}`, fold);
  const choice = stored("think first", "all lectures:");
  let on = choice.get() !== "off";
  const draw = () => {
    document.documentElement.dataset.think = on ? "on" : "off";
    for (const box of boxes) box.checked = on;
    for (const fold of folds) fold.open = !on || questionOf(fold).matches(".right") || Boolean(passed(fold).get());
  };
  const toggle = () => {
    on = !on;
    choice.set(on ? "" : "off");
    draw();
    return on ? "Think first: on." : "Think first: off.";
  };
  const pass = (fold) => { fold.open = true; passed(fold).set("yes"); };
  const showHere = () => {  // the first fold in view
    const fold = folds.find((box) => {
      const { top, bottom } = box.getBoundingClientRect();
      return !box.open && box.checkVisibility() && bottom > 0 && top < innerHeight;
    });
    if (!fold) return "No folded text is in view.";
    pass(fold);
    return "What follows the question is shown.";
  };
  for (const question of document.querySelectorAll(".ask")) {
    if (storedHere(`answer ${question.dataset.asked}`, question).get()) question.classList.add("right");
    const fold = question.nextElementSibling;
    if (!fold?.matches(".waits")) continue;
    const [line] = fold.children, box = make("input", { type: "checkbox" });
    line.addEventListener("click", () => passed(fold).set(fold.open ? "" : "yes"));  // the click changes it afterwards
    question.querySelector(".solution > summary").addEventListener("click", () => pass(fold));
    question.append(make("label", "think", box, " Fold what follows until I answer"));
    boxes.push(box);
  }
  for (const box of boxes) box.addEventListener("change", toggle);
  draw();
  return { toggle, showHere };
})();

// Numbers that readers type:
// "560 GB", "5.6e11", "5.6·10^11", "1,120,000", "3/4", "12%", "2^30", "144 days", "~40", "40x", "40,5" → a number; NaN for
// anything else. A comma before three digits groups them, unless only a 0 is before it.
page.parsed = (() => {
  const PREFIX = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
    m: 1e-3, µ: 1e-6, μ: 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
  const SECONDS = { s: 1, min: 60, h: 3600, days: 86400, day: 86400, d: 86400 };
  const WORDS = { B: 1e9, b: 1e9, thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12 };
  return (text, unit) => {
    const superscript = (all) => `^${[...all].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)).map((at) => (at ? at - 1 : "-")).join("")}`;
    let rest = text.trim().replace(/^(?:[~≈∼]|about)\s*/i, "").replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, superscript).replace(/[−–]/g, "-")
      .replace(/(?<![\d.,])(\d+),(\d+)(?![\d.,])/g, (all, whole, part) => (part.length !== 3 || whole === "0" ? `${whole}.${part}` : all))
      .replace(/(\d)[,_\u202f\u00a0](?=\d{3}(?!\d))/g, "$1");
    const BY = /^(?:[·*/]|[x×](?=\s*[-+.\d]))/, NUMBER = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)/i;
    const factor = () => {
      const found = rest.match(NUMBER);
      if (!found) return NaN;
      rest = rest.slice(found[0].length).trimStart();
      const power = rest.match(/^(?:\^|\*\*)\s*(-?\d+(?:\.\d+)?)/);
      if (power) rest = rest.slice(power[0].length).trimStart();
      return power ? Number(found[0]) ** Number(power[1]) : Number(found[0]);
    };
    let value = factor();
    for (let by = rest.match(BY); by; by = rest.match(BY)) {
      rest = rest.slice(by[0].length).trimStart();
      value = by[0] === "/" ? value / factor() : value * factor();
    }
    if (rest === "" || rest === unit) return value;
    if (!unit && /^(?:x|×|times|-?fold)$/.test(rest)) return value;
    if (rest === "%") return unit === "%" ? value : value / 100;
    if (rest in WORDS) return value * WORDS[rest];
    if (unit === "s" && rest in SECONDS) return value * SECONDS[rest];
    const bare = unit && rest.endsWith(unit) ? rest.slice(0, -unit.length).trim() : rest;
    return bare in PREFIX ? value * PREFIX[bare] : NaN;
  };
})();

// Check readers' answers to questions and remember the correct ones. The solutions are folded on the page.
page.checkAnswers = () => {
  const { make } = page;
  const near = (value, low, high, within) =>
    value >= low - within * Math.abs(low) - 1e-12 * Math.abs(low) && value <= high + within * Math.abs(high) + 1e-12 * Math.abs(high);

  document.querySelectorAll(".ask").forEach((box) => {
    const { kind, right, within, unit, slips } = JSON.parse(box.dataset.answer);
    const answered = page.storedHere(`answer ${box.dataset.asked}`, box), before = answered.get();
    const verdict = make("output", { className: "verdict", role: "status" });
    const solution = box.querySelector(".solution");
    const judge = (state, words, answer = "yes") => {
      box.classList.toggle("right", state === "right");
      box.classList.toggle("wrong", state === "wrong");
      verdict.innerHTML = words;  // the lecture's text, written by the renderer
      if (state !== "right") return;
      answered.set(answer);
      solution.open = true;
      if (box.nextElementSibling?.matches(".waits")) box.nextElementSibling.open = true;
    };
    let again = kind === "text";  // whether the answer that was right is right on this page, where numbers may differ
    const answering = make("div", { className: "answering" });
    if (kind === "choice") {
      const list = box.querySelector(".choices");
      const group = make("fieldset", {}, make("legend", { className: "hidden", textContent: "Your answer" }));
      [...list.children].forEach((item) => {
        const button = make("input", { type: "radio", name: box.id, value: item.dataset.choice });
        if (button.value === before) { button.checked = true; again = before === right; }
        button.addEventListener("change", () => {
          const known = slips.find(([slip]) => slip === item.dataset.choice);
          if (item.dataset.choice === right) judge("right", "✓ Right.", right);
          else judge("wrong", known ? `✗ ${known[1]}` : "✗ Not this one.");
        });
        group.append(make("label", {}, button, make("span", {}, ...item.childNodes)));
      });
      list.replaceWith(group);
      answering.append(verdict);
    } else if (kind === "number") {
      const field = make("input", { type: "text", autocomplete: "off", spellcheck: false, size: 14 });
      field.inputMode = unit ? "text" : "decimal";
      const enough = within ? `: within ${Number((100 * within).toPrecision(3))}% is right.` : ": the exact number is required.";
      if (before) { field.value = before; again = near(page.parsed(before, unit), right[0], right[1], within); }
      const check = () => {
        if (!field.value.trim()) return;
        const value = page.parsed(field.value, unit);
        const known = slips.find(([slip]) => typeof slip === "number" && near(value, slip, slip, within));
        if (Number.isNaN(value)) judge("", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%.");
        else if (near(value, right[0], right[1], within)) judge("right", "✓ Right.", field.value.trim());
        else if (known) judge("wrong", `✗ ${known[1]}`);
        else judge("wrong", value !== 0 && right[0] !== 0 && (value / right[0] > 1.5 || value / right[0] < 0.67)
          ? Math.abs(value) > Math.abs(right[0]) ? "✗ No, the answer is smaller." : "✗ No, the answer is larger." : "✗ Close, but not close enough" + enough);
      };
      field.addEventListener("focus", () => field.select());
      field.addEventListener("keydown", (event) => { event.stopPropagation(); if (event.key === "Enter") check(); });
      const button = make("button", { type: "button", textContent: "Check" });
      button.addEventListener("click", check);
      answering.append(make("label", {}, "Your answer ", field, unit ? ` ${unit}` : ""), button, verdict);
    } else {
      const button = make("button", { type: "button", textContent: "I got it right" });
      button.addEventListener("click", () => judge("right", "✓ Saved."));
      solution.append(make("div", { className: "answering" }, button, verdict));
    }
    if (answering.childNodes.length) box.insertBefore(answering, box.querySelector(".hint, .solution"));
    if (before) verdict.textContent = again ? "✓ Answered earlier." : "✓ Answered earlier, when another answer was right.";
  });
};
document.addEventListener("DOMContentLoaded", page.checkAnswers);
