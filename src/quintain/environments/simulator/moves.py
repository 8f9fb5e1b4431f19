"""What transitions, timers and replies have in common: where they are possible, what they change, where they lead."""

from collections.abc import Mapping, Sequence
from typing import Any

from quintain.environments.inprocess.forms import Condition, Form
from quintain.environments.inprocess.machine import State

JsonObject = dict[str, Any]


class Move:
    """One of them, compiled."""

    def __init__(
        self, states: Sequence[str] | None, guard: str | None, to: str | None, effects: Mapping[str, Any]
    ) -> None:
        """Raises ExpressionError where an expression is none."""
        self.to = to
        self._states = None if states is None else frozenset(states)
        self._guard = Condition(guard)
        self._effects = {name: Form(value) for name, value in effects.items()}

    def possible(self, at: str) -> bool:
        """Whether it is one of that state."""
        return self._states is None or at in self._states

    def allowed(self, context: Mapping[str, Any]) -> bool:
        """Whether its guard holds.

        Raises:
            ExpressionError: the guard has no value.
        """
        return self._guard.holds(context)

    def made(self, state: State, context: Mapping[str, Any], seconds: int) -> State:
        """The state after it. All effects see the state before.

        Raises:
            ExpressionError: an effect has no value.
        """
        if self._effects:
            state = state.having({name: form.value(context) for name, form in self._effects.items()})
        if self.to is None:
            return state
        return state.having(at=self.to, entered=seconds)
