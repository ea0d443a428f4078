// Folded details next to a line: exact values, times and samples. Without JavaScript, only small matrices can be unfolded;
// with it, each becomes a <details> whose content is unpacked from the section's data when it is first opened.
document.adoptedStyleSheets = [...document.adoptedStyleSheets, styled(sectionStyle)];
(() => {
  if (typeof DecompressionStream === "undefined") return;
  const texts = () => (texts.known ??= unpack(sectionData.folded));
  document.querySelectorAll(".o.more, .o > .rest").forEach((box, place) => {
    const unpacked = async () => (await texts())[place];
    if (box.className === "rest") {
      const filled = async () => { box.innerHTML = await unpacked(); box.parentElement.dispatchEvent(new Event("toggle")); };
      box.parentElement.addEventListener("toggle", filled, { once: true });
      return;
    }
    const folded = document.createElement("details"), summary = document.createElement("summary");
    folded.className = box.className.replace(" more", "");
    summary.append(...box.childNodes);
    folded.append(summary);
    box.replaceWith(folded);
    folded.addEventListener("toggle", async () => {
      summary.insertAdjacentHTML("afterend", await unpacked());
      folded.dispatchEvent(new Event("toggle"));  // again, now that the content has a size
    }, { once: true });
  });
})();
