// Parse numbers that readers type.
// "560 GB", "5.6e11", "5.6·10^11", "1,120,000", "3/4", "12%", "2^30", "144 days", "~40", "40x", "40,5" → a number; NaN for
// anything else. A comma before three digits groups them, unless only a 0 is before it.
const parsed = (() => {
  const PREFIX = { k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40,
    m: 1e-3, µ: 1e-6, μ: 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
  const TIMES = { s: 1, min: 60, h: 3600, days: 86400, day: 86400, d: 86400 };
  const WORDS = { B: 1e9, b: 1e9, thousand: 1e3, million: 1e6, billion: 1e9, trillion: 1e12 };
  return (text, unit) => {
    const superscript = (all) => `^${[...all].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)).map((at) => (at ? at - 1 : "-")).join("")}`;
    let rest = text.trim().replace(/^(?:[~≈∼]|about)\s*/i, "").replace(/[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+/g, superscript).replace(/[−–]/g, "-")
      .replace(/(?<![\d.,])(\d+),(\d+)(?![\d.,])/g, (all, whole, part) => (part.length !== 3 || whole === "0" ? `${whole}.${part}` : all))
      .replace(/(\d)[,_\u202f\u00a0](?=\d{3}(?!\d))/g, "$1");
    const BY = /^(?:[·*/]|[x×](?=\s*[-+.\d]))/, one = /^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)/i;
    const factor = () => {
      const found = rest.match(one);
      if (!found) return NaN;
      rest = rest.slice(found[0].length).trimStart();
      const power = rest.match(/^(?:\^|\*\*)\s*(-?\d+(?:\.\d+)?)/);
      if (power) rest = rest.slice(power[0].length).trimStart();
      return power ? Number(found[0]) ** Number(power[1]) : Number(found[0]);
    };
    let value = factor();
    for (let by = rest.match(BY); by; by = rest.match(BY)) {
      rest = rest.slice(by[0].length).trimStart();
      value = by[0] === "/" ? value / factor() : value * factor();
    }
    if (rest === "" || rest === unit) return value;
    if (!unit && /^(?:x|×|times|-?fold)$/.test(rest)) return value;
    if (rest === "%") return unit === "%" ? value : value / 100;
    if (rest in WORDS) return value * WORDS[rest];
    if (unit === "s" && rest in TIMES) return value * TIMES[rest];
    const bare = unit && rest.endsWith(unit) ? rest.slice(0, -unit.length).trim() : rest;
    return bare in PREFIX ? value * PREFIX[bare] : NaN;
  };
})();
