// The figures of what was measured, from the section's data, after the first paint; without scripts there are files of them.
requestAnimationFrame(() => setTimeout(async () => {
  const figures = await unpack(sectionData.figures), frames = document.querySelectorAll(".drawn .scroll > svg:empty");
  frames.forEach((frame, place) => { frame.outerHTML = figures[place]; });
}));
