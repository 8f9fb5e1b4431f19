"""`quintain episode`: play one episode by hand or with its reference solution, printing each step."""

import json
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from quintain.agents import ReferenceAgent
from quintain.cli import options
from quintain.contracts.identity import MAX_SEED
from quintain.contracts.tools import CallToolAction, Tool
from quintain.contracts.untrusted import printable
from quintain.environments.base import ToolOutcome
from quintain.episodes import Agent, Episode, EpisodeRequest
from quintain.errors import UnknownTaskError
from quintain.server.settings import Settings

_HELP = 'type a tool and its arguments, as in: get_order {"order_id": 3}; `tools` lists them, `done` ends and scores'


def episode(
    scenario: Annotated[str, typer.Argument(help="A scenario's name, in any spelling.")],
    task: Annotated[int, typer.Argument(min=0, help="The task's index.")],
    awm_data: options.AwmData = None,
    pack: options.Packs = None,
    solution: Annotated[
        bool, typer.Option("--solution", help="Play the reference solution instead of asking.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The episode's seed.")] = 0,
    milestone: options.Milestone = None,
    isolation: options.Isolation = None,
    as_json: options.AsJson = False,
) -> None:
    """Play one episode, printing each step, and score it."""
    settings = options.settings_with(data_dir=awm_data, packs=pack, isolation=isolation)
    options.open_blind(settings, [(scenario, task)], milestone, "played by hand")
    options.run(_play(settings, scenario, task, seed, solution, as_json))


async def _play(settings: Settings, scenario: str, task: int, seed: int, solution: bool, as_json: bool) -> None:
    async with options.rooms_of(settings) as rooms:
        reference = rooms.source.task(scenario, task, seed)
        agent: Agent = _Printing(_Typed(as_json), as_json)
        if solution:
            known = rooms.source.solution(scenario, task, seed)
            if known is None:
                raise UnknownTaskError(f"task {task} of {scenario} has no reference solution; play it by hand")
            calls = [CallToolAction(tool_name=call.name, arguments=call.arguments) for call in known.calls]
            agent = _Printing(ReferenceAgent(calls, known.final_answer), as_json)
        document = {"event": "task", "scenario": reference.scenario, "task": reference.text}
        _say(as_json, document, f"task: {reference.text}")
        request = EpisodeRequest(scenario=scenario, task_idx=task, seed=seed, model_digest="by-hand")
        record = await Episode(rooms, request).play(agent)
        _say(
            as_json,
            {"event": "done", "record": record.model_dump(mode="json")},
            f"{record.reward_type or 'not scored'}, reward {record.reward}, {record.episode_id}",
        )


class _Printing:
    """Prints what an agent does and what comes back."""

    def __init__(self, agent: Agent, as_json: bool) -> None:
        self._agent = agent
        self._as_json = as_json

    @property
    def final_answer(self) -> str | None:
        """The agent's answer."""
        return self._agent.final_answer

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        """The agent's next call, printed."""
        if last is not None:
            document = {"event": "result", **last.model_dump(mode="json")}
            _say(self._as_json, document, f"{last.status} ({last.duration_ms:.1f} ms): {last.text or last.error}")
        action = await self._agent.act(tools, last)
        if action is not None:
            document = {"event": "call", "tool_name": action.tool_name, "arguments": action.arguments}
            _say(self._as_json, document, f"> {action.tool_name} {json.dumps(action.arguments, ensure_ascii=False)}")
        elif self.final_answer is not None:
            _say(self._as_json, {"event": "answer", "text": self.final_answer}, f"answer: {self.final_answer}")
        return action


class _Typed:
    """Asks a person, or reads lines from a pipe."""

    def __init__(self, as_json: bool) -> None:
        self.final_answer: str | None = None
        self._as_json = as_json
        self._greeted = False

    async def act(self, tools: Sequence[Tool], last: ToolOutcome | None) -> CallToolAction | None:
        """The call that was typed; None at `done` or at the end of input."""
        if not self._greeted:
            self._greeted = True
            _say(self._as_json, _listed(tools), _HELP)
        while True:
            if sys.stdin.isatty():
                typer.echo("quintain> ", nl=False, err=self._as_json)
            line = sys.stdin.readline()
            word, _, rest = line.strip().partition(" ")
            if not line or word == "done":
                self.final_answer = rest.strip() or None
                return None
            if word == "tools":
                listed = _listed(tools)
                text = "\n".join(f"{tool['name']}: {tool['description']}" for tool in listed["tools"])
                _say(self._as_json, listed, text)
            elif word:
                try:
                    return CallToolAction(tool_name=word, arguments=json.loads(rest or "{}"))
                except (ValueError, ValidationError):
                    typer.echo(f"arguments must be a JSON object, got {rest!r}; {_HELP}", err=True)


def _listed(tools: Sequence[Tool]) -> dict[str, Any]:
    about = [{"name": tool.name, "description": next(iter(tool.description.splitlines()), "")} for tool in tools]
    return {"event": "tools", "tools": about}


def _say(as_json: bool, document: dict[str, Any], text: str) -> None:
    if as_json:
        options.print_json(document)
    else:
        typer.echo(printable(text))
