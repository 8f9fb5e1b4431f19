"""Episodes of a trainer on a running server, each session over a WebSocket of its own."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from websockets.exceptions import WebSocketException

from quintain.agents.base import UNANSWERED, Observation
from quintain.clients.wire import WireError, WireSession
from quintain.contracts.tools import Tool
from quintain.contracts.verification import VerifyPolicy
from quintain.errors import CapacityError, Owner, SandboxError, TemplateError, UsageError
from quintain.rollout.plan import PlannedTask
from quintain.trainers.base import EpisodeSession, EpisodeSettings, JsonObject, OpenPlatform, Score

RESERVED: Final = ("verify", "done", "__list_scenarios__")
"""Tools of a server's control plane; a scenario's own of such a name cannot be called over it."""

_SCORES: Final = ("complete", "incomplete")
_GRACE_S: Final = 60.0


class _Lost(Exception):
    """The connection to a server is of no more use."""


@dataclass(frozen=True)
class ServerPlatform:
    """A running server (`quintain serve`)."""

    base_url: str
    token: str | None = field(default=None, repr=False)
    """Bearer token, where the server wants one."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[OpenPlatform]:
        """See `Platform.opened`."""
        opened = _Server(self)
        try:
            await opened.tasks()  # so that a wrong address is told at once
            yield opened
        finally:
            await asyncio.gather(*(session.close() for session in opened.sessions), return_exceptions=True)


class _Server:
    def __init__(self, platform: ServerPlatform) -> None:
        self.sessions = list[_ServerSession]()
        self._platform = platform
        self._tasks: dict[str, dict[int, str]] | None = None

    async def tasks(self) -> Mapping[str, Mapping[int, str]]:
        if self._tasks is None:
            url = self._platform.base_url
            try:
                async with WireSession(url, token=self._platform.token) as wire:
                    told = (await wire.call("__list_scenarios__"))["observation"]
                gaps = told.get("metadata", {}).get("task_indices", {})
                self._tasks = {
                    one["name"]: {
                        index: text
                        for index, text in enumerate(one["tasks"])
                        if text and index in gaps.get(one["name"], (index,))
                    }
                    for one in told["scenarios"]
                }
            except (OSError, WebSocketException, WireError, ValueError, KeyError, AttributeError) as error:
                why = f"{type(error).__name__}: {error}"
                raise UsageError(f"no server could be used at {url} ({why}); start one with quintain serve") from error
        return self._tasks

    async def tools(self, task: PlannedTask) -> Sequence[Tool]:
        session = _ServerSession(self._platform, EpisodeSettings())
        try:
            listed = await session.tools(task)
        finally:
            await session.close()
        return [tool for tool in listed if tool.name not in RESERVED]

    def session(self, settings: EpisodeSettings) -> EpisodeSession:
        session = _ServerSession(self._platform, settings)
        self.sessions.append(session)
        return session


class _ServerSession:
    def __init__(self, platform: ServerPlatform, settings: EpisodeSettings) -> None:
        self.identity: JsonObject = {}
        self._platform = platform
        self._settings = settings
        self._wire: WireSession | None = None
        self._closing = asyncio.Lock()

    async def begin(self, task: PlannedTask, model_digest: str) -> None:
        await self._reset(task, model_digest=model_digest)

    async def tools(self, task: PlannedTask) -> list[Tool]:
        await self._reset(task)
        try:
            listed = (await self._ask({"type": "step", "data": {"type": "list_tools"}}))["observation"]["tools"]
            return [Tool.model_validate(one) for one in listed]
        except (_Lost, KeyError, ValueError) as error:
            raise SandboxError(f"the tools of {task.scenario} could not be listed: {error}") from error

    async def _reset(self, task: PlannedTask, **more: Any) -> None:
        self.identity = {}
        data = task.model_dump() | more | {"verify": VerifyPolicy.FINAL_ONLY.value}
        if self._settings.reward_config is not None:
            data["reward_config"] = dict(self._settings.reward_config)
        try:
            told = (await self._ask({"type": "reset", "data": data}))["observation"]
        except WireError as error:
            kind = CapacityError if error.code == "CAPACITY_REACHED" else SandboxError
            raise kind(f"{task.scenario} could not be reset: {error}") from error
        except (_Lost, KeyError) as error:
            raise SandboxError(f"the server was lost at a reset of {task.scenario}: {error}") from error
        metadata = told.get("metadata", {})
        if told["reward_type"] == "reset_error":
            _raise_reset_error(told, metadata)
        mode = self._settings.verifier
        if mode in ("code", "sql") and not (told.get("has_verifier") or {}).get(mode):
            await self.close()
            raise UsageError(f"task {task.task_idx} of {task.scenario} has no {mode} verifier; leave it out")
        self.identity = {name: metadata.get(name) for name in ("episode_id", "attempt", "model_digest")}

    async def call(self, name: str, arguments: JsonObject) -> tuple[Observation, bool]:
        step = {
            "type": "call_tool", "tool_name": name, "arguments": arguments,
            "metadata": {"timeout_s": self._settings.call_timeout_s},
        }  # fmt: skip
        try:
            told = (await self._ask({"type": "step", "data": step}))["observation"]
        except WireError as error:
            if error.code in ("VALIDATION_ERROR", "INVALID_JSON"):  # of what the agent sent
                return Observation(text=str(error), failed=True), False
            return Observation(text=UNANSWERED, failed=True), True
        except (_Lost, KeyError):
            return Observation(text=UNANSWERED, failed=True), True
        if told.get("metadata", {}).get("failure_owner") == Owner.INFRASTRUCTURE:
            return Observation(text=UNANSWERED, failed=True), True
        failed = told["reward_type"] != "tool_call_ok"
        text = told.get("error" if failed else "tool_result")
        return Observation(text=text if isinstance(text, str) else json.dumps(text), failed=failed), False

    async def score(self, final_answer: str | None, truncated: bool = False) -> Score:
        arguments: JsonObject = {"verifier_mode": self._settings.verifier}
        if final_answer is not None:
            arguments["final_answer"] = final_answer
        try:
            answer = await self._ask(_step("verify", arguments))
            if not answer["done"]:
                await self._ask(_step("done", {}))
            told = answer["observation"]
        except (_Lost, WireError, KeyError) as error:
            await self.close()
            return Score(None, None, Owner.INFRASTRUCTURE, f"the server was lost at the verification: {error}")
        metadata = told.get("metadata", {})
        kind = told.get("reward_type")
        if kind in _SCORES and metadata.get("reward_valid", True):
            return Score(float(answer["reward"]), kind)
        owner = metadata.get("failure_owner")
        reason = told.get("error") or (told.get("verify_result") or {}).get("error_message")
        return Score(None, kind, Owner(owner) if owner else Owner.INFRASTRUCTURE, reason)

    async def close(self) -> None:
        async with self._closing:  # whoever comes second waits for the first
            wire, self._wire = self._wire, None
            if wire is not None:
                await wire.__aexit__(None, None, None)

    async def _ask(self, message: JsonObject) -> JsonObject:
        """One message and its answer. After any failure but an answered error, the next one gets a new connection."""
        try:
            async with asyncio.timeout(self._settings.call_timeout_s + _GRACE_S if message["type"] == "step" else None):
                if self._wire is None:
                    self._wire = await WireSession(self._platform.base_url, token=self._platform.token).__aenter__()
                return await self._wire.ask(message)
        except WireError:
            raise
        except (OSError, WebSocketException, ValueError) as error:  # a TimeoutError is an OSError
            await self.close()
            raise _Lost(f"{type(error).__name__}: {error}") from error
        except BaseException:
            await asyncio.shield(self.close())
            raise


def _step(tool: str, arguments: JsonObject) -> JsonObject:
    return {"type": "step", "data": {"type": "call_tool", "tool_name": tool, "arguments": arguments}}


def _raise_reset_error(told: JsonObject, metadata: JsonObject) -> None:
    owner, why = metadata.get("failure_owner"), str(told.get("error"))
    if owner is None:
        raise UsageError(why)
    raise TemplateError(why) if owner == Owner.ENVIRONMENT else SandboxError(why)
