// Figures with inputs. The page's data lists each figure's inputs and results; `arithmetic.py` wrote the formulas.

// Write a number as `formats.py` does: rounded half to even, to n digits or to a number of decimals.
const written = (() => {
  const scientific = (x, n) => {  // n digits of a number above 0, and its power of ten
    const [mantissa, power] = x.toExponential(100).split("e"), all = mantissa.replace(".", "");
    const head = all.slice(0, n), tail = all.slice(n), half = "5".padEnd(tail.length, "0");
    const up = tail > half || (tail === half && Number(head.at(-1) ?? 0) % 2);
    const digits = up ? String(BigInt(head || 0) + 1n).padStart(n, "0") : head;
    return digits.length > n ? [digits.slice(0, n || 1), Number(power) + 1] : [digits, Number(power)];
  };
  const placed = (digits, power) => (power < 0 ? `0.${"0".repeat(-power - 1)}${digits}`
    : digits.length <= power + 1 ? digits.padEnd(power + 1, "0") : `${digits.slice(0, power + 1)}.${digits.slice(power + 1)}`);
  const bare = (text) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  const signed = (write) => (x, n) => (x < 0 ? `-${write(-x, n)}` : write(x, n));
  const general = signed((x, n) => {
    if (x === 0) return "0";
    const [digits, power] = scientific(x, n);
    return power < -4 || power >= n ? `${bare(placed(digits, 0))}e${power}` : bare(placed(digits, power));
  });
  const fixed = signed((x, places) => {
    const n = x === 0 ? -1 : Number(x.toExponential(100).split("e")[1]) + 1 + places;
    const [digits, power] = n < 0 ? ["", 0] : scientific(x, n);
    return digits === "" ? (places ? `0.${"0".repeat(places)}` : "0") : placed(digits.padEnd(power + 1 + places, "0"), power);
  });
  const apart = (text) => text.replace(/^-?\d+/, (whole) => whole.replace(/\B(?=(\d{3})+$)/g, ","));
  const number = (x) => {
    const size = Math.abs(x);
    if (!(size >= 1 && size < 1e7)) return general(x, 4);
    const text = bare(fixed(x, Math.max(4 - String(Math.trunc(size)).length, 0)));
    return size >= 9999.5 ? apart(text) : text;
  };
  const percent = (x) => (x >= 9.95 ? `${fixed(x, 0)}%` : x >= 0.095 ? `${fixed(x, 1)}%` : x ? "< 0.1%" : "0%");
  return (x, { unit = "", ladder, times = 1, most = Infinity } = {}, digits = 4) => {
    if (typeof x === "boolean") return x ? "yes" : "no";
    if (unit === "%") return percent(100 * x);
    if (unit === "") return number(x);
    if (Math.abs(x) >= 1e300) return `${number(x)} ${unit}`;
    if (!ladder) return `${Math.abs(x) >= 1e4 && Math.abs(x) < 1e15 ? apart(fixed(x, 0)) : general(x, digits)} ${unit}`;
    if (Math.abs(x) >= most) return `${general(x, digits)} ${ladder.at(-1)[1]}`;
    const size = Math.abs(x * times), [factor, name] = ladder.find(([step]) => step === 0 || Number(general(size / step, digits)) >= 1);
    return `${general((x * times) / (factor || 1), digits)} ${name}`;
  };
})();

const explore = (figures, formulas) => {
  const STEPS = 1000, POINTS = 120, BARS = 8;
  const SVG = "http://www.w3.org/2000/svg";
  const make = (name, attributes = {}, ...inside) => {
    const made = Object.assign(document.createElement(name), attributes);
    made.append(...inside);
    return made;
  };
  const draw = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  // Positions from 0 to 1 on an axis or a slider, and back.
  const axis = (low, high, log) => {
    const [at, back] = log ? [Math.log, Math.exp] : [(x) => x, (x) => x];
    const span = at(high) - at(low);
    return { low, high, log, place: (x) => (at(x) - at(low)) / span, value: (place) => back(at(low) + place * span) };
  };
  const ticks = ({ low, high, log }, most) => {
    if (log && high / low >= 30) {
      const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9), each = Math.ceil((last - first) / most) || 1;
      return Array.from({ length: Math.floor((last - first) / each) + 1 }, (_, n) => Number(`1e${first + n * each}`));
    }
    const rough = (high - low) / Math.min(most, 5), power = 10 ** Math.floor(Math.log10(rough)), step = power * [1, 2, 5, 10].find((k) => k * power >= rough);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, n) => Number(((first + n) * step).toPrecision(12)));
  };
  const typed = (x, { unit, ladder, times }) => {  // as text for a field, which reads it back as the same number
    const steps = ladder && !times ? ladder.map(([factor, name]) => [factor, ` ${name.slice(0, -unit.length)}`]) : unit ? [] : [[1e12, "T"], [1e9, "B"], [1e6, "M"]];
    const [factor, name] = steps.find(([step]) => step && Math.abs(x) >= step) ?? [1, ""];
    const text = String(Number((x / factor).toPrecision(7)));
    return `${Math.abs(x) < 1e6 && !name ? text.replace(/^\d{5,}$/, (all) => Number(all).toLocaleString("en")) : text}${name.trimEnd()}`;
  };

  const awake = (figure, formula, known, key) => {
    const { inputs, menus, results, parameters } = known;
    const every = [...inputs, ...menus.flatMap((menu) => menu.columns)], named = new Map(every.map((it) => [it.name, it]));
    const given = new Map(), rows = menus.map(() => 0);  // the values: a number for each parameter, and each menu's row, -1 for custom values
    const reset = () => {
      for (const it of inputs) given.set(it.name, it.value);
      menus.forEach((menu, index) => choose(index, 0));
    };
    const choose = (index, row) => {
      rows[index] = row;
      if (row >= 0) menus[index].columns.forEach((it, n) => given.set(it.name, menus[index].rows[row][1][n]));
    };
    const answer = (changed = {}) => {  // for the values with some changes; null without a result
      try {
        const found = formula(...parameters.map((name) => changed[name] ?? given.get(name)));
        if (found.some((it) => typeof it !== "boolean" && !Number.isFinite(it))) return null;
        return new Map(results.map((it, n) => [it.name, found[n]]));
      } catch { return null; }
    };
    const allows = (it, x) => x >= it.low && x <= it.high && (!it.whole || Number.isInteger(x));
    const across = menus.findIndex((menu) => menu.label === known.across);
    const others = () => (across < 0 ? [] : menus[across].rows.map(([name, numbers], row) => [name, Object.fromEntries(menus[across].columns.map((it, n) => [it.name, numbers[n]])), row]));

    // --- controls ---

    const id = (name) => `${figure.id}-${name}`;
    const set = (it, x) => {
      const within = Math.min(it.high, Math.max(it.low, x));
      given.set(it.name, it.whole ? Math.round(within) : within);
      update(it);
    };
    const scale = (it) => axis(it.low, it.high, it.log);
    const near = (it, place) => Number(scale(it).value(place).toPrecision(3));
    const nudge = (it, event) => {  // arrow keys: a hundredth of the range, at least 1 for whole numbers
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
      if (by === undefined && event.key !== "Home" && event.key !== "End") return;
      event.preventDefault();
      event.stopPropagation();  // the page also uses these keys
      const now = given.get(it.name), next = by === undefined ? (event.key === "Home" ? it.low : it.high) : near(it, scale(it).place(now) + by / 100);
      set(it, by && (it.whole ? Math.round(next) === now : next === now) ? now + Math.sign(by) * (it.whole ? 1 : (it.high - it.low) / STEPS) : next);
    };
    const fields = new Map();  // parameter → its field and slider
    const control = (it) => {
      const field = make("input", { type: "text", id: id(it.name), autocomplete: "off", spellcheck: false });
      const slider = make("input", { type: "range", min: 0, max: STEPS, step: 1, ariaLabel: it.label });
      const wrong = make("span", { className: "wrong", id: id(`${it.name}-wrong`) });
      field.setAttribute("aria-describedby", wrong.id);
      field.addEventListener("input", () => {
        const x = parsed(field.value, it.unit), fine = allows(it, x);
        field.ariaInvalid = String(!fine);
        wrong.textContent = fine ? "" : it.whole ? `A whole number from ${typed(it.low, it)} to ${typed(it.high, it)}` : `From ${typed(it.low, it)} to ${typed(it.high, it)}`;
        if (fine) { given.set(it.name, x); update(it, field); }
      });
      field.addEventListener("change", () => { if (field.ariaInvalid !== "true") field.value = typed(given.get(it.name), it); });
      slider.addEventListener("input", () => set(it, near(it, slider.value / STEPS)));
      slider.addEventListener("keydown", (event) => nudge(it, event));
      fields.set(it.name, { field, slider, wrong });
      return make("div", { className: "control" }, make("label", { htmlFor: field.id, textContent: it.label }), make("span", {}, field, it.unit ? ` ${it.unit}` : ""), slider, wrong);
    };
    const owns = menus.map((menu) => make("div", { className: "own" }, ...(menu.own ? menu.columns.map(control) : [])));
    const selects = menus.map((menu, index) => {
      const names = menu.rows.map(([name]) => name);
      const select = make("select", { id: id(`menu-${index}`) }, ...[...names, ...(menu.own ? [menu.own] : [])].map((name) => make("option", { textContent: name })));
      select.addEventListener("change", () => { choose(index, select.selectedIndex < names.length ? select.selectedIndex : -1); update(); });
      return select;
    });
    const controls = make("div", { className: "controls" },
      ...menus.flatMap((menu, index) => [make("div", { className: "control" }, make("label", { htmlFor: selects[index].id, textContent: menu.label }), selects[index]), owns[index]]),
      ...inputs.map(control));
    const heard = make("span", { role: "status" });
    const link = make("button", { type: "button", textContent: "Copy a link to these values" });
    const back = make("button", { type: "button", textContent: "Reset to the lecture's values" });
    controls.append(make("p", { className: "buttons" }, link, back, heard));
    link.addEventListener("click", async () => {
      await copied(location.href.replace(/#.*$/, "") + address());
      heard.textContent = "Copied.";
      setTimeout(() => { heard.textContent = ""; }, 2000);
    });
    back.addEventListener("click", () => { reset(); update(); });

    // --- the address: values that differ from the lecture's ---

    const address = () => {
      const changed = new URLSearchParams();
      menus.forEach((menu, index) => {
        if (rows[index] > 0) changed.set(menu.label, menu.rows[rows[index]][0]);
        else if (rows[index] < 0) for (const it of menu.columns) changed.set(it.name, given.get(it.name));
      });
      for (const it of inputs) if (given.get(it.name) !== it.value) changed.set(it.name, given.get(it.name));
      return `#${encodeURIComponent(key)}?${changed}`;
    };
    let waiting = 0;
    const remember = () => {  // replaced, so that Back leaves the page; browsers limit the rate
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        try { history.replaceState(null, "", address()); } catch { /* not allowed on this page */ }
      }, 250);
    };
    const restore = () => {
      const [name, query] = location.hash.slice(1).split("?");
      if (name !== encodeURIComponent(key) || query === undefined) return;
      const changed = new URLSearchParams(query);
      reset();
      menus.forEach((menu, index) => {
        const row = menu.rows.findIndex(([it]) => it === changed.get(menu.label));
        if (row >= 0) choose(index, row);
        else if (menu.own && menu.columns.some((it) => changed.has(it.name))) choose(index, -1);
      });
      for (const it of [...inputs, ...menus.flatMap((menu, index) => (rows[index] < 0 ? menu.columns : []))]) {
        const x = changed.has(it.name) && changed.get(it.name) !== "" ? Number(changed.get(it.name)) : NaN;
        if (allows(it, x)) given.set(it.name, x);
      }
      update(null, null, true);
      reveal(figure);
      figure.scrollIntoView({ block: "start" });
    };

    // --- the sentence, the table, the drawing ---

    const said = figure.querySelector(".answer");
    said.setAttribute("role", "status");
    const listed = [...inputs, ...menus.flatMap((menu) => (menu.own ? menu.columns : []))];
    const cells = [...figure.querySelectorAll("td")];
    const stage = make("div", { className: "stage" });
    const svg = draw("svg", {}), point = make("div", { className: "point", role: "slider", tabIndex: 0 });
    stage.append(svg);
    if (known.curve || known.stack) said.after(stage);
    (stage.isConnected ? stage : said).after(controls);
    figure.classList.add("awake");

    const sentence = (parts, now) => parts.flatMap((part) => {
      if (typeof part === "string") return [part];
      const [name, then, otherwise] = part;
      if (then) return sentence(now.get(name) ? then : otherwise, now);
      const menu = menus.findIndex((it) => it.label === name), result = results.find((it) => it.name === name);
      return [make("b", { textContent: result ? written(now.get(name), result) : menu >= 0 ? row(menu) : written(given.get(name), named.get(name)) })];
    });
    const row = (index) => menus[index].rows[rows[index]]?.[0] ?? menus[index].own;
    const update = (moved = null, typing = null, restoring = false) => {
      const now = answer();
      said.replaceChildren(...(now ? sentence(known.says, now) : ["There is no result for these values."]));
      const texts = [...menus.map((_, index) => row(index)), ...listed.map((it) => written(given.get(it.name), it)), ...results.map((it) => (now ? written(now.get(it.name), it.unit === it.label ? {} : it) : "–"))];
      cells.forEach((cell, n) => { cell.textContent = texts[n]; });
      selects.forEach((select, index) => {
        select.selectedIndex = rows[index] < 0 ? menus[index].rows.length : rows[index];
        owns[index].hidden = rows[index] >= 0;
      });
      for (const [name, { field, slider, wrong }] of fields) {
        const it = named.get(name), x = given.get(name);
        if (field !== typing) { field.value = typed(x, it); field.ariaInvalid = "false"; wrong.textContent = ""; }
        if (it !== moved || Math.abs(slider.value / STEPS - scale(it).place(x)) > 1 / STEPS) slider.value = Math.round(STEPS * scale(it).place(x));
        slider.ariaValueText = written(x, it);
      }
      picture(now);
      if (!restoring && shown) remember();
    };
    let shown = false;

    const picture = (now) => {
      const width = stage.clientWidth, em = parseFloat(getComputedStyle(stage).fontSize);
      if (!width || !(known.curve || known.stack)) return;
      svg.replaceChildren();
      if (now && known.stack) bars(now, width, em);
      if (known.curve) curve(now, width, em);
    };
    const size = (width, height) => { svg.setAttribute("viewBox", `0 0 ${width} ${height}`); svg.setAttribute("width", width); svg.setAttribute("height", height); };

    const bars = (now, width, em) => {
      const limited = (found, changed) => (known.limit === null ? 0 : found.get(known.limit) ?? changed[known.limit] ?? given.get(known.limit));
      const sum = (found) => known.stack.reduce((total, name) => total + found.get(name), 0);
      const all = others().filter(([, , nth]) => nth < BARS || nth === rows[across]).map(([name, changed, nth]) => [name, answer(changed), nth === rows[across], changed]);
      if (!all.some(([, , here]) => here)) all.unshift([across < 0 ? "" : row(across), now, true, {}]);
      const there = all.filter(([, found]) => found), unit = results.find((it) => it.name === known.stack[0]);
      const most = 1.02 * Math.max(...there.map(([, found, , changed]) => Math.max(sum(found), limited(found, changed)))) || 1;
      let left = 0, line = 0;
      known.stack.forEach((name, n) => {
        const { label } = results.find((it) => it.name === name), wide = (1.1 + 0.56 * label.length) * em;
        if (left && left + wide > width) [left, line] = [0, line + 1.4 * em];
        svg.append(draw("rect", { class: `s${(n % 6) + 1}`, x: left, y: line + 0.2 * em, width: 0.8 * em, height: 0.8 * em }), draw("text", { x: left + 1.1 * em, y: line + 0.95 * em }, label));
        left += wide + 1.5 * em;
      });
      const high = 3.1 * em, top = line + 1.9 * em;
      size(width, top + there.length * high);
      there.forEach(([name, found, here, changed], nth) => {
        const y = top + nth * high, limit = limited(found, changed);
        const over = known.limit !== null && sum(found) > limit;
        svg.append(draw("text", { class: here ? "here" : "", x: 0, y: y + em }, name),
          draw("text", { class: `${here ? "here" : ""}${over ? " over" : ""}`, x: width, y: y + em, "text-anchor": "end" }, `${written(sum(found), unit)}${over ? ", over the limit" : ""}`));
        known.stack.reduce((left, part, n) => {
          const wide = (Math.max(0, found.get(part)) / most) * width;
          svg.append(draw("rect", { class: `s${(n % 6) + 1}${here ? "" : " faint"}`, x: left, y: y + 1.4 * em, width: wide, height: 1.1 * em }));
          return left + wide;
        }, 0);
        if (known.limit !== null) {
          const x = (limit / most) * width;
          svg.append(draw("path", { class: "limit", d: `M${x} ${y + 1.15 * em}v${1.6 * em}` }));
        }
      });
      svg.setAttribute("role", "img");
      const told = there.map(([name, found]) => `${name ? `${name}: ` : ""}${written(sum(found), unit)}`).join("; ");
      svg.setAttribute("aria-label", `${told}${known.limit === null ? "" : `. The limit is ${written(limited(now, {}), unit)}`}`);
    };

    let grip = null;  // the dragged input, and a pixel's position on its axis
    const curve = (now, width, em) => {
      const [of, to] = known.curve.map((name, n) => (n ? results.find((it) => it.name === name) : named.get(name)));
      const x = scale(of), high = 19 * em, bottom = high - 3.4 * em, top = 1.6 * em;
      const spots = Array.from({ length: POINTS + 1 }, (_, n) => x.value(n / POINTS)).map((at) => (of.whole ? Math.round(at) : at));
      if (now) spots.push(given.get(of.name));
      spots.sort((a, b) => a - b);
      const line = (changed) => spots.map((at) => [at, answer({ ...changed, [of.name]: at })?.get(to.name)]).filter(([, y]) => y !== undefined);
      const here = across < 0 ? "" : row(across), lines = [...others().filter(([, , nth]) => nth !== rows[across]).map(([name, changed]) => [name, line(changed)]), [here, line({})]];
      const heights = lines.flatMap(([, found]) => found.map(([, y]) => y));
      const [low, most] = heights.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
      if (!(most >= low)) return;
      const log = low > 0 && most / low >= 20, y = log ? axis(low / 1.3, most * 1.3, true) : axis(Math.min(0, low), most + (most === low ? 1 : 0), false);
      const long = (words) => (0.4 + 0.56 * Math.max(0, ...words.map((word) => word.length))) * em;  // about as wide
      const levels = ticks(y, 6).map((at) => [at, to.ladder && !(to.times && at >= 1) ? written(at, to) : typed(at, to)]);
      const names = lines.length > 1 ? lines.map(([name]) => name) : [], beside = width > 38 * em ? long(names) : 0;  // else the names are inside
      const left = long(levels.map(([, word]) => word)) + 0.4 * em, right = width - (beside || 0.8 * em);
      const px = (at) => left + x.place(at) * (right - left), py = (at) => bottom - y.place(at) * (bottom - top);
      grip = { place: (pixel) => (pixel - left) / (right - left), width, of };
      size(width, high);
      const words = [];  // above the lines
      for (const at of ticks(x, Math.floor(width / (6 * em)))) {
        const place = px(at), anchor = place < 3 * em ? "start" : place > width - 3 * em ? "end" : "middle";
        svg.append(draw("path", { d: `M${place} ${bottom}v${0.35 * em}` }));
        words.push(draw("text", { class: "soft", x: anchor === "start" ? left : place, y: bottom + 1.4 * em, "text-anchor": anchor }, typed(at, of)));
      }
      for (const [at, word] of levels) {
        svg.append(draw("path", { d: `M${left} ${py(at)}H${right}` }));
        words.push(draw("text", { class: "soft", x: left - 0.4 * em, y: py(at) + 0.35 * em, "text-anchor": "end" }, word));
      }
      words.push(draw("text", { class: "soft", x: (left + right) / 2, y: high - 0.3 * em, "text-anchor": "middle" }, of.label + (of.unit && !of.label.includes(of.unit) ? `, ${of.unit}` : "")),
        draw("text", { class: "soft", x: 0, y: 0.9 * em }, to.label + (to.unit && !to.ladder && to.unit !== to.label ? `, ${to.unit}` : "")));
      for (const [name, found] of lines) {
        const path = draw("path", { class: found === lines.at(-1)[1] ? "curve" : "other", d: found.map(([at, h], n) => `${n ? "L" : "M"}${px(at).toFixed(1)} ${py(h).toFixed(1)}`).join("") });
        if (name) path.append(draw("title", {}, name));
        svg.append(path);
      }
      // The names of the curves at their ends: this one's, the highest and the lowest, and others where there is room.
      const ends = lines.filter(([name, found]) => name && names.length && found.length).map(([name, found], nth) => [name, py(found.at(-1)[1]), nth === lines.length - 1]);
      ends.sort(([, a], [, b]) => a - b);
      const rank = ([, , own], nth) => (own ? 0 : nth === 0 || nth === ends.length - 1 ? 1 : 2), taken = [];
      for (const [name, at, own] of ends.map((end, nth) => [rank(end, nth), end]).filter(([order]) => beside || order < 2).sort(([a], [b]) => a - b).map(([, end]) => end)) {
        if (taken.some((other) => Math.abs(other - at) < 1.2 * em)) continue;
        taken.push(at);
        words.push(draw("text", { class: own ? "here" : "soft", x: beside ? right + 0.4 * em : right, y: at + (beside ? 0.35 : -0.4) * em, "text-anchor": beside ? "start" : "end" }, name));
      }
      svg.append(...words);
      svg.setAttribute("aria-hidden", "true");
      point.hidden = !now;
      if (!now) return;
      const at = given.get(of.name), h = now.get(to.name), x0 = px(at), y0 = py(h);
      svg.append(draw("path", { class: "guide", d: `M${x0} ${bottom}V${y0}` }), draw("text", { class: "here", x: x0 + (x0 > width / 2 ? -em : em), y: Math.max(y0 - 0.8 * em, em), "text-anchor": x0 > width / 2 ? "end" : "start" }, written(h, to)));
      point.style.left = `${(100 * x0) / width}%`;
      point.style.top = `${(100 * y0) / high}%`;
      point.ariaLabel = of.label;
      Object.assign(point, { ariaValueMin: String(of.low), ariaValueMax: String(of.high), ariaValueNow: String(at), ariaValueText: `${written(at, of)}: ${written(h, to)}` });
    };
    if (known.curve) {
      stage.append(point);
      stage.classList.add("dragged");
      point.addEventListener("keydown", (event) => nudge(named.get(known.curve[0]), event));
      const drag = ({ clientX }) => {
        const box = stage.getBoundingClientRect();
        set(grip.of, near(grip.of, Math.min(1, Math.max(0, grip.place(((clientX - box.left) / box.width) * grip.width)))));
      };
      stage.addEventListener("pointerdown", (event) => {
        if (event.button || !grip) return;
        stage.setPointerCapture(event.pointerId);
        event.preventDefault();
        point.focus({ preventScroll: true });
        drag(event);
      });
      stage.addEventListener("pointermove", (event) => { if (stage.hasPointerCapture(event.pointerId)) drag(event); });
      stage.addEventListener("touchstart", (event) => event.stopPropagation(), { passive: true });  // prevents a swipe of the page
    }
    let drawn = stage.clientWidth;
    new ResizeObserver(() => { if (stage.clientWidth !== drawn) { drawn = stage.clientWidth; picture(answer()); } }).observe(stage);
    reset();
    update();
    shown = true;
    restore();
    addEventListener("hashchange", restore);
  };

  const keys = new Set();
  Object.entries(figures).forEach(([id, known], n) => {
    const figure = document.getElementById(id);
    if (!figure) return;
    let key = known.name;
    while (keys.has(key)) key += "-";  // a second figure of the same function
    keys.add(key);
    awake(figure, formulas[n], known, key);
  });
};
if (typeof explored !== "undefined") explore(...explored);
