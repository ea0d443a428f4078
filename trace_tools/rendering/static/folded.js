// What is folded beside a line: its exact values, times and samples. Without scripts there is nothing to unfold; with them each
// becomes a <details>, and what is in it is unpacked from the section's data when one is first opened.
document.adoptedStyleSheets = [...document.adoptedStyleSheets, styled(sectionStyle)];
(() => {
  if (typeof DecompressionStream === "undefined") return;
  const texts = () => (texts.known ??= unpack(sectionData.folded));
  document.querySelectorAll(".o.more").forEach((box, place) => {
    const folded = document.createElement("details"), summary = document.createElement("summary");
    folded.className = box.className.replace(" more", "");
    summary.append(...box.childNodes);
    folded.append(summary);
    box.replaceWith(folded);
    folded.addEventListener("toggle", async () => {
      summary.insertAdjacentHTML("afterend", (await texts())[place]);
      folded.dispatchEvent(new Event("toggle"));  // once more, now that there is something to fit
    }, { once: true });
  });
})();
