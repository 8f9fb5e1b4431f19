"""Schemas as servers list them, written out: references within a schema are replaced by what they name."""

from typing import Any, Final

JsonObject = dict[str, Any]

MAX_PARTS: Final = 20_000
"""Most parts that a schema may have once it is written out."""

_DROPPED: Final = frozenset({"$schema", "$id", "$defs", "definitions", "$comment"})
_BY_NAME: Final = frozenset({"properties", "dependentSchemas"})
_VALUES: Final = frozenset({"enum", "const", "default", "examples", "required"})


def plain_schema(schema: JsonObject) -> JsonObject:
    """A schema without `$ref`; where one leads into itself, anything is taken.

    Raises:
        ValueError: a reference leads nowhere, or the schema grows over the limit.
    """
    found = _Writing(schema).schema(schema, ())
    return {"type": "object", **found} if isinstance(found, dict) else {"type": "object"}


class _Writing:
    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._parts = 0

    def schema(self, value: Any, within: tuple[str, ...]) -> Any:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError(f"a schema has over {MAX_PARTS} parts when it is written out")
        if isinstance(value, list):
            return [self.schema(one, within) for one in value]
        if not isinstance(value, dict):
            return value
        if (reference := value.get("$ref")) is not None:
            return self._referred(reference, {key: one for key, one in value.items() if key != "$ref"}, within)
        found = {}
        for key, one in value.items():
            if key in _DROPPED:
                continue
            if key in _BY_NAME and isinstance(one, dict):
                found[key] = {name: self.schema(part, within) for name, part in one.items()}
            else:
                found[key] = one if key in _VALUES else self.schema(one, within)
        return found

    def _referred(self, reference: Any, beside: JsonObject, within: tuple[str, ...]) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise ValueError(f"a schema refers to {str(reference)[:100]!r}, which is not within it")
        rest = self.schema(beside, within)
        if reference in within:
            return rest
        at: Any = self._root
        for part in reference[2:].split("/"):
            name = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(at, dict) or name not in at:
                raise ValueError(f"a schema refers to {reference[:100]!r}, which is not there")
            at = at[name]
        target = self.schema(at, (*within, reference))
        return {**target, **rest} if isinstance(target, dict) else target
