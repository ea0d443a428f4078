// The theme, and opening what an address or a printer points into.
"use strict";
const reveal = (element) => {
  for (let box = element; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
};
(() => {
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    reveal(target);
    target.scrollIntoView({ block: target.classList.contains("row") ? "center" : "start" });
  };

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
