"""`quintain serve`: ready line, refusals, and an end that leaves nothing running."""

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from e2e.serving import COMMAND, Server, alive, descendants, environment, serving, wait_until
from e2e.wire import Wire, step

pytestmark = pytest.mark.xdist_group("cli-serve")

Refused = Callable[..., str]
WITHOUT_BUBBLEWRAP = Path(__file__).parents[1] / "e2e" / "reduced.py"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_cleanly_and_takes_everything_with_it(tmp_path: Path, number: int) -> None:
    server = Server(tmp_path)
    try:
        assert set(server.ready) == {"event", "url", "isolation", "scenarios", "spool"}
        assert (server.ready["event"], server.ready["scenarios"]) == ("ready", 5)
        with Wire(server.url) as idle, Wire(server.url) as busy:
            idle.reset("vet_clinic_1")
            busy.reset("recipe_box_1")
            busy.send(step("export_archive", {"megabytes": 9}))
            below = server.descendants()
            assert "q-episode" in below.values()
            assert server.stop(number) == 0
        assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20)
        assert server.leftovers() == []
        assert server.complaints == []
    finally:
        server.stop(signal.SIGKILL)


@pytest.mark.parametrize("delay_s", [0.4, 0.8])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_asked_while_it_starts(tmp_path: Path, number: int, delay_s: float) -> None:
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0", "--json"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=environment(tmp_path), cwd=tmp_path,
    )  # fmt: skip
    time.sleep(delay_s)
    below = descendants(process.pid)
    process.send_signal(number)
    _, printed = process.communicate(timeout=20)
    assert process.returncode in (0, -number, 130), printed  # before Python listens, the signal itself ends it
    assert "Traceback" not in printed or process.returncode == -number
    assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20)


def test_it_ends_when_asked_as_soon_as_it_is_ready(tmp_path: Path) -> None:
    server = Server(tmp_path)
    assert server.stop() == 0
    assert server.complaints == []


def test_a_killed_server_takes_everything_with_it(tmp_path: Path) -> None:
    server = Server(tmp_path)
    with Wire(server.url) as session:
        session.reset("vet_clinic_1")
        below = server.descendants()
        assert "q-episode" in below.values()
        server.stop(signal.SIGKILL)
        assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20)


def test_for_people_it_says_where_it_is(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(tmp_path) | {"PYTHONUNBUFFERED": "1"},
        cwd=tmp_path,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            process.terminate()
            process.stdout.read()  # to its end: what it still prints must find a reader
        finally:
            process.terminate()
            process.communicate(timeout=60)  # a pipe that is closed at once is a fault to who still prints
    assert process.returncode == 0
    assert "serving 5 scenarios at http://127.0.0.1:" in line
    assert "isolation full" in line or "isolation reduced" in line


def test_a_token_is_needed_where_others_can_reach_it(refused: Refused) -> None:
    line = refused("serve", "--host", "0.0.0.0", "--port", "0")
    assert "QUINTAIN_TOKEN" in line
    assert "0.0.0.0" in line


def test_with_a_token_only_its_bearers_get_in(tmp_path: Path) -> None:
    with serving(tmp_path, QUINTAIN_TOKEN="open sesame") as server:
        with urllib.request.urlopen(server.url + "/health", timeout=10) as answer:
            assert json.load(answer) == {"status": "healthy"}
        for path in ("/metadata", "/stats", "/schema"):
            with pytest.raises(urllib.error.HTTPError) as denied:
                urllib.request.urlopen(server.url + path, timeout=10)
            assert denied.value.code == 401
            denied.value.close()
        bearer = {"Authorization": "Bearer open sesame"}
        with urllib.request.urlopen(
            urllib.request.Request(server.url + "/stats", headers=bearer), timeout=10
        ) as answer:
            assert json.load(answer)["total_sessions"] == 0
        address = server.url.replace("http", "ws", 1) + "/ws"
        with pytest.raises(InvalidStatus), connect(address, proxy=None) as closed:
            closed.recv(5)
        with connect(address, proxy=None, additional_headers=bearer) as session:
            session.send('{"type": "state"}')
            assert json.loads(session.recv(10))["type"] == "state"


def test_a_port_in_use(refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("serve", "--port", str(port))
    assert str(port) in line
    assert "in use" in line
    assert "--port" in line


def test_an_address_that_is_none(refused: Refused) -> None:
    assert "no.such.host.invalid" in refused("serve", "--host", "no.such.host.invalid", QUINTAIN_TOKEN="t")


def test_a_folder_that_is_no_dataset(refused: Refused, tmp_path: Path, notes_pack: Path) -> None:
    assert str(tmp_path / "nowhere") in refused("serve", "--port", "0", "--awm-data", str(tmp_path / "nowhere"))
    (notes_pack / "gen_envs.jsonl").unlink()
    line = refused("serve", "--port", "0", "--awm-data", str(notes_pack))
    assert "gen_envs.jsonl" in line
    assert str(notes_pack) in line
    assert "gen_envs.jsonl" in refused("serve", "--port", "0", AWM_DATA_DIR=str(notes_pack))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("MAX_CONCURRENT_ENVS", "0"),
        ("OPENENV_AWM_MAX_IDLE_TIME", "soon"),
        ("QUINTAIN_CALL_TIMEOUT", "-1"),
        ("QUINTAIN_PORT", "99999"),
        ("QUINTAIN_ISOLATION", "absolute"),
        ("QUINTAIN_RUNTIME_PYTHON", "/no/such/python"),
    ],
)
def test_a_setting_out_of_range(refused: Refused, variable: str, value: str) -> None:
    arguments = ["serve"] if variable == "QUINTAIN_PORT" else ["serve", "--port", "0"]
    line = refused(*arguments, **{variable: value})
    assert variable in line
    assert value in line


def test_isolation_that_this_host_does_not_give(tmp_path: Path) -> None:
    """In a user namespace that may have no others: what many containers are like."""
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"'
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh",
         *COMMAND, "serve", "--port", "0", "--isolation", "full"],
        capture_output=True, text=True, timeout=60, env=environment(tmp_path), cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done
    assert done.stdout == ""
    line = done.stderr.splitlines()[-1]
    assert line.startswith("quintain: ")
    assert "isolation level" in line
    assert "'full' is asked for" in line
    assert "quintain doctor" in line
    assert "Traceback" not in done.stderr


def test_isolation_weaker_than_full_is_told_with_its_reason(tmp_path: Path) -> None:
    server = Server(tmp_path, ["--isolation", "reduced"], command=(sys.executable, WITHOUT_BUBBLEWRAP))
    try:
        assert server.ready["isolation"] == "reduced"
        assert "full was not reached: " in server.ready["isolation_shortfall"]
        (line,) = [line for line in server.log.splitlines() if "isolation" in line]
        assert line.startswith("quintain: isolation is reduced; full was not reached: ")
        assert server.ready["isolation_shortfall"] in line
    finally:
        server.stop()
    played = subprocess.run(
        [sys.executable, str(WITHOUT_BUBBLEWRAP), "episode", "vet_clinic_1", "0", "--solution", "--json",
         "--isolation", "reduced"],
        capture_output=True, text=True, timeout=60, env=environment(tmp_path), cwd=tmp_path, check=False,
    )  # fmt: skip
    assert json.loads(played.stdout.splitlines()[-1])["record"]["reward"] == 1.0
    assert played.stderr.startswith("quintain: isolation is reduced; full was not reached: ")
    assert len(played.stderr.splitlines()) == 1


def test_settings_come_from_the_environment(tmp_path: Path, notes_pack: Path) -> None:
    extra = {
        "AWM_DATA_DIR": str(notes_pack),
        "OPENENV_AWM_MAX_IDLE_TIME": "17",
        "OPENENV_AWM_CLEANUP_INTERVAL": "3",
        "OPENENV_AWM_ALLOWED_IDLE_SESSIONS": "4",
        "OPENENV_AWM_MAX_PORT_RETRIES": "2",
        "READY_POLL_INTERVAL": "1",
    }
    with serving(tmp_path, **extra) as server:
        assert server.ready["scenarios"] == 1
        with urllib.request.urlopen(server.url + "/stats", timeout=10) as answer:
            found = json.load(answer)
    expected = {
        "total_sessions": 0,
        "max_idle_time_config": 17.0,
        "cleanup_interval_config": 3.0,
        "allowed_idle_sessions_config": 4,
        "max_idle_s": 0,
        "scenarios": {},
    }
    assert found == found | expected


def test_idle_episodes_are_ended_when_there_are_too_many(tmp_path: Path) -> None:
    extra = {"OPENENV_AWM_MAX_IDLE_TIME": "2", "OPENENV_AWM_CLEANUP_INTERVAL": "0.1",
             "OPENENV_AWM_ALLOWED_IDLE_SESSIONS": "0"}  # fmt: skip
    with serving(tmp_path, **extra) as server, Wire(server.url) as session:
        session.reset("vet_clinic_1")
        assert wait_until(lambda: server.episodes() == [], 20)
        told = session.seen("list_pets")
        assert told["reward_type"] == "server_error"
        assert "idle" in told["error"]
        session.reset("vet_clinic_1")
        assert session.seen("list_pets")["reward_type"] == "tool_call_ok"


def test_the_server_starts_without_what_it_does_not_need() -> None:
    heavy = ["openenv", "mcp", "sqlalchemy", "alembic", "fastapi", "gradio", "pandas", "torch", "huggingface_hub"]
    code = (
        f"import sys, quintain.cli.main, quintain.cli.serve; print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
