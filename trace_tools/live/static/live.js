// What the server adds to a page: it shows what is running and what is wrong, and loads the page again, at the same
// place, when there is a new version of it.
(() => {
  "use strict";
  const box = document.getElementById("live");
  const PLACE = `live-place ${location.pathname}`;
  const pieces = () => [...document.querySelectorAll("main .row, main .prose > *, main h2, main h3")];

  // The place is the first piece in sight, by its text, because lines move when others are written above them.
  const remember = () => {
    const first = pieces().find((piece) => piece.getBoundingClientRect().top > 60 && piece.textContent.trim());
    if (first) sessionStorage.setItem(PLACE, JSON.stringify([first.textContent, first.getBoundingClientRect().top]));
  };
  const goBack = () => {
    const [text, top] = JSON.parse(sessionStorage.getItem(PLACE) ?? "[]");
    sessionStorage.removeItem(PLACE);
    const piece = pieces().find((one) => one.textContent === text);
    if (piece) scrollBy({ top: piece.getBoundingClientRect().top - top, behavior: "instant" });
  };
  if (sessionStorage.getItem(PLACE)) {
    history.scrollRestoration = "manual";
    addEventListener("load", () => setTimeout(goBack));  // after the page's own scripts
  }

  const show = ({ doing, problems }) => {
    box.replaceChildren(...[...problems, ...(doing ? [`${doing} …`] : [])].map((text) => {
      const line = document.createElement("p");
      line.textContent = text;
      return line;
    }));
    box.classList.toggle("bad", problems.length > 0);
    box.hidden = !box.firstChild;
  };

  let edition;
  const source = new EventSource("/-/status");  // connects again by itself when the server restarts
  source.addEventListener("message", (event) => {
    const status = JSON.parse(event.data);
    show(status);
    edition ??= status.edition;
    if (status.edition === edition) return;
    remember();
    location.reload();
  });
  source.addEventListener("error", () => show({ problems: [], doing: "The server has ended; waiting for it to restart" }));
})();
