"""JSON Schema of an OpenAPI document: references resolved, examples made from it."""

import math
from collections.abc import Mapping
from typing import Any

_PREFIX = "#/components/schemas/"
_MAX_NODES = 200_000
"""Resolved objects after which references are cut: models that name each other widely multiply without end."""

_HIDDEN = frozenset(
    ("allOf", "anyOf", "oneOf", "nullable", "discriminator", "readOnly", "writeOnly", "xml", "externalDocs")
)
"""Parts of a schema that an example of a response does not look at."""

_FORMATS = {
    "date-time": "2023-01-01T00:00:00Z",
    "date": "2023-01-01",
    "email": "user@example.com",
    "uri": "https://example.com",
}


class Resolver:
    """Replaces references to a document's models by the models themselves.

    A model inside itself is cut to its type, title and description.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._models: dict[str, Any] = document.get("components", {}).get("schemas", {})
        self._nodes = 0

    def resolve(self, part: Any, inside: tuple[str, ...] = ()) -> Any:
        """A copy of a part of the document without references to models."""
        if isinstance(part, list):
            return [self.resolve(item, inside) if isinstance(item, dict) else item for item in part]
        if not isinstance(part, dict):
            return part
        self._nodes += 1
        reference = part.get("$ref")
        if isinstance(reference, str) and reference.startswith(_PREFIX):
            name = reference.removeprefix(_PREFIX).rpartition("/")[2]
            model = self._models.get(name)
            if isinstance(model, dict):
                beside = {key: value for key, value in part.items() if key != "$ref"}
                if name in inside or self._nodes > _MAX_NODES:
                    return beside | _cut(model)
                part = beside | model
                inside = (*inside, name)
                if "$ref" in part:  # a model that is only another name
                    return self.resolve(part, inside)
        return {key: self.resolve(value, inside) for key, value in part.items()}


def _cut(model: Mapping[str, Any]) -> dict[str, Any]:
    kind = model.get("type")
    kept = {key: model[key] for key in ("title", "description") if key in model}
    return {"type": kind if isinstance(kind, str) else "object"} | kept


def first_type(schema: Mapping[str, Any]) -> str:
    """The type of a schema; of a union the first that is not null."""
    if "anyOf" in schema:
        for option in schema["anyOf"]:
            kind = option.get("type")
            if kind and kind != "null":
                return str(kind)
        return "string"
    return str(schema.get("type", "string"))


def for_display(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without the parts an example does not look at, also in its properties and items."""
    shown = {key: value for key, value in schema.items() if key not in _HIDDEN}
    if "properties" in shown:
        shown["properties"] = {
            name: for_display(value) if isinstance(value, dict) else value
            for name, value in shown["properties"].items()
        }
    if shown.get("type") == "array" and isinstance(shown.get("items"), dict):
        shown["items"] = for_display(shown["items"])
    return shown


def example_of(schema: Any) -> Any:
    """An example of a response, from a schema made ready by `for_display`; None where there is none."""
    if not schema or not isinstance(schema, dict):
        return None
    kind = schema.get("type")
    if kind == "object":
        examples = {name: example_of(value) for name, value in schema.get("properties", {}).items()}
        return {name: value for name, value in examples.items() if value is not None}
    if kind == "array":
        item = example_of(schema["items"]) if "items" in schema else None
        return [] if item is None else [item]
    if kind == "string":
        form = schema.get("format")
        return _FORMATS.get(form) if form in _FORMATS else schema.get("title", "string")
    simple: dict[Any, Any] = {"integer": 1, "number": 1.0, "boolean": True}
    return simple.get(kind) if isinstance(kind, str) else None


def finite(value: Any) -> Any:
    """The same value with None for NaN and infinities, which JSON cannot carry."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, list) else value
