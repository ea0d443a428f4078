"use strict";
// Of many machines those that a reader chose: their columns in all tables, their rows, their part of the rooflines.
// The address holds the choice, before what leads to a place on the page: ?machines=cpu,nvidia-h200#time_s
(() => {
  const heads = document.querySelector("table.side")?.querySelectorAll("thead th");
  const names = [...(heads ?? [])].slice(1).map((head) => head.textContent.replace(" (base)", ""));
  if (names.length < 3) return;
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const box = Object.assign(document.createElement("fieldset"), { className: "chooser" });
  const asked = new URLSearchParams(location.search).get("machines")?.split(",").filter((name) => names.includes(name));
  const boxes = names.map((name, place) => {
    const input = Object.assign(document.createElement("input"), { type: "checkbox", value: name, checked: !asked?.length || asked.includes(name) });
    const label = document.createElement("label"), mark = document.querySelector(`.chart-roofs .m${place} :is(circle, path[fill^=var])`);
    label.append(input, ` ${name}`);
    if (mark) label.append(" ", swatch(mark));
    return box.appendChild(label).firstChild;
  });
  const all = Object.assign(document.createElement("button"), { type: "button", textContent: "All" });
  const said = Object.assign(document.createElement("output"), { ariaLive: "polite" });
  box.prepend(Object.assign(document.createElement("legend"), { textContent: "Machines shown" }));
  box.append(all, said);

  function swatch(mark) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), drawn = mark.cloneNode();
    const { x, y, width, height } = mark.getBBox();
    for (const [name, value] of [["width", 11], ["height", 11], ["viewBox", `${x - 1} ${y - 1} ${width + 2} ${height + 2}`], ["aria-hidden", true]]) svg.setAttribute(name, value);
    svg.append(drawn);
    return svg;
  }
  const draw = () => {
    const hidden = boxes.flatMap((input, place) => (input.checked ? [] : [place]));
    sheet.replaceSync(hidden.map((n) => `table.side :is(th, td):nth-child(${n + 2}), table[data-of=machines] tbody tr:nth-child(${n + 1}), .chart-roofs .m${n} { display: none }`).join("\n"));
    said.textContent = hidden.length ? `${names.length - hidden.length} of ${names.length}; ratios, best and worst cover all machines` : "";
    all.hidden = !hidden.length;
  };
  box.addEventListener("change", (event) => {
    if (boxes.every((input) => !input.checked)) event.target.checked = true;  // one stays
    choose();
  });
  all.addEventListener("click", () => { boxes.forEach((input) => { input.checked = true; }); boxes[0].focus(); choose(); });
  const choose = () => {
    draw();
    const chosen = boxes.filter((input) => input.checked).map((input) => encodeURIComponent(input.value));
    const rows = new URLSearchParams(location.search).get("rows"), search = [
      ...(chosen.length < names.length ? [`machines=${chosen.join(",")}`] : []), ...(rows ? [`rows=${encodeURIComponent(rows)}`] : [])].join("&");
    try { history.replaceState(null, "", (search ? `?${search}` : location.pathname) + location.hash); } catch { /* a page that may not */ }
  };
  document.querySelector("main h2").before(box);
  draw();
})();
// Only the rows with some words, in all tables, whatever is folded. The words are in the address: ?rows=matmul
(() => {
  if (!document.querySelector(".whole table.side")) return;
  const rows = [...document.querySelectorAll("main table:is(.index, .side) tbody tr")];
  const words = rows.map((row) => row.textContent.toLowerCase());
  const boxes = [...document.querySelectorAll(".whole, .whole .more, main > .more, main > .scroll")].filter((box) => box.querySelector("tbody tr"));
  const line = document.createElement("p");
  line.className = "finder";
  line.innerHTML = '<label> <input type="search" autocomplete="off" spellcheck="false"></label> <output aria-live="polite"></output>';
  line.firstChild.prepend("Rows with");
  const [input, said] = [line.querySelector("input"), line.querySelector("output")];
  let before = null; // which boxes were open
  const find = () => {
    const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, at) => {
      row.hidden = !asked.every((word) => words[at].includes(word));
      found += !row.hidden;
    });
    if (asked.length) before ??= boxes.map((box) => box.open);
    for (const box of boxes) {
      const some = [...box.querySelectorAll("tbody tr")].some((row) => !row.hidden);
      box.hidden = !some;
      if (asked.length && box.matches("details")) box.open = some;
    }
    if (!asked.length && before) { boxes.forEach((box, at) => { box.open = before[at]; }); before = null; }
    said.textContent = asked.length ? `${found} of ${rows.length}` : "";
  };
  input.addEventListener("input", () => {
    find();
    const address = new URL(location.href);
    if (input.value.trim()) address.searchParams.set("rows", input.value.trim()); else address.searchParams.delete("rows");
    try { history.replaceState(null, "", address); } catch { /* a page that may not */ }
  });
  document.querySelector("main h2").before(line);
  input.value = new URLSearchParams(location.search).get("rows") ?? "";
  if (input.value) find();
})();
addEventListener("beforeprint", () => document.querySelectorAll("details:is(.more, .whole)").forEach((box) => { box.open = true; }));
