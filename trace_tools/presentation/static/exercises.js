// Think first: what follows a question is folded until the reader answers it or asks for it. Readers can turn this off for all
// pages. Only their own clicks and keys are remembered; links, steps, the search and paper open folds for now (`reveal`).
const thinkFirst = (() => {
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
    const fold = folds.find((one) => {
      const { top, bottom } = one.getBoundingClientRect();
      return !one.open && one.checkVisibility() && bottom > 0 && top < innerHeight;
    });
    if (!fold) return "No folded text is in view.";
    pass(fold);
    return "What follows the question is shown.";
  };
  for (const question of document.querySelectorAll(".ask")) {
    if (storedHere(`answer ${question.dataset.asked}`, question).get()) question.classList.add("right");
    const fold = question.nextElementSibling;
    if (!fold?.matches(".waits")) continue;
    const [line] = fold.children, box = Object.assign(document.createElement("input"), { type: "checkbox" });
    line.addEventListener("click", () => passed(fold).set(fold.open ? "" : "yes"));  // the click changes it afterwards
    question.querySelector(".solution > summary").addEventListener("click", () => pass(fold));
    const label = Object.assign(document.createElement("label"), { className: "think" });
    label.append(box, " Fold what follows until I answer");
    question.append(label);
    boxes.push(box);
  }
  for (const box of boxes) box.addEventListener("change", toggle);
  draw();
  return { toggle, showHere };
})();
