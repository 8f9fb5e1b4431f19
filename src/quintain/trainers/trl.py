"""Agent World Model episodes for TRL's `GRPOTrainer`; needs the extra `[trl]` (TRL 1.16).

    with AwmGrpo("http://127.0.0.1:8899", ["outdoor_marketplace_1"], model_digest="my-model") as spec:
        trainer = GRPOTrainer(
            model, reward_funcs=spec.reward_funcs, train_dataset=spec.train_dataset,
            environment_factory=spec.environment_factory, args=...,
        )
        trainer.train()

Only `train_dataset` needs the extra; all else works without it.
"""

import asyncio
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from quintain.contracts.identity import digest_of
from quintain.contracts.reward import awm_contract
from quintain.contracts.tools import Tool
from quintain.errors import Owner, QuintainError, SandboxError, UsageError
from quintain.rollout.plan import PlannedTask
from quintain.tasks.base import normalised
from quintain.trainers.background import BackgroundLoop
from quintain.trainers.base import EpisodeSession, EpisodeSettings, JsonObject, OpenPlatform, Platform, Score, planned
from quintain.trainers.environment import EpisodeEnvironment, environment_class
from quintain.trainers.remote import ServerPlatform
from quintain.verifiers.base import VERDICT_MODES

COLUMNS: Final = ("scenario", "task_idx", "seed")
"""What says in a row of the dataset which episode is wanted; all members of a group have the row's."""

_START_WAIT_S: Final = 0.5


class AwmGrpo:
    """What GRPO needs of a set of tasks: a dataset, environments and a reward function.

    Each rollout is an attempt of its own, numbered by the ledger, and is verified once, when its reward is asked for.
    Close it when training is done (`with`, or `close`); it is closed at the end of the process, at the latest.
    """

    def __init__(
        self,
        platform: Platform | str,
        tasks: Iterable[PlannedTask | str],
        *,
        model_digest: str | Callable[[], str],
        system_prompt: str | None = None,
        max_steps: int = 30,
        max_observation_chars: int = 32_768,
        settings: EpisodeSettings | None = None,
        starts: int = 3,
        max_masked_batches: int = 3,
    ) -> None:
        """Open the platform and look at the tasks' tools.

        Args:
            platform: where episodes are played, or a server's address.
            tasks: `SCENARIO`, `SCENARIO/TASK`, or a `PlannedTask`, which has a seed; each is a row of the dataset.
            model_digest: who tries, in scores and records; a function is asked at each reset.
            system_prompt: precedes each task.
            max_steps: tool calls of one episode; the next one ends it.
            max_observation_chars: of one result, as the model is shown it.
            settings: verifier mode, rewards, and how long one call may take.
            starts: how often an episode that the platform fails to start is begun.
            max_masked_batches: after so many batches in a row without one reward, training is stopped.

        Raises:
            UsageError: a task, an address or a value that cannot be used.
            QuintainError: a scenario does not start.
        """
        self.settings = settings or EpisodeSettings()
        self.max_steps = _at_least("max_steps", max_steps, 1)
        self.max_observation_chars = _at_least("max_observation_chars", max_observation_chars, 64)
        self._starts = _at_least("starts", starts, 1)
        self._max_masked = _at_least("max_masked_batches", max_masked_batches, 1)
        self._masked = 0
        self._model_digest = model_digest
        self._system_prompt = system_prompt
        self._checked()
        self.loop = BackgroundLoop("quintain-trl")
        self._closing = weakref.finalize(self, self.loop.close)
        try:
            where = ServerPlatform(platform) if isinstance(platform, str) else platform
            self._platform: OpenPlatform = self.loop.hold(where.opened())
            self._texts = self.loop.run(self._platform.tasks())
            self.tasks = _distinct([task for asked in _several(tasks) for task in planned(self._texts, asked)])
            self._classes = self._made(self._listed())
        except BaseException:
            self.close()
            raise

    def _checked(self) -> None:
        if self.settings.verifier not in VERDICT_MODES:
            raise UsageError(f"verifier is {self.settings.verifier!r}; give {', '.join(VERDICT_MODES)}")
        if not self.settings.call_timeout_s > 0:
            raise UsageError(f"call_timeout_s is {self.settings.call_timeout_s}; give seconds over 0")
        awm_contract(self.settings.reward_config)
        if not callable(self._model_digest):
            _named(self._model_digest)

    def _listed(self) -> dict[str, Sequence[Tool]]:
        """The tools of each scenario that has a task here."""
        firsts = {task.scenario: task for task in reversed(self.tasks.values())}
        found = {scenario: self.loop.run(self._platform.tools(task)) for scenario, task in firsts.items()}
        if bare := sorted(scenario for scenario, tools in found.items() if not tools):
            raise UsageError(f"scenario {bare[0]} offers no tools that could be called; leave it out")
        return found

    def _made(self, listed: Mapping[str, Sequence[Tool]]) -> dict[str, type[EpisodeEnvironment]]:
        """A class for each set of tools, by the name of the first scenario that has it."""
        sets: dict[str, list[str]] = {}
        for task in self.tasks.values():
            digest = digest_of({"tools": [tool.model_dump(mode="json") for tool in listed[task.scenario]]})
            same = sets.setdefault(digest, [])
            if task.scenario not in same:
                same.append(task.scenario)
        return {
            same[0]: environment_class(_class_name(same[0]), listed[same[0]], self, frozenset(same))
            for same in sets.values()
        }

    @property
    def environment_factory(self) -> type[EpisodeEnvironment] | dict[str, type[EpisodeEnvironment]]:
        """What makes environments: a class, or one for each set of tools by the row's column `environment`."""
        if len(self._classes) == 1:
            return next(iter(self._classes.values()))
        return dict(self._classes)

    @property
    def rows(self) -> list[JsonObject]:
        """The rows of the dataset."""
        names = {scenario: name for name, one in self._classes.items() for scenario in one._scenarios}
        system = [] if self._system_prompt is None else [{"role": "system", "content": self._system_prompt}]
        found = []
        for task in self.tasks.values():
            said = {"role": "user", "content": self._texts[task.scenario][task.task_idx]}
            row: JsonObject = {"prompt": [*system, said], **task.model_dump()}
            found.append(row if len(self._classes) == 1 else row | {"environment": names[task.scenario]})
        return found

    @property
    def train_dataset(self) -> Any:
        """A `datasets.Dataset` with the columns prompt, scenario, task_idx and seed; environment, where tools differ.

        Raises:
            UsageError: the extra is not installed.
        """
        try:
            from datasets import Dataset  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise UsageError("a dataset needs the extra trl: pip install 'quintain[trl]'") from error
        return Dataset.from_list(self.rows)

    @property
    def reward_funcs(self) -> list[Callable[..., list[float | None]]]:
        """The reward function: each rollout's score, or None where the platform or the verifier failed."""

        def awm_reward(
            prompts: Sequence[Any],
            completions: Sequence[Any],
            environments: Sequence[Any] | None = None,
            log_metric: Callable[[str, float], None] | None = None,
            log_extra: Callable[[str, list[Any]], None] | None = None,
            **columns: Any,
        ) -> list[float | None]:
            scores = self._scores(completions, environments)
            own = [one for one in scores if one is not None]
            if log_metric is not None:
                log_metric("episodes/masked", float(sum(one.reward is None for one in own)))
                log_metric("episodes/complete", float(sum(_complete(one) for one in own)))
            if log_extra is not None:
                log_extra("reward_type", ["" if one is None else one.reward_type or "" for one in scores])
            return [None if one is None else one.reward for one in scores]

        return [awm_reward]

    def _scores(self, completions: Sequence[Any], environments: Sequence[Any] | None) -> list[Score | None]:
        """The score of each environment of this spec; None for those that are another's."""
        if environments is None:
            raise UsageError("the reward is an environment's; give the trainer this spec's environment_factory")
        own = [isinstance(one, EpisodeEnvironment) and one._source is self for one in environments]
        scores = self.loop.run(self._verified(completions, environments, own))
        found = [one for one in scores if one is not None]
        if any(one.reward is not None for one in found) or not found:
            self._masked = 0
            return scores
        self._masked += 1
        if self._masked >= self._max_masked:
            why = next((one.reason for one in found if one.reason), "no reason was given")
            raise SandboxError(f"{self._masked} batches in a row had no reward that could be used, at last: {why}")
        return scores

    async def _verified(
        self, completions: Sequence[Any], environments: Sequence[Any], own: Sequence[bool]
    ) -> list[Score | None]:
        async def one(completion: Any, environment: Any, mine: bool) -> Score | None:
            return await environment._scored(final_answer(completion)) if mine else None

        return list(await asyncio.gather(*map(one, completions, environments, own)))

    def new_session(self) -> EpisodeSession:
        """A session for one environment."""
        return self._platform.session(self.settings)

    def task_of(self, row: Mapping[str, Any], scenarios: frozenset[str]) -> PlannedTask:
        """The task that a row of the dataset names.

        Raises:
            UsageError: it names none of this spec's, or one of another scenario than these.
        """
        if missing := [name for name in COLUMNS if row.get(name) is None]:
            raise UsageError(
                f"a row has no {', '.join(missing)}; train on the spec's own train_dataset, and keep its columns, "
                "so that all members of a group play the same episode"
            )
        scenario, task_idx, seed = (row[name] for name in COLUMNS)
        found = self.tasks.get((scenario, task_idx, seed))
        if found is None:
            raise UsageError(f"the row names {scenario}/{task_idx} with seed {seed}, which is not of this spec")
        if scenario not in scenarios:
            raise UsageError(f"{scenario} has other tools than this environment; keep the dataset's column environment")
        return found

    async def begin(self, session: EpisodeSession, task: PlannedTask) -> None:
        """Begin an episode as a new attempt; again, where the platform failed: nothing was done that could count."""
        model = self._model_digest if isinstance(self._model_digest, str) else _named(self._model_digest())
        for number in range(1, self._starts + 1):
            try:
                await session.begin(task, model)
                return
            except UsageError:
                raise
            except QuintainError as error:
                if number == self._starts or error.owner is not Owner.INFRASTRUCTURE:
                    raise
            await asyncio.sleep(_START_WAIT_S * number)

    def close(self) -> None:
        """End all episodes and let the platform go. Idempotent."""
        self._closing()

    def __enter__(self) -> "AwmGrpo":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def final_answer(completion: Any) -> str | None:
    """What a completion says at its end: its last message, if that is the model's and calls no tool."""
    if isinstance(completion, str):
        return completion
    last = completion[-1] if completion else None
    if not isinstance(last, Mapping) or last.get("role") != "assistant" or last.get("tool_calls"):
        return None
    content = last.get("content")
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) and content else None


def _complete(score: Score) -> bool:
    return score.reward is not None and score.reward_type == "complete"


def _several(tasks: Iterable[PlannedTask | str]) -> list[PlannedTask | str]:
    """A list of tasks.

    Raises:
        UsageError: there is none.
    """
    asked: list[PlannedTask | str] = [tasks] if isinstance(tasks, str) else list(tasks)
    if not asked:
        raise UsageError("there are no tasks; name a scenario")
    return asked


def _distinct(tasks: Iterable[PlannedTask]) -> dict[tuple[str, int, int], PlannedTask]:
    """Tasks by what tells them apart.

    Raises:
        UsageError: one is there twice.
    """
    found: dict[tuple[str, int, int], PlannedTask] = {}
    for task in tasks:
        key = (task.scenario, task.task_idx, task.seed)
        if key in found:
            raise UsageError(f"{task.scenario}/{task.task_idx} with seed {task.seed} is there twice; name it once")
        found[key] = task
    return found


def _at_least(name: str, value: int, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is {value!r}; give a number of at least {least}")
    return value


def _named(model_digest: Any) -> str:
    if not isinstance(model_digest, str) or not model_digest or len(model_digest) > 512:
        raise UsageError(f"model_digest is {str(model_digest)[:80]!r}; give a text of 1 to 512 characters")
    return model_digest


def _class_name(scenario: str) -> str:
    return "Awm" + "".join(word.title() for word in re.split(r"[^a-z0-9]+", normalised(scenario)))
