"""The counterpart of a simulator: a person by rules, with a persona and a mood that the seed draws or a task sets."""

import random
from collections.abc import Callable, Mapping
from typing import Any, Final

from quintain.contracts.tools import Tool
from quintain.environments.inprocess.findings import unknown
from quintain.environments.inprocess.forms import Form
from quintain.environments.inprocess.patterns import found
from quintain.environments.simulator.models import (
    COUNTERPART,
    RESPOND,
    CounterpartModel,
    MoodModel,
    PersonaModel,
    ReplyModel,
)
from quintain.environments.simulator.moves import Move
from quintain.errors import TemplateError

JsonObject = dict[str, Any]

DEFAULT: Final = "default"
"""Key of what is said by every persona that has nothing of its own."""


def respond_tool(model: CounterpartModel) -> Tool:
    """The tool that speaks to it."""
    message = {"type": "string", "description": "What you say."}
    schema = {
        "type": "object",
        "properties": {"message": message},
        "required": ["message"],
        "additionalProperties": False,
    }
    return Tool(name=RESPOND, description=model.tool_description, input_schema=schema)


class Speech:
    """What is said, compiled: by persona, and drawn where there are several."""

    def __init__(self, said: Any) -> None:
        by_persona = said if isinstance(said, dict) else {DEFAULT: said}
        self._forms = {
            persona: [Form(text) for text in (one if isinstance(one, list) else [one])]
            for persona, one in by_persona.items()
        }

    def text(self, persona: str, context: Mapping[str, Any], chance: Callable[[], random.Random]) -> str:
        """What a persona says; `chance` draws.

        Raises:
            ExpressionError: an expression in it has no value.
        """
        forms = self._forms.get(persona) or self._forms[DEFAULT]
        return (forms[0] if len(forms) == 1 else chance().choice(forms)).text(context)


class Reply:
    """One reply, compiled."""

    def __init__(self, model: ReplyModel) -> None:
        self.move = Move(model.from_, model.guard, model.to, model.effects)
        self.speech = Speech(model.say)
        self.mood = model.mood
        self.hangs_up = model.hangs_up
        self._moods = None if model.moods is None else frozenset(model.moods)
        self._pattern = model.matches

    def fits(self, at: str, mood: str, message: str, context: Mapping[str, Any]) -> bool:
        """Whether it answers this message.

        Raises:
            ExpressionError: its guard has no value.
        """
        return (
            (self._moods is None or mood in self._moods)
            and self.move.possible(at)
            and (self._pattern is None or found(self._pattern, message))
            and self.move.allowed(context)
        )


class Counterpart:
    """How it answers. It keeps nothing of an episode."""

    def __init__(self, model: CounterpartModel) -> None:
        self._model = model
        shared = [Reply(one) for one in model.replies]
        self._replies = {name: [*(Reply(one) for one in mood.replies), *shared] for name, mood in model.moods.items()}
        self._openings = {
            name: None if said is None else Speech(said)
            for name, mood in model.moods.items()
            for said in [model.opening if mood.opening is None else mood.opening]
        }
        self._otherwise = {
            name: Speech(model.otherwise if mood.otherwise is None else mood.otherwise)
            for name, mood in model.moods.items()
        }

    def begin(self, seed_text: str, forced: Any) -> JsonObject:
        """What is kept of it: persona, mood, how often it has `spoken`, and whether it has `hung_up`.

        Args:
            forced: a mood, or a map of `mood` and `persona`, that is not drawn.

        Raises:
            TemplateError: there is no such mood or persona.
        """
        chance = random.Random(seed_text)
        persona = _drawn(chance, self._model.personas)
        mood = _drawn(chance, self._model.moods)
        given = {"mood": forced} if isinstance(forced, str) else {} if forced is None else forced
        if not isinstance(given, dict) or not given.keys() <= {"mood", "persona"}:
            raise TemplateError(f"start.{COUNTERPART}: give a mood, or a map of mood and persona")
        mood = _named(given.get("mood", mood), self._model.moods, "mood")
        if "persona" in given:
            persona = _named(given["persona"], self._model.personas, "persona")
        return {"persona": persona, "mood": mood, "spoken": 0, "hung_up": False}

    def opening(self, mood: str) -> Speech | None:
        """What it says first, whatever it is told; None where it answers as ever."""
        return self._openings[mood]

    def reply(self, at: str, mood: str, message: str, context: Mapping[str, Any]) -> Reply | None:
        """The reply that fits first, or None.

        Raises:
            ExpressionError: a guard has no value.
        """
        return next((one for one in self._replies[mood] if one.fits(at, mood, message, context)), None)

    def otherwise(self, mood: str) -> Speech:
        """What it says where no reply fits."""
        return self._otherwise[mood]


def _drawn(chance: random.Random, ways: Mapping[str, PersonaModel] | Mapping[str, MoodModel]) -> str:
    if not ways:
        return ""
    return chance.choices(list(ways), [one.weight for one in ways.values()])[0]


def _named(name: Any, known: Mapping[str, Any], what: str) -> str:
    if not isinstance(name, str) or name not in known:
        raise TemplateError(f"start.{COUNTERPART}: {unknown(str(name), known, what)}")
    return name
