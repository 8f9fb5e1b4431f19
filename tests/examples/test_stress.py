"""The stress test against a real server, small."""

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from served import ROOT, environment, served

SCRIPT = ROOT / "examples/stress_test.py"
FAST = ["--min-turns", "2", "--max-turns", "5", "--think-min", "0", "--think-max", "0"]

pytestmark = pytest.mark.xdist_group("stress")


@pytest.fixture(scope="module")
def url(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(
        runtime_cache.parent, tmp_path_factory.mktemp("stress") / "server.log", MAX_CONCURRENT_ENVS="8"
    ) as address:
        yield address


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stress_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(url: str, cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *FAST, *arguments], env=environment(cache, AWM_BASE_URL=url), capture_output=True,
        text=True, timeout=100, check=False,
    )  # fmt: skip


def statistics(url: str) -> dict[str, Any]:
    """What the server says of itself."""
    with urllib.request.urlopen(url + "/stats", timeout=30) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def counts(printed: str) -> dict[str, int]:
    """The count beside each name in the tables."""
    rows = re.findall(r"^│ (\S.*?) +│ +(\d+) +│", printed, re.MULTILINE)
    return {name: int(count) for name, count in rows}


def test_twelve_episodes_without_an_error(url: str, runtime_cache: Path) -> None:
    done = run(url, runtime_cache.parent, "--scale", "12", "--concurrency", "4", "--server-pid", str(os.getpid()))
    assert done.returncode == 0, done.stdout + done.stderr
    found = counts(done.stdout)
    assert found["reset"] == found["connect"] == found["done"] == found["reset: reset_ok"] == 12
    assert found["step"] >= 24
    assert found["step: tool_call_ok"] > found["step"] / 2  # made-up arguments are mostly sound
    assert found["verify"] == 12
    assert "no errors" in done.stdout
    assert re.search(r"12 of 12 episodes in .* at most 4 sessions at a time", done.stdout)
    assert "memory of it and all below it: at most" in done.stdout
    assert statistics(url)["total_sessions"] == 0


def test_errors_are_told_by_kind(url: str, runtime_cache: Path) -> None:
    done = run(url, runtime_cache.parent, "--scale", "20", "--concurrency", "20", "--think-max", "0.2")
    assert done.returncode == 1  # there is room for eight
    assert re.search(r"CAPACITY_REACHED", done.stdout)


def test_an_interrupt_prints_what_is_known(url: str, runtime_cache: Path) -> None:
    command = [sys.executable, SCRIPT, *FAST, "--scale", "100000", "--concurrency", "4"]
    variables = environment(runtime_cache.parent, AWM_BASE_URL=url)
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not statistics(url)["scenarios"] and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)  # some are done by now, and others not
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
    assert process.returncode == 130, complaints
    assert "Traceback" not in complaints
    assert counts(printed)["reset"] > 0
    assert "of 100000 episodes" in printed


def test_without_a_server_it_says_what_to_do(runtime_cache: Path) -> None:
    done = run("http://127.0.0.1:9", runtime_cache.parent)
    assert done.returncode == 2
    assert "cannot reach http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_arguments_fit_their_schema(script: ModuleType) -> None:
    schema = {
        "required": ["count", "when", "kind", "place", "tags", "both"],
        "properties": {
            "count": {"type": "integer", "minimum": 3, "maximum": 5},
            "when": {"type": "string", "format": "date-time"},
            "kind": {"$ref": "#/$defs/Kind"},
            "place": {
                "type": "object",
                "required": ["city"],
                "properties": {"city": {"type": "string", "minLength": 4}},
            },
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "both": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
            "page": {"type": "integer", "default": 1},
        },
        "$defs": {"Kind": {"enum": ["a", "b"]}},
    }
    dice = random.Random(1)
    for _ in range(50):
        made = script.made_up(schema, dice)
        assert 3 <= made["count"] <= 5
        assert made["when"].startswith("2026-")
        assert made["kind"] in ("a", "b")
        assert len(made["place"]["city"]) >= 4
        assert len(made["tags"]) == 2
        assert isinstance(made["both"], bool)
        assert made.get("page", 1) == 1


def test_it_needs_nothing_but_websockets_and_rich() -> None:
    imported = set(re.findall(r"^(?:from|import) (\w+)", SCRIPT.read_text(), re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"rich", "websockets"}
