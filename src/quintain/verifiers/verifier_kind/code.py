"""A verifier's code: which function to call, with what, and its value as strict JSON."""

import inspect
import math
import re
from collections.abc import Callable, Collection
from types import CodeType
from typing import Any

MAX_DEPTH = 64
MAX_ITEMS = 20_000
MAX_CHARS = 16 * 1024
"""Characters of one string that are kept; of those after the first `FULL_CHARS` in all, `SHORT_CHARS`."""
FULL_CHARS = 128 * 1024
SHORT_CHARS = 128

_PREFIX = "verify_"


class VerifierCodeError(Exception):
    """The code has no function to call, or its value is not JSON."""


class TooLarge(VerifierCodeError):
    """The value is larger than what is kept of it."""


def run(code: str, function: str | None, inputs: dict[str, Any], more: dict[str, Any]) -> Any:
    """Execute the code, call its function, and return the value.

    Args:
        function: name of a function at the top level; without one that exists, the first `verify_*` is called.
        inputs: `initial_db_path`, `final_db_path` and `final_answer`, in this order; or `initial_state` and
            `final_state`, or `initial_dir` and `final_dir`, in place of the first two.
        more: what a function gets only by name: `trace`, `variables`, `tests`.

    Raises:
        VerifierCodeError: there is no such function, or the value is not JSON.
        BaseException: whatever the code raises.
    """
    compiled = compile(code, "verifier.py", "exec")
    names = _functions(code, compiled)
    chosen = function if function in names else next((name for name in names if name.startswith(_PREFIX)), None)
    if chosen is None:
        raise VerifierCodeError(f"the code defines no function {_PREFIX}* at its top level")
    namespace: dict[str, Any] = {"__name__": "verifier"}
    exec(compiled, namespace)
    if not callable(namespace.get(chosen)):
        raise VerifierCodeError(f"{chosen} is no function once the code has run")
    value = _call(namespace[chosen], inputs, more)
    try:
        return as_json(value)
    except TooLarge as error:
        if not isinstance(value, dict) or not isinstance(value.get("result"), str):
            raise
        return {"result": as_json(value["result"]), "omitted": str(error)}  # the verdict is the word alone


def _functions(code: str, module: CodeType) -> list[str]:
    """Names of the functions defined at the top level, in order; parsing the code again to find them costs more."""
    lines = re.split(r"\r\n|\r|\n", code)
    found = [one for one in module.co_consts if isinstance(one, CodeType) and one.co_flags & inspect.CO_OPTIMIZED]
    top = [one for one in found if lines[one.co_firstlineno - 1].startswith(("def", "async", "@"))]
    return [one.co_name for one in sorted(top, key=lambda one: one.co_firstlineno)]


def _call(function: Callable[..., Any], inputs: dict[str, Any], more: dict[str, Any]) -> Any:
    parameters = inspect.signature(function).parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    named = {name: value for name, value in more.items() if name in parameters}
    if _takes_names(inputs, parameters.keys()) and inspect.Parameter.POSITIONAL_ONLY not in kinds:
        any_name = inspect.Parameter.VAR_KEYWORD in kinds
        return function(**{name: value for name, value in inputs.items() if any_name or name in parameters}, **named)
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [name for name, one in parameters.items() if one.kind in positional and name not in more]
    room = len(inputs) if inspect.Parameter.VAR_POSITIONAL in kinds else len(taken)
    return function(*list(inputs.values())[:room], **named)


def _takes_names(inputs: dict[str, Any], parameters: Collection[str]) -> bool:
    """Whether a function means the inputs by their names: of databases one that has both paths, of others any."""
    return not {"initial_state", "initial_dir"}.isdisjoint(inputs) or {"initial_db_path", "final_db_path"} <= set(
        parameters
    )


def as_json(value: Any) -> Any:
    """The value with nothing in it but dicts with string keys, lists, strings, finite numbers, booleans and None.

    Raises:
        VerifierCodeError: something else is in it, or it is too deep or too large.
    """
    return _Checked().value(value, "", 0)


class _Checked:
    def __init__(self) -> None:
        self._items = 0
        self._chars = 0

    def value(self, value: Any, place: str, depth: int) -> Any:
        self._items += 1
        if depth > MAX_DEPTH:
            raise VerifierCodeError(f"the value is deeper than {MAX_DEPTH} levels")
        if self._items > MAX_ITEMS:
            raise TooLarge(f"the value has more than {MAX_ITEMS} items")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float) and math.isfinite(value):
            return float(value)
        if isinstance(value, str):
            return self._cut(self._text(value, place))
        if isinstance(value, dict):
            return {self._key(key, place): self.value(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, f"{place}[{number}]", depth + 1) for number, item in enumerate(value)]
        shown = f"{value}" if isinstance(value, float) else type(value).__name__
        raise VerifierCodeError(f"the value{place} is {shown}, which JSON does not have")

    def _key(self, key: Any, place: str) -> str:
        if not isinstance(key, str):
            raise VerifierCodeError(f"the value{place} has a key of type {type(key).__name__}; JSON keys are strings")
        return self._text(key, place)

    def _cut(self, text: str) -> str:
        """A string that an agent may have made as long as it likes, so that it cannot spoil the verdict on it."""
        limit = MAX_CHARS if self._chars < FULL_CHARS else SHORT_CHARS
        self._chars += min(len(text), limit)
        return text if len(text) <= limit else f"{text[:limit]} [{len(text) - limit} more characters]"

    def _text(self, text: str, place: str) -> str:
        try:
            return text.encode().decode()
        except UnicodeEncodeError:
            raise VerifierCodeError(f"the value{place} holds half of a surrogate pair") from None
