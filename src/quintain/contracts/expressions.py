"""Expressions in documents: CEL (Common Expression Language, https://cel.dev), and texts in which `${…}` is filled in.

The language is CEL's, with these functions beside its own: `min`, `max`, `sum`, `sort`, `distinct`, `first`, `last`,
`slice`, `reverse`, `split`, `join`, `trim`, `charAt`, `indexOf`, `lastIndexOf`, `substring`, `lowerAscii`,
`upperAscii`, and `math.` `abs`, `ceil`, `floor`, `round`, `trunc`, `sqrt`, `greatest`, `least`; and `keys(m)`, a map's
keys in order. A macro over a map goes through its keys in order, so that a value never depends on how a map lies in
memory. Integers and floats are never converted into each other: write `double(n) * 1.5`.

Bounded are an expression's length and depth, the size of what it is given and of what it comes to, how often nested
macros may go round, and, worked out before each evaluation, the work of it: see `expression_cost`. An evaluation cannot
be stopped once it has begun.
"""

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any, Final

from quintain.contracts.documents import one_line
from quintain.contracts.expression_cost import MAX_WORK, is_plain, plain_work, usual_work, work
from quintain.contracts.expression_syntax import Syntax, syntax_of, without_comments
from quintain.contracts.expression_values import MAX_DEPTH, Sizes, checked, in_order, keys_of, ordered
from quintain.contracts.identity import canonical_json
from quintain.errors import DescriptorError, ExpressionError

MAX_LENGTH: Final = 2_000
"""Longest expression, in characters."""

MAX_ROUNDS: Final = 250_000
"""Most rounds that an expression's nested macros may take, by the longest list or map it could go through. `map` and
`filter` copy what they have so far with each element, so they count as one level of nesting more."""

_FUNCTIONS: Final = (
    "min max sum sort distinct first last slice reverse split join trim charAt indexOf lastIndexOf substring "
    "lowerAscii upperAscii math.abs math.ceil math.floor math.round math.trunc math.sqrt math.greatest math.least"
).split()
_TYPES: Final = frozenset(
    "bool bytes double duration dyn int list map null_type string timestamp type uint math".split()
)
_IN_ORDER: Final = "in_order"
_ADVICE: Final = ". Check function arguments and their types."

_TOKEN: Final = re.compile(
    r"""
      (?P<string> [bB]?[rR][bB]? (?: \"{3}[\s\S]*?\"{3} | '{3}[\s\S]*?'{3} | "[^"\n]*" | '[^'\n]*' )
                | [bB]? (?: \"{3}(?:\\[\s\S]|[^\\])*?\"{3} | '{3}(?:\\[\s\S]|[^\\])*?'{3}
                          | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<comment> //[^\n]* )
    | (?P<macro> \. \s* (?:map|filter|all|exists|exists_one|existsOne) \s* \( (?= \s* (?P<bound>[A-Za-z_]\w*) \s* , ) )
    | (?P<open> [\[({] )
    | (?P<close> [\])}] )
    | (?P<comma> , )
    | (?P<word> [A-Za-z_]\w* )
    | (?P<other> [\s\S] )
    """,
    re.VERBOSE,
)


class Expression:
    """One expression, compiled when it is made. Safe to share between threads."""

    def __init__(self, text: str, where: str = "") -> None:
        """`where` names its place in messages.

        Raises:
            ExpressionError: it is no expression, or too long or deep.
        """
        self.text = text
        self.where = where
        try:
            self._compiled = _compiled(text)
        except ValueError as error:
            raise self._error(str(error)) from error

    @property
    def names(self) -> frozenset[str]:
        """The variables that it may ask for."""
        return self._compiled.names

    def value(self, variables: Mapping[str, Any]) -> Any:
        """What it comes to: None, a bool, int, float or str, or a list or dict of such, with keys in order.

        Args:
            variables: JSON values by name.

        Raises:
            ExpressionError: it has no value for these, or one that is too large.
        """
        compiled = self._compiled
        given = {name: variables[name] for name in compiled.asked if name in variables}
        try:
            sizes = checked(given, 1)
            cost = compiled.cost(given, sizes)
            if (left := _LEFT.get()) is not None:
                left.work -= cost
                if left.work < 0:
                    raise TooLongTogether(
                        f"expression `{self.text[:200]}` and those before it would take too long together on this "
                        "state; ask fewer expressions of it, or keep less in it"
                    )
            found = compiled.evaluate(given)
            checked(found, 2)
        except ValueError as error:
            raise self._error(str(error)) from error
        return ordered(found)

    def _error(self, why: str) -> ExpressionError:
        shown = self.text if len(self.text) <= 200 else f"{self.text[:200]}…"
        place = f"{self.where}: " if self.where else ""
        return ExpressionError(f"{place}expression `{' '.join(shown.split())}`: {why}")


class TooLongTogether(ExpressionError):
    """Expressions, of which none would take too long by itself, would together."""


@dataclass
class _Left:
    work: int


_LEFT: ContextVar[_Left | None] = ContextVar("left", default=None)


@contextmanager
def spending(work: int) -> Iterator[None]:
    """Within it, expressions may take so much work together, as `expression_cost` counts it; then one of them raises
    TooLongTogether before it begins."""
    before = _LEFT.set(_Left(work))
    try:
        yield
    finally:
        _LEFT.reset(before)


def filled(document: Any, variables: Mapping[str, Any], where: str = "") -> Any:
    """A copy of a JSON document with every `${expression}` in its strings replaced by its value.

    A string that is one `${…}` and nothing else becomes the value itself, of its own type. Elsewhere the value is put
    into the text: strings as they are, all else as canonical JSON. `$${` stands for `${`. Keys are left alone.

    Raises:
        ExpressionError: an expression has no value; names it and its place.
    """
    if isinstance(document, str):
        parts = _parts_at(document, where)
        if not parts.expressions:
            return parts.literals[0]
        values = [Expression(text, where).value(variables) for text in parts.expressions]
        if len(values) == 1 and parts.literals == ("", ""):
            return values[0]
        texts = [_text(value, where) for value in values]
        return "".join(a + b for a, b in zip(parts.literals, [*texts, ""], strict=True))
    if isinstance(document, Mapping):
        return {key: filled(value, variables, _under(where, key)) for key, value in document.items()}
    if isinstance(document, list | tuple):
        return [filled(value, variables, f"{where}[{index}]") for index, value in enumerate(document)]
    return document


def expressions_in(document: Any, where: str = "") -> Iterator[Expression]:
    """Every expression that `filled` would ask of a document, each with its place.

    Raises:
        ExpressionError: one is none, or a `${` is never closed.
    """
    if isinstance(document, str):
        for text in _parts_at(document, where).expressions:
            yield Expression(text, where)
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield from expressions_in(value, _under(where, key))
    elif isinstance(document, list | tuple):
        for index, value in enumerate(document):
            yield from expressions_in(value, f"{where}[{index}]")


def _under(where: str, key: Any) -> str:
    return f"{where}.{key}" if where else str(key)


@dataclass(frozen=True)
class _Compiled:
    program: Any
    functions: Mapping[str, Callable[..., Any]]
    context: Callable[..., Any]
    asked: frozenset[str]
    names: frozenset[str]
    loops: int
    longest: int
    syntax: Syntax

    def cost(self, given: Mapping[str, Any], sizes: Sizes) -> int:
        """The work that it may take; raises ValueError for what would take too long."""
        longest = max(sizes.longest, self.longest)
        if longest**self.loops > MAX_ROUNDS:
            raise ValueError(
                f"its macros may take {longest}^{self.loops} rounds, over {MAX_ROUNDS}; go through less, "
                "nest fewer, or ask with exists or all"
            )
        if is_plain(self.syntax) and plain_work(self.syntax, sizes) <= MAX_WORK:
            return usual_work(self.syntax, sizes)
        found = work(self.syntax, given, sizes)
        if found > MAX_WORK:
            raise ValueError(
                f"would take too long on this state: it is given {sizes.parts} values and {sizes.characters} "
                "characters; take less of them, or do less with each"
            )
        return found

    def evaluate(self, given: Mapping[str, Any]) -> Any:
        """Raises ValueError for whatever goes wrong within."""
        try:
            return self.program.execute(self.context(dict(given), dict(self.functions)))
        except Exception as error:  # CEL tells its errors in many of Python's types
            raise ValueError(_words(error)) from error


def _words(error: Exception) -> str:
    """CEL's message, cut to what was wrong."""
    words = one_line(error)
    if isinstance(error, KeyError):
        return f"there is no key {words}"
    _, within, detail = words.partition("Python function call failed: ")
    return (detail.partition(": ")[2] or detail).removesuffix(_ADVICE) if within else words


@lru_cache(maxsize=4096)
def _compiled(text: str) -> _Compiled:
    """Raises ValueError for what is no expression."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{len(text)} characters, over {MAX_LENGTH}; split it")
    text = without_comments(text)
    read = _read(text)
    cel = _cel()
    try:
        program = cel.compile(read.rewritten)
    except Exception as error:  # CEL tells its errors in many of Python's types
        detail = str(error).partition("Syntax error: ")[2].partition("expecting")[0] or str(error)
        raise ValueError(f"not an expression: {' '.join(detail.split())[:200].strip(' |^.')}") from error
    syntax = syntax_of(text)
    if work(syntax, {}, Sizes(0, 0, 0, 0)) > MAX_WORK:
        raise ValueError("would take too long whatever it is given; split it, or put less together")
    stdlib = {name: cel.stdlib.STDLIB_FUNCTIONS[name] for name in _FUNCTIONS}
    known = {**stdlib, "keys": keys_of, _IN_ORDER: in_order}
    used, asked = set(program.functions()), frozenset(program.variables())
    # `math.abs(x)` is told as a function `abs` on a variable `math`
    functions = {name: one for name, one in known.items() if name in used or name.rpartition(".")[2] in used}
    return _Compiled(
        program=program,
        functions=functions,
        context=cel.Context,
        asked=asked,
        names=asked - read.bound - _TYPES,
        loops=read.loops,
        longest=max(read.commas + 1, MAX_LENGTH if "split" in used else 1),
        syntax=syntax,
    )


@dataclass(frozen=True)
class _Read:
    rewritten: str
    bound: frozenset[str]
    loops: int
    commas: int


def _read(text: str) -> _Read:
    """What brackets and macros say of an expression; and its text with each macro's subject put in order."""
    rewritten: list[str] = []
    opened: list[bool] = []
    bound: set[str] = set()
    loops = commas = 0
    for token in _TOKEN.finditer(text):
        piece = token.group()
        if token["macro"]:
            bound.add(token["bound"])
            opened.append(True)
            loops = max(loops, sum(opened) + ("map" in piece or "filter" in piece))
            piece = f".{_IN_ORDER}(){piece}"
        elif token["open"]:
            opened.append(False)
        elif token["close"] and opened:
            opened.pop()
        elif token["comma"]:
            commas += 1
        if len(opened) > MAX_DEPTH:
            raise ValueError(f"its brackets nest deeper than {MAX_DEPTH}; split it")
        rewritten.append(piece)
    return _Read("".join(rewritten), frozenset(bound), loops, commas)


@dataclass(frozen=True)
class _Parts:
    """A text taken apart: one more literal than expressions."""

    literals: tuple[str, ...]
    expressions: tuple[str, ...]


def _parts_at(text: str, where: str) -> _Parts:
    try:
        return _parts(text)
    except ValueError as error:
        raise ExpressionError(f"{where}: {error}" if where else str(error)) from error


@lru_cache(maxsize=4096)
def _parts(text: str) -> _Parts:
    literals, expressions, literal, at = list[str](), list[str](), "", 0
    while (start := text.find("${", at)) >= 0:
        if text[at:start].endswith("$"):
            literal += text[at : start - 1] + "${"
            at = start + 2
            continue
        end = _end(text, start + 2)
        literals.append(literal + text[at:start])
        expressions.append(text[start + 2 : end].strip())
        literal, at = "", end + 1
    return _Parts((*literals, literal + text[at:]), tuple(expressions))


def _end(text: str, start: int) -> int:
    """Where the `}` is that closes the `${` before `start`."""
    depth = 0
    for token in _TOKEN.finditer(text, start, start + MAX_LENGTH + 1):
        if token["open"] or token["macro"]:
            depth += 1
        elif token["close"]:
            if depth == 0 and token.group() == "}":
                return token.start()
            depth -= 1
    raise ValueError(
        f"`${{{text[start : start + 60]}` is not closed; end it with `}}`, or write `$${{` for a plain `${{`"
    )


def _text(value: Any, where: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    try:
        return canonical_json(value).decode()
    except DescriptorError as error:
        raise ExpressionError(f"{where}: a value cannot be put into text: {error}") from error


_IMPORTING = threading.Lock()


def _cel() -> Any:
    """The package `cel` without its command line, which takes half a second to import and is not used here."""
    with _IMPORTING:
        if "cel" not in sys.modules:
            name = "cel.cli"
            sys.modules[name] = ModuleType(name)
            try:
                import cel
            finally:
                del sys.modules[name]
            logging.getLogger("cel").disabled = True  # what it would log is raised
        import cel

        return cel
