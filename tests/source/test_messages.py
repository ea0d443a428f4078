from __future__ import annotations

import ast

from tests.cases_in_one import each
from trace_tools.source.messages import filled_slots, message_of, rendered, strings_in


@each(
    ("code", "text"),
    [
        ('"a" "b"', "ab"),
        (r'f"{x:.1f} GB\n" " in all"', "{x:.1f} GB\n in all"),
        ("f'{x!r:>{w}} {{braces}}' \"{x}\"", "{x!r:>{w}} {{braces}}{{x}}"),
        ("""f"{d['a'] / 1e9:,.0f} of {f(x, {'k': 1})}\"""", "{d['a'] / 1e9:,.0f} of {f(x, {'k': 1})}"),
        ('(\n    f"one {x} "  # it\'s {y}\n    rf"a $\\frac{{a}}{{b}}$ {y}"\n)', "one {x} a $\\frac{{a}}{{b}}$ {y}"),
        ("f'''{x\n  + 1} lines'''", "{x + 1} lines"),
    ],
)
def test_messages_keep_placeholders_as_written(code: str, text: str) -> None:
    node = ast.parse(code).body[0]
    [string] = [
        string_node for string_node in strings_in(node) if string_node.lineno and not _inside(string_node, node)
    ]
    assert message_of(string, code).text == text


def _inside(string_node: ast.AST, node: ast.stmt) -> bool:
    return string_node is not next(iter(strings_in(node)))


def test_reworded_messages_render_formatted_values() -> None:
    x, names = 3.14159, ["a", "b"]
    code = """f"{x:.2f} of {len(names)} in {x:.2f}, {names!r:>12}\""""
    values = [format(x, ".2f"), str(len(names)), format(x, ".2f"), format(repr(names), ">12")]
    [string] = [string_node for string_node in strings_in(ast.parse(code).body[0])]
    message = message_of(string, code)
    shown = "".join(text for _, text in rendered(message.pieces, filled_slots(message, values)))
    assert shown == eval(code)
    reworded = message.worded("{names!r:>12}: {{{x:.2f}}} {len(names)} {x:.2f}")
    shown = "".join(text for _, text in rendered(reworded.pieces, filled_slots(message, values)))
    assert shown == f"{names!r:>12}: {{{x:.2f}}} {len(names)} {x:.2f}"
