"""`AWMEnv` and OpenEnv's own clients, of both generations, each in an environment of its own."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import live as live_server
from quintain.sandboxes.inprocess import InProcessProvider
from toy import ToyWorld

ROOT = Path(__file__).parents[2]
JUDGE = {"OPENENV_AWM_LLM_BASE_URL": "http://judge", "OPENENV_AWM_LLM_MODEL": "m"}


@dataclass
class Driven:
    """What a peer's clients saw, and what they left on the server."""

    seen: dict[str, Any] = field(default_factory=dict)
    resets: list[dict[str, Any]] = field(default_factory=list)
    sessions: int = -1
    instances: int = -1
    warnings: list[str] = field(default_factory=list)


def python_of(peer: str) -> Path:
    python = ROOT / ".venvs" / peer / "bin" / "python"
    assert python.exists(), f"{python} is missing; `make test` makes the peers' environments"
    return python


def run(python: Path, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [python, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_PROXY": "127.0.0.1", **variables},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def record_resets(live: live_server.Live, resets: list[dict[str, Any]]) -> None:
    """Note the parameters of every reset, as they arrive."""
    make = live.registry._make

    def recording(scope: Any) -> Any:
        session = make(scope)
        reset = session.reset

        async def recorded(data: dict[str, Any]) -> Any:
            resets.append(data)
            return await reset(data)

        session.reset = recorded  # type: ignore[method-assign]
        return session

    live.registry._make = recording


def drive(peer: str, ways: list[str], root: Path) -> Driven:
    driven = Driven()
    world = ToyWorld(root, InProcessProvider(root / "instances"))
    with live_server.serving(world, root / "kept") as live:
        record_resets(live, driven.resets)
        script = str(Path(__file__).with_name("drive_awm.py"))
        output = run(python_of(peer), "-W", "error::RuntimeWarning", script, live.url, *ways, **JUDGE)
        driven.seen = json.loads(output.splitlines()[-1])
        live.wait_for(lambda: len(live.registry) == 0)
        driven.sessions, driven.instances = len(live.registry), world.provider.live
        driven.warnings = live.log.messages
    return driven


@pytest.fixture(
    scope="module",
    params=[
        pytest.param("openenv", marks=pytest.mark.xdist_group("openenv")),
        pytest.param("openenv-core", marks=pytest.mark.xdist_group("openenv-core")),
    ],
)
def driven(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Driven:
    """One run of a peer's clients through every way of playing."""
    return drive(request.param, ["async", "sync", "generic"], tmp_path_factory.mktemp("world"))


def test_asynchronous(driven: Driven) -> None:
    seen = driven.seen["async"]
    assert seen["scenarios"][0] == "toy_notes_1"
    assert seen["started"] == {"type": "reset_ok", "reward": None, "done": False, "error": None}
    assert seen["metadata"]["episode_id"].startswith("sha256:")
    assert seen["tools"][:2] == ["list_notes", "add_note"]
    assert [(step["type"], step["reward"], step["done"]) for step in seen["steps"]] == [
        ("tool_call_ok", 0.0, False),
        ("timeout", 0.0, False),
        ("complete", 1.0, False),
        ("episode_done", 0.0, True),
    ]
    assert "0.2 s" in seen["steps"][1]["error"]
    assert "last committed" in seen["warning"]
    assert "buy milk" in seen["notes"]
    assert seen["valid"] is True
    assert seen["state"] == ["label", 5]


def test_synchronous(driven: Driven) -> None:
    seen = driven.seen["sync"]
    assert seen["tools"] == 11
    assert [(step["type"], step["reward"], step["done"]) for step in seen["steps"]] == [
        ("reset_ok", None, False),
        ("judge_error", 0.0, False),
        ("episode_done", 0.0, True),
    ]
    assert seen["valid"] is False
    assert "reset" in seen["refused"]


def test_the_judges_settings_of_the_clients_environment_go_with_a_reset(driven: Driven) -> None:
    judge = {"llm_base_url": "http://judge", "llm_model": "m"}
    assert driven.resets == [
        {"scenario": "toy_notes_1", "task_idx": 0, "episode_id": "label", **judge},
        {"scenario": "toy_notes_1", "task_idx": 1, **judge},
        {"scenario": "toy_notes_1", "task_idx": 0},
    ]


def test_openenvs_generic_client(driven: Driven) -> None:
    seen = dict(driven.seen["generic"])
    assert "VALIDATION_ERROR" in seen.pop("refused")
    assert seen == {
        "started": "reset_ok",
        "tools": 11,
        "called": ["tool_call_ok", 0.0, False],
        "verified": ["complete", 1.0],
        "state": 3,
        "ended": True,
    }


def test_nothing_is_left_and_nothing_was_complained_of(driven: Driven) -> None:
    assert (driven.sessions, driven.instances, driven.warnings) == (0, 0, [])


def test_tools_over_http_and_steps_over_the_websocket_share_one_session(tmp_path: Path) -> None:
    driven = drive("openenv", ["mcp"], tmp_path)
    seen = driven.seen["mcp"]
    assert seen["started"] == "reset_ok"
    assert seen["tools"][:2] == ["list_notes", "add_note"]
    assert seen["schema"]["required"] == ["text"]
    assert seen["called"] == {
        "reward_type": "tool_call_ok",
        "tool_name": "add_note",
        "tool_result": '{"id": 2}',
        "reward": 0.0,
        "done": False,
    }
    assert seen["missing"] == -1.0
    assert seen["verified"] == ["complete", 1.0, 4]
    assert (seen["total"], seen["ended"]) == (4, ["episode_done", True])
    assert (driven.sessions, driven.instances, driven.warnings) == (0, 0, [])
