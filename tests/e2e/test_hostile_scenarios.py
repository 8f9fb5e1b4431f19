"""Scenarios that do harm before any tool is called: the reset says so in bounded time, and the session goes on."""

import re
import time

import pytest

from e2e.conftest import BUILD_LIMIT_S
from e2e.hostile import AT_LOAD
from e2e.serving import Server
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-hostile")

REASONS = {
    "Raises At Load 1": "no such luck",
    "Leaves At Load 1": "ended while loading",
    "Threads At Load 1": "2 threads",
    "Has No App 1": "no FastAPI application",
    "Is No Python 1": "SyntaxError",
}


@pytest.mark.parametrize("title", AT_LOAD)
def test_a_scenario_that_cannot_load(hostile: Server, title: str) -> None:
    with Wire(hostile.url) as session:
        answer = session.ask({"type": "reset", "data": {"scenario": title}})
        observation = answer["data"]["observation"]
        assert observation["reward_type"] == "reset_error"
        assert REASONS[title] in observation["error"]
        assert observation["metadata"]["failure_owner"] == "environment"
        assert answer["data"]["reward"] is None
        assert session.seen("list_notes")["reward_type"] == "server_error"
        session.reset("plain_notes_1")
        assert session.value("list_notes") == ["first"]


def test_a_scenario_that_loads_for_ever(hostile: Server) -> None:
    with Wire(hostile.url) as session:
        started = time.monotonic()
        answer = session.ask({"type": "reset", "data": {"scenario": "spins_at_load_1"}})
        assert time.monotonic() - started < BUILD_LIMIT_S + 3
        observation = answer["data"]["observation"]
        assert observation["reward_type"] == "reset_error"
        assert observation["metadata"]["failure_owner"] == "environment"
        assert "did not load within" in observation["error"]
        session.reset("plain_notes_1")
        assert session.value("list_notes") == ["first"]


def bounds_at_load(hostile: Server) -> tuple[int, int]:
    """How many processes code may start and how much memory it may map while it is loaded; it only looks."""
    with Wire(hostile.url) as session:
        answer = session.ask({"type": "reset", "data": {"scenario": "counts_at_load_1"}})
    found = re.search(r"(\d+) processes, (-?\d+) bytes", answer["data"]["observation"]["error"])
    assert found is not None, answer
    return int(found[1]), int(found[2])


def test_loading_is_bounded_as_an_episode_is(hostile: Server) -> None:
    processes, memory = bounds_at_load(hostile)
    assert processes < 64
    assert 0 < memory < 2**30
    with Wire(hostile.url) as session:
        answer = session.ask({"type": "reset", "data": {"scenario": "allocates_at_load_1"}})
        assert "MemoryError" in answer["data"]["observation"]["error"]


def test_tools_that_harm_whenever_called_harm_the_episode_alone(hostile: Server) -> None:
    """They are tried out once before the first episode; that must not cost the host anything either."""
    processes, memory = bounds_at_load(hostile)
    assert processes < 64
    assert 0 < memory < 2**30
    with Wire(hostile.url) as session:
        session.reset("unarmed_notes_1", 0)
        for tool, expected in (("leave", "server_error"), ("allocate", "server_error"), ("fork_for_ever", "timeout")):
            assert session.seen(tool, {"timeout_s": 2})["reward_type"] == expected
            assert session.value("list_notes") == ["first"]
        assert hostile.descendants()
        assert len(hostile.descendants()) < 40
