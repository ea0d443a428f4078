"""Match the functions and statements of two traces by their code.

    code_of(Tree(a)).functions["product"]   # [Code(number=8, exact="…", unnamed="…", bare="…", …), …]
    matching = match_code(code_of(Tree(a)), code_of(Tree(b)))
    matching.functions                      # (FunctionMatch("product", "multiply", how="renamed", similarity=1.0), …)
    matching.statement_in_b(12)             # 14: the number in B of A's statement 12
    matching.renamed("product")             # {"h": "hidden"}: variables with another name in B
    translated("h.shape", {"h": "hidden"})  # "hidden.shape"

The code of a statement has three forms to compare: exact, without names, without constants. A compound statement is
represented by its header; the statements in it are separate. Comments are ignored, so changed annotations have no
effect.

Equal sources match statement by statement (`SAME`). In others, functions are matched by qualified name. Renamed or
moved functions are matched by content, by the share of equal code. Within matched functions, statements are matched by
the longest common subsequence of their code. Of the other statements, equal ones have moved; statements between matched
ones are matched without names (renamed), then without constants, then by their role (edited).

The longest common subsequence follows Hunt and Szymanski, "A fast algorithm for computing longest common subsequences"
(CACM, 1977), near-linear in time if keys are rare. It orders the pairs of equal keys so that a longest increasing chain
is a longest common subsequence. `difflib` matched slightly fewer statements in 23 pairs of versions of a lecture (10 of
121,000), and took 57 s instead of 0.4 s for 30,000 keys if nine in ten were equal; a trace file may contain such a
source.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from trace_tools.errors import LectureError
from trace_tools.source.statements import CLAUSES, parse_source, qualified_name
from trace_tools.trace.tree import Tree

NAMING = frozenset({"id", "name", "asname", "arg", "names", "attr"})  # fields that hold identifiers
RENAMED = NAMING - {"attr"}  # fields that change if a variable or function is renamed


@dataclass(frozen=True, slots=True)
class Code:
    """One statement as code; `names` are its identifiers in order, `called` the names of functions that it calls."""

    number: int
    exact: str
    unnamed: str  # with every name blanked
    bare: str  # with names and constants blanked
    role: str  # the kind of statement with its target, or the function that it calls
    names: tuple[str, ...]
    called: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourceCode:
    """The statements of a source in order, by the function that executes them."""

    functions: Mapping[str, Sequence[Code]]
    parsed: bool = True  # False: only statements that ran are known, by the text of their lines


def code_of(tree: Tree) -> SourceCode:
    """Return the code of a trace."""
    source = tree.trace.source
    functions: dict[str, list[Code]] = {}
    try:
        parsed = parse_source(source.text, source.path)
        for statement in parsed.numbered:
            tokens = list(_tokens(statement.node))
            code = Code(
                statement.number,
                exact=" ".join(text for _, text in tokens),
                unnamed=" ".join(text if kind in ("node", "constant") else "·" for kind, text in tokens),
                bare=" ".join(text if kind == "node" else "·" for kind, text in tokens),
                role=_role(statement.node),
                names=tuple(text for kind, text in tokens if kind == "name"),
                called=tuple(text for kind, text in tokens if kind == "called"),
            )
            cell = parsed.cell(statement) if tree.main is tree.module else None
            functions.setdefault(qualified_name(cell) if cell else statement.function, []).append(code)
        return SourceCode(functions)
    except (LectureError, RecursionError):  # the syntax of a newer Python, or an expression nested too deeply
        # each statement that ran, by the text of its line
        lines = source.text.split("\n")
        ran: dict[str, dict[int, Code]] = {}
        for step in tree.by_id.values():
            text = lines[step.line - 1].strip() if step.line <= len(lines) else ""
            code = Code(step.statement, text, text, text, "", (), ())
            ran.setdefault(tree.frames[step.frame].function, {})[step.statement] = code
        ordered = {name: [codes[n] for n in sorted(codes)] for name, codes in ran.items()}
        return SourceCode(ordered, parsed=False)


def _role(node: ast.stmt) -> str:
    """Return the part of a statement that an edit keeps; "" if two different statements need not be related."""
    target: ast.AST | None = None
    if isinstance(node, ast.ImportFrom):
        return f"from {node.module}"
    if isinstance(node, ast.Assign):
        target = node.targets[0]
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.For)):
        target = node.target
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        target = node.value.func
    elif not isinstance(node, (ast.Return, ast.Assert)):
        return ""
    return f"{type(node).__name__} {ast.dump(target) if target is not None else ''}"


def _tokens(statement: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield a statement's tree in order: ("node", class), ("name" or "called", identifier), ("constant", repr)."""
    stack: list[tuple[str, object]] = [("", statement)]
    while stack:
        field, item = stack.pop()
        if isinstance(item, ast.Constant):
            yield "constant", repr(item.value)
        elif isinstance(item, ast.Name) and field == "func":
            yield "called", item.id
        elif isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
            yield "node", type(item).__name__
            stack.extend(reversed(list(ast.iter_fields(item))))
        elif isinstance(item, list):
            inner = [(field, part) for part in item if not isinstance(part, (ast.stmt, *CLAUSES))]
            yield "node", f"[{field}"
            stack.extend(reversed(inner))
        elif isinstance(item, str) and field in NAMING:
            yield "name" if field in RENAMED else "node", item
        elif item is not None and not isinstance(item, ast.AST):
            yield "constant", repr(item)


# --- functions and statements ---------------------------------------------------------------------


ALIKE = 0.5  # least share of its code that a renamed function keeps
LENGTHY = 400  # characters of code beyond which a statement's weight does not grow
CANDIDATES = 20  # most functions with a common statement that are tried

_IDENTIFIER = re.compile(r"(?<![\w.])[^\W\d]\w*")

Key = tuple[str, tuple[str, ...]]  # code, and the functions that it calls


@dataclass(frozen=True, slots=True)
class FunctionMatch:
    """A function of A and its counterpart in B."""

    a: str | None  # qualified names; "<module>" for the module itself
    b: str | None
    how: Literal["edited", "renamed", "moved", "only in A", "only in B"]
    similarity: float  # share of their statements that are alike
    variables: tuple[tuple[str, str], ...] = ()  # renamed: (in A, in B)


@dataclass(frozen=True, slots=True)
class Matching:
    """Functions and statements of A with their counterparts in B."""

    functions: tuple[FunctionMatch, ...] = ()  # only functions that differ
    edited: frozenset[int] = frozenset()  # statements of A with a counterpart that is not exactly equal
    parsed: bool = True  # False: some statements are known only by their lines
    same: bool = False  # equal sources, so that everything is its own counterpart and the mappings below are empty
    to_b: Mapping[int, int] = field(default_factory=dict)
    to_a: Mapping[int, int] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by function of A: renamed variables

    def statement_in_b(self, statement: int) -> int | None:
        """Return the number in B of a statement of A."""
        return statement if self.same else self.to_b.get(statement)

    def statement_in_a(self, statement: int) -> int | None:
        """Return the number in A of a statement of B."""
        return statement if self.same else self.to_a.get(statement)

    def function_in_b(self, function: str) -> str | None:
        """Return the function of B that matches a function of A."""
        return function if self.same else self.called.get(function)

    def renamed(self, function: str) -> Mapping[str, str]:
        """Return the variables of a function of A that have another name in B, with that name."""
        return self.names.get(function, {})


SAME = Matching(same=True)


def translated(expression: str, renamed: Mapping[str, str]) -> str:
    """Rewrite an expression of A with B's names for its variables."""
    return _IDENTIFIER.sub(lambda name: renamed.get(name[0], name[0]), expression) if renamed else expression


def match_code(a: SourceCode, b: SourceCode) -> Matching:
    """Match the code of two traces."""
    of_a, of_b = a.functions, b.functions
    pairs = _matched_functions(of_a, of_b)
    called = {_last(f): _last(g) for f, g in pairs.items() if _last(f) != _last(g)}
    to_b: dict[int, int] = {}
    edited: set[int] = set()
    names: dict[str, Mapping[str, str]] = {}
    functions = []
    for f, g in pairs.items():
        matched = _matched_statements(of_a[f], of_b[g], called)
        names[f] = _renamed_variables(matched, called)
        for x, y in matched:
            to_b[x.number] = y.number
            if x.exact != y.exact:
                edited.add(x.number)
        how: Literal["edited", "renamed", "moved"] = "edited"
        if f != g:
            how = "moved" if _last(f) == _last(g) else "renamed"
        elif [code.exact for code in of_a[f]] == [code.exact for code in of_b[g]]:
            continue
        similarity = _similarity(of_a[f], of_b[g])
        functions.append(FunctionMatch(f, g, how, similarity, tuple(sorted(names[f].items()))))
    functions += [FunctionMatch(f, None, "only in A", 0.0) for f in of_a if f not in pairs]
    matched_b = set(pairs.values())
    functions += [FunctionMatch(None, g, "only in B", 0.0) for g in of_b if g not in matched_b]
    to_a = {in_b: in_a for in_a, in_b in to_b.items()}
    return Matching(tuple(functions), frozenset(edited), a.parsed and b.parsed, False, to_b, to_a, pairs, names)


# --- functions ------------------------------------------------------------------------------------


def _matched_functions(a: Mapping[str, Sequence[Code]], b: Mapping[str, Sequence[Code]]) -> dict[str, str]:
    """Match functions by name, and the others by content, the most similar first, each once."""
    pairs = {f: f for f in a if f in b}
    matched_b = set(pairs.values())
    functions_with: dict[Key, list[str]] = defaultdict(list)  # a statement, in B
    for g in b:
        for key in {_unnamed(code) for code in b[g]} if g not in matched_b else ():
            functions_with[key].append(g)
    scored = []
    for order, f in enumerate(f for f in a if f not in pairs):
        for g in {g for key in {_unnamed(code) for code in a[f]} for g in functions_with[key][:CANDIDATES]}:
            scored.append((-_similarity(a[f], b[g]), _last(f) != _last(g), order, f, g))
    for negative, _, _, f, g in sorted(scored):
        if -negative >= ALIKE and f not in pairs and g not in matched_b:
            pairs[f] = g
            matched_b.add(g)
    return pairs


def _last(function: str) -> str:
    return function.rpartition(".")[2]


def _similarity(a: Sequence[Code], b: Sequence[Code]) -> float:
    """Return the share of two functions' code that is equal except for names (Dice's coefficient, by weight)."""
    in_a, in_b = Counter(map(_unnamed, a)), Counter(map(_unnamed, b))
    shared = sum(_weight(key) * count for key, count in (in_a & in_b).items())
    total = sum(_weight(key) * count for counts in (in_a, in_b) for key, count in counts.items())
    return 2 * shared / total if total else 1.0


def _unnamed(code: Code) -> Key:
    return code.unnamed, code.called


def _weight(key: Key) -> int:
    return min(len(key[0]), LENGTHY)


# --- statements within a function -----------------------------------------------------------------


def _matched_statements(a: Sequence[Code], b: Sequence[Code], called: Mapping[str, str]) -> list[tuple[Code, Code]]:
    """Return the matched statements of two functions.

    `called` maps functions with another name in B, so that calls of them count as equal.
    """

    def called_in_b(code: Code) -> tuple[str, ...]:
        return tuple(called.get(name, name) for name in code.called)

    fences = common([code.exact for code in a], [code.exact for code in b])
    # Equal statements in another order are matched, the n-th with the n-th.
    kept_a, kept_b = {i for i, _ in fences}, {j for _, j in fences}
    moved: dict[str, list[int]] = defaultdict(list)
    for j in reversed(range(len(b))):
        if j not in kept_b:
            moved[b[j].exact].append(j)
    pairs = list(fences)
    pairs += [(i, moved[code.exact].pop()) for i, code in enumerate(a) if i not in kept_a and moved[code.exact]]
    # The others are matched by key between two fences in A with those between the same fences in B.
    tiers: tuple[tuple[list[Hashable], list[Hashable]], ...] = (
        ([(c.unnamed, called_in_b(c)) for c in a], [(c.unnamed, c.called) for c in b]),
        ([(c.bare, called_in_b(c)) for c in a], [(c.bare, c.called) for c in b]),
        ([c.role or ("A", c.number) for c in a], [c.role or ("B", c.number) for c in b]),
    )
    for keys_a, keys_b in tiers:
        unmatched_a = sorted(set(range(len(a))) - {i for i, _ in pairs})
        unmatched_b = sorted(set(range(len(b))) - {j for _, j in pairs})
        gaps_b = _by_gap(unmatched_b, [j for _, j in fences])
        matches = []
        for gap, in_a in _by_gap(unmatched_a, [i for i, _ in fences]).items():
            in_b = gaps_b.get(gap, [])
            matches += [(in_a[x], in_b[y]) for x, y in common([keys_a[i] for i in in_a], [keys_b[j] for j in in_b])]
        pairs += matches
        fences = sorted([*fences, *matches])
    return [(a[i], b[j]) for i, j in sorted(pairs)]


def _by_gap(positions: Sequence[int], fences: Sequence[int]) -> dict[int, list[int]]:
    gaps: dict[int, list[int]] = defaultdict(list)
    gap = 0
    for position in positions:
        while gap < len(fences) and fences[gap] < position:
            gap += 1
        gaps[gap].append(position)
    return gaps


def _renamed_variables(matched: Sequence[tuple[Code, Code]], functions: Mapping[str, str]) -> dict[str, str]:
    """Return the variables renamed throughout a function: each mostly to one new name, no two to the same."""
    counterparts: dict[str, Counter[str]] = defaultdict(Counter)
    for x, y in matched:
        if x.unnamed == y.unnamed:
            for old, new in zip(x.names, y.names, strict=True):
                counterparts[old][new] += 1
    renamed = {}
    for old, counts in counterparts.items():
        new, times = counts.most_common(1)[0]
        if old != new and times * 2 > counts.total() and functions.get(old) != new:
            renamed[old] = new
    targets = Counter(renamed.values())
    return {old: new for old, new in renamed.items() if targets[new] == 1}


# --- the longest common subsequence ---------------------------------------------------------------


OFTEN = 32  # most occurrences of a key; beyond, only those near the same rank are tried, and the result may be shorter


_Link = tuple[int, int, "_Link | None"]  # positions in a and in b, and the chain before them


def common(a: Sequence[Hashable], b: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return the positions (in a, in b) of a longest common subsequence, increasing in both."""
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    ends: list[int] = []  # positions in b of the ends of the best chain of each length
    links: list[_Link] = []
    positions: dict[Hashable, list[int]] = {}  # key → its positions in b
    for j, key in enumerate(b[start : len(b) - end]):
        positions.setdefault(key, []).append(j)
    ranks: dict[Hashable, int] = {}
    for i, key in enumerate(a[start : len(a) - end]):
        equal = positions.get(key, [])
        if len(equal) > OFTEN:
            rank = ranks.get(key, 0)
            ranks[key] = rank + 1
            equal = equal[max(0, rank - OFTEN // 2) : rank + OFTEN // 2]
        for j in reversed(equal):
            length = bisect_left(ends, j)
            link = (i, j, links[length - 1] if length else None)
            if length == len(ends):
                ends.append(j)
                links.append(link)
            else:
                ends[length], links[length] = j, link
    between = []
    chain = links[-1] if links else None
    while chain is not None:
        i, j, chain = chain
        between.append((i + start, j + start))
    before = [(n, n) for n in range(start)]
    after = [(len(a) - end + n, len(b) - end + n) for n in range(end)]
    return [*before, *reversed(between), *after]
