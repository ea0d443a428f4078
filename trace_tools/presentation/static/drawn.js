// Insert the figures of measurements from the section's data, after the first paint. Without JavaScript, files are shown.
requestAnimationFrame(() => setTimeout(async () => {
  const figures = await unpack(sectionData.figures), frames = document.querySelectorAll(".drawn .scroll > svg:empty");
  frames.forEach((frame, place) => { frame.outerHTML = figures[place]; });
}));
