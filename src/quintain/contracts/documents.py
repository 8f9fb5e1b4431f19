"""Documents that people write, parsed: YAML and JSON in which no key may stand twice."""

import json
from typing import Any

import yaml


class UnreadableDocument(ValueError):
    """Not YAML, not JSON, or a repeated key; the message is one line."""


def from_yaml(text: str | bytes) -> Any:
    """The value of a YAML document, of plain types only.

    Raises:
        UnreadableDocument: it is none, or a key stands twice in one mapping.
    """
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UnreadableDocument(one_line(error)) from error


def from_json(text: str | bytes) -> Any:
    """The value of a JSON document.

    Raises:
        UnreadableDocument: it is none, or a key stands twice in one object.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise UnreadableDocument(one_line(error)) from error


def one_line(error: BaseException) -> str:
    """An error's message on one line, of bounded length."""
    return " ".join(str(error).split())[:300] or type(error).__name__


class _UniqueKeyLoader(yaml.SafeLoader):
    """SafeLoader keeps the last of two equal keys without a word; nothing may hang on that."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} twice", key.start_mark)
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} twice")
    return dict(pairs)
