// Check readers' answers to questions and remember the correct ones. The solutions are folded on the page.
(() => {
  const near = (value, low, high, within) =>
    value >= low - within * Math.abs(low) - 1e-12 * Math.abs(low) && value <= high + within * Math.abs(high) + 1e-12 * Math.abs(high);

  const element = (name, attributes, ...inside) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...inside);
    return made;
  };

  document.querySelectorAll(".ask").forEach((box) => {
    const { kind, right, within, unit, slips } = JSON.parse(box.dataset.answer);
    const answered = storedHere(`answer ${box.dataset.asked}`, box), before = answered.get();
    const verdict = element("output", { className: "verdict" });
    verdict.role = "status";
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
    const answering = element("div", { className: "answering" });
    if (kind === "choice") {
      const list = box.querySelector(".choices");
      const group = element("fieldset", {}, element("legend", { className: "hidden", textContent: "Your answer" }));
      [...list.children].forEach((item) => {
        const button = element("input", { type: "radio", name: box.id, value: item.dataset.choice });
        if (button.value === before) { button.checked = true; again = before === right; }
        button.addEventListener("change", () => {
          const known = slips.find(([slip]) => slip === item.dataset.choice);
          if (item.dataset.choice === right) judge("right", "✓ Right.", right);
          else judge("wrong", known ? `✗ ${known[1]}` : "✗ Not this one.");
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
      const enough = within ? `: within ${Number((100 * within).toPrecision(3))}% is right.` : ": the exact number is required.";
      if (before) { field.value = before; again = near(parsed(before, unit), right[0], right[1], within); }
      const check = () => {
        if (!field.value.trim()) return;
        const value = parsed(field.value, unit);
        const known = slips.find(([slip]) => typeof slip === "number" && near(value, slip, slip, within));
        if (Number.isNaN(value)) judge("", "Not a number. Write, for example, 5.6e11, 560 GB, 3/4 or 12%.");
        else if (near(value, right[0], right[1], within)) judge("right", "✓ Right.", field.value.trim());
        else if (known) judge("wrong", `✗ ${known[1]}`);
        else judge("wrong", value !== 0 && right[0] !== 0 && (value / right[0] > 1.5 || value / right[0] < 0.67)
          ? Math.abs(value) > Math.abs(right[0]) ? "✗ No, the answer is smaller." : "✗ No, the answer is larger." : "✗ Close, but not close enough" + enough);
      };
      field.addEventListener("focus", () => field.select());
      field.addEventListener("keydown", (event) => { event.stopPropagation(); if (event.key === "Enter") check(); });
      const button = element("button", { type: "button", textContent: "Check" });
      button.addEventListener("click", check);
      answering.append(element("label", {}, "Your answer ", field, unit ? ` ${unit}` : ""), button, verdict);
    } else {
      const button = element("button", { type: "button", textContent: "I got it right" });
      button.addEventListener("click", () => judge("right", "✓ Saved."));
      solution.append(element("div", { className: "answering" }, button, verdict));
    }
    if (answering.childNodes.length) box.insertBefore(answering, box.querySelector(".hint, .solution"));
    if (before) verdict.textContent = again ? "✓ Answered earlier." : "✓ Answered earlier, when another answer was right.";
  });
})();
