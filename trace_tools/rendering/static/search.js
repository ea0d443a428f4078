// The search's box. What finds things (`finding.js`) lies with the index in a file beside the pages, read when it is first asked for.
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
      said.textContent = "The index of the search, search-index.js, can't be read.";
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
