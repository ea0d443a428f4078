// Show lower bounds from another machine's datasheet next to this machine's times. `columns.py` made the texts: for each
// machine its name, a note on it, and a text for each anchor.
(() => {
  const box = document.getElementById("floors");
  if (!box || typeof DecompressionStream === "undefined") return;
  const choice = box.querySelector("select"), about = box.querySelector("small");

  const draw = ({ anchors, machines }) => {
    document.querySelectorAll("#text .floor").forEach((made) => made.remove());
    const [name, known, texts] = machines[choice.selectedIndex - 1] ?? ["", "", []];
    about.textContent = known;
    texts.forEach((text, place) => {
      const row = document.getElementById(anchors[place]);
      if (!text || !row) return;
      let beside = row.querySelector(":scope > .beside");
      if (!beside) row.append(beside = Object.assign(document.createElement("div"), { className: "beside" }));
      beside.append(Object.assign(document.createElement("div"), { className: "floor", textContent: `on ${name}: ${text}`, title: "lower bound, computed from the datasheet" }));
    });
  };

  box.hidden = false;
  requestAnimationFrame(() => setTimeout(() => unpack(sectionData.floors).then((floors) => {
    choice.append(...floors.machines.map(([name]) => new Option(name, name)));
    const chosen = addressed("bounds", floors.machines.map(([name]) => name));
    choice.value = chosen.get()[0] ?? "";
    choice.addEventListener("change", () => {
      chosen.set(choice.value ? [choice.value] : []);
      draw(floors);
    });
    if (choice.value) draw(floors);
  }, () => {})));
})();
