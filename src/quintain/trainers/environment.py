"""What a trainer of the environment-factory kind drives: one object, reset for each rollout, whose methods are tools.

TRL reads every public method of the class as a tool, so all but `reset` and the tools themselves is private; it keeps
the objects in a pool, resets them and never closes them. A new class is made for each set of tools.
"""

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final, Protocol

from quintain.agents.base import shown
from quintain.contracts.tools import Tool
from quintain.errors import EpisodeOver, LifecycleError, Owner, QuintainError, UsageError
from quintain.rollout.plan import PlannedTask
from quintain.trainers.background import BackgroundLoop
from quintain.trainers.base import EpisodeSession, JsonObject, Score
from quintain.trainers.signatures import ToolFunction, tool_functions

TAKEN: Final = frozenset({"reset", "get_reward"})
"""Method names that a trainer gives a meaning of its own."""

_LOG = logging.getLogger(__name__)


class _Stage(StrEnum):
    NEW = "new"
    RUNNING = "running"
    OVER = "over"


class EpisodeSource(Protocol):
    """What environments need of the spec that they belong to."""

    @property
    def loop(self) -> BackgroundLoop:
        """Where episodes are played."""
        ...

    @property
    def max_steps(self) -> int:
        """Tool calls of one episode."""
        ...

    @property
    def max_observation_chars(self) -> int:
        """Of one result, as the model is shown it."""
        ...

    def new_session(self) -> EpisodeSession:
        """A session for one environment."""
        ...

    def task_of(self, row: Mapping[str, Any], scenarios: frozenset[str]) -> PlannedTask:
        """The task that a row of the dataset names.

        Raises:
            UsageError: it names none, or one of another scenario than these.
        """
        ...

    async def begin(self, session: EpisodeSession, task: PlannedTask) -> None:
        """Begin an episode; raises as `EpisodeSession.begin`, after what may be tried again was."""
        ...


class EpisodeEnvironment:
    """One rollout's environment. Its subclasses have a method for each tool; make them with `environment_class`."""

    _source: ClassVar[EpisodeSource]
    _scenarios: ClassVar[frozenset[str]]
    _functions: ClassVar[tuple[ToolFunction, ...]]

    def __init__(self) -> None:
        self._session = self._source.new_session()
        self._stage = _Stage.NEW
        self._steps = 0
        self._truncated = False
        self._score: Score | None = None
        loop, session = self._source.loop, self._session
        weakref.finalize(self, lambda: loop.start(session.close()))  # a pool that is dropped leaves nothing running

    def reset(self, **row: Any) -> None:
        """Begin the episode that a row of the dataset names.

        What keeps it from starting by no fault of the agent is logged; then the rollout has no reward.

        Raises:
            UsageError: the row names no task of this environment.
            LifecycleError: the spec was closed.
        """
        task = self._source.task_of(row, self._scenarios)
        self._stage, self._steps, self._truncated, self._score = _Stage.OVER, 0, False, None
        try:
            self._source.loop.run(self._source.begin(self._session, task))
        except (UsageError, LifecycleError):
            raise
        except QuintainError as error:
            _LOG.warning("an episode of %s/%d did not start and is masked: %s", task.scenario, task.task_idx, error)
            self._score = Score(None, "reset_error", error.owner, str(error))
        else:
            self._stage = _Stage.RUNNING

    def _call(self, name: str, arguments: JsonObject) -> str:
        """Call a tool. What goes wrong with it is in the text; only a call that may not be made raises.

        Raises:
            LifecycleError: there is no episode.
            EpisodeOver: it has ended, or has had all its calls.
        """
        if self._stage is _Stage.NEW:
            raise LifecycleError("no episode is running; reset the environment first")
        if self._stage is _Stage.OVER:
            raise EpisodeOver("the episode has ended; no further call is taken")
        if self._steps >= self._source.max_steps:
            self._stage, self._truncated = _Stage.OVER, True
            raise EpisodeOver(f"the episode has had its {self._source.max_steps} calls and has ended")
        self._steps += 1
        observation, lost = self._source.loop.run(self._session.call(name, arguments))
        if lost:
            self._stage = _Stage.OVER
            self._score = Score(None, None, Owner.INFRASTRUCTURE, "the sandbox or the connection to it was lost")
        text = shown(observation, self._source.max_observation_chars)
        return f"error: {text}" if observation.failed else text

    async def _scored(self, final_answer: str | None) -> Score:
        """The episode's score: verified the first time this is asked, and ended with that."""
        if self._score is None:
            if self._stage is _Stage.NEW:
                raise LifecycleError("no episode was played; reset the environment first")
            self._stage = _Stage.OVER
            self._score = Score(None, None, Owner.INFRASTRUCTURE, "the verification was cut off")  # until it is known
            self._score = await self._session.score(final_answer, self._truncated)
        return self._score

    @property
    def _identity(self) -> JsonObject:
        return self._session.identity


def environment_class(
    name: str, tools: Sequence[Tool], source: EpisodeSource, scenarios: frozenset[str]
) -> type[EpisodeEnvironment]:
    """A class with one public, typed and documented method for each tool, and `reset`."""
    functions = tool_functions(tools, TAKEN)
    members: dict[str, Any] = {one.name: _method(one) for one in functions}
    members |= {"_source": source, "_scenarios": scenarios, "_functions": functions, "__doc__": f"Episodes of {name}."}
    return type(name, (EpisodeEnvironment,), members)


def _method(function: ToolFunction) -> Callable[..., str]:
    # it takes whatever it is given: what arguments are right is the application's to say, and an attempt's to bear
    def method(self: EpisodeEnvironment, /, **arguments: Any) -> str:
        return self._call(function.tool.name, function.arguments(arguments))

    method.__name__ = function.name
    method.__qualname__ = f"{EpisodeEnvironment.__name__}.{function.name}"
    method.__doc__ = function.docstring
    method.__annotations__ = function.annotations
    setattr(method, "__signature__", function.signature)  # noqa: B010 - functions have none of their own to assign to
    return method
