"""What the inside half of a workspace answers, checked: it comes out of a sandbox in which an agent acts."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from quintain.contracts.untrusted import whole_text
from quintain.environments.base import OWNERS, ToolOutcome, ToolStatus
from quintain.errors import Owner

JsonObject = dict[str, Any]

_MAX_TEXT = 2**20
_MAX_LOG = 64 * 1024


class _Answer(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    status: Literal["ok", "tool_error", "server_error"]
    text: str | None = None
    error: str | None = None
    log: str = ""


def outcome_of(name: str, answer: JsonObject) -> ToolOutcome:
    """An answer as an outcome."""
    try:
        checked = _Answer.model_validate(answer)
    except ValidationError as error:
        return failure(ToolStatus.SERVER_ERROR, f"{name} answered what is not an answer ({error.error_count()} errors)")
    log = whole_text(checked.log[:_MAX_LOG])
    if checked.status == "ok":
        return ToolOutcome(status=ToolStatus.OK, text=whole_text((checked.text or "")[:_MAX_TEXT]), log=log)
    words = whole_text((checked.error or f"{name} failed and gave no reason")[:_MAX_TEXT])
    return failure(ToolStatus(checked.status), words, log=log)


def failure(status: ToolStatus, error: str, *, log: str = "", owner: Owner | None = None) -> ToolOutcome:
    """An outcome that is no success."""
    return ToolOutcome(status=status, error=error, log=log, owner=owner or OWNERS[status])
