"""Two steps compared as records hold them: redacted, canonical, texts that were left out by their digests."""

import json
import re
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from quintain.contracts.identity import sha256
from quintain.contracts.record import StepRecord
from quintain.records.form import canonical
from quintain.records.redaction import Redactor

JsonObject = dict[str, Any]

_OF_CALL: Final = ("tool_name", "reward_type", "result", "error", "warning", "failure_owner")
_OF_VERIFICATION: Final = ("reward_type", "verify_result", "error", "failure_owner")
_SHOWN: Final = 160
_BEFORE: Final = 40
_UNKNOWN: Final = re.compile(r"\[redacted:(?:credential|email|phone|card)\]")
"""Where something stood that a redactor without the run's own credentials and options does not find."""


class Difference(BaseModel):
    """Where a replay parts from its record, both values from a little before the place where they do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    step: int | None = Field(description="The step's index; None for the final state")
    field: str
    recorded: str
    replayed: str


class StepComparer:
    """Compares steps of a record with those of its replay."""

    def __init__(self, redactor: Redactor) -> None:
        """`redactor` takes out of both what records do not hold."""
        self._redactor = redactor

    def difference(self, recorded: StepRecord, replayed: StepRecord, *, rewards: bool) -> Difference | None:
        """The first field that differs; None if none does.

        Args:
            rewards: compare also the step's reward.
        """
        mine, theirs = self._document(recorded), self._document(replayed)
        fields = _OF_VERIFICATION if recorded.action == "verify" else _OF_CALL
        for name in (*fields, *(("reward",) if rewards else ())):
            if name in (recorded.omitted or {}):
                one, other = recorded.omitted[name].digest, _digest(replayed, name)  # type: ignore[index]
            else:
                one, other = _text(mine.get(name)), _text(theirs.get(name))
            if one != other and not _same_but_for_secrets(one, other):
                shown = _shown(one, other)
                return Difference(step=recorded.index, field=name, recorded=shown[0], replayed=shown[1])
        return None

    def _document(self, step: StepRecord) -> JsonObject:
        document, _ = self._redactor.redact({"steps": [step.model_dump(mode="json")]})
        made: JsonObject = document["steps"][0]
        return made


def redacted_arguments(step: StepRecord) -> bool:
    """Whether something was taken out of a step's arguments, so that they are not those that were given."""
    return step.arguments is not None and "[redacted:" in json.dumps(step.arguments)


def _digest(step: StepRecord, name: str) -> str:
    """The digest of a field, as it is told of one that is left out."""
    if name in (step.omitted or {}):
        return step.omitted[name].digest  # type: ignore[index]
    value = getattr(step, name)
    return sha256((value if isinstance(value, str) else json.dumps(value, sort_keys=True)).encode())


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else canonical(value).decode()


def _same_but_for_secrets(recorded: str, replayed: str) -> bool:
    """Whether they are equal but for what stood where the record has what only its own redactor finds."""
    first, *parts = _UNKNOWN.split(recorded)
    if not parts or not replayed.startswith(first):
        return False
    *parts, last = parts
    at = len(first)
    for part in parts:
        found = replayed.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return len(replayed) - len(last) >= at and replayed.endswith(last)


def _shown(one: str, other: str) -> tuple[str, str]:
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    begin = max(at - _BEFORE, 0) if max(len(one), len(other)) > _SHOWN else 0
    return _cut(one, begin), _cut(other, begin)


def _cut(text: str, begin: int) -> str:
    end = begin + _SHOWN
    return f"{'…' if begin else ''}{text[begin:end]}{'…' if len(text) > end else ''}"
