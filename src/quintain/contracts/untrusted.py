"""Checks of values that come from outside: an agent, a client, a sandbox."""

import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, Final

MAX_DEPTH: Final = 64
"""How deeply a value may nest."""

MAX_VALUES: Final = 50_000
"""Of how many values it may consist: each is looked at, while everybody else waits."""

_NODE_BYTES: Final = 64
_HALVES = re.compile("[\ud800-\udfff]")


def json_problem(value: Any) -> str | None:
    """Why a parsed value cannot be passed on as JSON, or None.

    Python's parser lets through what JSON does not have: NaN, infinities, halves of surrogate pairs. Nesting is
    bounded because every later reader would have to bear it, and so is the number of values.
    """
    level, depth, count = [value], 0, 1
    while level:
        if depth > MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH} levels; flatten it"
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                count += 2 * len(item)
                children: Iterable[Any] = item.values()
                problem = next(filter(None, map(_scalar_problem, item)), None)
            elif isinstance(item, list):
                count += len(item)
                children, problem = item, None
            else:
                children, problem = (), _scalar_problem(item)
            if problem is not None:
                return problem
            if count > MAX_VALUES:
                return f"more than {MAX_VALUES} values; send less, or one text"
            below.extend(children)
        level, depth = below, depth + 1
    return None


def _scalar_problem(item: Any) -> str | None:
    if isinstance(item, str):
        return None if _is_unicode(item) else "a string holds half of a surrogate pair; send whole Unicode characters"
    if isinstance(item, float) and not math.isfinite(item):
        return f"{item} is not a JSON number; send a finite one"
    return None


def weight(value: Any) -> int:
    """About how many bytes of memory a parsed value takes."""
    total, pending = 0, [value]
    while pending:
        item = pending.pop()
        total += _NODE_BYTES + (len(item) if isinstance(item, str) else 0)
        if isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
    return total


def whole_text(text: str) -> str:
    """The text with U+FFFD in place of halves of surrogate pairs, which no UTF-8 writer accepts."""
    return text if _is_unicode(text) else _HALVES.sub("\ufffd", text)


def printable(text: str) -> str:
    """The text for a terminal: what controls it, reorders a line or is no character is escaped; line breaks stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in "\n\t" or _harmless(char) else _escaped(char) for char in text)


def _harmless(char: str) -> bool:
    return char.isprintable() or unicodedata.category(char) == "Zs"


def _escaped(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
