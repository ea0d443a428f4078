// A choice between questions and summaries changes the list and leaves the page where it is.
(() => {
  let top = null;
  document.querySelector(".paths")?.addEventListener("click", ({ target }) => {
    const link = target.closest("a");
    if (link && link.hash !== location.hash) top = scrollY;
  });
  addEventListener("hashchange", () => {
    if (top !== null) scrollTo({ top, behavior: "instant" });
    top = null;
  });
})();
