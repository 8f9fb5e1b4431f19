"""Bounds of regular expressions: how large one may become that packs write, or that an agent's text is used as.

`matches` is linear in the text, but a pattern is compiled each time, and its counts and classes multiply.
"""

import re
from functools import lru_cache
from math import prod
from typing import Final

MAX_PATTERN: Final = 300
"""Longest pattern, in characters."""

MAX_REPEATS: Final = 1000
"""Largest product of all counts (`{2,5}`) in a pattern."""

MAX_CLASSES: Final = 20
"""Most wide classes (`\\w`, `\\d`, `\\s`, `\\p{…}` and their opposites), each counted as often as it is repeated."""

LONGEST_WORK: Final = 110_000_000
"""Most work that compiling one pattern takes: the library gives up at a size of its own."""

_COMPILED: Final = 80_000
_STATE: Final = 4_700
_WIDE_CLASS: Final = 1_100_000
_CHARACTER: Final = 40
_MAX_CHARACTER: Final = 1_200

_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_WIDE: Final = re.compile(r"\\[wWdDsSpPbB]")


@lru_cache(maxsize=1024)
def repeats_in(pattern: str) -> int:
    """The product of all counts in a pattern."""
    return prod(max(int(low), int(high or low), 1) for low, high in _COUNT.findall(pattern[: MAX_PATTERN + 1]))


@lru_cache(maxsize=1024)
def wide_classes_in(pattern: str) -> int:
    """How many wide classes are written in a pattern, as far as it may go."""
    return len(_WIDE.findall(pattern[: MAX_PATTERN + 1]))


def pattern_bounds_problem(pattern: str) -> str | None:
    """Why a pattern is too large to be compiled, or None."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters, over {MAX_PATTERN}; shorten it"
    repeats = repeats_in(pattern)
    if repeats > MAX_REPEATS:
        return f"the pattern's counts come to {repeats} repetitions, over {MAX_REPEATS}; lower them"
    if wide_classes_in(pattern) * repeats > MAX_CLASSES:
        return (
            f"the pattern repeats classes such as \\w or \\d more than {MAX_CLASSES} times; "
            "write [A-Za-z0-9_] or [0-9], or lower the counts"
        )
    return None


def pattern_work(pattern: str | None, characters: int) -> int:
    """A bound of the work (see `expression_cost`) of compiling a pattern within bounds and finding it in a text.

    Args:
        pattern: None where it is not known.
        characters: length of the text.
    """
    if pattern is None:
        return LONGEST_WORK + _MAX_CHARACTER * characters
    repeats = repeats_in(pattern)
    states = len(pattern) * repeats
    compiling = _COMPILED + _STATE * states + _WIDE_CLASS * wide_classes_in(pattern) * repeats
    return min(compiling, LONGEST_WORK) + min(_CHARACTER + 2 * states, _MAX_CHARACTER) * characters
