"""What a document says that a call is answered with: a result, or an error."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from quintain.environments.base import ToolStatus
from quintain.environments.inprocess.findings import Finding, Name, Place, Strict, unknown
from quintain.environments.inprocess.forms import Form, Scope, form_findings

MAX_LATENCY_MS: Final = 60_000
"""Longest that an answer may really take, in milliseconds."""


class ErrorModel(Strict):
    """What goes wrong: `message` may hold `${…}`."""

    status: Literal["tool_error", "server_error", "timeout", "invalid_args"] = "tool_error"
    message: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class AnswerModel(Strict):
    """Exactly one of a result, any JSON value, and an error."""

    result: Any = None
    error: ErrorModel | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if ("result" in self.model_fields_set) == (self.error is not None):
            raise ValueError("is answered in one way; give exactly one of result and error")
        return self


class LatencyModel(Strict):
    """How long an answer really takes."""

    ms: int = Field(ge=0, le=MAX_LATENCY_MS)


Changes = dict[Name, Any]
"""New values of facts, by name; they may hold `${…}`, and see the state as it was before."""


class Answer:
    """An answer, compiled."""

    def __init__(self, model: AnswerModel) -> None:
        self.status = ToolStatus.OK if model.error is None else ToolStatus(model.error.status)
        self._form = Form(model.result if model.error is None else model.error.message)

    def text(self, context: Mapping[str, Any]) -> str:
        """What the agent reads.

        Raises:
            ExpressionError: an expression in it has no value.
        """
        return self._form.text(context)


def refusal(message: str) -> AnswerModel:
    """The answer that a call cannot be done, in these words."""
    return AnswerModel(error=ErrorModel(message=message))


def worded(given: Any) -> Any:
    """An answer that is only a text is a tool_error of these words."""
    return {"error": {"message": given}} if isinstance(given, str) else given


def answer_findings(model: AnswerModel, at: Place, scope: Scope) -> Iterator[Finding]:
    """What is wrong with an answer."""
    if model.error is not None:
        yield from form_findings(model.error.message, (*at, "error", "message"), scope)
    else:
        yield from form_findings(model.result, (*at, "result"), scope)


def change_findings(
    changes: Mapping[str, Any], at: Place, scope: Scope, facts: Mapping[str, Any], kind: str = "fact of the state"
) -> Iterator[Finding]:
    """What is wrong with changes of facts."""
    for name, value in changes.items():
        if name not in facts:
            yield Finding((*at, name), f"{unknown(name, facts, kind)}; declare it under state")
        yield from form_findings(value, (*at, name), scope)
