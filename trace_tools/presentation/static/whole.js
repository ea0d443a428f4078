// Mark the current section in the contents, which show its headings.
(() => {
  const nav = document.querySelector(".contents"), parts = [...document.querySelectorAll("main > .part")];
  const links = new Map([...nav.querySelectorAll("ol > li > a")].map((link) => [link.getAttribute("href").slice(1), link]));
  let current = null, waiting = false;
  const mark = () => {
    waiting = false;
    const read = parts.findLast((part) => part.getBoundingClientRect().top < innerHeight / 3), link = links.get(read?.id) ?? null;
    if (link === current) return;
    current?.removeAttribute("aria-current");
    current = link;
    current?.setAttribute("aria-current", "true");
    if (current && getComputedStyle(nav).position === "sticky") nav.scrollTop = current.offsetTop - nav.offsetTop - 60;
  };
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(mark); } }, { passive: true });
  mark();
})();
