"""What environment.yaml of an MCP server holds, what a task's start holds, and what the sandbox answers."""

import json
from pathlib import PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from quintain.contracts.tools import Tool
from quintain.contracts.untrusted import json_problem
from quintain.environments.inprocess.findings import Strict, misfits, summary
from quintain.environments.inprocess.schemas import MAX_TOOLS, ToolModel, tool_findings
from quintain.environments.mcp.schemas import plain_schema
from quintain.errors import TemplateError

JsonObject = dict[str, Any]

MAX_STATE_BYTES: Final = 16 * 2**20
"""Largest state file, in characters of JSON: 2 MiB of files, escaped."""

_MAX_LISTED_BYTES: Final = 8 * 2**20


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise ValueError(f"{path[:100]!r} does not lie in the working directory; name it from there, without ..")
    return path


_Inside = Annotated[str, StringConstraints(min_length=1, max_length=500), AfterValidator(_inside)]
_Word = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]


class McpDocument(Strict):
    """environment.yaml, without what every kind's has."""

    kind: Literal["mcp"]
    command: list[_Word] = Field(min_length=1, max_length=100)
    env: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=200)], _Word] = Field(
        default_factory=dict, max_length=100
    )
    timeout: float | None = Field(default=None, gt=0, le=600)
    start_timeout: float = Field(default=60.0, gt=0, le=600)
    state_files: list[_Inside] = Field(default_factory=list, max_length=50)
    exclude: list[str] = Field(default_factory=list, max_length=MAX_TOOLS)


class StartModel(Strict):
    """How a task varies the working directory: paths removed, then files written."""

    files: dict[_Inside, str] = Field(default_factory=dict, max_length=1000)
    remove: list[_Inside] = Field(default_factory=list, max_length=1000)


class Begun(BaseModel):
    """What beginning came to inside."""

    model_config = ConfigDict(extra="ignore", strict=True)

    tools: list[JsonObject] | None = Field(default=None, max_length=MAX_TOOLS)
    state: str | None = Field(default=None, max_length=MAX_STATE_BYTES)
    error: str | None = None


class Answer(BaseModel):
    """What a call came to inside."""

    model_config = ConfigDict(extra="ignore", strict=True)

    status: Literal["ok", "tool_error", "server_error", "timeout"]
    text: str | None = None
    error: str | None = None
    state: str | None = Field(default=None, max_length=MAX_STATE_BYTES)
    tools: list[JsonObject] | None = Field(default=None, max_length=MAX_TOOLS)
    ended: bool = False
    log: str = ""


class _Listed(BaseModel):
    """A tool as the protocol lists it."""

    model_config = ConfigDict(extra="ignore")

    name: str
    description: str | None = None
    inputSchema: JsonObject  # noqa: N815  # its spelling in the protocol


def document_of(payload: JsonObject) -> McpDocument:
    """The document of a payload.

    Raises:
        TemplateError: it is none of this kind; says all that is wrong, and where.
    """
    try:
        return McpDocument.model_validate(payload.get("environment"))
    except ValidationError as error:
        raise TemplateError(
            f"scenario {payload.get('scenario')!r} cannot be played: {summary(misfits(error))}"
        ) from error


def start_of(scenario: Any, start: JsonObject | None) -> JsonObject:
    """How a task varies the working directory.

    Raises:
        TemplateError: `start` has another form.
    """
    try:
        return StartModel.model_validate(start or {}).model_dump()
    except ValidationError as error:
        raise TemplateError(f"start of a task of {scenario!r}: {summary(misfits(error))}") from error


def tools_of(scenario: Any, listed: list[JsonObject], exclude: list[str]) -> list[Tool]:
    """The tools that a server lists, without those that are excluded.

    Raises:
        TemplateError: one of them cannot be offered.
    """
    try:
        problem = json_problem(listed)
        if problem is None and len(json.dumps(listed)) > _MAX_LISTED_BYTES:
            problem = f"over {_MAX_LISTED_BYTES} bytes"
        if problem:
            raise ValueError(problem)
        found = [_Listed.model_validate(one) for one in listed]
        models = [
            ToolModel(
                name=one.name, description=(one.description or "")[:10_000], input_schema=plain_schema(one.inputSchema)
            )
            for one in found
            if one.name not in exclude
        ]
    except (ValidationError, ValueError, RecursionError) as error:
        words = " ".join(str(error).split())[:500]
        raise TemplateError(f"the server of scenario {scenario!r} lists its tools wrongly: {words}") from error
    if wrong := summary(list(tool_findings(models))):
        raise TemplateError(f"the server of scenario {scenario!r} cannot be played: {wrong}")
    return [model.tool for model in models]
