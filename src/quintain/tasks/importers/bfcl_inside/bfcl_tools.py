"""BFCL's classes as tools: results as its evaluation writes them, and the attributes that it compares."""

import copy
import inspect
import json
from typing import Any


class CallFailed(Exception):
    """What a method raised, in the words of BFCL's evaluation."""


def tools_of(made_of: type) -> type:
    """A class of the same name and the same methods, whose results are texts and whose state is `attributes`."""
    members: dict[str, Any] = {"_load_task": _load_task, "attributes": property(attributes)}
    for kind in made_of.__mro__[:-1]:
        for name, function in vars(kind).items():
            if not name.startswith("_") and name not in members and inspect.isfunction(function):
                members[name] = _wrapped(name, function)
    return type(made_of.__name__, (made_of,), members)


def _load_task(self: Any, start: dict[str, Any]) -> None:
    load = getattr(self, "_load_scenario", None)
    config = start.get("config", {})
    if isinstance(config, str):  # JSON text, for integers over 2^53
        config = json.loads(config)
    if load is not None:
        load(copy.deepcopy(config), long_context=start.get("long_context", False))


def attributes(self: Any) -> dict[str, Any]:
    """The public attributes, as JSON that is equal where BFCL takes them for equal."""
    return {name: _plain(value) for name, value in vars(self).items() if not name.startswith("_")}


def _wrapped(name: str, function: Any) -> Any:
    def call(self: Any, *arguments: Any, **named: Any) -> str:
        try:
            return _text(function(self, *arguments, **named))
        except Exception as error:
            raise CallFailed(f"Error during execution: {error}") from None

    signature = inspect.signature(function)
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    call.__name__ = name
    call.__doc__ = function.__doc__
    call.__annotations__ = {}  # arguments are taken as they are given; functions.json says what they should be
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=bare, return_annotation=inspect.Signature.empty
    )
    return call


def _text(result: Any) -> str:
    if type(result) is str:
        return result
    if type(result) is dict:
        try:
            return json.dumps(result)
        except Exception:  # an object among its values, which is shown in its own words
            return str(result)
    return str(result)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, tuple):
        return {"(tuple)": [_plain(one) for one in value]}
    if isinstance(value, set | frozenset):
        return {"(set)": sorted((_plain(one) for one in value), key=repr)}
    if isinstance(value, dict):
        return _mapping(value)
    kind = type(value).__name__
    if kind == "Directory":  # whose equality leaves out the directory above it
        return {"(Directory)": value.name, "contents": _plain(value.contents)}
    if kind == "File":
        return {"(File)": value.name, "content": value.content}
    return {f"({kind})": str(value)}


def _mapping(value: dict[Any, Any]) -> dict[str, Any]:
    if all(isinstance(key, str) for key in value):
        return {key: _plain(one) for key, one in value.items()}
    pairs = [[_plain(key), _plain(one)] for key, one in value.items()]
    return {"(dict)": sorted(pairs, key=lambda pair: (type(pair[0]).__name__, repr(pair[0])))}
