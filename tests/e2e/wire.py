"""A bare WebSocket client that can also say what no decent client would."""

import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

JsonObject = dict[str, Any]


class Wire:
    """One session with a server."""

    def __init__(
        self, url: str, query: str = "", timeout_s: float = 60.0, headers: Mapping[str, str] | None = None
    ) -> None:
        self._timeout_s = timeout_s
        self._connecting = connect(
            url.replace("http", "ws", 1) + "/ws" + query, max_size=2**27, compression=None, proxy=None,
            ping_interval=None, close_timeout=5, additional_headers=headers,
        )  # fmt: skip
        self.socket: ClientConnection

    def __enter__(self) -> Self:
        self.socket = self._connecting.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connecting.__exit__(kind, error, trace)

    def hang_up(self) -> None:
        """Cut the connection without a word."""
        self.socket.socket.close()

    def send(self, message: Any) -> None:
        """Send a message; text and bytes go as they are."""
        self.socket.send(message if isinstance(message, str | bytes) else json.dumps(message))

    def receive(self) -> JsonObject:
        """The next message."""
        answer: JsonObject = json.loads(self.socket.recv(self._timeout_s))
        return answer

    def ask(self, message: Any) -> JsonObject:
        """Send a message and return the whole answer."""
        self.send(message)
        return self.receive()

    def reset(self, scenario: str, task_idx: int | None = None, **more: Any) -> JsonObject:
        """Reset and return the observation; it must not be an error."""
        data = {"scenario": scenario, **({} if task_idx is None else {"task_idx": task_idx}), **more}
        answer = self.ask({"type": "reset", "data": data})
        observation: JsonObject = answer["data"]["observation"]
        assert observation["reward_type"] == "reset_ok", observation
        return observation

    def call(self, tool: str, metadata: JsonObject | None = None, **arguments: Any) -> JsonObject:
        """Call a tool and return {observation, reward, done}."""
        answer = self.ask(step(tool, arguments, metadata))
        assert answer["type"] == "observation", answer
        data: JsonObject = answer["data"]
        return data

    def seen(self, tool: str, metadata: JsonObject | None = None, **arguments: Any) -> JsonObject:
        """The observation of a call."""
        observation: JsonObject = self.call(tool, metadata, **arguments)["observation"]
        return observation

    def value(self, tool: str, **arguments: Any) -> Any:
        """The result of a call that must succeed, parsed."""
        observation = self.seen(tool, **arguments)
        assert observation["reward_type"] == "tool_call_ok", observation
        return json.loads(observation["tool_result"])

    def tools(self) -> list[JsonObject]:
        """The listed tools."""
        found: list[JsonObject] = self.ask({"type": "step", "data": {"type": "list_tools"}})["data"]["observation"][
            "tools"
        ]
        return found


def step(tool: str, arguments: Any, metadata: JsonObject | None = None) -> JsonObject:
    """A step message that calls a tool."""
    action = {"type": "call_tool", "tool_name": tool, "arguments": arguments}
    return {"type": "step", "data": action | ({"metadata": metadata} if metadata is not None else {})}
