"""Random programs: nested blocks that are left in every way, with directives on their lines.

@given(programs())
def test(text): ...
"""

from __future__ import annotations

from hypothesis import strategies as st

PRELUDE = """
class Manager:
    def __init__(self, log, swallow): self.log, self.swallow = log, swallow
    def __repr__(self): return "Manager"
    def __enter__(self): self.log.append("enter"); return self
    def __exit__(self, kind, error, traceback):
        self.log.append(("exit", kind and kind.__name__))
        return self.swallow

def say(log, x):
    log.append(("said", x))  # @inspect x
    return x

def main():
    log = []
    for how in range(4):
        try:
            result = f(log, how)
            log.append(list(result) if hasattr(result, "send") else result)
        except Exception as error:
            log.append(places(error))
    return log

def places(error):
    found, entry = [type(error).__name__, str(error)], error.__traceback__
    while entry:
        found.append((entry.tb_frame.f_code.co_name, entry.tb_lineno))
        entry = entry.tb_next
    return found, error.__context__ and places(error.__context__)

def f(log, how):
    x = how
"""
SIMPLE = (
    "log.append({n})", "log.append({n})", "x += {n}", "x = say(log, {n})", "y = x", "del x", "log.append(y)",
    "return {n}", "if how == {n}: return x", "raise ValueError({n})", "if how > 1: raise KeyError(x)", "raise",
    "assert how != {n}, say(log, x)", "assert say(log, {n}) < how < say(log, x) or not x, log.append(x)", "pass",
    "{yields}", "{leaves}", "if how == {n}: {leaves}", "if x == {n}: {leaves}",
)  # fmt: skip
COMMENTS = ("", "", "", "  # @inspect x, y", "  # @stepover", "  # @inspect log @stepover")
HEADERS = ("", "", "  # @inspect x, log")
COMPOUND = ("if", "for", "while", "try", "except", "with", "match")


@st.composite
def programs(draw: st.DrawFn) -> str:
    """Draw a module whose function `f` runs nested blocks and sometimes yields."""
    yields = draw(st.sampled_from(["log.append('no generator')", "y = yield x"]))
    numbers = iter(range(10**6))

    def block(depth: int, indent: str, leaves: tuple[str, ...]) -> list[str]:
        lines: list[str] = []
        for _ in range(draw(st.integers(1, 3))):
            if depth and draw(st.booleans()):
                lines.extend(compound(depth - 1, indent, leaves))
                continue
            text = draw(st.sampled_from(SIMPLE)).format(
                n=draw(st.integers(0, 3)), yields=yields, leaves=draw(st.sampled_from(leaves))
            )
            lines.append(f"{indent}{text}{draw(st.sampled_from(COMMENTS))}")
        return lines

    def compound(depth: int, indent: str, leaves: tuple[str, ...]) -> list[str]:
        inner, n, comment = indent + "    ", draw(st.integers(0, 3)), draw(st.sampled_from(HEADERS))
        kind = draw(st.sampled_from(COMPOUND))
        body = block(depth, inner, ("break", "continue") if kind in ("for", "while") else leaves)
        rest = block(depth, inner, leaves)
        counter = f"n{next(numbers)}"
        match kind:
            case "if":
                return [f"{indent}if x > {n}:{comment}", *body, f"{indent}else:", *rest]
            case "for":
                return [f"{indent}for x in range({n}):{comment}", *body, f"{indent}else:", *rest]
            case "while":
                test = f"while ({counter} := {counter} + 1) < {n}:{comment}"
                return [f"{indent}{counter} = 0", f"{indent}{test}", *body, f"{indent}else:", *rest]
            case "try":
                return [f"{indent}try:", *body, f"{indent}finally:", *rest]
            case "except":
                handler = f"{indent}except ({draw(st.sampled_from(['ValueError', 'Exception']))}, KeyError) as error:"
                other = block(depth, inner, leaves)
                return [
                    f"{indent}try:",
                    *body,
                    handler,
                    *rest,
                    f"{indent}else:",
                    *other,
                    f"{indent}finally:",
                    f"{inner}say(log, 9)",
                ]
            case "with":
                return [f"{indent}with Manager(log, {n > 1}) as y:{comment}", *body]
        return [f"{indent}match how:{comment}", f"{inner}case {n}:", *("    " + line for line in body)]

    return "\n".join([PRELUDE.strip("\n"), *block(3, "    ", ("x = 5",)), "    return log[-1:]", ""])
