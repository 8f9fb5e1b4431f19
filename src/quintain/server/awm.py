"""Agent World Model's environment over one session: resets and steps in, observations out.

Field for field as the public server answers, with these differences: errors are told apart by cause, a failed
verify is incomplete, a second verify in a mode returns the first verdict, and what Quintain adds is in `metadata`.
The names `verify`, `done` and `__list_scenarios__` are reserved here: a scenario's own tool of such a name
cannot be called over the control plane, and the reset's `warning` says so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from quintain.contracts.observation import AwmListToolsObservation, AwmObservation, State
from quintain.contracts.reward import AWM, awm_contract
from quintain.contracts.terminal import CUT_OFF, TerminalReason
from quintain.contracts.tools import CallToolAction, ListToolsAction, Tool, shown_name
from quintain.contracts.untrusted import whole_text
from quintain.contracts.verification import VerifyPolicy
from quintain.environments.base import Hibernation, ToolOutcome, ToolStatus
from quintain.episodes import Episode, EpisodeRequest, Rooms
from quintain.errors import CapacityError, LifecycleError, Owner, QuintainError, UsageError
from quintain.server.agent_tokens import AgentDoor
from quintain.server.recording import Recording
from quintain.server.resets import ResetParameters, read_reset
from quintain.server.verification import Ended, Verification, end, shown, verified, with_ending
from quintain.tasks import Scenario
from quintain.tasks.pooled import PooledSource
from quintain.verifiers import JudgeSettings

JsonObject = dict[str, Any]
Answer = AwmObservation | AwmListToolsObservation

RESERVED: Final = ("verify", "done", "__list_scenarios__")
MAX_CALL_TIMEOUT_S: Final = 600.0

_NO_EPISODE: Final = "no episode is running in this session; reset it first"
_ENDED: Final = "this episode has ended; reset to begin another"
_LOG = logging.getLogger(__name__)


class AwmSession:
    """The episodes of one session, one after another. Its methods are called one at a time."""

    def __init__(
        self,
        rooms: Rooms,
        *,
        call_timeout_s: float,
        keep_dir: Path,
        max_call_timeout_s: float = MAX_CALL_TIMEOUT_S,
        verify: VerifyPolicy = VerifyPolicy.CONTROL_ONLY,
        judge: JudgeSettings | None = None,
        recording: Recording | None = None,
    ) -> None:
        """`verify` holds where a reset does not say; `judge` is the rooms' own, over which a reset may name another.

        `recording` makes the episodes and sees each to its record; None: only counted, and by nobody else.
        """
        self.door: AgentDoor[Any] | None = None
        """Where agents come in; None where there is no agent plane."""
        self._rooms = rooms
        self._recording = recording or Recording()
        self._verify_policy = verify
        self._judge = judge or JudgeSettings()
        self._anonymous = f"unknown:{uuid4()}"
        self._call_timeout_s = call_timeout_s
        self._max_call_timeout_s = max(max_call_timeout_s, call_timeout_s)
        self._keep_dir = keep_dir
        self._episode: Episode | None = None
        self._label: str | None = None
        self._steps = 0
        self._done = False
        self._contract = AWM
        self._gone = _NO_EPISODE

    @property
    def scenario(self) -> str | None:
        """The scenario of the running episode, None while there is none."""
        return self._episode.task.scenario if self._episode is not None else None

    @property
    def live(self) -> bool:
        """Whether an episode is running that has a process."""
        return self._episode is not None and not self._episode.hibernated

    @property
    def hibernated(self) -> bool:
        """Whether an episode is running that has none."""
        return self._episode is not None and self._episode.hibernated

    async def hibernate(self, unwanted: Callable[[], bool]) -> Hibernation:
        """Let the running episode give its process back; see `Episode.hibernate`."""
        if self._episode is None:
            return Hibernation(done=False, why="no episode is running")
        return await self._episode.hibernate(unwanted)

    @property
    def state(self) -> State:
        """The client's label of the episode and the steps since the reset."""
        return State(episode_id=self._label, step_count=self._steps)

    async def end(self, reason: TerminalReason, detail: str = "") -> None:
        """End the running episode, if there is one; later steps are told why, in `detail`'s words if it has any."""
        episode = self._let_go()
        told = f"the episode was ended ({detail or reason}); reset to begin another"
        self._gone = _NO_EPISODE if reason is TerminalReason.RESET else told
        if episode is not None:
            await episode.abort(reason, Owner.INFRASTRUCTURE if reason in CUT_OFF else None)

    async def reset(self, data: JsonObject) -> Answer:
        """End what runs and begin an episode. A request that cannot be met is an observation, not an exception.

        Raises:
            CapacityError: there is no room for it now.
        """
        await self.end(TerminalReason.RESET)
        self._done, self._label, self._steps = False, None, 0
        try:
            parameters = read_reset(data)
            self._contract = awm_contract(parameters.reward_config)
            episode = self._new_episode(parameters)
            await episode.start()
        except CapacityError:
            raise
        except QuintainError as error:
            metadata = {} if isinstance(error, UsageError) else {"failure_owner": error.owner.value}
            return AwmObservation(reward_type="reset_error", error=str(error), metadata=metadata)
        self._episode = episode
        self._label = parameters.episode_id if parameters.episode_id is not None else str(uuid4())
        return self._started(episode, parameters)

    async def step(self, action: ListToolsAction | CallToolAction) -> Answer:
        """One action of the agent, or one of the reserved tools."""
        if self._done:
            return AwmObservation(done=True, reward_type="episode_already_done", error=_ENDED)
        self._steps += 1
        if isinstance(action, ListToolsAction):
            if self._episode is None:
                return AwmListToolsObservation(tools=(), error=self._gone)
            return AwmListToolsObservation(tools=tuple(self._episode.list_tools()))
        reserved: dict[str, Callable[[JsonObject], Awaitable[Answer]]] = dict(
            zip(RESERVED, (self._verify, self._finish, self._list_scenarios), strict=True)
        )
        action = action.model_copy(update={"tool_name": whole_text(shown_name(action.tool_name))})
        if action.tool_name in reserved:
            return await reserved[action.tool_name](action.arguments)
        return await self._call(action)

    def agent_tools(self) -> Sequence[Tool]:
        """The tools of the running episode, listed by its agent: a step like any other.

        Raises:
            LifecycleError: no episode is running.
        """
        episode = self._running()
        self._steps += 1
        return episode.list_tools()

    async def agent_call(self, name: str, arguments: JsonObject) -> ToolOutcome:
        """A call by the episode's agent: a step like any other, but only the environment's tools are there.

        Raises:
            LifecycleError: no episode is running.
        """
        episode = self._running()
        self._steps += 1
        return await episode.call(whole_text(shown_name(name)), arguments, self._call_timeout_s)

    @property
    def environment_done(self) -> bool:
        """Whether the running episode's environment has ended it: it takes no further call, but `verify` and `done`."""
        return self._episode is not None and self._episode.done

    @property
    def tools(self) -> Sequence[Tool]:
        """The tools that the running episode has now; none without one."""
        return () if self._episode is None else self._episode.tools

    def _running(self) -> Episode:
        if self._episode is None:
            raise LifecycleError(self._gone)
        return self._episode

    def _let_go(self) -> Episode | None:
        """The running episode, which from now on nobody can step; whoever asked for it ends it."""
        if self.door is not None:
            self.door.shut()
        episode, self._episode = self._episode, None
        return episode

    def _agent_plane(self) -> JsonObject:
        return {"agent_plane": {"path": f"/agent/{self.door.open()}/mcp"}} if self.door is not None else {}

    def _new_episode(self, parameters: ResetParameters) -> Episode:
        named = (parameters.llm_base_url, parameters.llm_api_key, parameters.llm_model)
        request = EpisodeRequest(
            scenario=parameters.scenario,
            task_idx=parameters.task_idx,
            task=parameters.task,
            seed=parameters.seed or 0,
            client_episode_id=parameters.episode_id,
            model_digest=parameters.model_digest or self._anonymous,
            attempt=parameters.attempt,
            contract=self._contract,
            verify=parameters.verify or self._verify_policy,
            judge=self._judge.over(*named) if any(named) else None,
        )
        return self._recording.episode(self._rooms, request)

    def _started(self, episode: Episode, parameters: ResetParameters) -> AwmObservation:
        task = episode.task
        warnings = list(parameters.warnings)
        names = {tool.name for tool in episode.tools}
        if not names:
            warnings.append(f"scenario {task.scenario} offers no tools")
        if shadowed := sorted(names.intersection(RESERVED)):
            warnings.append(f"tools {', '.join(shadowed)} of this scenario cannot be called: the names are reserved")
        modes = {mode: mode in task.verifiers for mode in ("sql", "code")}
        return AwmObservation(
            reward_type="reset_ok" if names else "reset_warning",
            scenario=task.scenario,
            task=task.task,
            task_idx=task.task_idx,
            has_verifier=modes if any(modes.values()) else None,
            num_tools=len(names),
            warning="; ".join(warnings) or None,
            metadata={**episode.identity, **self._agent_plane()},
        )

    async def _call(self, action: CallToolAction) -> AwmObservation:
        if self._episode is None:
            return AwmObservation(
                reward=self._contract.rewards.value("server_error"),
                reward_type="server_error",
                tool_name=action.tool_name,
                error=self._gone,
            )
        timeout_s, warning = self._timeout(action.metadata)
        before = list(self.tools)
        outcome = await self._episode.call(action.tool_name, action.arguments, timeout_s)
        told = self._called(action.tool_name, outcome, warning)
        if list(self.tools) == before:
            return told
        return told.model_copy(update={"metadata": {**told.metadata, "tools_changed": True}})

    def _called(self, name: str, outcome: ToolOutcome, warning: str | None) -> AwmObservation:
        reward_type = "tool_call_ok" if outcome.status is ToolStatus.OK else outcome.status.value
        metadata: JsonObject = {}
        if outcome.owner is not None and outcome.owner is not Owner.AGENT:
            metadata["failure_owner"] = outcome.owner.value
        if outcome.owner is Owner.INFRASTRUCTURE:
            metadata["reward_valid"] = False
        return AwmObservation(
            reward=self._contract.rewards.value(reward_type),
            reward_type=reward_type,
            tool_name=name,
            tool_result=outcome.text,
            error=outcome.error,
            done=self.environment_done,
            warning="; ".join(text for text in (warning, outcome.warning) if text) or None,
            metadata=metadata,
        )

    def _timeout(self, metadata: JsonObject) -> tuple[float, str | None]:
        asked = metadata.get("timeout_s")
        if asked is None:
            return self._call_timeout_s, None
        most = self._max_call_timeout_s
        if not isinstance(asked, int | float) or isinstance(asked, bool) or not asked > 0:
            return self._call_timeout_s, (
                f"timeout_s {str(asked)[:40]!r} was ignored: give seconds over 0 and up to {most:g}"
            )
        if asked <= most:
            return float(asked), None
        return most, f"timeout_s was cut to {most:g} s, the most that a call may take (QUINTAIN_MAX_CALL_TIMEOUT)"

    async def _verify(self, arguments: JsonObject) -> AwmObservation:
        episode = self._episode
        if episode is None:
            return self._refused("server_error", f"nothing to verify: {self._gone}")
        if episode.task.task_idx is None or episode.request.task is not None:
            return self._refused("no_verifier", "nothing to verify: the episode was reset without one of its tasks")
        try:
            asked = Verification.read(arguments)
        except UsageError as error:
            return self._refused("invalid_args", str(error))
        if not episode.verifiable(asked.mode):
            return self._refused("no_verifier", f"this task has no {asked.mode} verifier", **shown(episode))
        scored = await episode.verify(asked.mode, asked.final_answer)
        self._recording.metrics.verified(asked.mode, scored)
        told = verified(episode, asked, scored, self._steps)
        if episode.request.verify is not VerifyPolicy.FINAL_ONLY or not scored.counts:
            return told
        return with_ending(told, await self._ended(arguments))

    def _refused(self, reward_type: str, error: str, **fields: Any) -> AwmObservation:
        reward = self._contract.rewards.value(reward_type)
        return AwmObservation(reward=reward, reward_type=reward_type, error=error, **fields)

    async def _finish(self, arguments: JsonObject) -> AwmObservation:
        episode = self._episode
        if episode is None:
            self._done = True
            reward = self._contract.rewards.value("server_error")
            error = f"nothing to end: {self._gone}"
            return AwmObservation(done=True, reward=reward, reward_type="server_error", error=error)
        ended = await self._ended(arguments)
        told = AwmObservation(
            reward=0.0,
            reward_type="episode_done",
            steps_taken=self._steps,
            metadata={"reward_valid": False, "failure_owner": ended.owner.value} if ended.owner is not None else {},
            **shown(episode),
        )
        return with_ending(told, ended)

    async def _ended(self, arguments: JsonObject) -> Ended:
        episode = self._let_go()
        assert episode is not None  # both that come here hold it
        self._done = True
        keep = arguments.get("keep_session", False)
        return await end(episode, keep, self._keep_dir, self._rooms.scratch, self._steps)

    async def _list_scenarios(self, arguments: JsonObject) -> AwmObservation:
        source = self._rooms.source
        found = await asyncio.to_thread(source.scenarios)  # opening the blind pool writes to disk
        scenarios = [
            {
                "name": scenario.name,
                "description": scenario.description,
                "num_tasks": len(scenario.tasks),
                "tasks": list(scenario.tasks),
            }
            for scenario in found
        ]
        warning = "__list_scenarios__ takes no arguments; they were ignored" if arguments else None
        gaps = task_indices(source, found) if isinstance(source, PooledSource) else {}
        return AwmObservation(
            reward_type="tool_call_ok",
            scenarios=scenarios,
            total=len(scenarios),
            warning=warning,
            metadata={"task_indices": gaps} if gaps else {},
        )


def task_indices(source: PooledSource, scenarios: Sequence[Scenario]) -> dict[str, list[int]]:
    """The indices that may be reset, of scenarios in whose lists are tasks that may not."""
    seen = {one.name: [index for index in source.indices(one.name) if index < len(one.tasks)] for one in scenarios}
    return {one.name: seen[one.name] for one in scenarios if len(seen[one.name]) < len(one.tasks)}
