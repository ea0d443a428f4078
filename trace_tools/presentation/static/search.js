// The search dialog. The search code (`finding.js`) is with the index in a file next to the pages, loaded on the first search.
(() => {
  const $ = (id) => document.getElementById(id);
  const dialog = $("search"), field = $("search-for"), said = $("search-said"), opener = $("search-open");
  let loading = null;
  const open = () => {
    if (document.querySelector("dialog[open]")) return;
    dialog.showModal();
    field.select();
    loading ??= new Promise((done, fail) => {
      document.head.append(Object.assign(document.createElement("script"), { src: `${dialog.dataset.folder}search-index.js`, onload: done, onerror: fail }));
    });
    loading.then(() => lookUp(), () => {
      said.textContent = "Cannot load the search index, search-index.js.";
      loading = null;
    });
  };
  opener.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("textarea, select, input:not([type=range], [type=checkbox])")) return;
    event.preventDefault();
    open();
  });
  opener.hidden = typeof DecompressionStream === "undefined";
})();
