"""Kubernetes quantities: `500m`, `2`, `4Gi`, `1e9`, as resource limits spell them.

Source: the Kubernetes API's `resource.Quantity`.
"""

import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

_SUFFIXES: dict[str, Decimal] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{suffix + "i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?")
MAX_QUANTITY = Decimal(2**63 - 1)


def quantity(text: str) -> Decimal:
    """The number a quantity stands for: `4Gi` is 4294967296, `500m` is 0.5.

    Raises:
        ValueError: not a quantity, zero, or over 2^63-1.
    """
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a quantity such as 500m, 2, 256Mi or 4Gi, got {text[:40]!r}")
    number, exponent, suffix = match.groups()
    value = Decimal(number + (exponent or "")) * _SUFFIXES[suffix or ""]
    if not 0 < value <= MAX_QUANTITY:
        raise ValueError(f"expected a quantity over 0 and at most 2^63-1, got {text[:40]!r}")
    return value


def _as_text(value: Any) -> Any:
    """YAML reads `cpu: 2` as a number; a quantity is text."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _checked(text: str) -> str:
    quantity(text)
    return text


Quantity = Annotated[str, BeforeValidator(_as_text), AfterValidator(_checked)]
"""A Kubernetes quantity, kept as it was written."""
