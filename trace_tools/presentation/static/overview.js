// A choice between questions and summaries changes the list and leaves the page where it is.
(() => {
  const { style } = document.documentElement;
  let top = null;
  document.querySelector(".paths")?.addEventListener("click", ({ target }) => {
    const link = target.closest("a");
    if (!link || link.hash === location.hash) return;
    top = scrollY;
    style.scrollBehavior = "auto"; // a smooth scroll to the target would go on after the event
  });
  addEventListener("hashchange", () => {
    if (top !== null) scrollTo({ top });
    top = null;
    style.scrollBehavior = "";
  });
})();
