"""Hostile traces: a good trace in which a seed makes some fields huge, unusual, wrong or very deep.

    hostile(17)                        Hostile("table 100,000 × 3; steps[4].host_ns", "schema: 1\\ntitle: …")
    hostile(17, most=1_000)            the same kinds of changes, with at most a thousand of anything

A reader must render such a trace or refuse it with one line. Changes are drawn by the types of the schema (for any
field of any record, even an absent one), by attacks with one idea each (`ATTACKS`), and in the file's text. Most of
them keep the rest of the trace valid, because a trace that is refused at once tests little.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from tests.traces import example_trace
from trace_tools.trace.model import Frame, Step, Trace, Value
from trace_tools.trace.plain_yaml import flow, head, source_block
from trace_tools.trace.structure import to_plain
from trace_tools.trace.trace_file import load

Plain = dict[str, Any]
Attack = Callable[[random.Random, Plain, int], str]

COMMITTED = Path(__file__).resolve().parents[1] / "rendered" / "cpu" / "trace.yaml"
SECTION, KEPT = (
    "tensors_from_the_inside",
    60,
)  # a section of the committed trace, and the number of its steps that are used
MOST = 5_000  # maximum items, lines, points of a plot …; five times what a recorder keeps of one function's calls
LONGEST = 5_000_000  # characters of one text
RAW = "@@raw{}@@"  # placeholder for a text that no YAML writer would produce


@dataclass(frozen=True, slots=True)
class Hostile:
    """The text of a trace file, and a description of its changes."""

    changes: str
    text: str


def hostile(seed: int, most: int = MOST) -> Hostile:
    """Return the trace of a seed with at most `most` items of anything; texts may be longer."""
    draw = random.Random(seed)
    plain = deepcopy(
        _bases()[draw.random() < 0.15 and most >= 1_000]
    )  # the committed trace is rare: its source takes half a second
    done = []
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        attack = draw.choice([_any_field] * 20 + list(ATTACKS) * 2)
        done.append(attack(draw, plain, most))
    text = _text(plain, most)
    if draw.random() < 0.06:
        change, text = _mangled(draw, text, most)
        done.append(change)
    return Hostile("; ".join(done), text)


def good() -> str:
    """Return the text of the unchanged trace, for comparisons with hostile ones."""
    return _text(_bases()[0], MOST)


@cache
def _bases() -> tuple[Plain, Plain]:
    """Return the tests' example trace, and the first steps of a section of the committed trace."""
    trace = load(COMMITTED).trace
    frames: set[int] = set()
    kept: list[Any] = []
    calling: set[int] = set()
    for event in trace.steps:
        inside = isinstance(event, Frame) and (event.function in ("<module>", "main", SECTION) or event.of in calling)
        if inside or (not isinstance(event, Frame) and event.frame in frames):
            kept.append(event)
            if isinstance(event, Frame):
                frames.add(event.frame)
            elif isinstance(event, Step) and len(frames) > 2 and event.frame not in (0, 1):
                calling.add(event.id)
        if len(kept) > 4 * KEPT:
            break
    step_ids = {event.id for event in kept if isinstance(event, Step)}
    kept = [e for e in kept if not isinstance(e, Frame) or e.of is None or e.of in step_ids]
    kept_frames = {e.frame for e in kept if isinstance(e, Frame)}
    lecture = _plain(trace) | {"steps": [to_plain(e) for e in kept if e.frame in kept_frames][: 3 * KEPT]}
    return _plain(example_trace()), lecture


def _plain(trace: Trace) -> Plain:
    plain: Plain = json.loads(json.dumps({"schema": trace.schema} | to_plain(trace)))
    return plain


def _text(plain: Plain, most: int) -> str:
    """Return the text of a trace file, even if the trace is invalid."""
    front = {key: value for key, value in plain.items() if key not in ("sources", "steps")}
    parts = [head(front)]
    sources, steps = plain.get("sources"), plain.get("steps")
    if isinstance(sources, list) and all(isinstance(s, dict) and {*s} == {"path", "text"} for s in sources) and sources:
        if all(isinstance(text, str) for source in sources for text in source.values()):
            parts += ["sources:\n", *(source_block(source["path"], source["text"]) for source in sources)]
        else:
            parts.append(f"sources: {flow(sources)}\n")
    elif "sources" in plain:
        parts.append(f"sources: {flow(sources)}\n")
    if isinstance(steps, list) and steps:
        parts += ["steps:\n", *(f"- {flow(event)}\n" for event in steps)]
    elif "steps" in plain:
        parts.append(f"steps: {flow(steps)}\n")
    text = "".join(parts)
    for name, spelled in _raw(most).items():
        text = text.replace(f'"{RAW.format(name)}"', spelled)
    return text


def _raw(most: int) -> dict[str, str]:
    return {
        "lists": "[" * most + "]" * most,
        "nested": "[" * 150 + "]" * 150,
        "mappings": '{"a": ' * most + "1" + "}" * most,
        "digits": "9" * most,
        "hex": "0x" + "f" * most,
        "sexagesimal": ":".join(["59"] * most),
        "date": "2001-99-99",
        "alias": "*a",
        "anchor": "&a [1]",
        "tag": "!!python/object/apply:os.system ['true']",
        "inf": ".inf",
        "nan": ".nan",
        "exponent": "1.0e+999",
        "yes": "yes",
        "null": "~",
        "octal": "0777",
        "set": "!!set {a}",
        "half": '"\\ud800"',
    }


# --- any field, by its type -----------------------------------------------------------------------


def _any_field(draw: random.Random, plain: Plain, most: int) -> str:
    """Replace one field by a hostile value, usually of the field's own type."""
    places = [p for p in _places(Trace, plain, "") if p[3] not in (".schema",) or draw.random() < 0.1]
    holder, key, hint, where = draw.choice(places)
    dice = draw.random()
    if dice < 0.05 and isinstance(holder, dict):
        holder.pop(key, None)
        return f"{where} is missing"
    if dice < 0.1 and isinstance(holder, dict):
        holder[draw.choice(("extra", "", "id", "x" * most))] = 1
        return f"{where} has a sister"
    if dice < 0.2:
        hint = draw.choice((int, float, str, bool, list[int], Value, None))
    holder[key] = _value(draw, hint, most, 0)
    return f"{where} is {_short(holder[key])}"


def _places(hint: Any, at: Any, where: str) -> Iterator[tuple[Any, Any, Any, str]]:
    """Yield each field and item of plain data: its container, its key, its type and its path."""
    if is_dataclass(hint) and isinstance(at, dict):
        for name, inner in _hints(hint).items():
            yield at, name, inner, f"{where}.{name}"
            if at.get(name) is not None:
                yield from _places(inner, at[name], f"{where}.{name}")
        return
    members = [member for member in get_args(hint) if member is not NoneType]
    if get_origin(hint) is list and isinstance(at, list):
        for number, item in enumerate(at[:30]):
            yield at, number, members[0], f"{where}[{number}]"
            yield from _places(members[0], item, f"{where}[{number}]")
    elif get_origin(hint) is tuple and isinstance(at, list):
        for number, (inner, item) in enumerate(zip(members, at, strict=False)):
            yield at, number, inner, f"{where}[{number}]"
            yield from _places(inner, item, f"{where}[{number}]")
    elif members and isinstance(at, dict):  # a union: the fields of the value determine the member
        of = next((m for m in members if is_dataclass(m) and _required(m) <= {*at}), None)
        if of is not None:
            yield from _places(of, at, where)
    elif members and isinstance(at, list):
        of = next((m for m in members if get_origin(m) in (list, tuple)), None)
        if of is not None:
            yield from _places(of, at, where)


_hints = cache(get_type_hints)


@cache
def _required(cls: Any) -> set[str]:
    return {f.name for f in fields(cls) if f.default is MISSING and f.default_factory is MISSING}


def _value(draw: random.Random, hint: Any, most: int, depth: int) -> Any:
    """Draw an unusual value of a type."""
    if hint is None or hint is NoneType:
        return None
    if hint is bool:
        return draw.random() < 0.5
    if hint is int:
        return _int(draw)
    if hint is float:
        return draw.choice((_float(draw), _int(draw)))
    if hint is str:
        return _string(draw, most)
    if is_dataclass(hint):
        hints, needed = _hints(hint), _required(hint)
        sure = [name for name in hints if name in needed or draw.random() < (0.3 if depth < 4 else 0.0)]
        return {name: _value(draw, hints[name], min(most, 1_000), depth + 1) for name in sure}
    members = get_args(hint)
    if get_origin(hint) is list:
        if draw.random() < 0.3 or depth > 4:
            return [_value(draw, members[0], min(most, 300), depth + 1) for _ in range(draw.choice((0, 1, 3)))]
        count = _count(draw, most if depth == 0 else min(most, 1_000))
        one = _value(draw, members[0], max(1, min(most, 10 * most // count)), depth + 1)
        return [one] * count if len(flow(one)) * count < 100 * most else [one]
    if get_origin(hint) is tuple:
        return [_value(draw, member, most, depth + 1) for member in members]
    if members:
        return _value(draw, draw.choice(members), most, depth)
    return RAW.format(draw.choice(list(_raw(1))))


def _int(draw: random.Random) -> int:
    large = (10**9, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 10**18, 10**30, 10**60, 10**308, 10**320, 10**4_000)
    return draw.choice((0, 1, 2, 3, 7, 100, -1, -(10**18), draw.choice(large), draw.choice(large), draw.choice(large)))


def _float(draw: random.Random) -> float:
    odd = (0.0, -0.0, 1.0, -1.0, 0.1, 1e-320, 5e-324, 1e300, 1.7e308, -1.7e308, 1e15, 1e21)
    return draw.choice((*odd, float("nan"), float("inf"), float("-inf")))


def _count(draw: random.Random, most: int) -> int:
    """Draw a number of items, uniform in its logarithm."""
    return max(1, int(most ** draw.random()))


def _string(draw: random.Random, most: int) -> str:
    unit = draw.choice(UNITS)
    length = draw.choice((1, 3, 60, 1_000, most, min(1_000 * most, LONGEST) if draw.random() < 0.1 else most))
    text = unit * (length // len(unit) + 1)
    return draw.choice(("", "", "a ", "# ", "\n")) + text + draw.choice(("", "", ")", "]", "`", "$", "|\n|-|\n"))


UNITS = (
    "x", " ", "\n", "\t", "a ", "a\n", "word, ", "é", "\U0001d465", "0", "1.5 ", "-", "=", "~", "\\", "\u202e",
    "\0", "\x1b[31m", "[", "]", "(", "[x](", "![", "[[x]()]", "*", "**a", "_a_", "*a **b ", "`", "``` ", "~~",
    "$", "$$\n", "$x$ ", "$\\frac{1}{", "> ", ">", "- ", "1. ", "* a\n", "  ", "|", "|a", "|-", "a|b\n-|-\n",
    "#", "# a\n", "<", "<b>", "&", "&amp;", "&#", "<!--", "http://a.b/", "<http://a>", "]: ", "[a]: b\n", "[a]",
    "{", "}", "\\sqrt{", "\\frac", "\\left(", "^{", "_{", "\\begin{matrix}", "'", '"', ",", ":", ";", "/",
    "../", "%", "@", "@inspect ", "x.", "x[", "f(", "not ", "1+", "lambda:", "if ", "\r", "\r\n", "\u2028",
    "\ufeff", "\U000f0000", "\U000f0000a\U000ffffd", "\ud7ff", "e9", "1e", "nan", "None", "<script>",
    "</script>", "]]>",
)  # fmt: skip


# --- attacks with one idea each; arguments: draw, plain, most; each returns a description of its change ---


def _step(draw: random.Random, plain: Plain) -> Plain:
    """Return one of the steps; an empty dict if there is none."""
    steps = [e for e in plain.get("steps") or [] if isinstance(e, dict) and "id" in e]
    return draw.choice(steps) if steps else {}


def _add(draw: random.Random, plain: Plain, *values: list[Any]) -> None:
    step = _step(draw, plain)
    step["annotated"] = True
    step["values"] = [*(step.get("values") or []), *values] if isinstance(step.get("values"), list) else [*values]


def _huge_shape(draw: random.Random, plain: Plain, most: int) -> str:
    """Add a tensor without elements whose shape is valid but exceeds any memory."""
    rank = draw.choice((0, 1, 1, 2, 2, 3, 5, 30, 1_000))
    sizes = (1, 1, 2, 0, 10**3, 10**6, 1 << 28, 2**31, 2**62, 2**63 - 1, 10**18, 10**30)
    shape = [draw.choice(sizes) for _ in range(rank)]
    strides = [draw.choice((0, 0, 1, 2, -1, -(2**62), 2**62, 10**6)) for _ in range(rank)]
    tensor: Plain = {"dtype": "float32", "shape": shape, "device": draw.choice(("cpu", "meta")), "storage": "A"}
    tensor |= {
        "strides": strides,
        "offset": draw.choice((0, 1, 10**18)),
        "storage_bytes": draw.choice((0, 4, 64, 10**18)),
    }
    tensor["bytes"] = draw.choice((0, 4, 64, 10**12, 10**18))
    if draw.random() < 0.4:
        tensor |= {"corner_shape": [min(size, 1) for size in shape], "corner": [0.0] * (0 not in shape)}
        count = [draw.choice((0, 10**18)) for _ in range(min(most, draw.choice((0, 1, 32, most))))]
        tensor["statistics"] = {"min": _float(draw), "max": _float(draw), "mean": _float(draw), "std": 0.5, "nan": 3}
        tensor["statistics"]["histogram"] = count
    _add(draw, plain, ["x", {"type": "tensor", "tensor": tensor}], ["x[0]", {"type": "tensor", "tensor": tensor}])
    return f"a tensor {str(shape)[:60]}"


def _expanded(draw: random.Random, plain: Plain, most: int) -> str:
    """Add tensors with all their elements that share a few storage cells, or use distant ones."""
    count = _count(draw, most)
    shape = draw.choice(([count], [count, 1], [1, count], [1] * 50 + [count], [1, 2, count // 2 or 1]))
    amount = count if shape[-1] == count or shape[0] == count else 2 * (count // 2 or 1)
    many = []
    for number in range(draw.choice((1, 2, 20))):
        strides = [draw.choice((0, 0, 1, 3, -1, 10**17)) for _ in shape]
        tensor = {
            "dtype": "int64",
            "shape": shape,
            "device": "cpu",
            "storage": "B",
            "strides": strides,
            "offset": number,
        }
        tensor |= {
            "bytes": 8 * amount,
            "storage_bytes": draw.choice((8, 64, 256)),
            "elements": [_int(draw) % 10**20] * amount,
        }
        many.append([f"y{number}", {"type": "tensor", "tensor": tensor}])
        if count * number > most:
            break
    _add(draw, plain, *many)
    return f"tensors of {amount} elements in one storage"


def _deep_value(draw: random.Random, plain: Plain, most: int) -> str:
    """Add nested containers, up to the allowed depth and beyond it."""
    depth = draw.choice((10, 40, 48, 49, 50, 60, 150))
    wide = draw.choice((1, 2, 8))
    value: Plain = {"type": "int", "value": 1}
    for level in range(depth):
        items = [value, *({"type": "str", "value": "x" * min(most, 2_000)} for _ in range(wide - 1))]
        if draw.random() < 0.7:
            value = {"type": draw.choice(("list", "tuple", "odd")), "items": items, "length": len(items) + level}
        else:
            value = {"type": "dict", "entries": [[value if draw.random() < 0.3 else items[-1], value]], "length": 1}
        if len(flow(value)) > 4 * most:
            break
    _add(draw, plain, ["deep", value])
    return f"a value {depth} deep"


def _wide_value(draw: random.Random, plain: Plain, most: int) -> str:
    count = _count(draw, most)
    one = draw.choice(
        ({"type": "int", "value": 7}, {"type": "str", "value": "é\n" * 50}, {"type": "list", "items": []})
    )
    if draw.random() < 0.5:
        value = {
            "type": draw.choice(("list", "set", "Odd")),
            "items": [one] * count,
            "length": draw.choice((count, 10**30)),
        }
    else:
        value = {"type": "dict", "entries": [[{"type": "int", "value": n}, one] for n in range(count)]}
    _add(draw, plain, ["wide", value])
    return f"a container of {count}"


def _many_values(draw: random.Random, plain: Plain, most: int) -> str:
    count = _count(draw, most)
    names = draw.choice((lambda n: f"x{n}", lambda n: "x", lambda n: f"x[{n % 7}].y"))
    _add(draw, plain, *([names(n), {"type": "float", "value": _float(draw)}] for n in range(count)))
    return f"{count} values of a step"


def _prose(draw: random.Random, plain: Plain, most: int) -> str:
    """Add Markdown that is expensive to parse or render."""
    unit = draw.choice(UNITS)
    text = _string(draw, most) if draw.random() < 0.3 else draw.choice(PROSES)(unit, most)
    kind = draw.choice(("text", "text", "note", "link", "table"))
    narrative: Plain = {"kind": kind, "text": text}
    if kind == "link":
        narrative |= {"url": draw.choice(("https://a.b", text[:3_000])), "title": text}
    if kind == "table":
        narrative |= {"columns": [text, "b"], "rows": [[text, 1], [2.0, text]], "title": text}
    if draw.random() < 0.5:
        count = _count(draw, most)
        narrative["varied"] = [
            {"samples": ["1", "2"], "start": 2 * n, "end": 2 * n + 1, "row": n % 4 - 1, "column": n % 3 - 1}
            for n in range(count)
        ]
    if draw.random() < 0.2:
        narrative["others"] = [["another", 10**18]] * _count(draw, most)
    _say(draw, plain, narrative)
    return f"a {kind} of {len(text)} characters: {text[:20]!r}"


PROSES: tuple[Callable[[str, int], str], ...] = (
    lambda unit, most: "".join(f"{'  ' * n}- {unit}\n" for n in range(min(most, 2_000))),
    lambda unit, most: "".join(f"{'>' * n} {unit}\n" for n in range(min(most, 1_000))),
    lambda unit, most: "".join(f"[a{n}]: http://{n}\n" for n in range(most // 10)) + "[a1] " * (most // 10),
    lambda unit, most: "|" + "a|" * (most // 10) + "\n|" + "-|" * (most // 10) + "\n" + "|\n" * (most // 10),
    lambda unit, most: f"{unit}1 " * (most // 2),
    lambda unit, most: "$" + "\\frac{" * (most // 100) + unit + "}{1}" * (most // 100) + "$",
    lambda unit, most: f"${unit * 20}$ " * (most // 20),
    lambda unit, most: f"# {unit}\n" * (most // 10),
    lambda unit, most: "a" * most + unit * 50 + "b" * most,
    lambda unit, most: "*a " * most + unit + "b* " * most,
    lambda unit, most: "[" * (most // 2) + unit + "](x)" * (most // 2),
    lambda unit, most: "".join("`" * n + unit for n in range(1, int(most**0.5) * 2)),
)


def _say(draw: random.Random, plain: Plain, narrative: Plain) -> None:
    step = _step(draw, plain)
    before = step.get("narrative")
    step["narrative"] = [*(before if isinstance(before, list) else []), narrative]


def _table(draw: random.Random, plain: Plain, most: int) -> str:
    rows, columns = _count(draw, most), _count(draw, 1_000)
    if draw.random() < 0.3:
        rows, columns = columns, rows
    columns = max(1, min(columns, 10 * most // rows))
    cell = draw.choice((1, 0.1, None, "é", "|", "1.5%", _string(draw, 100), _int(draw), _float(draw)))
    narrative: Plain = {"kind": "table", "columns": ["c"] * columns, "rows": [[cell] * columns for _ in range(rows)]}
    narrative["varied"] = [
        {"samples": [_int(draw), None], "row": _int(draw) % most, "column": _int(draw) % 1_000} for _ in range(9)
    ]
    _say(draw, plain, narrative)
    return f"a table {rows} × {columns} of {str(cell)[:20]!r}"


def _plot(draw: random.Random, plain: Plain, most: int) -> str:
    count, lines = _count(draw, most), _count(draw, 1_000)
    count = max(1, min(count, 10 * most // lines))
    heights = draw.choice(
        (lambda n: n, lambda n: _float(draw), lambda n: _int(draw), lambda n: 10.0**-n, lambda n: None, lambda n: "x")
    )
    across = draw.choice(
        (lambda n: n, lambda n: f"name {n}", lambda n: _float(draw), lambda n: _int(draw), lambda n: True)
    )
    series = [
        {
            "name": draw.choice(("", "s", "x" * 1_000)),
            "x": [across(n) for n in range(count)],
            "y": [heights(n) for n in range(count)],
            "style": draw.choice(("line", "points", "bars", "steps")),
        }
        for _ in range(lines)
    ]
    scales = draw.choice(("linear", "log")), draw.choice(("linear", "log"))
    _say(draw, plain, {"kind": "plot", "series": series, "x_scale": scales[0], "y_scale": scales[1], "title": "t"})
    return f"a plot of {lines} × {count}, {scales}"


def _drawing(draw: random.Random, plain: Plain, most: int) -> str:
    """Add a figure with hostile SVG."""
    inner = draw.choice(
        (
            "<g>" * most + "</g>" * most,
            "<g>" * 500 + "<rect/>" * 50 + "</g>" * 500,
            '<path d="M0 0L1.123456 2"/>' * (most // 2),
            f'<path d="M{"1.5 " * most}"/>',
            '<g fill="red">' + "<text>x</text>" * (most // 2) + "</g>",
            f'<rect style="{"fill:red;" * most}"/>',
            f"<text>{'&amp;' * most}</text>",
            '<g id="a"><use href="#b"/></g>' * 1_000,
            f"<rect fill='{'url(#a)' * (most // 10)}'/>",
            "<rect " + " ".join(f"a{n}='1'" for n in range(most // 10)) + "/>",
            "<!-- " * most,
            "<!DOCTYPE a [<!ENTITY b 'c'>]>&b;",
        )
    )
    sizes = draw.choice(("", 'width="1e999" height="9"', f'width="{"9" * most}"', 'viewBox="0 0 nan inf"'))
    narrative = {"kind": "plot", "svg": f'<svg xmlns="http://www.w3.org/2000/svg" {sizes}>{inner}</svg>', "series": []}
    _say(draw, plain, narrative)
    return f"a drawing of {inner[:30]!r}"


def _deep_calls(draw: random.Random, plain: Plain, most: int) -> str:
    """Add deeply nested calls of one function."""
    depth = _count(draw, most)
    step = _step(draw, plain)
    of, origin = step.get("id", 0), {key: step.get(key, 1) for key in ("statement", "line")}
    name = draw.choice(("product", "matmul", "main", "<module>", "nobody", "a.b", "é" * 100))
    for n in range(depth):
        plain["steps"].append({"frame": 10**6 + n, "function": name, "of": of})
        of = 10**6 + n
        plain["steps"].append({"id": of, "frame": 10**6 + n, **origin, "host_ns": [10**9]})
        if draw.random() < 0.01:
            plain["steps"][-1]["raised"] = {"type": "E", "message": "m"}
    return f"calls {depth} deep of {name[:20]}"


def _many_calls(draw: random.Random, plain: Plain, most: int) -> str:
    """Add many calls by one step."""
    count, step = _count(draw, most), _step(draw, plain)
    name = draw.choice(("product", "matmul", "kinds_of_values", "main", "nobody"))
    of = step.get("id", 0) if draw.random() < 0.9 else None
    origin = {key: step.get(key, 1) for key in ("statement", "line")}
    inside, looped = draw.random() < 0.7, draw.random() < 0.3
    extra: Plain = draw.choice(
        ({}, {"stdout": "a\n"}, {"raised": {"type": "E", "message": "m"}}, {"values": [["x", {"type": "none"}]]})
    )
    for n in range(count):
        if looped:
            plain["steps"].append(
                {"id": 2 * 10**6 + n, "frame": step.get("frame", 0), "execution": n + 1, **origin, **extra}
            )
            of = 2 * 10**6 + n
        plain["steps"].append({"frame": 10**6 + n, "function": name if n % 2 else f"{name}", "of": of, "thread": "t"})
        if inside:
            plain["steps"].append({"id": 10**6 + n, "frame": 10**6 + n, **origin, "host_ns": [10**6], **extra})
    return f"{count} calls of {name}"


def _many_steps(draw: random.Random, plain: Plain, most: int) -> str:
    count, step = _count(draw, most), _step(draw, plain)
    statements = draw.choice((1, 1, 50))
    one: Plain = draw.choice(
        (
            {"host_ns": [5]},
            {"values": [["i", {"type": "int", "value": 3}]], "annotated": True},
            {"stdout": "line\n"},
            {"narrative": [{"kind": "text", "text": "again **and** $x$ again"}]},
            {"claim": {"source": "a == b", "held": False, "sides": [["a", {"type": "int", "value": 1}]]}},
            {"raised": {"type": "E", "message": "m", "origin_line": 1}},
            {"warnings": ["w"] * 9},
            {
                "meters": {"flops": 9, "live_bytes": 10**6, "peak_bytes": 10**9, "operators": [["aten.mm", 1]]},
                "host_ns": [10**6] * 3,
            },
            {"measured": [{"seconds": [1e-3], "flops": 10**9, "bytes_read": 10}]},
        )
    )
    for n in range(count):
        origin = {
            "frame": step.get("frame", 0),
            "statement": step.get("statement", 1) + n % statements,
            "line": step.get("line", 1),
        }
        plain["steps"].append({"id": 3 * 10**6 + n, "execution": n + 1, **origin, **one})
    return f"{count} steps with {next(iter(one))}"


def _counts(draw: random.Random, plain: Plain, most: int) -> str:
    """Add very many omitted executions, operators, measurements, times or other counted items."""
    step, count = _step(draw, plain), _count(draw, most)
    origin = {key: step.get(key, 0) for key in ("frame", "statement", "line")}
    kind = draw.choice(
        ("omitted", "operators", "measured", "host_ns", "samples", "failed_runs", "sides", "uncounted", "warnings")
    )
    if kind == "omitted":
        plain["steps"] += [{"omitted": abs(_int(draw)) + 1, **origin, "host_ns": abs(_int(draw))} for _ in range(count)]
    elif kind in ("operators", "uncounted"):
        names = [f"aten.op{n}" if draw.random() < 0.9 else "x" * 900 for n in range(count)]
        step["meters"] = {"flops": 10**18, "operators": [[name, abs(_int(draw))] for name in names], "uncounted": names}
        dtypes = ("float32", "bfloat16", "x", None)
        step["meters"]["work"] = [[name, draw.choice(dtypes), abs(_int(draw)), abs(_int(draw))] for name in names]
    elif kind == "measured":
        one = {
            "seconds": [abs(_float(draw))] * 3,
            "flops": abs(_int(draw)),
            "bytes_read": abs(_int(draw)),
            "dtype": "float32",
        }
        step |= {"measured": [one] * count, "annotated": True}
    elif kind == "samples":
        samples = [draw.choice((1, _int(draw), _float(draw), "a", None)) for _ in range(count)]
        _add(
            draw,
            plain,
            [
                "v",
                {
                    "type": "float",
                    "value": 0.5,
                    "varies": True,
                    "samples": samples,
                    "cold_samples": samples,
                    "unit": "B",
                },
            ],
        )
    elif kind in ("failed_runs", "sides"):
        sides = [["x" * 50, {"type": "int", "value": 3}]] * count
        step["claim"] = {
            "source": " < ".join("abc" * 300),
            "held": False,
            "sides": sides,
            "failed_runs": ["pass 1, warm"] * count,
        }
    elif kind == "warnings":
        step |= {"warnings": ["w\n" * 9] * count, "stdout": "\n" * count}
    else:
        step |= {name: [abs(_int(draw)) for _ in range(count)] for name in ("host_ns", "cold_ns", "device_ns")}
    return f"{count} {kind}"


def _machine(draw: random.Random, plain: Plain, most: int) -> str:
    """Add very many peaks, processes or versions, so that the file's head is large."""
    count = _count(draw, most)
    kind = draw.choice(("peaks", "processes", "versions", "dropped", "rates"))
    if kind == "rates":
        rates = (5e-324, 1e-300, 1.7e308, 1.0)
        plain["machine"]["peaks"] = [
            {"name": name, "per_second": draw.choice(rates), "source": "s"}
            for name in ("float32", "bfloat16", "memory", "tf32")
        ]
    elif kind == "peaks":
        plain["machine"]["peaks"] = [{"name": f"p{n % 50}", "per_second": 1.0 + n, "source": "s"} for n in range(count)]
    elif kind == "processes":
        plain["run"]["processes"] = [
            {"name": f"pass {n}", "ended": "complete", "notes": ["n"] * 5} for n in range(count)
        ]
    elif kind == "versions":
        plain["versions"] = [[f"v{n % 99}", "1" * 50] for n in range(count)]
    else:
        plain["run"]["dropped"] = ["d" * 100] * count
    return f"{count} {kind}"


def _source_text(draw: random.Random, plain: Plain, most: int) -> str:
    """Replace or extend the source by a long, deep or unusual one; most steps still refer to existing lines."""
    count = _count(draw, most)
    main = draw.choice(("", '"""T"""\ndef main():\n    matmul()\n\n\n'))
    kinds: dict[str, Callable[[], str]] = {
        "lines": lambda: "x = 1\n" * count,
        "inspected": lambda: "x = 1  # @inspect x x.y [B]\n" * count,
        "blank": lambda: "\n" * count + "x = 1\n",
        "comments": lambda: "# @hide @stepover\nx = 1\n" * count,
        "functions": lambda: "".join(f"def f{n}():\n    return f{n + 1}()\n" for n in range(count)),
        "one name": lambda: "def matmul():\n    x = 1\n" * count,
        "main calls": lambda: (
            "def main():\n"
            + "".join(f"    f{n}()\n" for n in range(count))
            + "".join(f"def f{n}(): pass\n" for n in range(count))
        ),
        "ifs": lambda: "if x:\n    y = 1\n" * count,
        "told ifs": lambda: "from trace_tools import text\n" + "if x:\n    text('a')\n" * count,
        "elifs": lambda: "if x:\n    y = 1\n" + "elif x:\n    y = 1\n" * count,
        "deep": lambda: "".join(f"{' ' * n}if x:\n" for n in range(min(count, 98))) + " " * min(count, 98) + "y = 1\n",
        "functions inside": lambda: (
            "".join(f"{' ' * n}def f{n}():\n" for n in range(min(count, 98))) + " " * min(count, 98) + "y = 1\n"
        ),
        "long line": lambda: "x = '" + "a" * (100 * count) + "'\n",
        "long sum": lambda: "x = " + " + ".join(["1"] * count) + "\n",
        "long chain": lambda: "x = a" + ".b" * count + "\n",
        "brackets": lambda: "x = " + "(" * count + "1" + ")" * count + "\n",
        "semicolons": lambda: "x = 1; " * count + "y = 2\n",
        "long text": lambda: 'text("""' + "a *b* $c$\n" * count + '""")\n',
        "docstring": lambda: f'def matmul():\n    """{draw.choice(UNITS) * count}"""\n    x = 1\n',
        "decorators": lambda: "@a\n" * count + "def f():\n    pass\n",
        "classes": lambda: "class A:\n    def f(self):\n        pass\n" * count,
        "matches": lambda: "match x:\n" + "    case 1:\n        y = 1\n" * count,
        "form feeds": lambda: "\x0cx = 1\r" * count,
        "strings": lambda: "x = (" + "'a'\n" * count + ")\n",
        "formats": lambda: "x = f'" + "{a}" * count + "'\n",
        "odd": lambda: draw.choice(UNITS) * count,
        "lambdas": lambda: "x = " + "lambda: " * count + "1\n",
        "assert": lambda: "assert " + " == ".join(["1"] * count) + "\n",
        "imports": lambda: "from trace_tools import *\n" * count + "text('a')\n" * count,
        "tabs": lambda: "if x:\n\t\ty = 1\n" * count,
    }
    kind = draw.choice(list(kinds))
    text = main + kinds[kind]()
    keeps = draw.random() < 0.4 and isinstance(plain["sources"][0]["text"], str)
    plain["sources"][0]["text"] = plain["sources"][0]["text"] + text if keeps else text
    if not keeps:
        lines = text.count("\n")
        for event in plain["steps"]:
            if "statement" in event and isinstance(event.get("line"), int):
                event["line"] = 1 + event["line"] % max(lines, 1)
                event["statement"] = event["statement"] % max(min(len(text) // 2, lines // 2), 1)
            if isinstance(event.get("raised"), dict):
                event["raised"].pop("origin_line", None)
    return f"a source of {count} {kind}"


def _many_sources(draw: random.Random, plain: Plain, most: int) -> str:
    count = _count(draw, most)
    plain["sources"] = [
        *plain["sources"],
        *({"path": f"m{n}.py", "text": "def f():\n    x = 1\n"} for n in range(count)),
    ]
    return f"{count} sources"


def _everywhere(draw: random.Random, plain: Plain, most: int) -> str:
    """Write one unusual value into all fields of one type."""
    kind = draw.choice((int, float, str, bool))
    value = _value(draw, kind, min(most, 1_000) if kind is str else most, 0)
    skipped = (
        "id",
        "frame",
        "of",
        "statement",
        "line",
        "schema",
        "kind",
        "lecture",
        "path",
        "slug",
        "type",
        "passes",
        "limit",
        "source",
    )
    places = [(h, k) for h, k, hint, _ in _places(Trace, plain, "") if hint is kind or kind in get_args(hint)]
    for holder, key in places:
        if (
            key not in skipped
            and (isinstance(key, str) or draw.random() < 0.1)
            and (not isinstance(holder, dict) or key in holder)
        ):
            holder[key] = value
    return f"every {kind.__name__} is {_short(value)}"


def _repeated(draw: random.Random, plain: Plain, most: int) -> str:
    """Repeat all events with new ids, as if sections ran many times."""
    events = [e for e in plain["steps"] if isinstance(e, dict)] or [{}]
    count = max(1, _count(draw, min(most, 100 * most // max(len(flow(events)) // len(events), 1))) // len(events))
    grown = []
    for again in range(1, count + 1):
        shift = again * 10**7
        for event in events:
            copy = dict(event)
            for key in ("id", "frame", "of"):
                if isinstance(copy.get(key), int):
                    copy[key] += shift
            grown.append(copy)
    plain["steps"] = [*events, *grown]
    return f"the trace {count} times more"


def _shuffled(draw: random.Random, plain: Plain, most: int) -> str:
    kind = draw.choice(("shuffled", "reversed", "twice", "half"))
    steps = plain["steps"]
    if kind == "shuffled":
        draw.shuffle(steps)
    plain["steps"] = {"reversed": steps[::-1], "twice": steps * 2, "half": steps[::2]}.get(kind, steps)
    return f"steps {kind}"


ATTACKS: tuple[Attack, ...] = (
    _huge_shape, _huge_shape, _expanded, _deep_value, _wide_value, _many_values, _prose, _prose, _prose, _table, _plot,
    _plot, _drawing, _deep_calls, _many_calls, _many_steps, _counts, _counts, _machine, _source_text, _source_text,
    _many_sources, _everywhere, _repeated, _shuffled,
)  # fmt: skip


# --- the file's text -------------------------------------------------------------------------------


def _mangled(draw: random.Random, text: str, most: int) -> tuple[str, str]:
    """Change the text of a file; return a description of the change and the new text."""
    at = draw.randrange(len(text))
    ways: dict[str, Callable[[], str]] = {
        "cut short": lambda: text[:at],
        "a line twice": lambda: text.replace("\n", "\n" * 2, 1) if at % 2 else text + text[-200:],
        "other characters": lambda: "".join(
            c if draw.random() > 0.0001 else chr(draw.randrange(1, 0x2FFF)) for c in text[:200_000]
        ),
        "in the middle": lambda: text[:at] + draw.choice(UNITS) * _count(draw, most) + text[at:],
        "tabs": lambda: text.replace("  ", "\t"),
        "comments": lambda: text + "# a\n" * _count(draw, most),
        "as JSON": lambda: "steps:\n" + text.split("\nsteps:\n")[-1],
        "documents": lambda: text + "---\n" + "a: 1\n---\n" * 5,
        "byte order mark": lambda: "\ufeff" + text,
        "windows": lambda: text.replace("\n", "\r\n"),
        "deep keys": lambda: "? " * _count(draw, most) + text,
        "deep list": lambda: text + "- " * _count(draw, most) + "1\n",
        "flow": lambda: text + "- {" + '"a": {' * _count(draw, most) + "\n",
        "empty": lambda: draw.choice(("", "\n", "null\n", "[]\n", "{}\n", "schema: 1\n", "%YAML 9.9\n---\n")),
        "spaces": lambda: text.replace("\n- {", "\n-  {"),
    }
    way = draw.choice(list(ways))
    return f"text: {way}", ways[way]()


def _short(value: Any) -> str:
    if isinstance(value, (list, dict)):
        return f"a {type(value).__name__} of {len(value)}"
    text = (
        "a long number"
        if isinstance(value, int) and abs(value) > 10**50
        else repr(value if not isinstance(value, str) else value[:20])
    )
    return f"{text} ({len(value)} characters)" if isinstance(value, str) and len(value) > 20 else text


__all__ = ["MOST", "Hostile", "good", "hostile"]
