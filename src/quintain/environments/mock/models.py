"""A mock's document: tools, facts, and the rules that say what calls come to."""

import math
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from quintain.environments.inprocess.answers import AnswerModel, Changes, LatencyModel, worded
from quintain.environments.inprocess.findings import Name, Strict
from quintain.environments.inprocess.schemas import MAX_TOOLS, ToolModel

MAX_RULES: Final = 1000

_MATCHERS: Final = frozenset({"equals", "one_of", "matches", "absent", "at_least", "at_most"})


class MatcherModel(Strict):
    """What is asked of one argument: all that is given must hold. Values may hold `${…}`."""

    equals: Any = None
    one_of: list[Any] | None = Field(default=None, min_length=1)
    matches: str | None = None
    absent: bool | None = None
    at_least: Annotated[float, Field(allow_inf_nan=False)] | None = None
    at_most: Annotated[float, Field(allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("asks nothing; give one of " + ", ".join(sorted(_MATCHERS)))
        if self.absent and len(self.model_fields_set) > 1:
            raise ValueError("what is absent has no value; ask nothing else of it")
        return self


def _matcher(given: Any) -> Any:
    if not isinstance(given, dict):
        return {"equals": given}
    if given and not given.keys() <= _MATCHERS:
        raise ValueError(f"has keys that ask nothing; write a map to compare with as equals: {{…}}, or use {_ALL}")
    return given


_ALL: Final = ", ".join(sorted(_MATCHERS))


class CountModel(Strict):
    """How often: bounds that are part of it."""

    at_least: int = Field(default=0, ge=0)
    at_most: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _some(self) -> Self:
        if self.at_most is not None and self.at_most < self.at_least:
            raise ValueError("no number is that large and that small; exchange at_least and at_most")
        return self

    @property
    def highest(self) -> float:
        """The upper bound; infinity where there is none."""
        return math.inf if self.at_most is None else self.at_most


def _count(given: Any) -> Any:
    whole = isinstance(given, int) and not isinstance(given, bool)
    return {"at_least": given, "at_most": given} if whole else given


class WhenModel(Strict):
    """When a rule applies: all that is given must hold."""

    arguments: dict[str, Annotated[MatcherModel, BeforeValidator(_matcher)]] = Field(default_factory=dict)
    calls: Annotated[CountModel, BeforeValidator(_count)] | None = None
    """How often the tool was called before."""
    after: list[str] = Field(default_factory=list)
    """Tools that must have succeeded before."""
    where: str | None = None


class ThenModel(AnswerModel):
    """What happens when a rule applies."""

    latency: LatencyModel = LatencyModel(ms=0)
    set: Changes = Field(default_factory=dict)
    done: bool = False


class RuleModel(Strict):
    """One rule; of those for a tool the first that applies counts."""

    tool: str
    when: WhenModel = WhenModel()
    then: ThenModel


class MockToolModel(ToolModel):
    """A tool, and what a call comes to for which there is no rule."""

    otherwise: Annotated[ThenModel, BeforeValidator(worded)] | None = None


_Text = Annotated[str, StringConstraints(max_length=20_000)]


class MockModel(Strict):
    """The document. `kind`, `title` and `description` are the pack's."""

    kind: Literal["mock"] = "mock"
    title: _Text = ""
    description: _Text = ""
    tools: list[MockToolModel] = Field(min_length=1, max_length=MAX_TOOLS)
    state: dict[Name, Any] = Field(default_factory=dict, max_length=1000)
    rules: list[RuleModel] = Field(default_factory=list, max_length=MAX_RULES)
