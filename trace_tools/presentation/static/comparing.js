"use strict";
addEventListener("beforeprint", () => document.querySelectorAll("details:is(.more, .whole)").forEach((box) => { box.open = true; }));
