"""What is wrong with an environment's document, each thing with its place in it."""

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

from quintain.contracts.expressions import Expression

Place = tuple[str | int, ...]
"""Keys and indices from the top of a document: `("rules", 2, "when")`."""

MAX_FINDINGS: Final = 200

_SHOWN: Final = 5

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_]*$", max_length=64)]
"""What an expression can ask for by name."""


class Strict(BaseModel):
    """A part of a document: nothing in it is converted, and nothing is in it that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Finding(NamedTuple):
    """One thing: its place, what it is and what to do. What is `fatal` keeps the environment from being played."""

    path: Place
    message: str
    fatal: bool = True

    def __str__(self) -> str:
        return f"{shown(self.path)}: {self.message}" if self.path else self.message


def shown(path: Place) -> str:
    """A place as people read it: `rules[2].when`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def misfits(error: ValidationError) -> list[Finding]:
    """What a model found."""
    found = []
    for item in error.errors(include_url=False):
        path = tuple(part for part in item["loc"] if part != "[key]")
        value = item["input"]
        match item["type"]:
            case "missing":
                message = "is missing; add it"
            case "extra_forbidden":
                message = "is no field here; remove it or correct its spelling"
            case "value_error":
                message = str(item["ctx"]["error"])
            case _:
                text = str(item["msg"])
                given = "" if isinstance(value, dict | list) else f", not {str(value)[:80]!r}"
                message = f"{text[:1].lower()}{text[1:]}{given}; correct it"
        found.append(Finding(path, message))
    return found


def summary(findings: Sequence[Finding]) -> str:
    """Those that are fatal, on one line of bounded length; empty where none is."""
    fatal = [str(one) for one in findings if one.fatal]
    more = f"; and {len(fatal) - _SHOWN} more" if len(fatal) > _SHOWN else ""
    return "; ".join(one[:500] for one in fatal[:_SHOWN]) + more


def unknown(name: str, known: Iterable[str], what: str) -> str:
    """That nothing is called so, and what there is."""
    there = ", ".join(sorted(known)[:20]) or "none"
    return f"no {what} is called {name[:100]!r}; there are: {there}"


def expression(text: str) -> Expression:
    """An expression, its place left out of its messages: a finding has it.

    Raises:
        ExpressionError: it is none.
    """
    return Expression(text)


def json_kind(value: Any) -> str:
    """What JSON calls the type of a value."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a map"}
    return names.get(type(value), "null")
