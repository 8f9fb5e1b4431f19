"""Variables of a task, drawn by seed."""

import random
from collections.abc import Mapping
from typing import Any, Final

from quintain.contracts.expressions import filled
from quintain.errors import DatasetError
from quintain.tasks.packs.models import Draw

_MAX_DRAWN: Final = 1000
"""Most elements of a list that is drawn from."""


def draw_all(variables: Mapping[str, Draw], seed_text: str, where: str) -> dict[str, Any]:
    """The value of every variable, in their order; the same for the same `seed_text`.

    Raises:
        DatasetError: one cannot be drawn so.
        ExpressionError: an expression has no value.
    """
    chance = random.Random(seed_text)
    drawn: dict[str, Any] = {}
    for name, draw in variables.items():
        place = f"{where}.variables.{name}"
        ((how, given),) = draw.model_dump(exclude_unset=True).items()
        drawn[name] = _drawn(how, filled(given, drawn, place), chance, place)
    return drawn


def _drawn(how: str, given: Any, chance: random.Random, where: str) -> Any:
    match how:
        case "value":
            return given
        case "choice":
            return chance.choice(_options(given, where))
        case "shuffle":
            mixed = list(_options(given, where))
            chance.shuffle(mixed)
            return mixed
        case "sample":
            options, count = _parts(given, 2, where, "[list, count]")
            found = _options(options, where)
            if not _whole(count) or not 0 <= count <= len(found):
                raise DatasetError(f"{where}: cannot sample {count!r} of {len(found)}; give a count that is there")
            return chance.sample(found, count)
        case "integer":
            low, high = _parts(given, 2, where, "[lowest, highest]")
            if not _whole(low) or not _whole(high) or low > high:
                raise DatasetError(f"{where}: no integer is from {low!r} to {high!r}; give two, the lower first")
            return chance.randint(low, high)
        case _:
            low, high, decimals = _parts(given, 3, where, "[lowest, highest, decimals]")
            numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (low, high))
            if not numbers or low > high or not _whole(decimals) or not 0 <= decimals <= 12:
                raise DatasetError(f"{where}: no number is drawn by {given!r}; give [lowest, highest, decimals]")
            return round(chance.uniform(low, high), decimals)


def _options(given: Any, where: str) -> list[Any]:
    if not isinstance(given, list) or not 1 <= len(given) <= _MAX_DRAWN:
        raise DatasetError(f"{where}: draws from a list of 1 to {_MAX_DRAWN} values; give one")
    return given


def _parts(given: Any, count: int, where: str, form: str) -> list[Any]:
    if not isinstance(given, list) or len(given) != count:
        raise DatasetError(f"{where}: has the form {form}; correct it")
    return given


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
