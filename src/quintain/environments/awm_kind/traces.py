"""Whether calls leave traces in the process: what a scenario's module remembers, and how its answers change."""

import functools
import types
from collections import deque
from collections.abc import Mapping
from typing import Any

_MAX_DEPTH = 8
_MAX_ITEMS = 20_000
_INTERNAL = ("__builtins__", "__dict__", "__weakref__", "__warningregistry__")
_LIBRARIES = ("sqlalchemy", "pydantic", "fastapi", "starlette")


def memory(module: types.ModuleType, state: Any) -> str:
    """A description of what a module's own globals, classes, functions and an application's state hold.

    Equal before and after calls means that the calls left nothing there.
    """
    reader = _Reader(module.__name__)
    return repr((reader.mapping(vars(module), 0), reader.value(state, 0)))


class _Reader:
    def __init__(self, module: str) -> None:
        self._module = module
        self._seen: dict[int, Any] = {}  # the objects too, so that no id is used again
        self._items = 0

    def mapping(self, values: Mapping[Any, Any], depth: int) -> Any:
        return [
            (repr(key) if isinstance(key, str) else self.value(key, depth + 1), self.value(value, depth + 1))
            for key, value in list(values.items())
            if key not in _INTERNAL and not str(key).startswith("_sa_")
        ]

    def value(self, value: Any, depth: int) -> Any:
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return repr(value)
        self._items += 1
        if depth > _MAX_DEPTH or id(value) in self._seen or self._items > _MAX_ITEMS:
            return type(value).__name__
        self._seen[id(value)] = value
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        if isinstance(value, list | tuple | deque):
            return [self.value(item, depth + 1) for item in list(value)]
        if isinstance(value, set | frozenset):
            return sorted(repr(self.value(item, depth + 1)) for item in list(value))
        return self._thing(value, depth)

    def _thing(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if isinstance(value, types.FunctionType | functools._lru_cache_wrapper):
            return self._function(value, depth) if value.__module__ == self._module else value.__name__
        if isinstance(value, type):
            own = value.__module__ == self._module and not _of_library(value)
            return self.mapping(vars(value), depth) if own else value.__name__
        if kind.__module__ in ("itertools", "datetime", "decimal", "uuid"):
            return repr(value)
        if kind.__module__ == self._module or kind.__module__.startswith("starlette.datastructures"):
            return self.mapping(getattr(value, "__dict__", {}), depth)
        return kind.__name__

    def _function(self, value: Any, depth: int) -> Any:
        function = getattr(value, "__wrapped__", value)
        size = value.cache_info().currsize if isinstance(value, functools._lru_cache_wrapper) else None
        cells = [_cell(cell) for cell in getattr(function, "__closure__", None) or ()]
        held = [getattr(function, "__defaults__", None), getattr(function, "__kwdefaults__", None), cells, size]
        return [self.value(one, depth + 1) for one in (*held, getattr(function, "__dict__", None))]


def _of_library(cls: type) -> bool:
    """Models of the libraries configure themselves when first used; that is no memory of a call."""
    return any(base.__module__.split(".")[0] in _LIBRARIES for base in cls.__mro__)


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
