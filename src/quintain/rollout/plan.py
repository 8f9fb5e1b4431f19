"""What a rollout is to do: tasks, agents, attempts and limits, as a document with a digest.

    agents: [{kind: reference}]
    tasks: [{scenario: outdoor_marketplace_1, task_idx: 0}]
    attempts: 4

`content` is what the digest is taken of: all that says what is done, and nothing of how fast.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from quintain.agents import ErrorRates, Retries
from quintain.agents.endpoint import ChatSettings
from quintain.contracts.documents import UnreadableDocument, from_json, from_yaml
from quintain.contracts.identity import MAX_SEED, Digest, Seed, digest_of
from quintain.contracts.verification import VerifyPolicy
from quintain.errors import UsageError
from quintain.records import ModelDigest
from quintain.verifiers.base import VerdictMode

JsonObject = dict[str, Any]

MAX_ITEMS: Final = 1_000_000


class _Contract(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedTask(_Contract):
    """A task with its seed."""

    scenario: str = Field(min_length=1, max_length=200)
    task_idx: int = Field(ge=0, le=MAX_SEED)
    seed: Seed = 0


class _Agent(_Contract):
    name: str | None = Field(default=None, pattern=r"^[\w.-]{1,60}$", description="Default: the kind")
    model_digest: ModelDigest | None = Field(
        default=None, description="Names the model in scores and records. Default: made of the settings"
    )

    @property
    def called(self) -> str:
        """The name by which the plan tells its agents apart."""
        return self.name or str(getattr(self, "kind"))  # noqa: B009 - the kind is each subclass's own

    @property
    def model(self) -> str:
        """Names the model in scores and records."""
        if self.model_digest is not None:
            return self.model_digest
        return f"{getattr(self, 'kind')}:{digest_of(self._settings())}"  # noqa: B009

    def _settings(self) -> JsonObject:
        return self.model_dump(mode="json", exclude={"name", "model_digest"})


class ReferenceSpec(_Agent):
    """The reference solution's player."""

    kind: Literal["reference"] = "reference"


class NoisySpec(_Agent):
    """The reference solution, with mistakes drawn by (seed, task, attempt)."""

    kind: Literal["noisy"] = "noisy"
    rates: ErrorRates = ErrorRates()
    seed: Seed = 0


class RandomSpec(_Agent):
    """Calls drawn at random by (seed, task, attempt)."""

    kind: Literal["random"] = "random"
    seed: Seed = 0
    min_steps: int = Field(default=1, ge=0, le=10_000)
    max_steps: int = Field(default=10, ge=0, le=10_000)

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.min_steps > self.max_steps:
            raise ValueError(f"min_steps {self.min_steps} is over max_steps {self.max_steps}")
        return self


class ModelSpec(_Agent):
    """A model of an OpenAI-compatible endpoint: `chat` calls tools natively, `text` by the text convention."""

    kind: Literal["chat", "text"]
    endpoint: ChatSettings
    api_key_env: str | None = Field(default=None, pattern=r"^\w+$", description="The variable that holds the key")
    system_prompt: str | None = None
    max_turns: int = Field(default=60, ge=1)
    max_turn_tokens: int | None = Field(default=4096, ge=1)
    max_malformed: int = Field(default=3, ge=0)
    retries: Retries = Retries()
    max_at_once: int = Field(default=64, ge=1, le=4096, description="Most requests at a time to the endpoint")

    @model_validator(mode="after")
    def _no_key(self) -> Self:
        if self.endpoint.api_key is not None:
            raise ValueError("a plan is kept, so it holds no key; name the variable that does in api_key_env")
        return self

    def _settings(self) -> JsonObject:
        told: JsonObject = {"endpoint": self.endpoint.model_digest, "kind": self.kind}
        return told if self.system_prompt is None else told | {"system_prompt": self.system_prompt}


AgentSpec = Annotated[ReferenceSpec | NoisySpec | RandomSpec | ModelSpec, Field(discriminator="kind")]


class AttemptLimits(_Contract):
    """What one attempt may take. What runs into one is truncated, and scored as it stands."""

    max_steps: int | None = Field(default=30, ge=1, description="Tool calls")
    max_tokens: int | None = Field(default=None, ge=1, description="Tokens that the model writes in all its answers")
    wall_s: float | None = Field(default=900.0, gt=0, description="Seconds; waiting for an endpoint's turn not counted")
    call_timeout_s: float = Field(default=30.0, gt=0, le=3600, description="Seconds of one tool call")


class RetryLimits(_Contract):
    """How often is tried again what the attribution table says may be."""

    starts: int = Field(default=2, ge=0, le=100, description="Beginnings after the first")
    verifications: int = Field(default=2, ge=0, le=100, description="Verifications after the first")
    wait_s: float = Field(default=0.5, ge=0, le=600, description="Before the first of them; doubled each time")


class RolloutPlan(_Contract):
    """What is to be done."""

    schema_version: Literal[1] = 1
    tasks: tuple[PlannedTask, ...] = Field(min_length=1)
    attempts: int = Field(default=1, ge=1, le=100_000, description="Of each agent at each task: one group")
    agents: tuple[AgentSpec, ...] = Field(default=(ReferenceSpec(),), min_length=1)
    verifier: VerdictMode = "code"
    verify: VerifyPolicy = VerifyPolicy.CONTROL_ONLY
    limits: AttemptLimits = AttemptLimits()
    retries: RetryLimits = RetryLimits()
    concurrency: int = Field(default=16, ge=1, le=10_000, description="Most attempts at a time; not in the digest")
    keep_states: bool = Field(
        default=False, description="Whether initial and final states are kept, unredacted; not in the digest"
    )
    max_unverified: int = Field(
        default=32, ge=1, le=100_000,
        description="Attempts that wait for a verdict from which on none is begun; not in the digest",
    )  # fmt: skip

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [agent.called for agent in self.agents]
        if len(set(names)) < len(names):
            raise ValueError(f"agents need names that differ, got {', '.join(names)}; give each a name")
        models = [agent.model for agent in self.agents]
        if len(set(models)) < len(models):
            raise ValueError("two agents have the same settings, and would be one in the scores; give a model_digest")
        if len(set(self.tasks)) < len(self.tasks):
            twice = next(task for task in self.tasks if self.tasks.count(task) > 1)
            raise ValueError(f"{twice.scenario}/{twice.task_idx} with seed {twice.seed} is there twice; raise attempts")
        if self.size > MAX_ITEMS:
            raise ValueError(f"{self.size} attempts are over the {MAX_ITEMS} of one plan; make several")
        return self

    @property
    def size(self) -> int:
        """How many attempts there are in all."""
        return len(self.tasks) * len(self.agents) * self.attempts

    @property
    def content(self) -> JsonObject:
        """What the digest is taken of."""
        return self.model_dump(mode="json", exclude={"concurrency", "max_unverified", "keep_states"})

    @property
    def digest(self) -> Digest:
        """Identifies the plan."""
        return digest_of(self.content)

    def items(self) -> Iterator["WorkItem"]:
        """Every attempt, those of one group side by side."""
        digest = self.digest
        for task in self.tasks:
            for agent in self.agents:
                for attempt in range(self.attempts):
                    yield WorkItem(digest, task, agent, attempt)

    @classmethod
    def read(cls, path: Path) -> "RolloutPlan":
        """A plan from a YAML or JSON file.

        Raises:
            UsageError: it cannot be read, or is no plan.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the plan {path} cannot be read: {error}") from error
        return cls.parse(from_json if path.suffix == ".json" else from_yaml, text, str(path))

    @classmethod
    def parse(cls, reader: Any, text: str, name: str) -> "RolloutPlan":
        """A plan from a text, which `name` names in errors.

        Raises:
            UsageError: it is no plan.
        """
        try:
            document = reader(text)
        except UnreadableDocument as error:
            raise UsageError(f"the plan {name} cannot be read: {error}") from error
        return cls.checked(document, f"the plan {name}")

    @classmethod
    def checked(cls, document: Any, what: str) -> "RolloutPlan":
        """A plan from a document, which `what` names in errors.

        Raises:
            UsageError: it is no plan.
        """
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        # outside of the except, so that the input, which may hold a key, does not travel with the error
        raise UsageError(f"{what}: {where}: {first['msg']}" if where else f"{what}: {first['msg']}")


@dataclass(frozen=True)
class WorkItem:
    """One attempt of a plan."""

    plan: str
    task: PlannedTask
    agent: ReferenceSpec | NoisySpec | RandomSpec | ModelSpec
    attempt: int

    @property
    def name(self) -> str:
        """Identifies it within its plan, and with the plan's digest everywhere: `scenario/task@seed/agent/attempt`."""
        return f"{self.task.scenario}/{self.task.task_idx}@{self.task.seed}/{self.agent.called}/{self.attempt}"


def drawn(tasks: Sequence[tuple[str, int]], count: int, seed: int) -> list[tuple[str, int]]:
    """So many tasks, as evenly over their scenarios as these allow, in the order of `tasks`.

    Which are drawn depends on their names and the seed alone: another host, or tasks in another order, give the same.

    Args:
        tasks: (scenario, task_idx), each once.

    Raises:
        UsageError: there are fewer.
    """
    if count > len(tasks):
        raise UsageError(f"{count} tasks cannot be drawn of {len(tasks)}; ask for fewer")
    scenarios: dict[str, list[tuple[str, int]]] = {}
    for task in sorted(tasks, key=lambda one: digest_of({"seed": seed, "task": one})):
        scenarios.setdefault(task[0], []).append(task)
    order = sorted(scenarios, key=lambda name: digest_of({"seed": seed, "scenario": name}))
    turns = [(turn, place, task) for place, name in enumerate(order) for turn, task in enumerate(scenarios[name])]
    chosen = {task for _, _, task in sorted(turns)[:count]}
    return [task for task in tasks if task in chosen]
