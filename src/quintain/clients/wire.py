"""A plain OpenEnv session over WebSocket: what the demo, the examples' stress test and the benchmarks drive.

It knows the protocol's envelope and nothing of the environment, so it works against any OpenEnv server.
"""

import json
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection, connect

JsonObject = dict[str, Any]


class WireError(Exception):
    """The server answered with an error message; `code` is its OpenEnv error code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class WireSession:
    """One session: `async with WireSession(url) as session: await session.reset(...)`.

    Args:
        base_url: http(s) or ws(s) address of the server, without `/ws`.
        token: bearer token, where the server wants one.
    """

    def __init__(self, base_url: str, *, token: str | None = None, timeout_s: float = 300.0) -> None:
        self._url = websocket_url(base_url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout_s = timeout_s
        self._socket: ClientConnection | None = None

    async def __aenter__(self) -> Self:
        self._socket = await connect(
            self._url,
            additional_headers=self._headers,
            max_size=100 * 2**20,
            compression=None,
            open_timeout=self._timeout_s,
            ping_timeout=self._timeout_s,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def ask(self, message: JsonObject) -> JsonObject:
        """Send one message and return the `data` of its answer.

        Raises:
            WireError: the server answered with an error.
            websockets.ConnectionClosed: the connection is gone.
        """
        assert self._socket is not None, "use it as `async with WireSession(...)`"
        await self._socket.send(json.dumps(message))
        answer = json.loads(await self._socket.recv())
        if answer["type"] == "error":
            raise WireError(answer["data"]["code"], answer["data"]["message"])
        data: JsonObject = answer["data"]
        return data

    async def reset(self, **arguments: Any) -> JsonObject:
        """Begin an episode: {"observation", "reward", "done"}."""
        return await self.ask({"type": "reset", "data": arguments})

    async def list_tools(self) -> list[JsonObject]:
        """The environment's tools."""
        answer = await self.ask({"type": "step", "data": {"type": "list_tools"}})
        tools: list[JsonObject] = answer["observation"]["tools"]
        return tools

    async def call(self, tool_name: str, arguments: JsonObject | None = None) -> JsonObject:
        """Call a tool: {"observation", "reward", "done"}."""
        step = {"type": "call_tool", "tool_name": tool_name, "arguments": arguments or {}}
        return await self.ask({"type": "step", "data": step})

    async def state(self) -> JsonObject:
        """{"episode_id", "step_count"}."""
        return await self.ask({"type": "state"})


def websocket_url(base_url: str) -> str:
    """The `/ws` address of a server given by its base address."""
    parts = urlsplit(base_url.rstrip("/"))
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    return urlunsplit(parts._replace(scheme=scheme, path=parts.path + "/ws"))
