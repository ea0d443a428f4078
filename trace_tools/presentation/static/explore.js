// Figures with inputs. The page's data lists each figure's inputs and results; `arithmetic.py` wrote the formulas.
{
  const { make } = page;
  const STEPS = 1000, POINTS = 120, BARS = 8;  // of a slider, a curve, a stack of bars
  const SVG = "http://www.w3.org/2000/svg";

  // Write a number as `formats.py` does, but for the last digit of a tie.
  const general = (x, n) => {
    const [digits, power] = x.toExponential(n - 1).split("e").map(Number);
    return x && (power < -4 || power >= n) ? `${digits}e${power}` : String(Number(x.toPrecision(n)));
  };
  const number = (x) => {
    const size = Math.abs(x);
    if (!(size >= 1 && size < 1e7)) return general(x, 4);
    const rounded = Number(x.toFixed(Math.max(4 - String(Math.trunc(size)).length, 0)));
    return size >= 9999.5 ? rounded.toLocaleString("en") : String(rounded);
  };
  const percent = (x) => (x >= 9.95 ? `${x.toFixed(0)}%` : x >= 0.095 ? `${x.toFixed(1)}%` : x ? "< 0.1%" : "0%");
  const written = page.written = (x, { unit = "", ladder, times = 1, most = Infinity } = {}) => {
    if (typeof x === "boolean") return x ? "yes" : "no";
    if (unit === "%") return percent(100 * x);
    if (unit === "") return number(x);
    const size = Math.abs(x);
    if (size >= 1e300) return `${number(x)} ${unit}`;
    if (!ladder) return `${size >= 1e4 && size < 1e15 ? Math.round(x).toLocaleString("en") : general(x, 4)} ${unit}`;
    if (size >= most) return `${general(x, 4)} ${ladder.at(-1)[1]}`;
    const [factor, name] = ladder.find(([step]) => step === 0 || Number(general((size * times) / step, 4)) >= 1);
    return `${general((x * times) / (factor || 1), 4)} ${name}`;
  };

  const brief = (x) => (typeof x !== "number" || (Number.isInteger(x) && Math.abs(x) < 1000) ? x : Number(x.toPrecision(2)));  // two digits in a sentence

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
  const typed = (x, { unit, ladder, times }) => {  // as text for a field or an axis; the value itself is kept elsewhere
    const steps = ladder && !times ? ladder.map(([factor, name]) => [factor, ` ${name.slice(0, -unit.length)}`]) : unit ? [] : [[1e12, "T"], [1e9, "B"], [1e6, "M"]];
    const [factor, name] = steps.find(([step]) => step && Math.abs(x) >= step) ?? [1, ""];
    const text = String(Number((x / factor).toPrecision(factor > 1 ? 4 : 7)));
    return `${Math.abs(x) < 1e6 && !name ? text.replace(/^\d{5,}$/, (all) => Number(all).toLocaleString("en")) : text}${name.trimEnd()}`;
  };

  // The values of a figure: a number for each parameter, and each menu's row, -1 for custom values.
  const valuesOf = (known, formula) => {
    const { inputs, menus, results, parameters } = known;
    const every = [...inputs, ...menus.flatMap((menu) => menu.columns)], named = new Map(every.map((input) => [input.name, input]));
    const given = new Map(), rows = menus.map(() => 0), across = menus.findIndex((menu) => menu.label === known.across);
    const choose = (index, row) => {
      rows[index] = row;
      if (row >= 0) menus[index].columns.forEach((input, n) => given.set(input.name, menus[index].rows[row][1][n]));
    };
    const reset = () => {
      for (const input of inputs) given.set(input.name, input.value);
      menus.forEach((_, index) => choose(index, 0));
    };
    const answer = (changed = {}) => {  // for the values with some changes; null without a result
      try {
        const found = formula(...parameters.map((name) => changed[name] ?? given.get(name)));
        if (found.some((value) => typeof value !== "boolean" && !Number.isFinite(value))) return null;
        return new Map(results.map((result, n) => [result.name, found[n]]));
      } catch { return null; }
    };
    const allows = (input, x) => x >= input.low && x <= input.high && (!input.whole || Number.isInteger(x));
    const set = (input, x) => {
      const within = Math.min(input.high, Math.max(input.low, x));
      given.set(input.name, input.whole ? Math.round(within) : within);
    };
    const row = (index) => menus[index].rows[rows[index]]?.[0] ?? menus[index].own;
    // The rows of the menu that the drawing compares: [name, their values, number].
    const others = () => (across < 0 ? [] : menus[across].rows.map(([name, numbers], nth) => [name, Object.fromEntries(menus[across].columns.map((input, n) => [input.name, numbers[n]])), nth]));
    reset();
    return { ...known, named, given, rows, across, choose, reset, answer, allows, set, row, others };
  };
  const scale = (input) => axis(input.low, input.high, input.log);
  const near = (input, place) => Number(scale(input).value(place).toPrecision(3));
  const nudged = (input, now, key) => {  // arrow keys: a hundredth of the range, at least 1 for whole numbers
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[key];
    if (by === undefined) return { Home: input.low, End: input.high }[key];
    const next = near(input, scale(input).place(now) + by / 100);
    if (input.whole ? Math.round(next) !== now : next !== now) return next;
    return now + Math.sign(by) * (input.whole ? 1 : (input.high - input.low) / STEPS);
  };

  // --- controls ---

  // The fields, sliders and menus of a figure; `change` is called with the moved input and the field that is typed into.
  const controlsOf = (figure, values, change, addressOf) => {
    const { inputs, menus, named, given, rows, choose, reset, allows, set } = values;
    const id = (name) => `${figure.id}-${name}`;
    const nudge = (input, event) => {
      const next = nudged(input, given.get(input.name), event.key);
      if (next === undefined) return;
      event.preventDefault();
      event.stopPropagation();  // the page also uses these keys
      set(input, next);
      change(input);
    };
    const fields = new Map();  // parameter → its field and slider
    const control = (input) => {
      const wrong = make("span", { className: "wrong", id: id(`${input.name}-wrong`) });
      const field = make("input", { type: "text", id: id(input.name), autocomplete: "off", spellcheck: false });
      const slider = make("input", { type: "range", min: 0, max: STEPS, step: 1, ariaLabel: input.label });
      field.setAttribute("aria-describedby", wrong.id);
      field.addEventListener("input", () => {
        const x = page.parsed(field.value, input.unit), fine = allows(input, x), range = `rom ${typed(input.low, input)} to ${typed(input.high, input)}`;
        field.ariaInvalid = String(!fine);
        wrong.textContent = fine ? "" : input.whole ? `A whole number f${range}` : `F${range}`;
        if (fine) { given.set(input.name, x); change(input, field); }
      });
      field.addEventListener("change", () => { if (field.ariaInvalid !== "true") field.value = typed(given.get(input.name), input); });
      slider.addEventListener("input", () => { set(input, near(input, slider.value / STEPS)); change(input); });
      slider.addEventListener("keydown", (event) => nudge(input, event));
      fields.set(input.name, { field, slider, wrong });
      return make("div", "control", make("label", { htmlFor: field.id, textContent: input.label }), make("span", "", field, input.unit ? ` ${input.unit}` : ""), slider, wrong);
    };
    const owns = menus.map((menu) => make("div", "own", ...(menu.own ? menu.columns.map(control) : [])));
    const selects = menus.map((menu, index) => {
      const names = menu.rows.map(([name]) => name);
      const select = make("select", { id: id(`menu-${index}`) }, ...[...names, ...(menu.own ? [menu.own] : [])].map((name) => make("option", { textContent: name })));
      select.addEventListener("change", () => { choose(index, select.selectedIndex < names.length ? select.selectedIndex : -1); change(); });
      return select;
    });
    const status = make("span", { role: "status" });
    const copy = async () => {
      await page.copied(location.href.replace(/#.*$/, "") + addressOf());
      status.textContent = "Copied.";
      setTimeout(() => { status.textContent = ""; }, 2000);
    };
    const box = make("div", "controls",
      ...menus.flatMap((menu, index) => [make("div", "control", make("label", { htmlFor: selects[index].id, textContent: menu.label }), selects[index]), owns[index]]),
      ...inputs.map(control),
      make("p", "buttons", make("button", { type: "button", textContent: "Copy a link to these values", onclick: copy }),
        make("button", { type: "button", textContent: "Reset to the lecture's values", onclick: () => { reset(); change(); } }), status));
    const draw = (moved, typing) => {  // the values in their fields, but for the one that is typed into
      selects.forEach((select, index) => {
        select.selectedIndex = rows[index] < 0 ? menus[index].rows.length : rows[index];
        owns[index].hidden = rows[index] >= 0;
      });
      for (const [name, { field, slider, wrong }] of fields) {
        const input = named.get(name), x = given.get(name), place = scale(input).place(x);
        if (field !== typing) { field.value = typed(x, input); field.ariaInvalid = "false"; wrong.textContent = ""; }
        if (input !== moved || Math.abs(slider.value / STEPS - place) > 1 / STEPS) slider.value = Math.round(STEPS * place);
        slider.ariaValueText = written(x, input);
      }
    };
    return { box, draw, nudge };
  };

  // --- the address: values that differ from the lecture's ---

  const addressOf = ({ inputs, menus, rows, given }, key) => {
    const changed = new URLSearchParams();
    menus.forEach((menu, index) => {
      if (rows[index] > 0) changed.set(menu.label, menu.rows[rows[index]][0]);
      else if (rows[index] < 0) for (const input of menu.columns) changed.set(input.name, given.get(input.name));
    });
    for (const input of inputs) if (given.get(input.name) !== input.value) changed.set(input.name, given.get(input.name));
    return `#${encodeURIComponent(key)}?${changed}`;
  };
  const restored = ({ inputs, menus, rows, given, choose, reset, allows }, key) => {  // whether the address is of this figure
    const [name, query] = location.hash.slice(1).split("?");
    if (name !== encodeURIComponent(key) || query === undefined) return false;
    const changed = new URLSearchParams(query);
    reset();
    menus.forEach((menu, index) => {
      const row = menu.rows.findIndex(([label]) => label === changed.get(menu.label));
      if (row >= 0) choose(index, row);
      else if (menu.own && menu.columns.some((input) => changed.has(input.name))) choose(index, -1);
    });
    for (const input of [...inputs, ...menus.flatMap((menu, index) => (rows[index] < 0 ? menu.columns : []))]) {
      const x = changed.get(input.name) ? Number(changed.get(input.name)) : NaN;
      if (allows(input, x)) given.set(input.name, x);
    }
    return true;
  };

  // --- the drawing ---

  const size = (svg, width, height) => { for (const [key, value] of [["viewBox", `0 0 ${width} ${height}`], ["width", width], ["height", height]]) svg.setAttribute(key, value); };
  const bars = (values, svg, now, width, em) => {
    const { stack, limit: limiting, results, given, rows, across, row, answer } = values;
    const limited = (found, changed) => (limiting === null ? 0 : found.get(limiting) ?? changed[limiting] ?? given.get(limiting));
    const sum = (found) => stack.reduce((total, name) => total + found.get(name), 0);
    const all = values.others().filter(([, , nth]) => nth < BARS || nth === rows[across]).map(([name, changed, nth]) => [name, answer(changed), nth === rows[across], changed]);
    if (!all.some(([, , here]) => here)) all.unshift([across < 0 ? "" : row(across), now, true, {}]);
    const there = all.filter(([, found]) => found), unit = results.find((result) => result.name === stack[0]);
    const most = 1.02 * Math.max(...there.map(([, found, , changed]) => Math.max(sum(found), limited(found, changed)))) || 1;
    let left = 0, line = 0;
    stack.forEach((name, n) => {
      const { label } = results.find((result) => result.name === name), wide = (1.1 + 0.56 * label.length) * em;
      if (left && left + wide > width) [left, line] = [0, line + 1.4 * em];
      svg.append(draw("rect", { class: `s${(n % 6) + 1}`, x: left, y: line + 0.2 * em, width: 0.8 * em, height: 0.8 * em }), draw("text", { x: left + 1.1 * em, y: line + 0.95 * em }, label));
      left += wide + 1.5 * em;
    });
    const high = 3.1 * em, top = line + 1.9 * em;
    size(svg, width, top + there.length * high);
    there.forEach(([name, found, here, changed], nth) => {
      const y = top + nth * high, limit = limited(found, changed);
      const over = limiting !== null && sum(found) > limit;
      svg.append(draw("text", { class: here ? "here" : "", x: 0, y: y + em }, name),
        draw("text", { class: `${here ? "here" : ""}${over ? " over" : ""}`, x: width, y: y + em, "text-anchor": "end" }, `${written(sum(found), unit)}${over ? ", over the limit" : ""}`));
      stack.reduce((left, part, n) => {
        const wide = (Math.max(0, found.get(part)) / most) * width;
        svg.append(draw("rect", { class: `s${(n % 6) + 1}${here ? "" : " faint"}`, x: left, y: y + 1.4 * em, width: wide, height: 1.1 * em }));
        return left + wide;
      }, 0);
      if (limiting !== null) {
        const x = (limit / most) * width;
        svg.append(draw("path", { class: "limit", d: `M${x} ${y + 1.15 * em}v${1.6 * em}` }));
      }
    });
    svg.setAttribute("role", "img");
    const label = there.map(([name, found]) => `${name ? `${name}: ` : ""}${written(sum(found), unit)}`).join("; ");
    svg.setAttribute("aria-label", `${label}${limiting === null ? "" : `. The limit is ${written(limited(now, {}), unit)}`}`);
  };

  const curve = (values, svg, point, now, width, em) => {  // returns the dragged input, and where a pixel is on its axis
    const { named, given, results, rows, across, row, answer } = values;
    const [of, to] = values.curve.map((name, n) => (n ? results.find((result) => result.name === name) : named.get(name)));
    const x = scale(of), high = 19 * em, bottom = high - 3.4 * em, top = 1.6 * em;
    const spots = Array.from({ length: POINTS + 1 }, (_, n) => x.value(n / POINTS)).map((at) => (of.whole ? Math.round(at) : at));
    if (now) spots.push(given.get(of.name));
    spots.sort((a, b) => a - b);
    const line = (changed) => spots.map((at) => [at, answer({ ...changed, [of.name]: at })?.get(to.name)]).filter(([, y]) => y !== undefined);
    // Three curves: this one, and the nearest above and below it that can be told from it.
    const own = [across < 0 ? "" : row(across), line({})], end = ([, found]) => found.at(-1)?.[1] ?? NaN;
    const others = values.others().filter(([, , nth]) => nth !== rows[across]).map(([name, changed]) => [name, line(changed)]).sort((one, other) => end(one) - end(other));
    const apart = [others.findLast((other) => end(other) < end(own) / 1.4), others.find((other) => end(other) > end(own) * 1.4)];
    const lines = [...apart.filter(Boolean), own];
    const heights = lines.flatMap(([, found]) => found.map(([, y]) => y));
    const [low, most] = heights.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity]);
    if (!(most >= low)) return null;
    const log = low > 0 && most / low >= 20, y = log ? axis(low / 1.3, most * 1.3, true) : axis(Math.min(0, low), most + (most === low ? 1 : 0), false);
    const long = (words, each = 0.56) => (0.4 + each * Math.max(0, ...words.map((word) => word.length))) * em;  // about as wide
    const levels = ticks(y, 6).map((at) => [at, to.ladder && !(to.times && at >= 1) ? written(at, to) : typed(at, to)]);
    // At the ends of the curves, from the top, their names; on a phone in two lines.
    const broken = (name) => { const at = width > 38 * em ? -1 : name.indexOf(" ", name.length / 2 - 4); return at < 0 ? [name] : [name.slice(0, at), name.slice(at + 1)]; };
    const names = lines.length > 1 ? lines.map((one) => [broken(one[0]), one]).sort(([, one], [, other]) => end(other) - end(one)) : [];
    const left = long(levels.map(([, word]) => word)) + 0.4 * em, right = width - (names.length ? long(names.flatMap(([words]) => words), 0.7) : 0.8 * em);
    const px = (at) => left + x.place(at) * (right - left), py = (at) => bottom - y.place(at) * (bottom - top);
    const grip = { place: (pixel) => (pixel - left) / (right - left), width, input: of };
    size(svg, width, high);
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
    let free = 0;  // below the names so far
    for (const [name, one] of names) {
      free = Math.max(free, py(end(one)) - 0.6 * name.length * em);
      for (const part of name) words.push(draw("text", { class: one === own ? "here" : "soft", x: right + 0.4 * em, y: (free += 1.2 * em) - 0.25 * em }, part));
    }
    svg.append(...words);
    svg.setAttribute("aria-hidden", "true");
    point.hidden = !now;
    if (!now) return grip;
    const at = given.get(of.name), h = now.get(to.name), x0 = px(at), y0 = py(h);
    svg.append(draw("path", { class: "guide", d: `M${x0} ${bottom}V${y0}` }), draw("text", { class: "here", x: x0 + (x0 > (left + right) / 2 ? -em : em), y: Math.max(y0 - 0.8 * em, em), "text-anchor": x0 > (left + right) / 2 ? "end" : "start" }, written(brief(h), to)));
    point.style.left = `${(100 * x0) / width}%`;
    point.style.top = `${(100 * y0) / high}%`;
    point.ariaLabel = of.label;
    Object.assign(point, { ariaValueMin: String(of.low), ariaValueMax: String(of.high), ariaValueNow: String(at), ariaValueText: `${written(at, of)}: ${written(h, to)}` });
    return grip;
  };

  // --- a figure: the sentence, the table, the drawing ---

  const sentence = (values, parts, now) => parts.flatMap((part) => {
    if (typeof part === "string") return [part];
    const [name, then, otherwise] = part, { menus, results, named, given } = values;
    if (then) return sentence(values, now.get(name) ? then : otherwise, now);
    const menu = menus.findIndex(({ label }) => label === name), result = results.find((one) => one.name === name);
    return [make("b", { textContent: result ? written(brief(now.get(name)), result) : menu >= 0 ? values.row(menu) : written(given.get(name), named.get(name)) })];
  });
  const wake = (figure, formula, known, key) => {
    const values = valuesOf(known, formula), answer = figure.querySelector(".answer");
    const svg = draw("svg", {}), point = make("div", { className: "point", role: "slider", tabIndex: 0 }), stage = make("div", "stage", svg);
    let grip = null, waiting = 0, drawn = 0;

    const picture = (now) => {
      const em = parseFloat(getComputedStyle(stage).fontSize);
      drawn = stage.clientWidth;
      if (!drawn) return;
      svg.replaceChildren();
      if (now && known.stack) bars(values, svg, now, drawn, em);
      if (known.curve) grip = curve(values, svg, point, now, drawn, em) ?? grip;
    };
    const update = (moved, typing) => {
      const now = values.answer();
      answer.replaceChildren(...(now ? sentence(values, known.says, now) : ["There is no result for these values."]));
      controls.draw(moved, typing);
      picture(now);
    };
    const change = (moved, typing) => {  // the address is replaced, so that Back leaves the page; browsers limit the rate
      update(moved, typing);
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        try { history.replaceState(null, "", addressOf(values, key)); } catch { /* not allowed on this page */ }
      }, 250);
    };
    const restore = () => {
      if (!restored(values, key)) return;
      update();
      page.reveal(figure);
      figure.scrollIntoView({ block: "start" });
    };
    const addDragging = () => {
      stage.append(point);
      stage.classList.add("dragged");
      point.addEventListener("keydown", (event) => controls.nudge(values.named.get(known.curve[0]), event));
      const drag = ({ clientX }) => {
        const box = stage.getBoundingClientRect();
        values.set(grip.input, near(grip.input, Math.min(1, Math.max(0, grip.place(((clientX - box.left) / box.width) * grip.width)))));
        change(grip.input);
      };
      stage.addEventListener("pointerdown", (event) => {
        if (event.button || !grip) return;
        stage.setPointerCapture(event.pointerId);
        event.preventDefault();
        point.focus({ preventScroll: true });
        drag(event);
      });
      stage.addEventListener("pointermove", (event) => { if (stage.hasPointerCapture(event.pointerId)) drag(event); });
    };

    const controls = controlsOf(figure, values, change, () => addressOf(values, key));
    answer.setAttribute("role", "status");
    if (known.curve || known.stack) answer.after(stage);
    (stage.isConnected ? stage : answer).after(controls.box);
    figure.classList.add("awake");
    if (known.curve) addDragging();
    update();
    new ResizeObserver(() => { if (stage.clientWidth !== drawn) picture(values.answer()); }).observe(stage);
    restore();
    addEventListener("hashchange", restore);
  };

  const [figures, formulas] = page.explored ?? [{}, []], keys = new Set();
  Object.entries(figures).forEach(([id, known], n) => {
    const figure = page.$(id);
    if (!figure) return;
    let key = known.name;
    while (keys.has(key)) key += "-";  // a second figure of the same function
    keys.add(key);
    wake(figure, formulas[n], known, key);
  });
}
