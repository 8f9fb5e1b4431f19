"""A packaged pack: what OpenEnv says of the folder, and its server started in both ways and played."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from e2e.peer import environment as peer_environment
from e2e.peer import program, run_script
from e2e.serving import environment
from e2e.wire import Wire
from quintain import __version__
from quintain.cli.init import scaffold
from quintain.cli.package import packaged
from quintain.cli.packaged import PackApp
from quintain.errors import UsageError
from quintain.tasks import PackSource
from served import ROOT

pytestmark = pytest.mark.xdist_group("packaged")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A packaged pack with one mock."""
    root = tmp_path_factory.mktemp("packaged")
    return packaged(str(scaffold("mock", "tea-shop", root)), root / "out")


@contextmanager
def started(folder: Path, command: Sequence[str], scratch: Path) -> Iterator[subprocess.Popen[str]]:
    """A server in the packaged folder, ended by SIGTERM."""
    variables = environment(scratch, {"PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")])}, ["--pack"])
    with (scratch / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=log, text=True
        )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode in (0, -15), (scratch / "log").read_text()


def solution(folder: Path, seed: int) -> dict[str, Any]:
    """What a client is to do, of the pack's first task."""
    with PackSource.open(folder / "pack") as source:
        found = source.solution("tea_shop", 0, seed)
        assert found is not None
        return {
            "reset": {"scenario": "tea_shop", "task_idx": 0, "seed": seed},
            "calls": [[call.name, call.arguments] for call in found.calls],
            "answer": found.final_answer,
            "text": source.task("tea_shop", 0, seed).text,
        }


def played(url: str, asked: dict[str, Any]) -> None:
    told = run_script("openenv", "play_calls.py", url, json.dumps(asked))
    assert told == {"task": asked["text"], "verdict": "complete", "reward": 1.0}


def test_openenv_accepts_it(folder: Path) -> None:
    done = subprocess.run(
        [program("openenv", "openenv"), "validate", str(folder), "--level", "static", "--skip-build", "--json"],
        capture_output=True, text=True, timeout=60, env=peer_environment(), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["verdict"], report["signature"]) == ("pass", "openenv.yaml")
    assert [one["status"] for one in report["results"]] == ["pass"]


def test_its_server_serves_the_pack(folder: Path, tmp_path: Path) -> None:
    with started(folder, ["server.app", "--port", "0", "--json"], tmp_path) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line, (tmp_path / "log").read_text()
        ready = json.loads(line)
        assert ready["scenarios"] == 1
        played(ready["url"], solution(folder, 5))
        listed = httpx.post(f"{ready['url']}/AWMEnvironment/num_tasks", json={"split": "train"}, trust_env=False).json()
        declared = yaml.safe_load((folder / "openenv.yaml").read_text())["validation"]["capabilities"]
        assert listed == {"num_tasks": declared["declared_task_count"]["train"]}


def test_its_application_serves_the_pack_under_uvicorn(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["uvicorn", "server.app:app", "--host", "127.0.0.1", "--port", str(port), "--log-level", "warning"]
    with started(folder, command, tmp_path) as server:
        url = f"http://127.0.0.1:{port}"
        for _ in range(600):
            try:
                answer = httpx.get(f"{url}/health", timeout=5, trust_env=False)
                break
            except httpx.TransportError:
                assert server.poll() is None, (tmp_path / "log").read_text()
                asyncio.run(asyncio.sleep(0.1))
        assert answer.json() == {"status": "healthy"}
        asked = solution(folder, 3)
        with Wire(url) as session:
            assert session.reset(**asked["reset"])["task"] == asked["text"]
            for tool, arguments in asked["calls"]:
                assert session.seen(tool, **arguments)["reward_type"] == "tool_call_ok"
            assert session.call("verify", final_answer=asked["answer"])["reward"] == 1.0


async def test_an_application_that_others_can_reach_wants_a_token() -> None:
    app = PackApp(Path("nowhere"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://10.0.0.7:8000") as client:
        assert (await client.get("/health")).status_code == 503, "it has not started"
        app._served, app._guarded = httpx_echo, False
        refused = await client.get("/stats")
        assert (refused.status_code, "set a token" in refused.json()["error"]) == (403, True)
        app._guarded = True
        assert (await client.get("/stats")).text == "served"
        app._guarded = False
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
        assert (await client.get("/stats")).text == "served"


async def httpx_echo(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


def test_the_folder_tells_what_is_in_it(folder: Path, tmp_path: Path) -> None:
    readme = (folder / "README.md").read_text()
    header = yaml.safe_load(readme.split("---\n")[1])
    assert (header["sdk"], header["app_port"], header["title"], header["tags"]) == (
        "docker", 8000, "Tea shop", ["openenv"],
    )  # fmt: skip
    assert "| Tea shop | mock | 2 |" in readme
    assert 'reset(scenario="tea_shop"' in readme
    project = (folder / "pyproject.toml").read_text()
    assert f'"quintain=={__version__}"' in project
    assert 'server = "server.app:main"' in project
    assert not any("@" in path.read_text() for path in folder.rglob("*") if path.name in ("Dockerfile", "openenv.yaml"))
    wheel = tmp_path / "quintain-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"PK")
    again = packaged(str(folder / "pack"), tmp_path / "again", wheel)
    assert (again / "wheels" / wheel.name).read_bytes() == b"PK"
    assert "--find-links wheels" in (again / "Dockerfile").read_text()
    with PackSource.open(folder / "pack") as one, PackSource.open(again / "pack") as other:
        assert one.dataset_digest == other.dataset_digest


def test_misuse(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Agent World Model's layout"):
        packaged("awm", tmp_path / "out")
    with pytest.raises(UsageError, match="is there already"):
        packaged(str(folder / "pack"), folder)
    with pytest.raises(UsageError, match="is no wheel"):
        packaged(str(folder / "pack"), tmp_path / "out", tmp_path / "none.whl")
    with pytest.raises(UsageError, match="is no pack"):
        packaged(str(tmp_path), tmp_path / "out")
