"""Regular expressions that packs write and agents' texts are matched with, in time linear in the text.

They are those of CEL's `matches` (the syntax of Rust's regex crate, close to RE2): no look-around, no back-references,
and found anywhere in the text unless anchored by `^` and `$`. Python's own would let one pattern and one text stop the
whole platform.
"""

import re
from functools import lru_cache
from math import prod
from typing import Final

from quintain.contracts.expressions import Expression
from quintain.errors import ExpressionError

MAX_PATTERN: Final = 300
"""Longest pattern, in characters."""

MAX_REPEATS: Final = 1000
"""Largest product of all counts (`{2,5}`) in a pattern."""

MAX_CLASSES: Final = 20
"""Most wide classes (`\\w`, `\\d`, `\\s`, `\\p{…}` and their opposites), each counted as often as it is repeated."""

_COUNT: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_WIDE: Final = re.compile(r"\\[wWdDsSpPbB]")


def pattern_problem(pattern: str) -> str | None:
    """Why a pattern cannot be used, or None."""
    if len(pattern) > MAX_PATTERN:
        return f"the pattern has {len(pattern)} characters, over {MAX_PATTERN}; shorten it"
    counts = [max(int(low), int(high or low)) for low, high in _COUNT.findall(pattern)]
    repeats = prod(max(one, 1) for one in counts)
    if repeats > MAX_REPEATS:
        return f"the pattern's counts come to {repeats} repetitions, over {MAX_REPEATS}; lower them"
    if len(_WIDE.findall(pattern)) * repeats > MAX_CLASSES:
        return (
            f"the pattern repeats classes such as \\w or \\d more than {MAX_CLASSES} times; "
            "write [A-Za-z0-9_] or [0-9], or lower the counts"
        )
    try:
        found(pattern, "")
    except ExpressionError as error:
        _, _, reason = str(error).partition("not a valid regex: ")
        return f"not a regular expression that can be used here: {reason.removesuffix('.').strip() or error}"
    return None


def found(pattern: str, text: str) -> bool:
    """Whether a pattern is found in a text.

    Raises:
        ExpressionError: it is no pattern; or the text is larger than an expression may be given.
    """
    return _matches().value({"text": text, "pattern": pattern}) is True


@lru_cache(maxsize=1)
def _matches() -> Expression:
    return Expression("text.matches(pattern)")
