// What all scripts of a page share, and what every page can do without the others: its colours, unfolding, copying,
// the reader's place. The scripts share one name, `page`; Python adds to it the data of a page.
"use strict";
const page = (() => {
  const $ = (id) => document.getElementById(id);
  // An element with a class, or with properties.
  const make = (tag, about, ...inside) => {
    const made = Object.assign(document.createElement(tag), typeof about === "string" ? about && { className: about } : about);
    made.append(...inside);
    return made;
  };
  const reveal = (element) => {
    for (let box = element; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
  };
  const copied = (text) => navigator.clipboard?.writeText(text);
  // Unpack the data of `page_shell.py`.
  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  };
  // What a reader did is stored for this lecture: several may share one storage.
  const { textContent: ofTitle } = document.querySelector(".bar .home");
  const stored = (name, of = ofTitle, storage = () => localStorage) => {
    const key = `${of} ${name}`;
    return {
      get: () => { try { return storage().getItem(key); } catch { return null; } },
      count: (what) => { try { return Object.keys(storage()).filter((one) => one.startsWith(key) && one.includes(what)).length; } catch { return 0; } },
      set: (text) => { try { if (text) storage().setItem(key, text); else storage().removeItem(key); } catch { /* no storage */ } },
    };
  };
  const storedForTab = (name) => stored(name, undefined, () => sessionStorage);
  const lettersAreKeys = { of: stored("letters", "all lectures:"), get() { return this.of.get() !== "off"; } };
  // The same for the section of an element, whatever its number.
  const storedHere = (name, element) => {
    const page = location.pathname.split("/").at(-1).replace(/\.html$/, "");
    return stored(`${(element.closest(".part")?.id ?? page).replace(/^\d+-/, "")} ${name}`);
  };
  // The first line, text, figure or heading in the window; none at the top of a page.
  const placeInSight = () => {
    const top = document.querySelector(".bar").getBoundingClientRect().bottom;
    const inSight = (element) => element.getBoundingClientRect().bottom > top && element.checkVisibility();
    return scrollY > 40 ? [...document.querySelectorAll("main :is(.row[id], .prose[id], figure[id], :is(h2, h3, h4)[id])")].find(inSight) : undefined;
  };
  // A choice among names, in the address and for the pages that follow: "?compare=cpu&bounds=H100". The address counts.
  const addressed = (name, names) => ({
    get: () => {
      try {
        const chosen = new URLSearchParams(location.search).getAll(name);
        return (chosen.length ? chosen : JSON.parse(storedForTab(name).get() ?? "[]")).filter((one) => names.includes(one));
      } catch { return []; }
    },
    set: (chosen) => {
      const address = new URL(location.href);
      address.searchParams.delete(name);
      for (const one of chosen) address.searchParams.append(name, one);
      storedForTab(name).set(JSON.stringify(chosen));
      try { history.replaceState(null, "", address); } catch { /* a page without an address of its own */ }
    },
  });
  const styled = (css) => { const sheet = new CSSStyleSheet(); sheet.replaceSync(css); return sheet; };
  return { $, make, reveal, copied, unpack, stored, storedForTab, storedHere, addressed, lettersAreKeys, placeInSight, styled };
})();

// The search: its code and the index are one file next to the pages (`search.js`), loaded when the dialog first opens.
page.openSearch = () => {
  const dialog = page.$("search");
  if (!dialog || document.querySelector("dialog[open]")) return;
  dialog.showModal();
  page.$("search-for").select();
  const src = `${dialog.dataset.folder}search-index.js`;
  page.searching ??= new Promise((onload, onerror) => document.head.append(page.make("script", { src, onload, onerror })));
  page.searching.then(() => page.lookUp(), () => {
    page.$("search-status").textContent = "Cannot load the search index, search-index.js.";
    page.searching = null;
  });
};

// One table of the keys that are taken: key → what it does, given the event; each script adds its own. A key acts unless
// it is being typed into a field; a letter acts only if the reader lets letters be keys.
page.keys = { "/": page.openSearch };
document.addEventListener("keydown", (event) => {
  const { key, target } = event, action = page.keys[key] ?? page.keys[key.toLowerCase()];  // with Shift, as in edtrace, or without
  if (!action || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (/^[a-z]$/i.test(key) && !page.lettersAreKeys.get()) return;
  if (target.closest("textarea, select, input:not([type=range], [type=checkbox])")) return;
  if (action(event) !== false) event.preventDefault();
});

page.start = () => {
  const { $, reveal, stored } = page, opener = $("search-open"), root = document.documentElement;
  opener?.addEventListener("click", page.openSearch);
  if (opener) opener.hidden = typeof DecompressionStream === "undefined";

  const follow = () => {
    const target = $(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    reveal(target);
    target.scrollIntoView({ block: target.classList.contains("row") ? "center" : "start" });
  };
  addEventListener("hashchange", follow);
  addEventListener("load", () => {
    follow();  // again, after scripts have added content above it; without animation
    root.classList.add("moving");
  });

  // The button changes between light and dark; the system's own colours are not stored, so that they follow it.
  const theme = stored("theme", "all lectures:"), button = $("theme");
  const system = () => (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const colour = () => {
    const chosen = theme.get(), other = (chosen ?? system()) === "dark" ? "light" : "dark";
    if (chosen) root.dataset.theme = chosen; else delete root.dataset.theme;
    button.ariaLabel = button.title = `Colours: ${other}`;
    return other;
  };
  colour();
  button.hidden = false;
  button.addEventListener("click", () => { const other = colour(); theme.set(other === system() ? "" : other); colour(); });

  // A menu closes at a click outside, or by Escape.
  const menu = document.querySelector("details.menu");
  document.addEventListener("click", ({ target }) => { if (menu?.open && !menu.contains(target)) menu.open = false; });
  menu?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstElementChild.focus();
    event.stopPropagation();
  });
  // The range of a number covers the text below it.
  document.addEventListener("keydown", ({ key }) => { if (key === "Escape") document.activeElement.closest(".varied")?.blur(); });
  const contents = document.querySelector(".contents > details");
  if (contents && matchMedia("(max-width: 1100px)").matches) contents.open = false;
  contents?.classList.add("settled");
  // Deeper parts stay as the reader's own clicks left them.
  document.querySelectorAll("details.deeper").forEach((box) => {
    const own = page.storedHere(`deeper ${box.querySelector("[id]").id}`, box);
    if (own.get()) box.open = true;
    box.firstElementChild.addEventListener("click", () => own.set(box.open ? "" : "open"));  // the click changes it afterwards
  });
  follow();
};

// Listings: a number for the line under the pointer, a button that copies.
page.listings = () => {
  const { make } = page;
  // Links for the numbers of all lines would be hundreds of tab stops.
  document.addEventListener("pointerover", ({ target }) => {
    const row = target.closest?.(".row:not(:has(> .code > .n))"), number = row && /L(\d+)$/.exec(row.id);
    if (number) row.querySelector(".code").prepend(make("a", { className: "n", href: `#${row.id}`, textContent: number[1], ariaLabel: `Line ${number[1]}` }));
  });
  addEventListener("mousedown", ({ target }) => document.body.classList.toggle("taking", Boolean(target.closest?.(".code"))));  // a selection of code only

  const status = make("p", { className: "hidden", role: "status" });
  const copier = (listing) => {
    const button = make("button", { type: "button", className: "copy", ariaLabel: "Copy this code" });
    button.addEventListener("click", async (event) => {
      event.stopPropagation();  // not a click on the line under it
      const lines = [...listing.querySelectorAll(":scope > .row > .code > code")].map((line) => line.textContent);
      await page.copied(`${lines.join("\n")}\n`);
      button.focus();
      button.classList.add("done");
      status.textContent = lines.length === 1 ? "Copied 1 line." : `Copied ${lines.length} lines.`;
      setTimeout(() => { button.classList.remove("done"); status.textContent = ""; }, 2000);
    });
    listing.querySelector(":scope > .row > .code")?.append(button);
  };
  requestAnimationFrame(() => setTimeout(() => {  // after the first paint
    document.body.append(status);
    document.querySelectorAll(".listing").forEach(copier);
    // The rest of a long line that a narrow column breaks is indented, so that it does not look like a statement.
    for (const code of document.querySelectorAll(".code > code")) {
      const blanks = /^ */.exec(code.textContent)[0].length;
      if (blanks && code.textContent.length > 44) code.style.setProperty("--in", `${Math.min(blanks, 12) + 4}ch`);
    }
  }));
};

// Highlight related elements on hover and focus: an element of a storage in every tensor that views it, the tensors of a
// storage, and a line with its marks in the figures of measurements.
page.link = () => {
  const at = (cell, box) => {  // the position in its storage: the offset, plus each index times its stride
    const [storage, offset, down, across] = box.dataset.cells.split(" ");
    return `${storage} ${Number(offset) + cell.parentNode.rowIndex * Number(down) + cell.cellIndex * Number(across)}`;
  };
  const cells = (position) => [...document.querySelectorAll(".gridbox[data-cells]")].flatMap((box) =>
    box.dataset.cells.startsWith(`${position.split(" ")[0]} `) ? [...box.querySelectorAll("td")].filter((cell) => at(cell, box) === position) : []);
  const related = (element) => {
    const cell = element.closest(".gridbox[data-cells] td"), storage = element.closest(".storage"), mark = element.closest(".drawn a[href]");
    if (cell) return cells(at(cell, cell.closest(".gridbox")));
    if (storage) return [...document.querySelectorAll(".storage")].filter((other) => other.textContent === storage.textContent);
    if (mark) return [page.$(mark.getAttribute("href").split("#")[1])].filter(Boolean);
    const row = element.closest(".row[id]");
    return row ? [...document.querySelectorAll(`.drawn a[href$="#${CSS.escape(row.id)}"]`)] : [];
  };
  let lit = [];
  const light = ({ target }) => {
    const found = target instanceof Element ? related(target) : [];
    for (const element of lit) element.classList.remove("lit");
    lit = found.length > 1 || (found.length && !found.includes(target)) ? found : [];
    for (const element of lit) element.classList.add("lit");
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, light);
};

// The reader's position in sections is remembered; the first page links to it.
page.remember = () => {
  const place = page.stored("place"), again = page.$("again"), title = document.querySelector("main > h1")?.textContent;
  if (again) {
    const { page: address, at, name } = JSON.parse(place.get() ?? "{}");
    if (![...document.querySelectorAll("main a")].some((link) => link.getAttribute("href") === address)) return;
    again.href = address + (at ? `#${at}` : "");
    again.querySelector("small").textContent = name;
    again.hidden = false;
  } else if (document.querySelector(".contents [aria-current=page]")) {
    // A glance is no reading: it takes some seconds in view, or scrolling.
    let isRead = false, begun = 0, from = null;
    const watch = () => { clearTimeout(begun); if (!document.hidden) begun = setTimeout(() => { isRead = true; }, 5000); };
    watch();
    document.addEventListener("visibilitychange", watch);
    addEventListener("load", () => requestAnimationFrame(() => { from = scrollY; }));  // where the address led
    addEventListener("scroll", () => { isRead ||= from !== null && Math.abs(scrollY - from) > innerHeight / 3; }, { passive: true });
    addEventListener("pagehide", () => {
      if (!isRead) return;
      const passed = [...document.querySelectorAll("main h2[id], main h3[id]")].filter((heading) => heading.getBoundingClientRect().top < innerHeight / 2 && heading.checkVisibility());
      place.set(JSON.stringify({ page: location.pathname.split("/").slice(-2).join("/"), at: passed.at(-1)?.id ?? "", name: title }));
    });
  }
};

// On the page of the whole lecture, the contents mark the current section.
page.markSection = () => {
  const nav = document.querySelector(".contents"), parts = [...document.querySelectorAll("main > .part")];
  if (!parts.length) return;
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
};

for (const feature of ["start", "listings", "link", "remember", "markSection"]) page[feature]();
