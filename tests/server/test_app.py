"""The application: tokens, import cost, and the server as a process of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from quintain.errors import SettingsError
from quintain.server.app import is_loopback, refuse_open_address
from quintain.server.settings import Settings

ROOT = Path(__file__).parents[2]


def test_with_a_token_only_health_is_open(serving: Callable[..., Any]) -> None:
    with serving(token=SecretStr("t-1")) as live:
        assert live.get("/health").status_code == 200
        for path in ("/stats", "/metadata", "/schema", "/openapi.json"):
            assert live.get(path).status_code == 401
        with pytest.raises(InvalidStatus) as caught, live.client():
            pass
        assert caught.value.response.status_code == 403
        live.headers = {"Authorization": "Bearer wrong"}
        assert live.get("/stats").status_code == 401
        live.headers = {"Authorization": "Bearer t-1"}
        assert live.get("/stats").status_code == 200
        with live.client(additional_headers=live.headers) as client:
            assert client.reset(scenario="toy_notes_1")["observation"]["reward_type"] == "reset_ok"


def test_the_scheme_of_a_token_is_in_any_case(serving: Callable[..., Any]) -> None:
    with serving(token=SecretStr("t-1")) as live:
        for given, status in (("bearer t-1", 200), ("BEARER  t-1", 200), ("Basic t-1", 401), ("Bearer T-1", 401),
                              ("Bearer", 401), ("t-1", 401), ("Bearer t-1 x", 401)):  # fmt: skip
            live.headers = {"Authorization": given}
            assert (given, live.get("/stats").status_code) == (given, status)


@pytest.mark.parametrize(
    ("origin", "let_in"),
    [
        (None, True),
        ("http://127.0.0.1:PORT", True),
        ("http://127.0.0.1:1", False),
        ("http://127.0.0.1", False),
        ("https://example.org", False),
        ("http://127.0.0.1.example.org:PORT", False),
        ("http://[", False),
        ("null", False),
        ("", False),
    ],
)
def test_pages_of_another_origin_cannot_use_a_server_without_a_token(
    live: Any, origin: str | None, let_in: bool
) -> None:
    if origin is not None:
        live.headers = {"Origin": origin.replace("PORT", str(live.port))}
    assert live.post("/mcp", {}).status_code == (200 if let_in else 403)
    assert live.post("/reset", {}).status_code == (400 if let_in else 403)
    assert live.get("/health").status_code == 200
    if let_in:
        with live.client(additional_headers=live.headers) as client:
            assert client.state()["step_count"] == 0
    else:
        with pytest.raises(InvalidStatus) as caught, live.client(additional_headers=live.headers):
            pass
        assert caught.value.response.status_code == 403
        assert len(live.registry) == 0


def test_a_name_that_leads_here_is_no_origin_of_its_own(live: Any) -> None:
    live.headers = {"Origin": f"http://rebound.example.org:{live.port}", "Host": f"rebound.example.org:{live.port}"}
    assert live.post("/mcp", {}).status_code == 403


def test_with_a_token_the_origin_does_not_matter(serving: Callable[..., Any]) -> None:
    with serving(token=SecretStr("t-1")) as live:
        live.headers = {"Authorization": "Bearer t-1", "Origin": "https://example.org"}
        assert live.post("/mcp", {}).status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org"])
def test_no_token_no_server_for_others(host: str) -> None:
    with pytest.raises(SettingsError, match="QUINTAIN_TOKEN"):
        refuse_open_address(Settings(host=host))
    refuse_open_address(Settings(host=host, token=SecretStr("t-1")))
    refuse_open_address(Settings(host="localhost"))


def test_loopback_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "localhost.example.org")] == [False] * 3


def test_the_server_imports_nothing_heavy() -> None:
    code = "import sys, quintain.server.app; print(*sorted(name.split('.')[0] for name in sys.modules))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
        ).stdout.split()
    )
    assert "starlette" in loaded
    assert not loaded & {
        "openenv",
        "fastapi",
        "mcp",
        "sqlalchemy",
        "alembic",
        "pandas",
        "gradio",
        "torch",
        "rich",
        "typer",
    }


SERVER = """
import pathlib, signal, socket, sys
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: None)  # uvicorn raises what it caught once more when it has ended
from toy import ToyWorld
from quintain.sandboxes.inprocess import InProcessProvider
from quintain.server.app import create_app, uvicorn_config
from quintain.server.settings import Settings
import uvicorn
root = pathlib.Path(sys.argv[1])
provider = InProcessProvider(root / "instances")
world = ToyWorld(root, provider)
settings = Settings()
server = uvicorn.Server(uvicorn_config(settings, create_app(settings, world.rooms, [provider.close])))
server.run(sockets=[socket.socket(fileno=int(sys.argv[2]))])
print("left:", sorted(path.name for path in (root / "instances").iterdir()), provider.live, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_and_what_it_held(tmp_path: Path, number: signal.Signals) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(tmp_path), str(sock.fileno())],
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"},
            pass_fds=[sock.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        with connect(f"ws://127.0.0.1:{port}/ws", proxy=None, open_timeout=20) as connection:
            connection.send(json.dumps({"type": "reset", "data": {"scenario": "toy_notes_1"}}))
            assert json.loads(connection.recv(20))["data"]["observation"]["reward_type"] == "reset_ok"
            assert (
                httpx.get(f"http://127.0.0.1:{port}/stats", trust_env=False, verify=False).json()["total_sessions"] == 1
            )
            process.send_signal(number)
            output, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert "Traceback" not in errors
    assert "left: [] 0" in output
    assert process.returncode == 0
