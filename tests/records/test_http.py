"""The HTTP endpoint over a real socket, and a spool that is forwarded to it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import zstandard

from quintain.contracts.identity import sha256
from quintain.errors import RecordError
from quintain.records import Spool
from quintain.records.forwarding import Forwarder
from quintain.records.frames import frame
from quintain.records.recorder import Envelope, Sealed
from quintain.records.spool_reader import SpoolReader
from quintain.records.store import Store
from records.recording import payload, sealed

Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start an ingest process with an endpoint; its URL."""
    running: list[subprocess.Popen[str]] = []

    def started(*more: str, **variables: str) -> str:
        command = [sys.executable, "-m", "quintain.records.ingest", "--store", str(tmp_path / "store"), "--ledger",
                   str(tmp_path / "ledger.db"), "--port", "0", "--json", *more]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
        running.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
        )
        assert running[-1].stdout is not None
        return str(json.loads(running[-1].stdout.readline())["url"])

    yield started
    for process in running:
        with process:
            process.terminate()
            assert process.wait(30) == 0


def body(*payloads: bytes) -> bytes:
    return b"".join(map(frame, payloads))


def test_records_are_accepted_once(serve: Serve, tmp_path: Path) -> None:
    url = serve()
    with httpx.Client(base_url=url, trust_env=False, verify=False) as client:
        first = client.post("/v1/records", content=body(payload(0), payload(1), payload(0)))
        assert first.json() == {"new": 2, "duplicates": 1, "refused": []}
        packed = zstandard.ZstdCompressor().compress(body(payload(1), payload(2)))
        second = client.post("/v1/records", content=packed, headers={"Content-Encoding": "zstd"})
        assert second.json() == {"new": 1, "duplicates": 1, "refused": []}
        assert client.get("/health").json()["new"] == 3
    store = Store.read(tmp_path / "store", tmp_path / "ledger.db")
    assert store.index.counts()["records"] == 3, "durable when it is answered"
    store.close()


def test_what_is_wrong_is_answered_and_nothing_of_it_is_kept(serve: Serve, tmp_path: Path) -> None:
    url = serve()
    spaced = json.dumps(json.loads(sealed(0).data)).encode()
    loose = Sealed(Envelope(digest=sha256(spaced), run="x", recorded_at=1.0), spaced).payload()
    bomb = zstandard.ZstdCompressor().compress(bytes(65 * 2**20))
    cases: list[tuple[bytes, dict[str, str], int, str]] = [
        (b"hello", {}, 400, "no whole frame"),
        (body(payload(0))[:-1], {}, 400, "no whole frame"),
        (body(b"{}"), {}, 400, "no envelope"),
        (body(payload(0)[:-1] + b"x"), {}, 400, "digest"),
        (body(loose), {}, 400, "not canonical"),
        (b"x", {"Content-Encoding": "zstd"}, 400, "not zstd"),
        (bomb, {"Content-Encoding": "zstd"}, 413, "once it is decompressed"),
        (b"x", {"Content-Encoding": "gzip"}, 415, "gzip"),
        (body(payload(0)), {"Origin": "http://elsewhere.example"}, 403, "pages may not"),
        (bytes(65 * 2**20), {}, 413, "send fewer"),
    ]  # fmt: skip
    for content, headers, status, said in cases:
        answer = httpx.post(f"{url}/v1/records", content=content, headers=headers, trust_env=False, verify=False)
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
    store = Store.read(tmp_path / "store", tmp_path / "ledger.db")
    assert store.index.counts()["records"] == 0
    store.close()


def test_a_body_that_ends_early_costs_nothing(serve: Serve) -> None:
    url = serve()
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as half:
        half.sendall(b"POST /v1/records HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n" + body(payload(0))[:100])
    assert httpx.get(f"{url}/health", trust_env=False, verify=False).json()["new"] == 0
    assert httpx.post(f"{url}/v1/records", content=body(payload(0)), trust_env=False, verify=False).json()["new"] == 1


def test_a_token_is_asked_for(serve: Serve) -> None:
    url = serve("--host", "0.0.0.0", QUINTAIN_INGEST_TOKEN="secret token").replace("0.0.0.0", "127.0.0.1")
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret token"}):
        assert (
            httpx.post(f"{url}/v1/records", content=b"", headers=headers, trust_env=False, verify=False).status_code
            == 401
        )
    headers = {"Authorization": "Bearer secret token", "Origin": "http://elsewhere.example"}
    assert (
        httpx.post(f"{url}/v1/records", content=b"", headers=headers, trust_env=False, verify=False).status_code == 200
    )


def test_without_a_token_it_listens_on_loopback_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "quintain.records.ingest", "--store", str(tmp_path / "s"), "--ledger",
               str(tmp_path / "l.db"), "--port", "0", "--host", "0.0.0.0"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "QUINTAIN_INGEST_TOKEN" in done.stderr


def test_a_spool_is_forwarded_until_all_is_acknowledged(serve: Serve, tmp_path: Path) -> None:
    spool = Spool.open(tmp_path / "spool", segment_bytes=5000)
    for number in range(20):
        spool.append(payload(number)).result(30)
    spool.close()
    reader = SpoolReader.open(tmp_path / "spool")
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        dead = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    waits: list[float] = []
    lost = Forwarder(reader, dead)
    with pytest.raises(RecordError, match="cannot be reached"):
        lost.drain(waits.append, tries=3)
    assert waits == [0.4, 0.8]
    lost.close()
    forwarder = Forwarder(reader, serve(QUINTAIN_INGEST_TOKEN="secret"), "wrong")
    with pytest.raises(RecordError, match="answered 401"):
        forwarder.once()
    forwarder.close()
    reader.close()


def test_forwarding_twice_doubles_nothing(serve: Serve, tmp_path: Path) -> None:
    url = serve()
    for round_ in range(2):
        spool = Spool.open(tmp_path / "spool")
        for number in range(20):
            spool.append(payload(number)).result(30)
        spool.close()
        reader = SpoolReader.open(tmp_path / "spool")
        forwarder = Forwarder(reader, url)
        done = forwarder.drain()
        assert (done.sent, done.duplicates, done.refused) == (20, 20 * round_, 0)
        forwarder.close()
        reader.close()
        assert [path.name for path in (tmp_path / "spool").iterdir()] == ["reader.lock"]
    deadline = time.monotonic() + 30
    while httpx.get(f"{url}/health", trust_env=False, verify=False).json()["appended"] < 20:
        assert time.monotonic() < deadline
        time.sleep(0.1)
