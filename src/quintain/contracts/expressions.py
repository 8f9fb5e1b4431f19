"""Expressions in documents: CEL (Common Expression Language, https://cel.dev), and texts in which `${…}` is filled in.

The language is CEL's, with these functions beside its own: `min`, `max`, `sum`, `sort`, `distinct`, `first`, `last`,
`slice`, `reverse`, `split`, `join`, `trim`, `charAt`, `indexOf`, `lastIndexOf`, `substring`, `lowerAscii`,
`upperAscii`, and `math.` `abs`, `ceil`, `floor`, `round`, `trunc`, `sqrt`, `greatest`, `least`; and `keys(m)`, a map's
keys in order. A macro over a map goes through its keys in order, so that a value never depends on how a map lies in
memory. Integers and floats are never converted into each other: write `double(n) * 1.5`.

Bounded are an expression's length and depth, the size of what it is given and of what it comes to, and how often nested
macros may go round. Not bounded are the time and the memory of one evaluation within that: it cannot be stopped once
it has begun.
"""

import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from types import ModuleType
from typing import Any, Final

from quintain.contracts.documents import one_line
from quintain.contracts.identity import canonical_json
from quintain.errors import DescriptorError, ExpressionError

MAX_LENGTH: Final = 2_000
"""Longest expression, in characters."""

MAX_DEPTH: Final = 32
"""Deepest nesting of brackets in an expression, and of lists and maps in a value."""

MAX_SIZE: Final = 256 * 1024
"""Largest value, and all that an expression is given together: characters of its strings and keys, and its parts."""

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
_INTEGERS: Final = range(-(2**63), 2**63)

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
            longest = _check(given, 1)
            longest = max(longest, compiled.longest)
            if longest**compiled.loops > MAX_ROUNDS:
                raise ValueError(
                    f"its macros may take {longest}^{compiled.loops} rounds, over {MAX_ROUNDS}; go through less, "
                    "nest fewer, or ask with exists or all"
                )
            found = compiled.evaluate(given)
            _check({"its value": found}, 1)
        except ValueError as error:
            raise self._error(str(error)) from error
        return _ordered(found)

    def _error(self, why: str) -> ExpressionError:
        shown = self.text if len(self.text) <= 200 else f"{self.text[:200]}…"
        place = f"{self.where}: " if self.where else ""
        return ExpressionError(f"{place}expression `{' '.join(shown.split())}`: {why}")


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
    read = _read(text)
    cel = _cel()
    try:
        program = cel.compile(read.rewritten)
    except Exception as error:  # CEL tells its errors in many of Python's types
        detail = str(error).partition("Syntax error: ")[2].partition("expecting")[0] or str(error)
        raise ValueError(f"not an expression: {' '.join(detail.split())[:200].strip(' |^.')}") from error
    stdlib = {name: cel.stdlib.STDLIB_FUNCTIONS[name] for name in _FUNCTIONS}
    known = {**stdlib, "keys": _keys, _IN_ORDER: _in_order}
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


def _check(value: Any, depth: int) -> int:
    """The length of the longest list or map in a value.

    Raises:
        ValueError: it is no JSON value of the size and depth that expressions take.
    """
    size, longest = 0, 0
    stack: list[tuple[Any, int]] = [(value, depth - 1)]
    while stack:
        one, at = stack.pop()
        size += 1
        if one is None or isinstance(one, bool):
            continue
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, int):
            if one not in _INTEGERS:
                raise ValueError(f"{str(one)[:40]} is over 64 bits")
        elif isinstance(one, float):
            if not isfinite(one):
                raise ValueError(f"{one} is no number that JSON has")
        elif isinstance(one, Mapping | list | tuple):
            longest = max(longest, len(one)) if at > 0 or not isinstance(one, Mapping) else longest
            if at >= MAX_DEPTH:
                raise ValueError(f"lists and maps nest deeper than {MAX_DEPTH}")
            if size + len(one) > MAX_SIZE:
                raise ValueError(_TOO_LARGE)
            if isinstance(one, Mapping):
                size += sum(map(_key_size, one))
                stack.extend((item, at + 1) for item in one.values())
            else:
                stack.extend((item, at + 1) for item in one)
        else:
            raise ValueError(f"a value of type {type(one).__name__} is no JSON value; convert it, as with string(…)")
        if size > MAX_SIZE:
            raise ValueError(_TOO_LARGE)
    return longest


_TOO_LARGE: Final = f"what it is given or comes to is larger than {MAX_SIZE} characters; take less"


def _key_size(key: Any) -> int:
    if not isinstance(key, str):
        raise ValueError(f"a map has the key {key!r}, which is no string; write it in quotes")
    return len(key)


def _ordered(value: Any) -> Any:
    """The value with every map's keys in order: CEL's maps have none."""
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def _keys(value: Any) -> list[Any]:
    if not isinstance(value, dict):
        raise TypeError(f"keys need a map, not {type(value).__name__}")
    return sorted(value)


def _in_order(value: Any) -> list[Any]:
    """What a macro goes through: a list as it is, of a map its keys in order."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        return sorted(value)
    raise TypeError(f"a macro goes through a list or a map, not {type(value).__name__}")


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
