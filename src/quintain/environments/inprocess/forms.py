"""Values with `${…}` in them, and conditions: compiled once, asked at each call; and what is wrong with them."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from quintain.contracts.expressions import Expression, expressions_in, filled
from quintain.contracts.tools import Tool
from quintain.environments.inprocess.findings import Finding, Place, expression, unknown
from quintain.errors import ExpressionError

JsonObject = dict[str, Any]

_STRINGS: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_FIELD: Final = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\s*\.\s*([A-Za-z_]\w*)\b(?!\s*\()")
_HAS: Final = re.compile(r"\bhas\(\s*([A-Za-z_]\w*)\.([A-Za-z_]\w*)")


class Form:
    """A JSON value in which expressions stand."""

    def __init__(self, document: Any) -> None:
        """Raises ExpressionError where one of them is none."""
        self._document = document
        self._static = not any(True for _ in expressions_in(document))
        if self._static:
            self._document = filled(document, {})

    def value(self, context: Mapping[str, Any]) -> Any:
        """The value with its expressions filled in.

        Raises:
            ExpressionError: one has no value.
        """
        return self._document if self._static else filled(self._document, context)

    def text(self, context: Mapping[str, Any]) -> str:
        """The value as a tool's result: a text as it is, anything else as compact JSON."""
        return as_text(self.value(context))


class Condition:
    """An expression that says yes or no; an absent one says yes."""

    def __init__(self, text: str | None) -> None:
        """Raises ExpressionError where it is none."""
        self._expression = None if text is None else expression(text)

    def holds(self, context: Mapping[str, Any]) -> bool:
        """Whether it is true.

        Raises:
            ExpressionError: it has no value, or one that is neither true nor false.
        """
        if self._expression is None:
            return True
        value = self._expression.value(context)
        if not isinstance(value, bool):
            raise ExpressionError(f"expression `{self._expression.text[:200]}`: is neither true nor false")
        return value


def as_text(value: Any) -> str:
    """A result as an agent gets it."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


@dataclass(frozen=True)
class Scope:
    """What expressions at one place may ask for."""

    names: Mapping[str, frozenset[str] | None]
    """Variables; of those that are maps of known keys, the keys, and of others None."""
    optional: frozenset[str] = field(default_factory=frozenset)
    """Arguments that may be absent."""

    def with_arguments(self, tool: Tool | None) -> "Scope":
        """This, and the arguments of a tool; of any where None."""
        if tool is None:
            return Scope({**self.names, "arguments": None})
        known = declared_arguments(tool)
        required = frozenset(tool.input_schema.get("required", ()))
        return Scope({**self.names, "arguments": known}, (known or frozenset()) - required)

    def with_names(self, *names: str) -> "Scope":
        """This, and some variables more."""
        return Scope({**self.names, **dict.fromkeys(names)}, self.optional)


def declared_arguments(tool: Tool) -> frozenset[str] | None:
    """The arguments that a tool declares; None where it says that it takes others too."""
    schema = tool.input_schema
    return None if schema.get("additionalProperties") else frozenset(schema.get("properties", ()))


def condition_findings(text: str | None, at: Place, scope: Scope) -> Iterator[Finding]:
    """What is wrong with a condition."""
    if text is None:
        return
    try:
        yield from _asked(expression(text), at, scope)
    except ExpressionError as error:
        yield Finding(at, str(error))


def form_findings(document: Any, at: Place, scope: Scope) -> Iterator[Finding]:
    """What is wrong with a form."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from form_findings(value, (*at, key), scope)
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from form_findings(value, (*at, index), scope)
    elif isinstance(document, str):
        try:
            for one in expressions_in(document):
                yield from _asked(one, at, scope)
        except ExpressionError as error:
            yield Finding(at, str(error))


def _asked(one: Expression, at: Place, scope: Scope) -> Iterator[Finding]:
    for name in sorted(one.names - scope.names.keys()):
        yield Finding(at, f"expression `{one.text[:200]}`: {unknown(name, scope.names, 'variable')}")
    plain = _STRINGS.sub("''", one.text)
    tested = set(_HAS.findall(plain))
    for root, key in dict.fromkeys(_FIELD.findall(plain)):
        known = scope.names.get(root)
        if known is not None and key not in known:
            yield Finding(at, f"expression `{one.text[:200]}`: {unknown(key, known, f'key of {root}')}")
        elif root == "arguments" and key in scope.optional and (root, key) not in tested:
            message = f"argument {key!r} is optional; ask has(arguments.{key}) first, or require it in the schema"
            yield Finding(at, message, fatal=False)
