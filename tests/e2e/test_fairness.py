"""One slow or hostile session costs the others nothing: they are answered, memory stays bounded, slots come back."""

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import refuse_without_limits
from e2e.hostile import HOSTILE
from e2e.pack import Scenario, write_pack
from e2e.peer import SCRIPTS
from e2e.serving import Server, serving, wait_until
from e2e.test_sessions import stats
from e2e.wire import Wire, step

pytestmark = pytest.mark.xdist_group("e2e-fairness")

HOUSE = "hostile_house_1"
DEADLINE_S = 3
PLACES = 8
MIB = 2**20


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with few places that drops clients soon."""
    folder = tmp_path_factory.mktemp("crowded")
    data = write_pack(folder / "data", [Scenario("Hostile House 1", HOSTILE)])
    settings = {
        "MAX_CONCURRENT_ENVS": str(PLACES),
        "QUINTAIN_PING_INTERVAL": "0.5",
        "QUINTAIN_PING_TIMEOUT": str(DEADLINE_S),
    }
    with serving(folder, ["--awm-data", str(data)], **settings) as running:
        yield running
        running.settle()
        assert running.episodes() == []
        assert running.leftovers() == []
        assert running.complaints == []


@pytest.fixture
def neighbour(crowded: Server) -> Iterator[Wire]:
    """A decent session beside the others."""
    with Wire(crowded.url) as session:
        session.reset(HOUSE, 0)
        session.value("add_note", words="mine")
        yield session
        assert session.value("list_notes") == ["first", "mine"]


def sessions(server: Server) -> int:
    """How many sessions hold a place."""
    found = stats(server)["quintain"]
    assert isinstance(found, dict)
    return int(found["sessions"])


def resident_mib(server: Server) -> float:
    """Memory of the server's own process."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def while_it_lasts(work: Callable[[], Any], neighbour: Wire) -> tuple[Any, int]:
    """What some work came to, and how many calls of a neighbour were answered until then."""
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(work()))
    thread.start()
    answered = 0
    while thread.is_alive():
        assert neighbour.value("echo", words=f"call {answered}") == {"echo": f"call {answered}"}
        answered += 1
    thread.join()
    assert done, "the work failed"
    return done[0], answered


@contextlib.contextmanager
def deaf(server: Server) -> Iterator[socket.socket]:
    """A connection that has begun an episode and reads nothing any more."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
    raw.settimeout(20)
    raw.connect(("127.0.0.1", server.port))
    raw.sendall(
        b"GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += raw.recv(4096)
    assert head.startswith(b"HTTP/1.1 101"), head
    raw.sendall(frame({"type": "reset", "data": {"scenario": HOUSE}}))
    assert b"reset_ok" in raw.recv(65536)
    try:
        yield raw
    finally:
        raw.close()


def frame(message: Any) -> bytes:
    """A masked text frame; the mask is zero."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    size = len(body)
    if size < 126:
        length = bytes([0x80 | size])
    elif size < 2**16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    return b"\x81" + length + b"\0\0\0\0" + body


def pour(raw: socket.socket, data: bytes, seconds: float) -> int:
    """Send over and over until nothing is taken for so long; how many bytes were."""
    raw.settimeout(seconds)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 512 * MIB:
            sent += raw.send(memoryview(data)[sent % len(data) :])
    return sent


def test_a_tool_that_spins_for_its_whole_time(crowded: Server, neighbour: Wire) -> None:
    with Wire(crowded.url) as session:
        session.reset(HOUSE)
        refuse_without_limits(session)
        spun, answered = while_it_lasts(lambda: session.seen("spin", {"timeout_s": 2}, really=True), neighbour)
    assert spun["reward_type"] == "timeout"
    assert answered > 10


def test_results_of_five_megabytes(crowded: Server, neighbour: Wire) -> None:
    with Wire(crowded.url) as session:
        session.reset(HOUSE)

        def work() -> list[int]:
            return [len(session.seen("large", size=5 * MIB)["tool_result"]) for _ in range(6)]

        sizes, answered = while_it_lasts(work, neighbour)
    assert sizes == [5 * MIB] * 6
    assert answered > 10


def test_a_client_that_never_reads_loses_its_connection_and_its_place(crowded: Server, neighbour: Wire) -> None:
    before = resident_mib(crowded)
    with deaf(crowded) as raw:
        assert sessions(crowded) == 2
        raw.sendall(frame(step("large", {"size": 5 * MIB})) * 200)  # a gigabyte of answers

        def work() -> tuple[bool, float]:
            most = 0.0
            deadline = time.monotonic() + 4 * DEADLINE_S
            while sessions(crowded) > 1 and time.monotonic() < deadline:
                most = max(most, resident_mib(crowded))
                time.sleep(0.05)
            return sessions(crowded) == 1, most

        (gone, most), answered = while_it_lasts(work, neighbour)
        assert gone, "the place did not come back"
        assert most - before < 200
        assert answered > 10
    assert wait_until(lambda: len(crowded.episodes()) == 1, 5)


def test_a_large_answer_that_is_never_read_and_nothing_else_is_asked(crowded: Server, neighbour: Wire) -> None:
    """Nothing is in flight any more, and the closing handshake cannot be written either."""
    with deaf(crowded) as raw, deaf(crowded) as closing:
        raw.sendall(frame(step("large", {"size": 9 * MIB})))
        closing.sendall(frame(step("large", {"size": 9 * MIB})) + frame({"type": "close"}))
        assert wait_until(lambda: sessions(crowded) == 1, 4 * DEADLINE_S)
        assert wait_until(lambda: established(crowded) == 1, 4 * DEADLINE_S), "its socket is still held"
    assert neighbour.value("echo", words="x") == {"echo": "x"}


def established(server: Server) -> int:
    """Connections that the server's process holds."""
    held = 0
    for link in Path(f"/proc/{server.process.pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inode = link.readlink().as_posix().removeprefix("socket:[").removesuffix("]")
            held += inode in inodes(server.port)
    return held


def inodes(port: int) -> set[str]:
    """Sockets whose own end is a port, and which are connected."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[9] for row in rows if int(row[1].rpartition(":")[2], 16) == port and row[3] != "0A"}


def test_a_plain_http_client_that_never_reads_is_cut_off_too(crowded: Server, neighbour: Wire) -> None:
    held = established(crowded)
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        raw.connect(("127.0.0.1", crowded.port))
        pour(raw, b"GET /schema HTTP/1.1\r\nHost: x\r\n\r\n" * 1000, 1.0)
        assert established(crowded) == held + 1
        assert wait_until(lambda: established(crowded) == held, 4 * DEADLINE_S), "its socket is still held"
    assert neighbour.value("echo", words="x") == {"echo": "x"}


def test_a_client_that_pipelines_is_read_no_faster_than_it_is_served(crowded: Server, neighbour: Wire) -> None:
    before = resident_mib(crowded)
    with deaf(crowded) as raw:
        raw.sendall(frame(step("sleep", {"seconds": 3})))
        sent, answered = while_it_lasts(lambda: pour(raw, frame({"type": "state"}) * 1000, 1.0), neighbour)
        assert sent < 64 * MIB, "the server reads on and on"
        assert resident_mib(crowded) - before < 100
        assert answered > 10
    assert wait_until(lambda: sessions(crowded) == 1, 4 * DEADLINE_S)


def test_large_messages_are_not_read_ahead(crowded: Server, neighbour: Wire) -> None:
    before = resident_mib(crowded)
    with deaf(crowded) as raw:
        raw.sendall(frame(step("sleep", {"seconds": 3})))
        large = frame({"type": "step", "data": {"type": "dance", "padding": "x" * (8 * MIB)}})
        sent, answered = while_it_lasts(lambda: pour(raw, large, 1.0), neighbour)
        assert sent < 64 * MIB, "the server reads on and on"
        assert resident_mib(crowded) - before < 150
        assert answered > 10
    assert wait_until(lambda: sessions(crowded) == 1, 4 * DEADLINE_S)


def test_pipelined_messages_are_all_answered_in_order(crowded: Server, neighbour: Wire) -> None:
    count = 2000
    with Wire(crowded.url) as session:
        session.reset(HOUSE)

        def work() -> list[str]:
            sender = threading.Thread(
                target=lambda: [session.send(step("echo", {"words": str(number)})) for number in range(count)]
            )
            sender.start()
            answers = [session.receive()["data"]["observation"]["tool_result"] for _ in range(count)]
            sender.join()
            return answers

        answers, answered = while_it_lasts(work, neighbour)
    assert [json.loads(text)["echo"] for text in answers] == [str(number) for number in range(count)]
    assert answered > 10


@contextlib.contextmanager
def client_processes(server: Server, count: int) -> Iterator[list["subprocess.Popen[str]"]]:
    """Clients in processes of their own, each with an episode."""
    url = server.url.replace("http", "ws", 1) + "/ws"
    command = [sys.executable, str(SCRIPTS / "idle_client.py"), url]
    clients = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(count)
    ]
    try:
        for client in clients:
            assert said(client) == "reset_ok"
        yield clients
    finally:
        for client in clients:
            client.kill()
            client.communicate()


def said(client: "subprocess.Popen[str]") -> str:
    """The next line of a client."""
    assert client.stdout is not None
    return client.stdout.readline().strip()


def ask(client: "subprocess.Popen[str]") -> str:
    """What a call of a client comes to."""
    assert client.stdin is not None
    client.stdin.write("call\n")
    client.stdin.flush()
    return said(client)


def test_stopped_clients_give_their_places_back_and_one_that_is_only_busy_keeps_its_own(crowded: Server) -> None:
    with client_processes(crowded, PLACES) as clients:
        *stopped, busy = clients
        with Wire(crowded.url) as refused:
            assert refused.receive()["data"]["code"] == "CAPACITY_REACHED"
        for client in clients:
            client.send_signal(signal.SIGSTOP)
        time.sleep(DEADLINE_S / 2)
        assert sessions(crowded) == PLACES
        busy.send_signal(signal.SIGCONT)
        assert ask(busy) == "tool_call_ok"
        assert wait_until(lambda: sessions(crowded) == 1, 4 * DEADLINE_S), "half-open sessions keep their places"
        assert wait_until(lambda: len(crowded.episodes()) == 1, 5)
        assert ask(busy) == "tool_call_ok"
        with contextlib.ExitStack() as stack:
            for _ in range(PLACES - 1):
                stack.enter_context(Wire(crowded.url)).reset(HOUSE)
        stopped[0].send_signal(signal.SIGCONT)
        assert ask(stopped[0]) == "ConnectionClosedError"


def test_a_client_whose_messages_wait_their_turn_is_not_taken_for_dead(crowded: Server) -> None:
    """While the server does not read, it cannot see the pong that lies in the socket."""
    with Wire(crowded.url) as session:
        session.reset(HOUSE)
        for _ in range(30):
            session.send(step("sleep", {"seconds": 0}))
        session.send(step("sleep", {"seconds": DEADLINE_S + 2}))
        for _ in range(30):
            session.send(step("list_notes", {}))
        for _ in range(61):
            assert session.receive()["data"]["observation"]["reward_type"] == "tool_call_ok"
