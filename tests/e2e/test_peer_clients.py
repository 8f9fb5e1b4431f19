"""Unmodified clients of both generations of OpenEnv, each in an environment of its own, against a real server."""

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.peer import PEERS, run_script
from e2e.serving import Server

pytestmark = pytest.mark.xdist_group("e2e-pack")

KINDS = ("generic", "public", "own")
WAYS = [f"{kind}-{manner}" for kind in KINDS for manner in ("async", "sync")]
VERSIONS = {"openenv": "0.10", "openenv-core": "0.3"}


@pytest.fixture(params=PEERS)
def played(request: pytest.FixtureRequest, seen_by: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """What a peer's clients saw, by way of playing."""
    return seen_by(request.param)


@pytest.fixture(scope="session")
def seen_by(server: Server) -> Callable[[str], dict[str, Any]]:
    """Plays every way with a peer's clients, once."""

    @functools.cache
    def play(peer: str) -> dict[str, Any]:
        seen = run_script(peer, "play.py", server.url, *WAYS)
        assert seen["version"].startswith(VERSIONS[peer])
        return seen

    return play


def fields(result: dict[str, Any]) -> dict[str, Any]:
    """An observation's fields without those that do not apply."""
    return {name: value for name, value in result["observation"].items() if value is not None}


@pytest.mark.parametrize("way", WAYS)
def test_an_episode_from_reset_to_done(played: dict[str, Any], way: str) -> None:
    seen = played[way]
    assert fields(seen["reset"])["reward_type"] == "reset_ok"
    assert fields(seen["reset"])["task"].startswith("Add 2 units")
    assert fields(seen["reset"])["has_verifier"] == {"sql": True, "code": True}
    assert fields(seen["reset"])["metadata"]["episode_id"].startswith("sha256:")
    assert seen["reset"].get("reward") is None
    assert len(seen["list"]) == 31
    names = [tool["name"] for tool in seen["list"]]
    assert {"list_products", "add_cart_item"} <= set(names)
    assert {"verify", "done", "__list_scenarios__"}.isdisjoint(names)
    assert fields(seen["add"])["reward_type"] == "tool_call_ok"
    assert json.loads(fields(seen["add"])["tool_result"])["quantity"] == 2
    assert (seen["add"]["reward"], seen["add"]["done"]) == (0.0, False)
    assert (fields(seen["wrong"])["reward_type"], seen["wrong"]["reward"]) == ("invalid_args", -1.0)
    assert (fields(seen["verify"])["reward_type"], seen["verify"]["reward"]) == ("complete", 1.0)
    assert fields(seen["verify"])["verify_result"]["result"] == "complete"
    assert (fields(seen["done"])["reward_type"], seen["done"]["done"]) == ("episode_done", True)
    assert (fields(seen["after"])["reward_type"], seen["after"]["done"]) == ("episode_already_done", True)
    assert fields(seen["again"])["scenario"] == "vet_clinic_1"
    assert (fields(seen["failed"])["reward_type"], seen["failed"]["reward"]) == ("incomplete", 0.1)


@pytest.mark.parametrize("way", WAYS)
def test_the_state_counts_steps_and_carries_the_clients_label(played: dict[str, Any], way: str) -> None:
    state = played[way]["state"]
    assert state["episode_id"] == "e-1"
    # generic: list, two calls; the others: list, four calls
    assert state["step_count"] == (3 if way.startswith("generic") else 5)


@pytest.mark.parametrize("way", [way for way in WAYS if not way.startswith("generic")])
def test_calling_a_tool_by_name(played: dict[str, Any], way: str) -> None:
    """Over the WebSocket with the older client, over the HTTP session that the newer one opens."""
    called, unknown = played[way]["called"], played[way]["unknown"]
    assert called["reward_type"] == "tool_call_ok"
    assert "Tarnlight" in called["tool_result"]
    assert unknown["reward_type"] == "tool_not_found"
    if played["version"].startswith("0.10") and way.startswith("public"):
        assert (called["reward"], unknown["reward"]) == (0.0, -1.0)


def test_every_way_sees_the_same(played: dict[str, Any]) -> None:
    """The same seed and the same actions: nothing depends on the client."""
    for step in ("add", "verify"):
        found = {json.dumps(fields(played[way][step]).get("tool_result") or "", sort_keys=True) for way in WAYS}
        assert len(found) == 1
    ids = {fields(played[way]["reset"])["metadata"]["episode_id"] for way in WAYS}
    assert len(ids) == 1
