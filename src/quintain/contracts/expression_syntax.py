"""How an expression is built: a tree of what it does, as far as its cost depends on it.

Every part that may be long is flat in the tree (`a + b + c`, `a.b.c`, `x ? y : z ? …`), so that walking it goes no
deeper than its brackets do.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

MACROS: Final = frozenset("map filter all exists exists_one existsOne".split())
"""Methods that go through a list or a map."""

MAX_DEGREE: Final = 4
"""Most macros that work upon each other, whether nested or in a chain: what they come to multiplies."""

_TOKEN: Final = re.compile(
    r"""
      (?P<string> [bB]?[rR] (?: \"{3}[\s\S]*?\"{3} | '{3}[\s\S]*?'{3} | "[^"\n]*" | '[^'\n]*' )
                | [bB]? (?: \"{3}(?:\\[\s\S]|[^\\])*?\"{3} | '{3}(?:\\[\s\S]|[^\\])*?'{3}
                          | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<space> [\s]+ | //[^\n]* )
    | (?P<number> (?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?[uU]? )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<sign> && | \|\| | [=!<>]= | [-+*/%!<>?:.,()\[\]{}] )
    """,
    re.VERBOSE,
)
_HEX: Final = re.compile(r"[-+]?0[xX][0-9a-fA-F]+[uU]?")
_QUOTED: Final = re.compile(r"""(?P<raw>[rR]?)(?P<quote>["'])(?P<within>(?!(?P=quote))[\s\S]*|)(?P=quote)""")
_CODED: Final = re.compile(r"(?<!\\)(?:\\\\)*\\[^\\\"'?`]")
_ESCAPE: Final = re.compile(r"\\(.)")
_LEVELS: Final = (
    frozenset({"||"}),
    frozenset({"&&"}),
    frozenset({"==", "!=", "<", "<=", ">", ">=", "in"}),
    frozenset({"+", "-"}),
    frozenset({"*", "/", "%"}),
)
ADDING: Final = 3
"""The level of operators at which texts and lists are put together."""


@dataclass(frozen=True)
class Node:
    """A part: what it is, its name or text, and the parts in it.

    `literal` (its `text`, or its source where `size` is 1), `number`, `name`, `list`, `map` (keys and values in turn),
    `level` (operands of one level of operators, whose number is `size`), `choice` (conditions and what they choose, in
    turn, and what else), `steps` (what one begins with, then each `select`, `index`, `method` and `macro` upon it),
    `call`.
    """

    kind: str
    text: str = ""
    parts: tuple["Node", ...] = ()
    size: int = 0


@dataclass(frozen=True)
class Syntax:
    """An expression's tree; and of the whole its `degree`, how many parts it has, and which functions it names."""

    root: Node
    degree: int
    parts: int
    functions: frozenset[str]


def without_comments(text: str) -> str:
    """The text with a space for each comment, so that nothing can stand between the words of a macro."""
    return "".join(" " if piece.startswith("//") else piece for piece in _pieces(text))


def syntax_of(text: str) -> Syntax:
    """The tree of a text that is an expression.

    Raises:
        ValueError: it has what no expression here may have.
    """
    reader = _Reader([piece for piece in _pieces(text) if not piece.isspace() and not piece.startswith("//")])
    root = reader.whole()
    degree = _degree(root)
    if degree > MAX_DEGREE:
        raise ValueError(
            f"{degree} macros work upon each other, nested or in a chain, over {MAX_DEGREE}: what they come to "
            "multiplies; split it, or ask with one exists or all"
        )
    return Syntax(root, degree, reader.parts, frozenset(reader.functions))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _HEX.match(text, at) if text[at].isdigit() else None
        found = found or _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"not an expression: {text[at : at + 20]!r} means nothing in it")
        yield found.group()
        at = found.end()


def _said(source: str) -> str | None:
    """What a quoted text says; None where it is longer written than said in ways that are not followed here."""
    found = _QUOTED.fullmatch(source)
    if found is None:
        return None
    within = found["within"]
    if found["raw"]:
        return within
    return None if _CODED.search(within) else _ESCAPE.sub(r"\1", within)


def _degree(node: Node) -> int:
    inner = max(map(_degree, node.parts), default=0)
    if node.kind == "macro":
        return 1 + inner
    if node.kind != "steps":
        return inner
    begun, *steps = node.parts
    degree = _degree(begun)
    for step in steps:
        within = _degree(step)
        degree = degree + within if step.kind == "macro" else max(degree, within)
    return degree


@dataclass
class _Reader:
    """Reads by recursive descent what the library has read already, so that messages may be short."""

    pieces: list[str]
    at: int = 0
    parts: int = 0
    functions: set[str] = field(default_factory=set)

    def whole(self) -> Node:
        root = self._choice()
        if self.at < len(self.pieces):
            raise ValueError(f"not an expression: {self.pieces[self.at][:40]!r} is not expected there")
        return root

    def _node(self, kind: str, text: str = "", parts: Any = (), size: int = 0) -> Node:
        self.parts += 1
        return Node(kind, text, tuple(parts), size)

    def _next(self) -> str:
        return self.pieces[self.at] if self.at < len(self.pieces) else ""

    def _take(self, wanted: str = "") -> str:
        piece = self._next()
        if not piece or (wanted and piece != wanted):
            raise ValueError(f"not an expression: {wanted or 'more'!r} is expected, not {piece[:40]!r}")
        self.at += 1
        return piece

    def _took(self, wanted: str) -> bool:
        if self._next() != wanted:
            return False
        self.at += 1
        return True

    def _choice(self) -> Node:
        parts = [self._level(0)]
        while self._took("?"):
            parts.append(self._level(0))
            self._take(":")
            parts.append(self._level(0))
        return parts[0] if len(parts) == 1 else self._node("choice", parts=parts)

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._unary()
        parts = [self._level(level + 1)]
        while self._next() in _LEVELS[level]:
            self.at += 1
            parts.append(self._level(level + 1))
        return parts[0] if len(parts) == 1 else self._node("level", parts=parts, size=level)

    def _unary(self) -> Node:
        signs = 0
        while self._next() in {"-", "!"}:
            self.at += 1
            signs += 1
        node = self._steps()
        return self._node("level", parts=[node], size=len(_LEVELS)) if signs else node

    def _steps(self) -> Node:
        self._took(".")  # a name may begin with one
        parts = [self._primary()]
        while True:
            if self._took("["):
                parts.append(self._node("index", parts=[self._choice()]))
                self._take("]")
            elif self._took("."):
                parts.append(self._selected(self._take()))
            else:
                return parts[0] if len(parts) == 1 else self._node("steps", parts=parts)

    def _selected(self, name: str) -> Node:
        if not self._took("("):
            return self._node("select", name)
        if name not in MACROS:
            return self._node("method", self._function(name), self._several(")"))
        bound = self._next()
        given = self._several(")")
        if len(given) < 2 or given[0].kind != "name" or given[0].text != bound:
            raise ValueError(f"{name} goes through a list as in list.{name}(x, …), with a plain name; write it so")
        return self._node("macro", name, given)

    def _primary(self) -> Node:
        piece = self._take()
        if piece == "(":
            inner = self._choice()
            self._take(")")
            return inner
        if piece == "[":
            return self._node("list", parts=self._several("]"))
        if piece == "{":
            return self._node("map", parts=self._several("}"))
        if piece[-1] in "\"'":
            said = _said(piece)
            return self._node("literal", piece if said is None else said, size=int(said is None))
        if piece[0].isdigit() or (piece[0] == "." and len(piece) > 1):
            return self._node("number", piece)
        if not (piece[0].isalpha() or piece[0] == "_"):
            raise ValueError(f"not an expression: {piece[:40]!r} is not expected there")
        if self._took("("):
            return self._node("call", self._function(piece), self._several(")"))
        return self._node("name", piece)

    def _function(self, name: str) -> str:
        self.functions.add(name)
        return name

    def _several(self, end: str) -> list[Node]:
        """What stands up to the bracket that ends it, apart by commas; in maps also by colons."""
        parts: list[Node] = []
        while not self._took(end):
            parts.append(self._choice())
            if end == "}":
                self._take(":")
                parts.append(self._choice())
            if not self._took(","):
                self._take(end)
                break
        return parts
