"""Tools and the actions that use them, as they travel over OpenEnv."""

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

MAX_TOOL_NAME: Final = 512
"""Longest name that a tool may have, in characters."""

RESPOND: Final = "respond"
"""The tool, `respond(message)`, by which an agent speaks to whoever it works for, where an environment has one."""


def shown_name(name: str) -> str:
    """A tool's name to answer with and to keep. One that no tool can have is cut, and then it still names none."""
    return name if len(name) <= MAX_TOOL_NAME else f"{name[:MAX_TOOL_NAME]}..."


class Tool(BaseModel):
    """One tool of an environment. `input_schema` is JSON Schema with every `$ref` resolved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str = ""
    input_schema: dict[str, Any] = Field(default_factory=dict)


class ListToolsAction(BaseModel):
    """Ask for the environment's tools (OpenEnv `list_tools`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metadata: dict[str, Any] = Field(default_factory=dict, description="Free-form metadata of the action")
    type: Literal["list_tools"] = Field(default="list_tools", description="Which kind of action this is")


class CallToolAction(BaseModel):
    """Call one tool (OpenEnv `call_tool`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metadata: dict[str, Any] = Field(default_factory=dict, description="Free-form metadata of the action")
    type: Literal["call_tool"] = Field(default="call_tool", description="Which kind of action this is")
    tool_name: str = Field(description="Name of the tool to call")
    arguments: dict[str, Any] = Field(default_factory=dict, description="The tool's arguments")


Action = Annotated[ListToolsAction | CallToolAction, Field(discriminator="type")]
"""What an agent may do: list the tools or call one."""

ACTION: TypeAdapter[ListToolsAction | CallToolAction] = TypeAdapter(Action)
"""Validator and JSON Schema of `Action`."""
