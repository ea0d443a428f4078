// The current line (j, k), the theme, and opening what an address or a printer points into.
"use strict";
(() => {
  const rows = [...document.querySelectorAll(".row[id]")];
  let current = -1;

  const reveal = (element) => {
    for (let box = element; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  };

  const go = (place) => {
    if (place < 0 || place >= rows.length) return;
    if (current >= 0) rows[current].classList.remove("current");
    current = place;
    rows[current].classList.add("current");
    reveal(rows[current]);
    rows[current].scrollIntoView({ block: "nearest" });
    history.replaceState(null, "", "#" + rows[current].id);
  };

  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    reveal(target);
    if (rows.includes(target)) go(rows.indexOf(target));
    target.scrollIntoView({ block: target.classList.contains("row") ? "center" : "start" });
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
    if (event.key === "j") go(current + 1);
    else if (event.key === "k") go(current - 1);
    else return;
    event.preventDefault();
  });

  const root = document.documentElement;
  const store = (theme) => { try { localStorage.setItem("theme", theme); } catch { /* a page may have no storage */ } };
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  if (stored()) root.dataset.theme = stored();
  document.getElementById("theme")?.addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    store(root.dataset.theme);
  });

  const contents = document.querySelector(".contents > details");
  if (contents && matchMedia("(max-width: 1100px)").matches) contents.open = false;
  addEventListener("beforeprint", () => document.querySelectorAll("details.called").forEach((box) => { box.open = true; }));
  addEventListener("hashchange", follow);
  follow();
})();
