"""The kind runs in a subprocess of the class's own interpreter, and fastapi-mcp in one of its own."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from quintain.environments.awm import awm_class
from quintain.sandboxes.runtime import choose_interpreter, ensure_runtime
from quintain.tasks.awm import AwmDataset
from quintain.tasks.shipped import open_pack

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
ENVIRONMENTS = ROOT / "src" / "quintain" / "environments"
PEER_LOCK = ROOT / "requirements" / "peer-fastapi-mcp.txt"
SETTING = os.environ.get("QUINTAIN_RUNTIME_PYTHON")
EPOCH = "2026-02-10T00:00:00Z"

Call = Sequence[Any]


@dataclass
class Driver:
    """Loads payloads and plays episodes, each order in a process of its own."""

    play: Callable[[dict[str, Any]], dict[str, Any]]
    scratch: Path
    _runs: int = 0

    def run(
        self,
        code: str | dict[str, Any],
        *episodes: Sequence[Call],
        warm: bool = False,
        seed: int = 7,
        schema: Sequence[dict[str, Any]] = (),
        inserts: Sequence[str] = (),
        root: Path | None = None,
    ) -> dict[str, Any]:
        """What the driver printed for a payload, or for a piece of code with a database of its own."""
        if root is None:
            self._runs += 1
            root = self.scratch / f"state{self._runs}"
            root.mkdir()
        payload = code if isinstance(code, dict) else self.payload(code, schema, inserts)
        order = {
            "kinds": str(ENVIRONMENTS),
            "payload": payload,
            "root": str(root),
            "warm": warm,
            "episodes": [{"seed": seed, "calls": [list(call) for call in calls]} for calls in episodes],
        }
        result = self.play(order)
        result["root"] = root
        return result

    def answers(self, code: str | dict[str, Any], *calls: Call, **options: Any) -> list[dict[str, Any]]:
        """The answers of one episode."""
        result = self.run(code, calls, **options)
        assert "error" not in result, result["error"]
        return list(result["episodes"][0]["answers"])

    @staticmethod
    def payload(code: str, schema: Sequence[dict[str, Any]] = (), inserts: Sequence[str] = ()) -> dict[str, Any]:
        """A payload of one's own."""
        return {
            "scenario": "small_1",
            "database": "small_1.db",
            "code": code,
            "schema": {"tables": list(schema)},
            "sample": {"tables": [{"table_name": "any", "insert_statements": list(inserts)}]},
            "epoch": EPOCH,
        }


def _run(python: Path, script: Path, order: dict[str, Any]) -> dict[str, Any]:
    done = subprocess.run(
        [str(python), "-I", str(script)], input=json.dumps(order), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="session")
def class_python() -> Path:
    """The AWM class's interpreter, built from its lock."""
    return ensure_runtime(ENVIRONMENTS / "awm.lock.txt", _cache(), choose_interpreter(SETTING)).python


@pytest.fixture(scope="session")
def forked(class_python: Path) -> Iterator[Callable[[dict[str, Any]], dict[str, Any]]]:
    """Plays orders in forks of one process that has imported the class's libraries, as a zygote has."""
    command = [str(class_python), "-I", str(HERE / "driver.py"), str(ENVIRONMENTS), *awm_class().preload]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as zygote:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        orders, answers = zygote.stdin, zygote.stdout

        def play(order: dict[str, Any]) -> dict[str, Any]:
            orders.write(json.dumps(order) + "\n")
            orders.flush()
            answer: dict[str, Any] = json.loads(answers.readline())
            return answer

        yield play
        orders.close()
    assert zygote.returncode == 0


@pytest.fixture
def driver(forked: Callable[[dict[str, Any]], dict[str, Any]], tmp_path: Path) -> Driver:
    """Plays episodes in the class's interpreter."""
    return Driver(forked, tmp_path)


@pytest.fixture
def fresh_driver(class_python: Path, tmp_path: Path) -> Driver:
    """The same, but each order in an interpreter started for it: nothing is shared, not even how strings are hashed."""
    return Driver(lambda order: _run(class_python, HERE / "driver.py", order), tmp_path)


@pytest.fixture(scope="session")
def pack() -> Iterator[AwmDataset]:
    """The shipped pack."""
    with open_pack() as dataset:
        yield dataset


@pytest.fixture(scope="session")
def peer() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """fastapi-mcp on an order; see `peer.py`."""
    made = ROOT / ".venvs" / "fastapi-mcp" / "bin" / "python"
    python = made if made.exists() else ensure_runtime(PEER_LOCK, _cache(), choose_interpreter()).python
    return lambda order: _run(python, HERE / "peer.py", order)


def _cache() -> Path:
    return Path.home() / ".cache" / "quintain" / "tests"
