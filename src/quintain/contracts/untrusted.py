"""Checks of values that come from outside: an agent, a client, a sandbox."""

import math
import re
import unicodedata
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
    pending: list[tuple[Any, int]] = [(value, 0)]
    seen = 0
    while pending:
        item, depth = pending.pop()
        seen += 1
        if seen + len(pending) + (len(item) if isinstance(item, dict | list) else 0) > MAX_VALUES:
            return f"more than {MAX_VALUES} values; send less, or one text"
        if depth > MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH} levels; flatten it"
        if isinstance(item, float) and not math.isfinite(item):
            return f"{item} is not a JSON number; send a finite one"
        if isinstance(item, str) and not _is_unicode(item):
            return "a string holds half of a surrogate pair; send whole Unicode characters"
        if isinstance(item, dict):
            pending.extend((key, depth) for key in item)
            pending.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list):
            pending.extend((child, depth + 1) for child in item)
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
