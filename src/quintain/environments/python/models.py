"""What environment.yaml of a Python environment holds, what a task's start holds, and what the sandbox answers."""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from quintain.environments.inprocess.findings import Strict, misfits, summary
from quintain.errors import TemplateError

JsonObject = dict[str, Any]

MAX_STATE_BYTES: Final = 2 * 2**20
"""Largest state of the declared attributes, in bytes of JSON."""

MAX_MESSAGES: Final = 100

_Entry = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][\w.]*(:[A-Za-z_]\w*)?$", max_length=200)]
_Attribute = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$", max_length=200)]
_File = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class PythonDocument(Strict):
    """environment.yaml, without what every kind's has."""

    kind: Literal["python"]
    entry: _Entry | Annotated[list[_Entry], Field(min_length=1, max_length=50)]
    construct_: JsonObject = Field(default_factory=dict, alias="construct")
    load: _Attribute | None = None
    state: list[_Attribute] | dict[str, list[_Attribute]] | None = None
    docs: _File | list[_File] | None = None
    exclude: list[_Attribute] = Field(default_factory=list)
    errors: list[_Attribute] = Field(default_factory=list)
    timeout: float | None = Field(default=None, gt=0, le=600)

    @model_validator(mode="after")
    def _whole(self) -> Self:
        modules = [one for one in (self.entry if isinstance(self.entry, list) else [self.entry]) if ":" not in one]
        if isinstance(self.entry, str) != (not isinstance(self.state, dict)) and self.state is not None:
            raise ValueError("state is a list for one entry, and a map of lists by entry's name for a list of entries")
        if isinstance(self.entry, str) and modules and self.state is None:
            raise ValueError(f"state names what of the module {modules[0]} is kept; add it")
        return self


class ConversationModel(Strict):
    """What the user says after the task's text, which is turn 1: the first message begins turn 2."""

    messages: list[Annotated[str, StringConstraints(max_length=100_000)]] = Field(max_length=MAX_MESSAGES)
    withhold: dict[Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]*$", max_length=4)], list[str]] = Field(
        default_factory=dict, description="Tools by the turn at which they appear"
    )


class Answer(BaseModel):
    """What a call came to inside."""

    model_config = ConfigDict(extra="ignore", strict=True)

    status: Literal["ok", "tool_not_found", "invalid_args", "tool_error", "server_error"]
    text: str | None = None
    error: str | None = None
    state: str | None = None
    done: bool = False
    log: str = ""


class Begun(BaseModel):
    """What beginning came to inside."""

    model_config = ConfigDict(extra="ignore", strict=True)

    state: str | None = None
    error: str | None = None


def document_of(payload: JsonObject) -> PythonDocument:
    """The document of a payload.

    Raises:
        TemplateError: it is none of this kind; says all that is wrong, and where.
    """
    try:
        return PythonDocument.model_validate(payload.get("environment"))
    except ValidationError as error:
        raise TemplateError(
            f"scenario {payload.get('scenario')!r} cannot be played: {summary(misfits(error))}"
        ) from error
