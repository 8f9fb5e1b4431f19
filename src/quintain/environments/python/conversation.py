"""A user whose messages are written down: the tool `respond` gives the next, and ends the episode after the last.

Of each turn the state after it, and the calls in it with their results, are kept for verifiers.
"""

import json
from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from quintain.contracts.tools import RESPOND, Tool
from quintain.environments.base import ToolOutcome
from quintain.environments.inprocess.findings import misfits, summary
from quintain.environments.python.models import ConversationModel
from quintain.errors import TemplateError

JsonObject = dict[str, Any]

CONVERSATION: Final = "conversation"
"""Key of a start map under which a conversation stands."""

MAX_TURNS_BYTES: Final = 32 * 2**20
"""Most that is kept of all turns, in characters."""

_TOOL: Final = Tool(
    name=RESPOND,
    description="Say something to the user. The result is what the user says next; the conversation may end with it.",
    input_schema={
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What you say"}},
        "required": ["message"],
        "additionalProperties": False,
    },
)
_ENDED: Final = "The user has ended the conversation."
_NEW_TOOLS: Final = "New tools are available now:"


class Conversation:
    """One episode's conversation."""

    def __init__(self, model: ConversationModel, tools: Sequence[Tool]) -> None:
        """`tools` are the environment's own.

        Raises:
            TemplateError: it names turns or tools that there are not.
        """
        self._messages = model.messages
        self._all = [*tools, _TOOL]
        self._turns: list[JsonObject] = []
        self._calls: list[JsonObject] = []
        self._size = 0
        names = {tool.name for tool in tools}
        self._appears: dict[str, int] = {}
        if RESPOND in names:
            raise TemplateError(
                f"a conversation adds the tool {RESPOND!r}, which the environment has already; rename it"
            )
        for turn, withheld in model.withhold.items():
            if not 2 <= int(turn) <= len(model.messages) + 1:
                raise TemplateError(
                    f"conversation.withhold: there is no turn {turn} to appear at; the first message begins turn 2"
                )
            for name in withheld:
                if name not in names:
                    raise TemplateError(f"conversation.withhold: there is no tool {name!r}; correct the name")
                self._appears[name] = int(turn)

    @classmethod
    def of(cls, given: Any, tools: Sequence[Tool]) -> "Conversation":
        """A conversation of a start map.

        Raises:
            TemplateError: it is none.
        """
        try:
            return cls(ConversationModel.model_validate(given), tools)
        except ValidationError as error:
            raise TemplateError(f"start.conversation: {summary(misfits(error))}") from error

    @property
    def turn(self) -> int:
        """Which turn it is; the task's text begins turn 1."""
        return len(self._turns) + 1

    @property
    def over(self) -> bool:
        """Whether the user has ended it."""
        return len(self._turns) > len(self._messages)

    @property
    def tools(self) -> list[Tool]:
        """The tools that there are in this turn."""
        return [tool for tool in self._all if self._appears.get(tool.name, 0) <= self.turn]

    @property
    def full(self) -> bool:
        """Whether more cannot be kept."""
        return self._size > MAX_TURNS_BYTES

    def called(self, name: str, arguments: JsonObject, outcome: ToolOutcome) -> None:
        """Keep a call of this turn."""
        result = outcome.error if outcome.text is None else outcome.text
        call = {"tool": name, "arguments": arguments, "status": str(outcome.status), "result": result}
        self._calls.append(call)
        self._size += len(json.dumps(call))

    def respond(self, message: str, state: str) -> str:
        """End the turn, with the state as it is now; the user's next message, with the tools that appear with it."""
        self._turns.append({"calls": self._calls, "answer": message, "state": state})
        self._size += len(state) + len(message)
        self._calls = []
        if self.over:
            return _ENDED
        said = self._messages[self.turn - 2]
        new = [tool for tool in self._all if self._appears.get(tool.name) == self.turn]
        if not new:
            return said
        documented = "\n".join(json.dumps(tool.model_dump(), ensure_ascii=False) for tool in new)
        return "\n\n".join(filter(None, (said, f"{_NEW_TOOLS}\n{documented}")))

    def turns(self, state: str) -> list[JsonObject]:
        """Every turn that was begun: calls, what the agent answered, and the state after it as JSON text."""
        if self.over:
            return self._turns
        return [*self._turns, {"calls": self._calls, "answer": None, "state": state}]
