"""The tools of every workspace."""

from typing import Any, Final

from quintain.contracts.tools import Tool

MAX_COMMAND: Final = 100_000
"""Longest command and longest code, in characters."""

MAX_ARGUMENTS: Final = 4 * 2**20
"""Largest arguments of a call, in characters of JSON."""

MAX_SECONDS: Final = 600
DEFAULT_SECONDS: Final = 60

_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 4096, "description": "Relative to /workspace"}
_SECONDS: Final = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": MAX_SECONDS,
    "description": f"After so many seconds it is stopped; {DEFAULT_SECONDS} unless given",
}
_JOB: Final = {"type": "integer", "minimum": 1, "description": "Its number"}


def _tool(name: str, description: str, required: list[str], **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return Tool(name=name, description=description, input_schema=schema)


TOOLS: Final = (
    _tool(
        "bash",
        "Run a command with bash in /workspace, in a new shell. The result is what it printed, of much the beginning "
        "and the end, and its exit status. What it started is ended with it, unless it is a background job. There is "
        "no network; only /workspace and /tmp can be written, and only /workspace is kept.",
        ["command"],
        command={"type": "string", "minLength": 1, "maxLength": MAX_COMMAND},
        timeout_s=_SECONDS,
        background={"type": "boolean", "description": "Start it as a job, and do not wait for it"},
    ),
    _tool(
        "python",
        "Run Python code in /workspace, in a new interpreter. The result is what it printed and its exit status.",
        ["code"],
        code={"type": "string", "minLength": 1, "maxLength": MAX_COMMAND},
        timeout_s=_SECONDS,
    ),
    _tool(
        "read",
        "Read a text file, or some of its lines.",
        ["path"],
        path=_PATH,
        offset={"type": "integer", "minimum": 1, "description": "First line; 1 is the file's first"},
        limit={"type": "integer", "minimum": 1, "maximum": 100_000, "description": "Most lines; 2000 unless given"},
    ),
    _tool(
        "write",
        "Write a text file, in place of what is there; folders are made as needed.",
        ["path", "content"],
        path=_PATH,
        content={"type": "string", "maxLength": 2**20},
    ),
    _tool(
        "edit",
        "Replace a text in a file. It must stand there exactly so, and once, unless all is true.",
        ["path", "old", "new"],
        path=_PATH,
        old={"type": "string", "minLength": 1, "maxLength": 2**20},
        new={"type": "string", "maxLength": 2**20},
        all={"type": "boolean", "description": "Replace it wherever it stands"},
    ),
    _tool(
        "search",
        "Search files for lines that match a Python regular expression; .git is left out.",
        ["pattern"],
        pattern={"type": "string", "minLength": 1, "maxLength": 10_000},
        path={**_PATH, "description": "File or folder, relative to /workspace; all of it unless given"},
        glob={"type": "string", "minLength": 1, "maxLength": 1000, "description": "Only files so named: *.py"},
    ),
    _tool("jobs", "List the background jobs.", []),
    _tool("output", "What a background job printed so far, and whether it runs.", ["job"], job=_JOB),
    _tool("stop", "Stop a background job, with everything that it started.", ["job"], job=_JOB),
)
