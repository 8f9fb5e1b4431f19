"""Function-doc files: a list, or JSON lines, of `{name, description, parameters}`, which describe tools.

The dialect of the Berkeley Function Calling Leaderboard is read too: its types `dict`, `float`, `tuple` and `any`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .problems import CodeError

_TYPES = {"dict": "object", "float": "number", "double": "number", "tuple": "array", "list": "array", "str": "string",
          "int": "integer", "bool": "boolean"}  # fmt: skip
_NESTED = ("items", "additionalProperties")
_DROPPED = ("optional",)


@dataclass(frozen=True)
class Doc:
    """What a file says of one function."""

    file: str
    name: str
    description: str
    properties: Mapping[str, Any]
    required: tuple[str, ...]

    def check(self, where: str, parameters: Mapping[str, Any]) -> None:
        """Raises CodeError where it describes a parameter that the method has not."""
        if strange := [name for name in self.properties if name not in parameters]:
            raise CodeError(f"{self.file}: {self.name}: {strange[0]} is no parameter of {where}; correct one of them")


def read(file: str, text: str) -> dict[str, Doc]:
    """What a function-doc file says, by name of the function.

    Raises:
        CodeError: it is none; the message says where.
    """
    docs: dict[str, Doc] = {}
    for number, entry in enumerate(_entries(file, text), 1):
        doc = _doc(f"{file}: entry {number}", file, entry)
        docs[doc.name] = doc
    return docs


def _entries(file: str, text: str) -> list[Any]:
    try:
        whole = json.loads(text)
        return whole if isinstance(whole, list) else [whole]
    except ValueError:
        pass
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                entries.append(json.loads(line))
            except ValueError as error:
                raise CodeError(
                    f"{file}:{number}: not JSON ({error}); one function in each line, or one list"
                ) from None
    return entries


def _doc(where: str, file: str, entry: Any) -> Doc:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise CodeError(f"{where} has no name; write {{name, description, parameters}}")
    parameters = entry.get("parameters", {})
    schema = normalised(parameters)
    if not isinstance(schema, dict) or not isinstance(schema.get("properties", {}), dict):
        raise CodeError(f"{where} ({entry['name']}): parameters are no JSON Schema of an object; correct them")
    required = schema.get("required", [])
    if not isinstance(required, list) or not isinstance(entry.get("description", ""), str):
        raise CodeError(f"{where} ({entry['name']}): required is no list, or the description no text; correct it")
    properties = schema.get("properties", {})
    return Doc(file, entry["name"], entry.get("description", ""), properties, tuple(map(str, required)))


def normalised(schema: Any) -> Any:
    """A schema of the dialect as JSON Schema."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type" and isinstance(value, str):
            if value != "any":
                found[key] = _TYPES.get(value, value)
        elif key == "properties" and isinstance(value, dict):
            found[key] = {name: normalised(one) for name, one in value.items()}
        elif key in _NESTED:
            found[key] = normalised(value)
        elif key == "required" and not isinstance(value, list):
            continue
        elif key not in _DROPPED:
            found[key] = value
    return found
