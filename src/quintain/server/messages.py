"""OpenEnv's WebSocket messages: reading them, checking them, and the typed errors that answer bad ones."""

import json
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from quintain.contracts.untrusted import MAX_VALUES

JsonObject = dict[str, Any]

_MAX_ECHO = 1024


class ErrorCode(StrEnum):
    """OpenEnv's error codes."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"


class MessageError(Exception):
    """A message that gets an error for an answer; the session goes on."""

    def __init__(self, code: ErrorCode, message: str, **more: Any) -> None:
        super().__init__(message)
        self.answer: JsonObject = error_message(code, message, **more)


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ResetMessage(_Message):
    """Begin an episode."""

    type: Literal["reset"]
    data: JsonObject = Field(default_factory=dict)


class StepMessage(_Message):
    """One action."""

    type: Literal["step"]
    data: JsonObject


class StateMessage(_Message):
    """Ask for the session's state."""

    type: Literal["state"]


class CloseMessage(_Message):
    """End the session."""

    type: Literal["close"]


class McpMessage(_Message):
    """A JSON-RPC request for this session."""

    type: Literal["mcp"]
    data: JsonObject


Message = ResetMessage | StepMessage | StateMessage | CloseMessage | McpMessage

_TYPES: dict[str, type[Message]] = {
    "reset": ResetMessage,
    "step": StepMessage,
    "state": StateMessage,
    "close": CloseMessage,
    "mcp": McpMessage,
}

_MAX_BRACKETS = 4 * MAX_VALUES


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that anyone may have sent.

    Raises:
        ValueError: not JSON, a number of absurd length, or nested or branched beyond what can be read; the message says
            which.
    """
    brackets = text.count("[") + text.count("{") if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    if brackets > _MAX_BRACKETS:  # to make so many objects takes long, and everybody waits
        raise ValueError(f"{brackets} brackets, over {_MAX_BRACKETS}; send less, or one text")
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply to be read; flatten it") from None


def read_message(frame: str | bytes) -> Message:
    """The message in one frame.

    Raises:
        MessageError: with the code that says what is wrong with it.
    """
    if isinstance(frame, bytes):
        raise MessageError(
            ErrorCode.INVALID_JSON, f"a binary frame of {len(frame)} bytes; send each message as JSON in a text frame"
        )
    try:
        document = parse_json(frame)
    except ValueError as error:
        raise MessageError(ErrorCode.INVALID_JSON, f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise MessageError(
            ErrorCode.VALIDATION_ERROR, f"a message is a JSON object with a type, this is {type(document).__name__}"
        )
    kind = document.get("type", "")
    model = _TYPES.get(kind) if isinstance(kind, str) else None
    if model is None:
        raise MessageError(
            ErrorCode.UNKNOWN_TYPE, f"no message type {str(kind)[:80]!r}; send one of {', '.join(_TYPES)}"
        )
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise invalid(error) from None


def invalid(error: ValidationError) -> MessageError:
    """The answer to a message with wrong fields; `errors` lists them."""
    errors = [
        {"type": item["type"], "loc": list(item["loc"]), "msg": item["msg"], "input": _echo(item["input"])}
        for item in error.errors(include_url=False, include_context=False)[:20]
    ]
    return MessageError(ErrorCode.VALIDATION_ERROR, "the message does not have the fields it needs", errors=errors)


def error_message(code: ErrorCode, message: str, **more: Any) -> JsonObject:
    """An error as it travels."""
    return {"type": "error", "data": {"message": message, "code": code.value, **more}}


def encode(message: JsonObject) -> str:
    """JSON in ASCII: every other character is escaped, so no reader trips over U+2028 or half a surrogate pair."""
    try:
        return json.dumps(message, allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(error_message(ErrorCode.EXECUTION_ERROR, "the answer cannot be written as JSON"))


def _echo(value: Any) -> Any:
    """The offending input, when it is small enough to send back."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        return "(not shown: it is not JSON)"
    return value if len(text) <= _MAX_ECHO else f"(not shown: {len(text)} characters)"
