"""An agent's side of the agent plane: lists and calls one episode's tools by MCP over HTTP, and knows nothing else.

The plane answers each POST with one JSON message and keeps no sessions, so a request needs no introduction.
"""

import itertools
import json
from types import TracebackType
from typing import Any, Final, Protocol, Self
from urllib.parse import urlsplit

import httpx

from quintain.agents.base import JsonObject, Observation
from quintain.agents.transport import UnreadableBody, json_headers, plain_client, whole_body
from quintain.contracts.tools import CallToolAction, Tool
from quintain.errors import AgentPlaneError, Delivery, EpisodeOver

MAX_ANSWER_BYTES: Final = 100 * 2**20
"""Largest answer that is read."""


EPISODE_DONE: Final = "quintain.dev/episode-done"
TOOLS_CHANGED: Final = "quintain.dev/tools-changed"
"""Keys of a result's `_meta`, as `server/agent_mcp.py` has them."""


class Acting(Protocol):
    """What can play over the plane: any agent."""

    async def act(self, tools: Any, last: Any) -> CallToolAction | None:
        """The next call, or None at the end."""
        ...


class AgentPlaneTools:
    """The tools of one episode: `async with AgentPlaneTools(url) as tools`.

    Args:
        url: of the episode's agent plane, with its token; no message tells it.
        timeout_s: for one request, to its last byte.
    """

    def __init__(self, url: str, *, timeout_s: float = 300.0) -> None:
        self._url = url
        self._host = urlsplit(url).netloc
        self._timeout_s = timeout_s
        self._numbers = itertools.count(1)
        self._client = plain_client()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.aclose()

    async def listed(self) -> tuple[Tool, ...]:
        """The tools.

        Raises:
            AgentPlaneError: there is no list, mostly because the episode has ended.
        """
        found = (await self._asked("tools/list", {})).get("tools")
        try:
            return tuple(
                Tool(name=one["name"], description=one.get("description") or "", input_schema=one["inputSchema"])
                for one in found or ()
            )
        except (TypeError, KeyError, ValueError):
            raise AgentPlaneError(f"the agent plane at {self._host} lists what are no tools") from None

    async def call(self, action: CallToolAction) -> Observation:
        """Make a call. It is not safe to repeat unless the error's `delivery` is not_sent.

        Raises:
            AgentPlaneError: it got no answer.
        """
        result = await self._asked("tools/call", {"name": action.tool_name, "arguments": action.arguments})
        content = result.get("content")
        texts = [one.get("text") for one in content if isinstance(one, dict)] if isinstance(content, list) else []
        meta = result.get("_meta")
        told = meta if isinstance(meta, dict) else {}
        return Observation(
            text="".join(text for text in texts if isinstance(text, str)),
            failed=bool(result.get("isError")),
            done=told.get(EPISODE_DONE) is True,
            tools_changed=told.get(TOOLS_CHANGED) is True,
        )

    async def play(self, agent: Acting) -> int:
        """Let an agent act until it makes no further call, or the environment ends the episode; how many it made."""
        tools, last, steps = await self.listed(), None, 0
        while (action := await agent.act(tools, last)) is not None:
            last = await self.call(action)
            steps += 1
            if last.done:
                if hasattr(agent, "environment_ended"):
                    agent.environment_ended(last)
                break
            if last.tools_changed:
                tools = await self.listed()
        return steps

    async def _asked(self, method: str, params: JsonObject) -> JsonObject:
        request = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        sent = Delivery.NOT_SENT

        async def watch(event: str, _: Any) -> None:
            nonlocal sent
            if event.endswith(".send_request_headers.started"):
                sent = Delivery.POSSIBLY_DELIVERED

        problem = ""
        try:
            async with self._client.stream(
                "POST",
                self._url,
                content=json.dumps(request).encode("ascii"),
                headers=json_headers(None, "application/json, text/event-stream"),
                timeout=self._timeout_s,
                extensions={"trace": watch},
            ) as response:
                data = await whole_body(response, MAX_ANSWER_BYTES)
        except (httpx.HTTPError, UnreadableBody) as error:
            # the library's words may hold the address, and with it the token
            problem = type(error).__name__
        if problem:
            raise AgentPlaneError(f"the agent plane at {self._host} gave no answer: {problem}", delivery=sent)
        return self._result(response.status_code, data)

    def _result(self, status: int, data: bytes) -> JsonObject:
        if status == 404:
            # a call that was under way when the episode ended is answered so too
            why = f"the agent plane at {self._host} is closed: the episode has ended"
            raise EpisodeOver(why, delivery=Delivery.POSSIBLY_DELIVERED)
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("result"), dict):
            error = answer.get("error") if isinstance(answer, dict) else None
            told = str(error.get("message"))[:300] if isinstance(error, dict) else "no answer of MCP"
            raise AgentPlaneError(f"the agent plane at {self._host} answered {status}: {told}")
        result: JsonObject = answer["result"]
        return result
