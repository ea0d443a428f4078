// The theme, and unfolding parts for an address or for printing.
"use strict";
const reveal = (element) => {
  for (let box = element; box; box = box.parentElement) if (box.tagName === "DETAILS") box.open = true;
};
const copied = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
  } catch {  // the clipboard is not available
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
};
// Unpack the data of `payload.py`.
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
    set: (text) => { try { if (text) storage().setItem(key, text); else storage().removeItem(key); } catch { /* no storage */ } },
  };
};
const storedForTab = (name) => stored(name, undefined, () => sessionStorage);
const lettersAreKeys = { of: stored("letters", "all lectures:"), get() { return this.of.get() !== "off"; } };
const printsCore = stored("print", "all lectures:");  // "core", or all
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
(() => {
  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    reveal(target);
    target.scrollIntoView({ block: target.classList.contains("row") ? "center" : "start" });
  };

  // If the address has no anchor, only the visible part is laid out at first.
  const root = document.documentElement, settle = () => root.classList.add("settled");
  if (location.hash || performance.getEntriesByType("navigation")[0]?.type !== "navigate") settle();
  else requestAnimationFrame(() => setTimeout(settle));
  const theme = stored("theme", "all lectures:"), button = document.getElementById("theme");
  const SIGNS = { "": ["◐", "same as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
  const colour = () => {
    const chosen = theme.get() ?? "", [sign, name] = SIGNS[chosen] ?? SIGNS[""];
    if (chosen) root.dataset.theme = chosen; else delete root.dataset.theme;
    button.firstElementChild.textContent = sign;
    button.ariaLabel = button.title = `Colours: ${name}`;
  };
  colour();
  button.hidden = false;
  button.addEventListener("click", () => {  // the other colours first, then the system's own, then back
    const order = matchMedia("(prefers-color-scheme: dark)").matches ? ["", "light", "dark"] : ["", "dark", "light"];
    theme.set(order[(order.indexOf(theme.get() ?? "") + 1) % 3]);
    colour();
  });

  // Show a line's number as a link under the pointer. Links for all lines would be hundreds of tab stops.
  document.addEventListener("pointerover", ({ target }) => {
    const row = target.closest?.(".row:not(:has(> .code > .n))"), number = row && /L(\d+)$/.exec(row.id);
    if (!number) return;
    const link = Object.assign(document.createElement("a"), { className: "n", href: `#${row.id}`, textContent: number[1] });
    link.ariaLabel = `Line ${number[1]}`;
    row.querySelector(".code").prepend(link);
  });

  // Copy code: a button for each listing; a selection that begins in code excludes observations.
  const heard = document.createElement("p");
  heard.className = "hidden";
  heard.role = "status";
  const copier = (listing) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.ariaLabel = "Copy this code";
    button.addEventListener("click", async (event) => {
      event.stopPropagation();  // not a click on the line under it
      const lines = [...listing.querySelectorAll(":scope > .row > .code > code, :scope > .unran > .row > .code > code")].map((line) => line.textContent);
      await copied(`${lines.join("\n")}\n`);
      button.focus();
      button.classList.add("done");
      heard.textContent = lines.length === 1 ? "Copied 1 line." : `Copied ${lines.length} lines.`;
      setTimeout(() => { button.classList.remove("done"); heard.textContent = ""; }, 2000);
    });
    listing.querySelector(":scope > .row > .code, :scope > .unran > .row > .code")?.append(button);
  };
  // Notes that take more lines than their code are cut to its height; a button shows the others.
  const fitting = new ResizeObserver((entries) => entries.forEach(({ target }) =>
    target.classList.toggle("fits", !target.classList.contains("whole") && target.scrollHeight <= target.clientHeight + 4)));
  const unfolder = (notes) => {
    const button = Object.assign(document.createElement("button"), { type: "button", className: "unfold", ariaLabel: "Show all notes", ariaExpanded: "false" });
    const unfold = (open) => { notes.classList.toggle("whole", open); button.ariaExpanded = `${open}`; };
    button.addEventListener("click", (event) => { event.stopPropagation(); unfold(!notes.classList.contains("whole")); });
    notes.addEventListener("toggle", ({ target }) => { if (target.open) unfold(true); }, true);
    notes.addEventListener("focusin", ({ target }) => { if (target !== button && target.matches(":focus-visible")) unfold(true); });
    notes.append(button);
    fitting.observe(notes);
  };
  requestAnimationFrame(() => setTimeout(() => {  // after the first paint
    document.body.append(heard);
    document.querySelectorAll(".listing").forEach(copier);
    document.querySelectorAll(".beside.tall").forEach(unfolder);
  }));
  // Wide content fades at the edge beyond which it can be scrolled.
  const scrolls = ".scroll, .drawnbox";
  const goOn = (boxes) => {  // measure all before changing any, because each change forces a new layout
    const shown = boxes.filter((box) => box.checkVisibility());
    const on = shown.map((box) => box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    shown.forEach((box, place) => box.classList.toggle("goes-on", on[place]));
  };
  const fade = () => goOn([...document.querySelectorAll(scrolls)]);
  document.addEventListener("scroll", ({ target }) => { if (target.matches?.(scrolls)) goOn([target]); }, { capture: true, passive: true });
  for (const event of ["load", "resize"]) addEventListener(event, fade);
  document.addEventListener("toggle", fade, true);
  addEventListener("mousedown", ({ target }) => document.body.classList.toggle("taking", Boolean(target.closest?.(".code"))));

  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") document.activeElement.closest(".varied")?.blur();  // its range covers the text below it
  });

  // A menu closes at a click outside, or by Escape.
  const menu = document.querySelector("details.menu");
  document.addEventListener("click", ({ target }) => { if (menu?.open && !menu.contains(target)) menu.open = false; });
  menu?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.firstElementChild.focus();
    event.stopPropagation();
  });

  const contents = document.querySelector(".contents > details");
  if (contents && matchMedia("(max-width: 1100px)").matches) contents.open = false;
  // Paper has all parts open; the screen then has them as before.
  const closed = [], opened = [];
  addEventListener("beforeprint", () => {
    const core = printsCore.get() === "core", folds = "details:is(.called, .claimed, .deeper, .waits, .unran, .grids, .tools)";
    closed.push(...document.querySelectorAll(`${folds}${core ? ":not(.deeper)" : ""}:not([open])`));
    for (const box of closed) box.open = true;
    opened.push(...(core ? document.querySelectorAll("details.deeper[open]") : []));
    for (const box of opened) box.open = false;
  });
  addEventListener("afterprint", () => { for (const box of closed.splice(0)) box.open = false; for (const box of opened.splice(0)) box.open = true; });
  // Deeper parts stay as the reader's own clicks left them.
  document.querySelectorAll("details.deeper").forEach((box) => {
    const own = storedHere(`deeper ${box.querySelector("[id]").id}`, box);
    if (own.get()) box.open = true;
    box.firstElementChild.addEventListener("click", () => own.set(box.open ? "" : "open"));  // the click changes it afterwards
  });
  addEventListener("hashchange", follow);
  follow();
  addEventListener("load", () => {
    follow();  // again, after scripts have added content above it; without animation
    root.classList.add("moving");
  });

  // Remember the reader's position in sections; the first page links to it.
  const place = stored("place");
  const again = document.getElementById("again");
  const title = document.querySelector("main > h1")?.textContent;
  if (again) {
    const { page, at, name } = JSON.parse(place.get() ?? "{}");
    if ([...document.querySelectorAll("main a")].some((it) => it.getAttribute("href") === page)) {
      again.href = page + (at ? `#${at}` : "");
      again.querySelector("small").textContent = name;
      again.hidden = false;
    }
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
      const passed = [...document.querySelectorAll("main h2[id], main h3[id]")].filter((it) => it.getBoundingClientRect().top < innerHeight / 2 && it.checkVisibility());
      const entry = { page: location.pathname.split("/").slice(-2).join("/"), at: passed.at(-1)?.id ?? "", name: title };
      place.set(JSON.stringify(entry));
    });
  }
})();
