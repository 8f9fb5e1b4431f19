"""A simulator's document: states, transitions, timers, and the counterpart that one speaks with."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from quintain.environments.inprocess.answers import AnswerModel, Changes, worded
from quintain.environments.inprocess.findings import Name, Strict
from quintain.environments.inprocess.schemas import MAX_TOOLS, ToolModel
from quintain.tasks.packs.models import Draw

MAX_STATES: Final = 500
MAX_TRANSITIONS: Final = 1000
MAX_TIMERS: Final = 100
MAX_REPLIES: Final = 500

RESPOND: Final = "respond"
"""Name of the tool that speaks to the counterpart."""

AT: Final = "at"
"""Key of a task's `start` that names the state to begin in."""

COUNTERPART: Final = "counterpart"
"""Key of a task's `start` that says how the counterpart is."""

_Text = Annotated[str, StringConstraints(max_length=20_000)]


def _said(value: Any) -> Any:
    """What is said: a text, a list of texts to draw from, or one of these by persona."""
    kinds = list(value.values()) if isinstance(value, dict) else [value]
    for one in kinds:
        texts = one if isinstance(one, list) else [one]
        if not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError("what is said is a text, a list of texts, or a map of such by persona; correct it")
    if not kinds:
        raise ValueError("the map by persona is empty; write default: and a text")
    return value


Said = Annotated[Any, AfterValidator(_said)]


def _states(value: Any) -> Any:
    """`any` is every state; a name alone is a list of one."""
    if isinstance(value, str):
        return None if value == "any" else [value]
    return value


States = Annotated[list[str] | None, BeforeValidator(_states)]
"""Names of states; None is every state."""


class StateModel(Strict):
    """A state; one that is terminal ends the episode."""

    description: _Text = ""
    terminal: bool = False


class TransitionModel(AnswerModel):
    """What a tool does in some states; of those for a tool the first that fits counts."""

    tool: str
    from_: States = Field(alias="from")
    guard: str | None = None
    to: str | None = None
    effects: Changes = Field(default_factory=dict)


class TimerModel(Strict):
    """What happens by itself, some time after a state was entered or a tool was called."""

    name: Name
    after: int = Field(ge=0, le=1_000_000)
    """Seconds on the episode's clock."""
    in_: States = Field(default=None, alias="in")
    call: str | None = None
    """The tool since whose last successful call it counts; None: since the state was entered."""
    guard: str | None = None
    to: str | None = None
    effects: Changes = Field(default_factory=dict)
    say: Said = None


class ReplyModel(Strict):
    """What the counterpart says to a message; the first that fits counts."""

    from_: States = Field(default=None, alias="from")
    moods: list[str] | None = Field(default=None, min_length=1)
    matches: str | None = None
    guard: str | None = None
    say: Said
    to: str | None = None
    effects: Changes = Field(default_factory=dict)
    mood: str | None = None
    """The mood it has from then on."""
    hangs_up: bool = False


class PersonaModel(Strict):
    """A way of being of the counterpart, for the whole episode."""

    description: _Text = ""
    weight: int = Field(default=1, ge=0, le=1_000_000)


class MoodModel(PersonaModel):
    """A way of being that may change: what it has of its own comes before what all moods share."""

    opening: Said = None
    replies: list[ReplyModel] = Field(default_factory=list, max_length=MAX_REPLIES)
    otherwise: Said = None


class CounterpartModel(Strict):
    """Whom the agent speaks with, through the tool `respond`."""

    description: _Text = ""
    tool_description: _Text = "Say something to the person you are talking with. The result is what they answer."
    opening: Said = None
    personas: dict[Name, PersonaModel] = Field(default_factory=dict, max_length=100)
    moods: dict[Name, MoodModel] = Field(default_factory=lambda: {"calm": MoodModel()}, min_length=1, max_length=100)
    replies: list[ReplyModel] = Field(default_factory=list, max_length=MAX_REPLIES)
    otherwise: Said = "I am sorry, I do not follow."


class SimulatorToolModel(ToolModel):
    """A tool, and what a call is answered with where no transition fits."""

    otherwise: Annotated[AnswerModel, BeforeValidator(worded)] | None = None


class SimulatorModel(Strict):
    """The document. `kind`, `title` and `description` are the pack's."""

    kind: Literal["simulator"] = "simulator"
    title: _Text = ""
    description: _Text = ""
    states: dict[Name, StateModel] = Field(min_length=1, max_length=MAX_STATES)
    initial: str
    state: dict[Name, Any] = Field(default_factory=dict, max_length=1000)
    draws: dict[Name, Draw] = Field(default_factory=dict, max_length=100)
    tools: list[SimulatorToolModel] = Field(default_factory=list, max_length=MAX_TOOLS - 1)
    transitions: list[TransitionModel] = Field(default_factory=list, max_length=MAX_TRANSITIONS)
    timers: list[TimerModel] = Field(default_factory=list, max_length=MAX_TIMERS)
    counterpart: CounterpartModel | None = None
