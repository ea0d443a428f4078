// To the page of another rank, at the place where the reader is: while stepping the player gives the step along.
(() => {
  const bar = document.querySelector(".as-rank"), links = [...bar.querySelectorAll("a")], root = document.documentElement;
  const here = bar.querySelector("[aria-current]");
  bar.scrollLeft += here.getBoundingClientRect().left - bar.getBoundingClientRect().left - 48;
  const inSight = (element) => {
    const { bottom, height } = element.getBoundingClientRect();
    return height && bottom > document.querySelector(".bar").getBoundingClientRect().bottom;
  };
  bar.addEventListener("click", ({ target }) => {
    const link = target.closest("a"), panel = document.getElementById("panel");
    if (!link || (panel && !panel.hidden)) return;
    const lines = document.querySelectorAll(":is(.row, .prose, figure, h2, h3, h4)[id]");
    const place = scrollY > 40 && [...lines].find(inSight);
    if (root.matches(".hall")) link.hash = location.hash;
    else if (place) link.hash = `#${place.id}`;
  });
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (key.toLowerCase() !== "r" || event.ctrlKey || event.metaKey || event.altKey || root.matches(".presenter")) return;
    if (target.closest("textarea, select, dialog[open], input:not([type=range], [type=checkbox])")) return;
    event.preventDefault();
    links[(links.indexOf(here) + (event.shiftKey ? -1 : 1) + links.length) % links.length].click();
  });
})();
