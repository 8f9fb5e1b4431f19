"""What stands in a pack's files, as models: pack.yaml, the common part of environment.yaml, and tasks.yaml."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from quintain.tasks.base import JsonObject, TaskPolicy
from quintain.tasks.packs.documents import Document, PackProblem, Path

API_VERSION: Final = "quintain.dev/v1alpha1"
DEFAULT_EPOCH: Final = "2026-02-10T00:00:00Z"

_RESERVED: Final = frozenset(
    "as break const continue else false for function if import in let loop math namespace null package return true "
    "var void while".split()
)


def _instant(text: str) -> str:
    try:
        datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        raise ValueError("is no instant; write it as 2026-02-10T00:00:00Z") from None
    return text


def _variable(name: str) -> str:
    if name in _RESERVED:
        raise ValueError(f"{name!r} is a word of the expression language; take another name")
    return name


_Line = Annotated[str, StringConstraints(min_length=1, max_length=300, pattern=r"^[^\n]*$")]
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=100)]
_Variable = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=60), AfterValidator(_variable)
]
_Text = Annotated[str, StringConstraints(max_length=20_000)]
_Tag = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=60)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PackFile(_Model):
    """pack.yaml."""

    apiVersion: Literal["quintain.dev/v1alpha1"]  # noqa: N815  # its spelling in the file
    kind: Literal["Pack"]
    name: _Name
    title: _Line
    description: _Text = ""
    licence: _Line = "unknown"
    source: _Line | None = None
    epoch: Annotated[str, AfterValidator(_instant)] = DEFAULT_EPOCH
    environments: list[_Line] | None = Field(default=None, min_length=1, max_length=1000)


class EnvironmentFile(_Model):
    """What every environment.yaml has; the keys beside it are its kind's."""

    kind: _Name
    title: _Line
    description: _Text = ""


class Draw(_Model):
    """How a variable's value is drawn: exactly one of these. Lists and bounds may be expressions over earlier ones."""

    choice: Any = None
    sample: Any = None
    shuffle: Any = None
    integer: Any = None
    number: Any = None
    value: Any = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError(f"is drawn in one way; give exactly one of {', '.join(type(self).model_fields)}")
        return self


class SolutionCall(_Model):
    """One call of a reference solution."""

    tool: _Line
    arguments: JsonObject = Field(default_factory=dict)


class TestsFile(_Model):
    """A workspace's hidden tests; without `files` they are the environment's folder tests/."""

    files: dict[str, str] | None = Field(default=None, min_length=1, max_length=1000)
    command: Annotated[str, StringConstraints(min_length=1, max_length=2000)] = "python -m pytest -q"
    timeout_s: float = Field(default=60.0, gt=0, le=600)
    in_process: bool = False


class TaskTemplate(_Model):
    """One task as tasks.yaml has it, before its variables are drawn."""

    name: _Name
    difficulty: int | None = Field(default=None, ge=1, le=5)
    tags: list[_Tag] = Field(default_factory=list, max_length=30)
    variables: dict[_Variable, Draw] = Field(default_factory=dict, max_length=100)
    text: Annotated[str, StringConstraints(min_length=1, max_length=20_000)]
    start: JsonObject | None = None
    solution: list[SolutionCall] = Field(max_length=1000)
    answer: _Text = ""
    verify: Annotated[str, StringConstraints(pattern=r"^verify_[A-Za-z0-9_]+$", max_length=100)] | None = None
    tests: TestsFile | None = None
    forbidden_tools: list[str] | None = Field(default=None)
    writable_tables: list[str] | None = Field(default=None)

    @model_validator(mode="after")
    def _verified(self) -> Self:
        if self.verify is None and self.tests is None:
            raise ValueError("has nothing that verifies it; name a function as verify, or give a workspace's tests")
        return self

    @property
    def policy(self) -> TaskPolicy | None:
        """The safety bounds it declares; None for none.

        Raises:
            ValidationError: they are over their limits.
        """
        if self.forbidden_tools is None and self.writable_tables is None:
            return None
        tables = self.writable_tables
        return TaskPolicy(
            writable_tables=None if tables is None else tuple(tables), forbidden_tools=tuple(self.forbidden_tools or ())
        )


def problems_of(error: ValidationError, document: Document, at: Path = ()) -> Iterator[PackProblem]:
    """A model's errors as problems of the document that it was read from, or of a place in it."""
    for item in error.errors(include_url=False):
        loc: Path = (*at, *(part for part in item["loc"] if part != "[key]"))
        given = item["input"]
        match item["type"]:
            case "missing":
                detail = "is missing; add it"
            case "extra_forbidden":
                detail = "is no field here; see docs/reference/pack.md for those there are"
            case "value_error":
                detail = str(item["ctx"]["error"])
            case "string_pattern_mismatch":
                detail = f"{str(given)[:80]!r} is not of the form {item['ctx']['pattern']}; write it so"
            case "model_type":
                detail = f"is {str(given)[:80]!r} and no map of fields; correct it"
            case _:
                message = str(item["msg"])
                shown = "" if isinstance(given, dict | list) else f", not {str(given)[:80]!r}"
                detail = f"{message[:1].lower()}{message[1:]}{shown}; correct it"
        yield document.problem(loc, detail)
