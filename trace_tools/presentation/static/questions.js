// Questions first: values that follow from an answer are masked until the reader answers the question, asks for the answer,
// or presses a mask. One switch in the bar shows all of them on all pages. The renderer marks the values (`exercises.py`), the
// stylesheet hides them, so that nothing flashes while the page loads, and without scripts or on paper all is open.
page.questionsFirst = (() => {
  const { $, stored, storedHere } = page, choice = stored("questions first", "all lectures:"), box = $("questions-first");
  const questions = [...document.querySelectorAll(".ask")];
  const kept = (question, what) => storedHere(`${what} ${question.dataset.asked}`, question);
  const open = (question, isOpen) => {
    const after = question.nextElementSibling;
    if (after?.dataset.follows !== question.dataset.asked) return;
    after.classList.toggle("shown", isOpen);
    for (const mask of after.querySelectorAll(".mask")) {
      if (!mask.children.length) mask.innerHTML = `<span>${mask.innerHTML}</span>`;  // it is hidden, the mask is not
      if (!mask.closest("summary")) Object.assign(mask, isOpen ? { role: null, tabIndex: -1, ariaLabel: null } : { role: "button", tabIndex: 0, ariaLabel: "Hidden until you answer the question. Show" });  // a summary can be pressed already
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

// Quantities that readers type: "560 GB", "5.6·10^11", "1,120,000", "3/4", "12%", "about 144 days", "40x", "40,5", "175 to 185", "13½".
// A comma before three digits groups them, unless only a 0 is before it. Words after the number that are no units do not count.
//     page.readings("40B", "billion parameters")   [40, …]: what it may mean, in the unit asked for; [] if it has another unit
//     page.parsed("many", "GB")                    the first of them; NaN if it is no number
{
  const SMALL = { m: 1e-3, µ: 1e-6, μ: 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
  const SIZES = { thousand: 1e3, million: 1e6, billion: 1e9, bn: 1e9, trillion: 1e12, kilo: 1e3, mega: 1e6, giga: 1e9, tera: 1e12, peta: 1e15,
    kibi: 2 ** 10, mebi: 2 ** 20, gibi: 2 ** 30, tebi: 2 ** 40, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
    k: 1e3, K: 1e3, M: 1e6, G: 1e9, B: 1e9, b: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  const TIMES = { s: 1, sec: 1, second: 1, min: 60, minute: 60, h: 3600, hr: 3600, hour: 3600, d: 86400, day: 86400, week: 604800, month: 2629800, y: 31557600, yr: 31557600, year: 31557600 };
  const UNITS = { ...Object.fromEntries(Object.entries(TIMES).map(([name, seconds]) => [name, [seconds, "s"]])), "%": [0.01, ""], percent: [0.01, ""], pct: [0.01, ""],
    x: [1, ""], "×": [1, ""], time: [1, ""], fold: [1, ""], B: [1, "B"], byte: [1, "B"], bit: [1 / 8, "B"], FLOP: [1, "FLOP"], flop: [1, "FLOP"], dollar: [1, "usd"], usd: [1, "usd"] };
  const WORDS = { half: "1/2", third: "1/3", quarter: "1/4", twice: "2", double: "2", triple: "3", "½": "+1/2", "⅓": "+1/3", "¼": "+1/4", "¾": "+3/4" };
  const OTHERS = /[\p{L}\d]\(/u;  // functions, which are not computed
  const single = (word) => word.replace(/s$/, ""), small = (word) => (word.length > 2 ? word.toLowerCase() : word);
  const spelt = (word, table) => table[word] ?? table[single(word)] ?? table[small(word)] ?? table[single(small(word))];
  // [factor, dimension] of a word, which may have a prefix, as may any word of the unit asked for: "kHz"; undefined if it is no unit.
  const ofWord = (word, asked) => {
    const known = spelt(word, UNITS), bytes = /^([kmgt])(i?)b$/i.exec(word);
    if (known || bytes) return known ?? [SIZES[bytes[1].toUpperCase() + bytes[2]], "B"];
    for (const [prefix, size] of /^b/i.test(word) ? [] : Object.entries({ ...SIZES, ...SMALL })) {
      const rest = word.startsWith(prefix) ? word.slice(prefix.length) : "", unit = spelt(rest, UNITS);
      if (unit?.[1]) return [size * unit[0], unit[1]];
      if (rest.length > 1 && ` ${asked}`.toLowerCase().includes(` ${single(rest.toLowerCase())}`)) return [size, ""];
    }
  };
  const ofUnit = (text, asked) => {
    const [over, under] = text.split("/"), unit = ofWord(over, asked), of = ofWord(under ?? "", asked) ?? [1, single(under ?? "")];
    return unit && under ? [unit[0] / of[0], `${unit[1]}/${of[1]}`] : unit;
  };
  // "billion parameters": [1e9, null], as it has no unit; `size` and `of` are those of the unit asked for.
  const measured = (text, asked, [size, of] = [1, "B"]) => {
    const words = (of?.endsWith("/s") ? text.replace(/ps$|(?<=FLOP)s$/i, "/s") : text).replace(/^(?:an? |[-\s])+/, "").replace(/\s*\/\s*| (?:per|an?) /g, "/");
    let factor = 1;
    for (const word of words.split(/[\s.,!?)]+/)) {
      const multiplier = spelt(word, SIZES) ?? (size === 1 ? SMALL[word] : undefined), unit = ofUnit(word, asked);
      if (!multiplier || (/^b$/i.test(word) && /^B/.test(of))) return unit ? [factor * unit[0], unit[1]] : [factor, null];
      factor *= multiplier;
    }
    return [factor, null];
  };
  const REWRITTEN = [  // what is typed, and how it is read
    [/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, (all) => `^${[...all].map((c) => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)]).join("")}`],
    [/[−–]/g, "-"],
    [/[½⅓¼¾]|[a-z]+/gi, (word) => spelt(word, WORDS) ?? word],
    [/(?<![\d.,])(\d+),(\d+)(?![\d.,])/g, (all, whole, part) => (part.length !== 3 || whole === "0" ? `${whole}.${part}` : all)],
    [/(?<![\d.])\d+(\.\d{3}){2,}/g, (all) => all.replaceAll(".", "")],  // 4.000.000
    [/(\d)[,_'’\s](?=\d{3}(?!\d))/g, "$1"],
    [/(\d)\s+(?=\d\d?\/\d)/g, "$1+"],  // 2 1/4
    [/^[^\d]*?(?=[-+]?\.?\d)/, ""],
  ];
  const numberIn = (text) => {  // [its value, what follows it]
    let rest = OTHERS.test(text) ? "" : REWRITTEN.reduce((read, [typed, meant]) => read.replace(typed, meant), text);
    const read = (pattern) => { const found = rest.match(pattern); rest = rest.slice(found?.[0].length ?? 0).trimStart(); return found?.[0]; };
    const chain = (next, pattern, combined) => () => { let value = next(); for (let by; (by = read(pattern));) value = combined(value, by, next()); return value; };
    const factor = () => Number(read(/^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?/i) ?? NaN);
    const power = chain(factor, /^(?:\^|\*\*)(?=\s*[-\d])/, (a, by, b) => a ** b);
    const product = chain(power, /^(?:[·*/:]|[x×])(?=\s*[-+.\d])/, (a, by, b) => (/[/:]/.test(by) ? a / b : a * b));
    const sum = chain(product, /^(?:[-+]|to|or)(?=\s*[.\d])/,  // "175-185" and "175 to 185" are ranges, "40 to 1" is a ratio
      (a, by, b) => (by === "+" ? a + b : b >= a ? (a + b) / 2 : by === "-" ? a - b : a / b));
    return [sum(), rest];
  };
  page.readings = (text, unit = "", question = "") => {
    const [asked, dimension] = measured(unit, ""), [number, rest] = numberIn(text), [factor, of] = measured(rest, unit, [asked, dimension]);
    const isMore = /%|percent/i.test(rest) && (/^\s*\+/.test(text) || /more|longer|slower|faster|larger|higher/.test(rest)), value = number * factor + isMore;
    if (Number.isNaN(number)) return [NaN];
    if (of === null) return dimension === "s" ? [value] : rest && factor !== 1 ? [value / asked, value] : [value, value / asked];
    if (of === (dimension ?? "")) return [value / asked];
    return !unit && of.includes("/") && of.split("/").every((one) => new RegExp(`\\b${one}`, "i").test(question)) ? [value] : [];  // "16 FLOP/byte"
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
    if (!values.length) return ["", unit && unit !== "times" ? `Give it in ${unit}.` : "Give a number, without a unit."];
    if (Number.isNaN(value)) return ["", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%."];
    if (values.some((one) => near(one, low, high, within))) return ["right", "✓ Right."];
    if (slip) return ["wrong", `✗ ${slip[1]}`];
    if (!unit && near(value / 100, low, high, within)) return ["", "Write a share as 12% or 0.12."];
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
