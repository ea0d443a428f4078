// Indent the rest of a long line that a narrow column breaks, so that it does not look like a statement.
for (const code of document.querySelectorAll(".code > code")) {
  const blanks = /^ */.exec(code.textContent)[0].length;
  if (blanks && code.textContent.length > 44) code.style.setProperty("--in", `${Math.min(blanks, 12) + 4}ch`);
}
