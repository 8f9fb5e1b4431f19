"""Regular expressions that packs write and agents' texts are matched with, in time linear in the text.

They are those of CEL's `matches` (the syntax of Rust's regex crate, close to RE2): no look-around, no back-references,
and found anywhere in the text unless anchored by `^` and `$`. Python's own would let one pattern and one text stop the
whole platform.
"""

from functools import lru_cache

from quintain.contracts.expression_patterns import pattern_bounds_problem
from quintain.contracts.expressions import Expression
from quintain.errors import ExpressionError


def pattern_problem(pattern: str) -> str | None:
    """Why a pattern cannot be used, or None."""
    if problem := pattern_bounds_problem(pattern):
        return problem
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
