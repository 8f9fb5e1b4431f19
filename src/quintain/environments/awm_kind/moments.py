"""Pydantic's types that look at the clock: `PastDate`, `FutureDate`, `PastDatetime`, `FutureDatetime`.

Their comparison is made in compiled code that asks the host. Here it is made in Python, where the clock is the
episode's; errors and JSON schemas stay as they are.
"""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from pydantic import FutureDate, FutureDatetime, PastDate, PastDatetime
from pydantic_core import PydanticKnownError, core_schema

_METHOD = "__get_pydantic_core_schema__"


def install() -> None:
    """Replace the comparison of the four types. To be done before any model uses them."""
    for kind in (PastDate, FutureDate, PastDatetime, FutureDatetime):
        setattr(kind, _METHOD, classmethod(_compared_here(getattr(kind, _METHOD).__func__)))


def _compared_here(original: Callable[..., Any]) -> Callable[..., Any]:
    def schema(cls: type, source: Any, handler: Any) -> core_schema.CoreSchema:
        plain = dict(original(cls, source, handler))
        relation = plain.pop("now_op")
        return core_schema.no_info_after_validator_function(_check(relation, plain["type"]), plain)  # type: ignore[arg-type]

    return schema


def _check(relation: str, kind: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        now = datetime.now(value.tzinfo) if isinstance(value, datetime) else date.today()
        if value < now if relation == "past" else value > now:
            return value
        raise PydanticKnownError(f"{kind}_{relation}")  # type: ignore[arg-type]

    return check
