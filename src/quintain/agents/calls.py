"""A tool call as a model writes it: a JSON text that may be anything."""

import json
from collections.abc import Sequence
from typing import Any, Final

from quintain.contracts.tools import RESPOND, CallToolAction, Tool, shown_name
from quintain.contracts.untrusted import json_problem

JsonObject = dict[str, Any]

_MAX_TOLD = 200
_MESSAGE: Final = "message"


class MalformedCall(Exception):
    """A call that cannot be read; the text says why, for the model to read."""


def read_arguments(text: str) -> JsonObject:
    """The arguments in a text. An empty one is a call without arguments.

    Raises:
        MalformedCall: it holds no JSON object.
    """
    if not text.strip():
        return {}
    try:
        return checked_arguments(json.loads(text, strict=False))
    except ValueError as error:
        raise MalformedCall(f"the arguments are not JSON ({error}); send one JSON object") from None
    except RecursionError:
        raise MalformedCall("the arguments are nested too deeply; flatten them") from None


def checked_arguments(value: Any) -> JsonObject:
    """Parsed arguments that may travel on.

    Raises:
        MalformedCall: they are no object, or hold what JSON does not have.
    """
    if not isinstance(value, dict):
        raise MalformedCall(f"the arguments are {_kind(value)}; send one JSON object")
    if (problem := json_problem(value)) is not None:
        raise MalformedCall(f"the arguments cannot be sent: {problem[:_MAX_TOLD]}")
    return value


def action(name: str, arguments: JsonObject) -> CallToolAction:
    """A call as an action."""
    return CallToolAction(tool_name=shown_name(name), arguments=arguments)


def speech(tools: Sequence[Tool], text: str) -> CallToolAction | None:
    """The call that says something to whoever the agent works for; None where the environment has nobody who hears."""
    heard = any(tool.name == RESPOND and _MESSAGE in tool.input_schema.get("properties", {}) for tool in tools)
    return action(RESPOND, {_MESSAGE: text}) if heard else None


def said(call: CallToolAction) -> str | None:
    """What a call says to whoever the agent works for; None for any other call."""
    message = call.arguments.get(_MESSAGE) if call.tool_name == RESPOND else None
    return message if isinstance(message, str) else None


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "no object")
