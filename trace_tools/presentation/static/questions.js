// Questions first: values that follow from an answer are masked until the reader answers the question, asks for the answer,
// or presses a mask. One switch in the bar shows all of them on all pages. The renderer marks the values (`exercises.py`), the
// stylesheet hides them, so that nothing flashes while the page loads, and without scripts or on paper all is open.
page.questionsFirst = (() => {
  const { $, stored, storedHere } = page, choice = stored("questions first", "all lectures:"), box = $("questions-first");
  const questions = [...document.querySelectorAll(".ask")];
  const kept = (question, what) => storedHere(`${what} ${question.dataset.asked}`, question);
  const masked = ({ dataset: { asked }, nextElementSibling: after }) => (after?.dataset.follows === asked ? [after] : []);
  const open = (question, isOpen) => {
    for (const after of masked(question)) {
      after.classList.toggle("shown", isOpen);
      for (const mask of after.querySelectorAll(".mask")) {
        if (!mask.children.length) mask.innerHTML = `<span>${mask.innerHTML}</span>`;  // it is hidden, the mask is not
        if (!mask.closest("summary")) Object.assign(mask, isOpen ? { role: null, tabIndex: -1, ariaLabel: null } : { role: "button", tabIndex: 0, ariaLabel: "Hidden until you answer the question. Show" });  // a summary can be pressed already
      }
    }
  };
  const draw = () => {
    const on = choice.get() !== "off";
    document.documentElement.dataset.questions = on ? "on" : "off";
    if (box) box.checked = on;
    for (const question of questions) open(question, !on || ["answer", "passed"].some((what) => kept(question, what).get()));
  };
  const pass = (question) => { kept(question, "passed").set("yes"); open(question, true); };
  const toggle = () => {  // on again hides what was not answered
    if (choice.get() === "off") for (const question of questions) kept(question, "passed").set("");
    choice.set(choice.get() === "off" ? "" : "off");
    draw();
    return choice.get() === "off" ? "Questions first: off." : "Questions first: on.";
  };
  const press = (event) => {
    const after = event.target.closest?.("[data-follows]:not(.shown)"), mask = event.target.closest?.(".mask, summary:has(.mask)");
    if (!after || !mask || (event.key && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    event.stopPropagation();
    pass(after.previousElementSibling);
  };
  for (const kind of ["click", "keydown"]) document.addEventListener(kind, press, true);
  box?.addEventListener("change", toggle);
  if (box) box.parentElement.hidden = false;
  draw();
  return { toggle, pass, open };
})();

// Quantities that readers type: "560 GB", "5.6e11", "5.6·10^11", "1,120,000", "3/4", "12%", "2^30", "144 days", "~40", "40x",
// "40,5", "S = 6D". A comma before three digits groups them, unless only a 0 is before it.
//
//     page.readings("40B", "billion parameters")   [40]: what it may mean, in the unit asked for; [] if it has another unit
//     page.parsed("many", "GB")                    the first of them; NaN if it is no number
{
  const SIZES = { thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12, kilo: 1e3, mega: 1e6, giga: 1e9, tera: 1e12, peta: 1e15,
    kibi: 2 ** 10, mebi: 2 ** 20, gibi: 2 ** 30, tebi: 2 ** 40, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
    k: 1e3, K: 1e3, M: 1e6, G: 1e9, B: 1e9, b: 1e9, T: 1e12, P: 1e15, E: 1e18, m: 1e-3, µ: 1e-6, μ: 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
  const UNITS = { "%": [0.01, ""], x: [1, ""], "×": [1, ""], time: [1, ""], fold: [1, ""], "-fold": [1, ""], s: [1, "s"], sec: [1, "s"], second: [1, "s"],
    min: [60, "s"], minute: [60, "s"], h: [3600, "s"], hour: [3600, "s"], d: [86400, "s"], day: [86400, "s"], week: [604800, "s"], year: [31557600, "s"],
    B: [1, "B"], byte: [1, "B"], bit: [1 / 8, "B"], FLOP: [1, "FLOP"], flop: [1, "FLOP"], dollar: [1, "usd"] };
  // [factor, dimension] of a unit's word, which may have a prefix; undefined if it is none.
  const known = (word) => [word, word.replace(/s$/, "")].map((one) => UNITS[one]).find(Boolean);
  const prefixed = (word) => {
    if (known(word)) return known(word);
    for (const [prefix, size] of Object.entries(SIZES)) {
      const unit = word.startsWith(prefix) && !word.startsWith("b") && known(word.slice(prefix.length));
      if (unit && unit[1]) return [size * unit[0], unit[1]];
    }
    return /^[kmgt]i?b$/.test(word) ? prefixed(word[0].toUpperCase() + word.slice(1, -1) + "B") : undefined;
  };
  const ofWord = (word) => {
    const [over, under] = word.split("/").map((one) => prefixed(one) ?? [1, one.toLowerCase().replace(/s$/, "")]);
    return under ? [over[0] / under[0], `${over[1]}/${under[1]}`] : over;
  };
  // "billion parameters": [1e9, "parameter"]; without a unit the dimension is null. A last "B" is a byte where bytes are asked for.
  const measured = (text, isUnit) => {
    let factor = 1;
    const words = text.split(/\s+/).filter(Boolean);
    while (words.length && words[0] in SIZES && !(words.length === 1 && isUnit(prefixed(words[0])?.[1]))) factor *= SIZES[words.shift()];
    const [size, of] = words.length ? ofWord(words.join(" ").replace(/ (?:per|a|an) /, "/")) : [1, null];
    return [factor * size, of];
  };
  const numberIn = (text) => {  // [its value, what follows it]
    const superscript = (all) => `^${[...all].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)).map((at) => (at ? at - 1 : "-")).join("")}`;
    let rest = text.trim().replace(/^(?:\p{L}+\s*=|[~≈∼]|about)\s*/iu, "").replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, superscript).replace(/[−–]/g, "-")
      .replace(/(?<![\d.,])(\d+),(\d+)(?![\d.,])/g, (all, whole, part) => (part.length !== 3 || whole === "0" ? `${whole}.${part}` : all))
      .replace(/(\d)[,_'\s](?=\d{3}(?!\d))/g, "$1");
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
    return [value, rest];
  };
  page.readings = (text, unit, question = "") => {
    const words = (unit ?? "").split(/[\s/]+/).filter((one) => one && !(one in SIZES) && !prefixed(one)).map((one) => one.replace(/s$/, ""));
    for (const one of words) UNITS[one] = [1, one.toLowerCase()];  // any unit asked for takes prefixes: kHz
    const [value, rest] = numberIn(text), [asked, dimension] = measured(unit ?? "", Boolean), [factor, of] = measured(rest, (one) => one && one === dimension);
    if (Number.isNaN(value)) return [NaN];
    const inUnit = (value * factor) / asked;
    if (of === null) return rest ? [inUnit, value * factor] : [value, inUnit];
    if (of === (dimension ?? "")) return [inUnit];
    return new RegExp(`(?<!\\p{L})${rest.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}(?!\\p{L})`, "u").test(question) ? [value] : [];
  };
  page.parsed = (text, unit) => page.readings(text, unit)[0] ?? NaN;
}

// Check readers' answers to questions and remember the correct ones.
page.checkAnswers = () => {
  const { make } = page;
  const near = (value, low, high, within) =>
    value >= low - within * Math.abs(low) - 1e-12 * Math.abs(low) && value <= high + within * Math.abs(high) + 1e-12 * Math.abs(high);
  // The state and the words for what was typed.
  const judged = page.judged = (text, question, { right: [low, high], within, unit, slips }) => {
    const values = page.readings(text, unit, question), [value] = values, slip = slips.find(([wrong]) => values.some((one) => near(one, wrong, wrong, within)));
    if (!values.length) return ["", unit ? `Give it in ${unit}.` : "Give a number, without a unit."];
    if (Number.isNaN(value)) return ["", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."];
    if (values.some((one) => near(one, low, high, within))) return ["right", "✓ Right."];
    if (slip) return ["wrong", `✗ ${slip[1]}`];
    if (value * low < 0) return ["wrong", `✗ No, the answer is ${low > 0 ? "positive" : "negative"}.`];
    const ratio = Math.abs(value / low);
    if (ratio > 0.67 && ratio < 1.5) return ["wrong", `✗ Close, but not close enough: ${within ? `within ${Number((100 * within).toPrecision(3))}% is right.` : "the exact number is required."}`];
    return ["wrong", `✗ No, the answer is ${Math.abs(value) > Math.abs(low) ? "smaller" : "larger"}.`];
  };

  // At the end of the lecture: how many of its questions this reader has answered.
  const score = page.$("score"), { count } = page.stored("");
  if (score) score.textContent = `Questions that you have answered: ${count(" answer ")} of ${score.dataset.of}`;
  document.querySelectorAll(".ask").forEach((box) => {
    const known = JSON.parse(box.dataset.answer), { kind, right, unit, slips } = known, question = box.querySelector(".prose").textContent;
    const answered = page.storedHere(`answer ${box.dataset.asked}`, box), before = answered.get(), hint = box.querySelector(".hint");
    const verdict = make("output", { className: "verdict", role: "status" }), solution = box.querySelector(".solution");
    const judge = ([state, words], answer = "yes") => {
      box.classList.toggle("right", state === "right");
      box.classList.toggle("wrong", state === "wrong");
      verdict.innerHTML = words;  // the lecture's text, written by the renderer
      if (state !== "right") return;
      answered.set(answer);
      solution.open = true;
      page.questionsFirst.open(box, true);
    };
    const answering = make("div", { className: "answering" });
    const press = (text, onclick) => make("button", { type: "button", textContent: text, onclick });
    if (kind === "choice") {
      const list = box.querySelector(".choices");
      const group = make("fieldset", {}, make("legend", { className: "hidden", textContent: "Your answer" }));
      [...list.children].forEach((item) => {
        const button = make("input", { type: "radio", name: box.id, value: item.dataset.choice });
        button.checked = button.value === before;
        button.addEventListener("change", () => {
          const slip = slips.find(([wrong]) => wrong === item.dataset.choice);
          judge(item.dataset.choice === right ? ["right", "✓ Right."] : ["wrong", slip ? `✗ ${slip[1]}` : "✗ Not this one."], right);
        });
        group.append(make("label", {}, button, make("span", {}, ...item.childNodes)));
      });
      list.replaceWith(group);
    } else if (kind === "number") {
      const field = make("input", { type: "text", autocomplete: "off", spellcheck: false, size: 14, inputMode: unit ? "text" : "decimal" });
      field.value = before ?? "";
      const check = () => { if (field.value.trim()) judge(judged(field.value, question, known), field.value.trim()); };
      field.addEventListener("focus", () => field.select());
      field.addEventListener("keydown", (event) => { event.stopPropagation(); if (event.key === "Enter") check(); });
      answering.append(make("label", {}, make("span", "hidden", "Your answer "), field, unit ? ` ${unit}` : ""), press("Check", check));
    }
    if (hint) answering.append(press("Hint", () => { hint.open = !hint.open; }));
    answering.append(press("Answer", () => { solution.open = true; box.classList.add("told"); page.questionsFirst.pass(box); }));
    if (kind === "text") solution.append(press("I got it right", () => judge(["right", "✓ Saved."])));
    (hint ?? solution).before(answering, verdict);
    if (!before) return;
    verdict.textContent = "✓ Answered earlier.";
    box.classList.add("right");
  });
};
document.addEventListener("DOMContentLoaded", page.checkAnswers);
