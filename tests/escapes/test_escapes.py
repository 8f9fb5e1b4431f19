"""The escape corpus: every attempt as a tool, as a verifier and while a scenario loads; each fails for its reason.

After each, a session that was there before goes on undisturbed, and fresh episodes of another scenario get the right
verdicts. `python -m pytest tests/escapes -k 'fork_bomb'` runs one.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from e2e import reduced
from e2e.serving import COMMAND, Server, serving, wait_until
from e2e.wire import JsonObject, Wire
from escapes.base import Escape, Level, Role, token
from escapes.corpus import CORPUS, PAGE, filled
from escapes.rooms import as_text, judges, told, write_rooms

pytestmark = pytest.mark.xdist_group("escapes")

VERIFY_LIMIT_S = 2
_TOOL_ENDINGS = {
    "raises": ({"server_error", "tool_error"}, ""),
    "lost": ({"server_error"}, "ended without answering"),
    "timeout": ({"timeout"}, "did not answer within"),
}
_VERIFIER_ENDINGS = {"raises": "", "lost": "without a verdict", "timeout": "time limit"}


@dataclass
class House:
    """A server of the rooms, one session that lives through it all, and what an attacker is told of both."""

    server: Server
    level: Level
    bystander: Wire
    told: JsonObject

    def still_serves(self) -> None:
        """Whoever was there is undisturbed, and newcomers get the verdicts they deserve."""
        assert self.bystander.value("list_notes") == ["first", token("bystander")]
        with Wire(self.server.url) as fresh:
            for words, verdict in (("something else", "incomplete"), ("done", "complete")):
                fresh.reset("neighbour_notes_1", 0)
                assert fresh.value("list_notes") == ["first"]
                fresh.value("add_note", words=words)
                assert fresh.seen("verify", final_answer=token("final answer"))["reward_type"] == verdict


def descriptors(server: Server) -> int:
    """How many the server holds."""
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))


@pytest.fixture(scope="module", params=["full", "reduced"])
def house(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    level: Level = request.param
    folder = tmp_path_factory.mktemp("escapes") / "odd ?mode=rw#%20 name"  # no verifier may trip over its path
    folder.mkdir()
    data = write_rooms(folder, level)
    settings = {"QUINTAIN_VERIFY_TIMEOUT": str(VERIFY_LIMIT_S), "PLANTED_SECRET": token("environment")}
    command: Any = COMMAND
    if level == "reduced":
        command, settings = [sys.executable, Path(reduced.__file__)], {**settings, "QUINTAIN_ISOLATION": "reduced"}
    with serving(folder, ["--awm-data", str(data)], command=command, **settings) as server, Wire(server.url) as session:
        assert server.ready["isolation"] == level
        session.reset("escape_room_1", 0)
        session.value("add_note", words=token("bystander"))
        pids = [server.process.pid, *server.descendants()]
        found = House(server, level, session, {**told(folder, level), "pids": pids, "port": server.port})
        found.still_serves()
        held = descriptors(server)
        yield found
        found.still_serves()
        assert descriptors(server) < held + 100
        session.call("done")
        assert wait_until(lambda: not server.episodes(), 10)
        assert server.complaints == []


def cases(role: Role) -> list[Any]:
    """The attempts of one role, each under its name."""
    chosen = judges() if role == "verifier" else [one for one in CORPUS if role in one.roles]
    return [pytest.param(one, id=one.name.replace(" ", "_")) for one in chosen]


def judge_words(escape: Escape, role: Role, level: Level, words: Any) -> None:
    """Every way it tried ended as it must."""
    assert isinstance(words, list), words
    assert words, "it tried nothing"
    wrong = sorted(set(map(str, words)) - escape.allowed(role, level))
    assert not wrong, f"{escape.name}: {wrong}, where {sorted(escape.allowed(role, level))} must be: {escape.reason}"


@pytest.mark.parametrize("escape", cases("tool"))
def test_as_a_tool(house: House, escape: Escape) -> None:
    if house.level not in escape.levels:
        pytest.skip("not contained at this level, as documented")
    with Wire(house.server.url) as session:
        session.reset("escape_room_1", 0)
        limit = 1 if escape.ending == "timeout" else 20
        answer = session.call("attempt", {"timeout_s": limit}, name=escape.name, told=as_text(house.told))
        observation = answer["observation"]
        assert observation.get("metadata", {}).get("reward_valid", True) is True  # provoking a failure masks nothing
        if escape.ending == "answers":
            assert observation["reward_type"] == "tool_call_ok", observation
            judge_words(escape, "tool", house.level, json.loads(observation["tool_result"]))
        elif escape.ending != "any":
            kinds, words = _TOOL_ENDINGS[escape.ending]
            assert observation["reward_type"] in kinds, observation
            assert words in observation["error"]
        verdict = session.call("verify", final_answer="complete")
        expected = "judge_error" if escape.uncertain else "complete" if escape.complete else "incomplete"
        assert verdict["observation"]["reward_type"] == expected, verdict
        assert verdict["reward"] == {"judge_error": 0.0, "complete": 1.0, "incomplete": 0.1}[expected]
    house.still_serves()


@pytest.mark.parametrize("escape", cases("verifier"))
def test_as_a_verifier(house: House, escape: Escape) -> None:
    if house.level not in escape.levels:
        pytest.skip("not contained at this level, as documented")
    with Wire(house.server.url) as session:
        session.reset("escape_court_1", judges().index(escape))
        observation = session.seen("verify", final_answer=as_text(house.told))
        result = observation["verify_result"]
        if escape.ending == "answers" or (escape.ending == "any" and observation["reward_type"] != "judge_error"):
            assert (observation["reward_type"], result.get("result")) == ("incomplete", "others"), observation
            judge_words(escape, "verifier", house.level, result["raw_result"]["words"])
        else:
            assert observation["reward_type"] == "judge_error", observation
            assert observation["metadata"] == {"reward_valid": False, "failure_owner": "verifier"}
            assert _VERIFIER_ENDINGS.get(escape.ending, "") in result["error_message"], result
        assert session.value("list_notes") == ["first"]  # its own episode goes on as well
    house.still_serves()


@pytest.fixture(scope="module")
def at_load(house: House) -> JsonObject:
    with Wire(house.server.url) as session:
        session.reset("escape_gate_1")
        found: JsonObject = session.value("outcomes")
    house.still_serves()
    return found


@pytest.mark.parametrize("escape", cases("load"))
def test_while_a_scenario_loads(house: House, at_load: JsonObject, escape: Escape) -> None:
    if house.level in escape.levels:
        judge_words(escape, "load", house.level, at_load[escape.name])


def test_the_corpus_is_what_the_documentation_says() -> None:
    assert len({one.name for one in CORPUS}) == len(CORPUS)
    assert all(one.reason and one.area and (one.words or one.ending != "answers") for one in CORPUS)
    assert PAGE.read_text() == filled(PAGE.read_text()), "run: python tests/escapes/corpus.py"
    assert all(f"| {one.name} |" in PAGE.read_text() for one in CORPUS)
