// Highlight related elements on hover and focus: an element of a storage in every tensor that views it, the tensors of a
// storage, and a line with its marks in the figures of measurements.
(() => {
  const at = (cell, box) => {  // the position in its storage: the offset, plus each index times its stride
    const [storage, offset, down, across] = box.dataset.cells.split(" ");
    return `${storage} ${Number(offset) + cell.parentNode.rowIndex * Number(down) + cell.cellIndex * Number(across)}`;
  };
  const cells = (place) => [...document.querySelectorAll(".gridbox[data-cells]")].flatMap((box) =>
    box.dataset.cells.startsWith(`${place.split(" ")[0]} `) ? [...box.querySelectorAll("td")].filter((cell) => at(cell, box) === place) : []);
  const links = (row) => (row.id ? [...document.querySelectorAll(`.drawn a[href$="#${CSS.escape(row.id)}"]`)] : []);
  const together = (over) => {
    const cell = over.closest(".gridbox[data-cells] td"), storage = over.closest(".storage"), link = over.closest(".drawn a[href]");
    if (cell) return cells(at(cell, cell.closest(".gridbox")));
    if (storage) return [...document.querySelectorAll(".storage")].filter((other) => other.textContent === storage.textContent);
    if (link) return [document.getElementById(link.getAttribute("href").split("#")[1])].filter(Boolean);
    const row = over.closest(".row[id]");
    return row ? links(row) : [];
  };
  let lit = [];
  const light = (event) => {
    const found = event.target instanceof Element ? together(event.target) : [];
    for (const one of lit) one.classList.remove("lit");
    lit = found.length > 1 || (found.length && !found.includes(event.target)) ? found : [];
    for (const one of lit) one.classList.add("lit");
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, light);
})();
