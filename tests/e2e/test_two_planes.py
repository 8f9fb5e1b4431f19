"""Two planes: the agent lists and calls its tools over its own, and not a byte there tells of anything else.

The trainer drives the control plane over a WebSocket, the agent is the official MCP client, the server a process.
"""

import asyncio
import json
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import McpError

from e2e.agent import agent, plane, post, recording, said
from e2e.pack import HEAD, NOTE_TOOLS, NOTES, Scenario, write_pack
from e2e.serving import COMMAND, Server, alive, serving, wait_until
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-two-planes")

MANY_TOOLS = """
@app.get("/fail", operation_id="fail")
def fail():
    raise RuntimeError("nobody is told this")


@app.get("/refuse", operation_id="refuse")
def refuse():
    raise HTTPException(status_code=409, detail="the shelf is full")


@app.post("/vanish", operation_id="vanish")
def vanish():
    os._exit(3)


@app.get("/nap", operation_id="nap")
def nap(seconds: float):
    import time
    time.sleep(seconds)
    return "rested"


@app.get("/big", operation_id="big")
def big(size: int):
    return Response("x" * size, media_type="text/plain")
"""
OWN_NAMES = """
@app.get("/verify", operation_id="verify")
def verify(code: str):
    return f"the ticket {code} is in order"


@app.get("/done", operation_id="done")
def done():
    return "the list of what is done is empty"
"""
SHELF = HEAD + NOTE_TOOLS + MANY_TOOLS


def canary(what: str) -> str:
    """A word that stands in one place of the dataset, the requests or the settings, and nowhere else."""
    return f"canary-{what}-7f3a"


VERIFIER = f'''
import sqlite3

def verify_task_completion(initial_db_path, final_db_path, final_answer=None):
    """{canary("verifier-code")}"""
    gold = "{canary("gold-answer")}"
    rows = sqlite3.connect(final_db_path).execute("SELECT text FROM notes").fetchall()
    found = any(row[0] == "found it" for row in rows)
    word = "complete" if found else "{canary("verdict")}"
    return {{"result": word, "expected": gold, "tables": "{canary("evidence")}"}}
'''
TELLTALES = ("verif", "reward", "score", "reset", "complet", "judge", "gold", "quintain", "openenv", "failure",
             "owner", "infrastructure", "attempt", "episode", "session", "trainer", "task",
             "agent", "environment")  # fmt: skip


def scenarios() -> list[Scenario]:
    """A shelf and a quiet room whose verifier knows a secret, an office with tools of reserved names, a neighbour."""
    solution = [("add_note", {"words": canary("solution")})]
    return [
        Scenario("Shelf House 1", SHELF, ((canary("task-text"), VERIFIER),), {0: solution}),
        Scenario("Ticket Office 2", HEAD + NOTE_TOOLS + OWN_NAMES),
        Scenario("Quiet Room 4", NOTES, ((canary("task-text"), VERIFIER),)),
        Scenario("Neighbour 3", NOTES.replace('"Notes"', f'"{canary("neighbour-code")}"')),
    ]


@pytest.fixture(scope="module")
def planes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of those scenarios. Whatever an agent does, its log stays free of complaints."""
    folder = tmp_path_factory.mktemp("planes")
    data = write_pack(folder / "data", scenarios())
    with serving(folder, ["--awm-data", str(data)]) as running:
        yield running
        running.settle()
        assert (running.episodes(), running.leftovers(), running.complaints) == ([], [], [])


@pytest.fixture
def trainer(planes: Server) -> Iterator[Wire]:
    """A session on the control plane."""
    with Wire(planes.url) as session:
        yield session


def figures(server: Server) -> dict[str, Any]:
    """Quintain's part of `/stats`."""
    with urllib.request.urlopen(server.url + "/stats", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)["quintain"]
    return found


def ask(url: str, method: str = "tools/list", **params: Any) -> httpx.Response:
    """One request of an agent, without a client in between."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Accept": "application/json, text/event-stream"}
    return httpx.post(url, json=body, headers=headers, timeout=30, trust_env=False, verify=False)


def gone(url: str) -> bool:
    """Whether an address answers as if it had never been."""
    answer = ask(url)
    assert answer.status_code in (200, 404), answer.text
    return answer.status_code == 404 and answer.text == "Not Found"


async def test_an_agent_lists_and_calls_its_tools(planes: Server, trainer: Wire) -> None:
    observation = trainer.reset("shelf_house_1", 0)
    async with agent(planes.url + plane(observation)) as session:
        tools = (await session.list_tools()).tools
        assert [tool.model_dump(exclude_none=True) for tool in tools] == [
            {"name": tool["name"], "description": tool["description"], "inputSchema": tool["input_schema"]}
            for tool in trainer.tools()
        ]
        assert json.loads(said(await session.call_tool("list_notes"))) == ["first"]
        for name, arguments, words in (
            ("add_note", {}, "422"),
            ("fail", {}, "answered 500 (RuntimeError)"),
            ("refuse", {}, "the shelf is full"),
            ("vanish", {}, "ended without answering"),
            ("big", {"size": 11 * 2**20}, "(10 MiB); ask for less"),
            ("nowhere", {}, "no tool is called 'nowhere'"),
        ):
            result = await session.call_tool(name, arguments)
            assert (result.isError, words in said(result)) == (True, True), (name, said(result))
        assert len(said(await session.call_tool("big", {"size": 9 * 2**20}))) == 9 * 2**20


async def test_special_tools_are_not_there_and_a_scenarios_own_of_such_names_are(planes: Server, trainer: Wire) -> None:
    observation = trainer.reset("ticket_office_2", 0)
    assert "reserved" in observation["warning"]
    async with agent(planes.url + plane(observation)) as session:
        assert "A-1 is in order" in said(await session.call_tool("verify", {"code": "A-1"}))
        assert "list of what is done" in said(await session.call_tool("done"))
        assert (await session.call_tool("__list_scenarios__")).isError
    assert trainer.seen("verify")["reward_type"] == "incomplete"  # on this plane the name is the platform's
    shelf = trainer.reset("shelf_house_1", 0)
    async with agent(planes.url + plane(shelf)) as session:
        for name in ("verify", "done", "__list_scenarios__", "reset"):
            assert said(await session.call_tool(name)).startswith(f"no tool is called '{name}'")
        assert json.loads(said(await session.call_tool("list_notes"))) == ["first"]


async def test_two_agents_on_two_episodes_at_once(planes: Server) -> None:
    with Wire(planes.url) as one, Wire(planes.url) as other:
        paths = [plane(trainer.reset("shelf_house_1", 0)) for trainer in (one, other)]
        assert paths[0] != paths[1]

        async def play(path: str, word: str) -> list[str]:
            async with agent(planes.url + path) as session:
                for number in range(10):
                    await session.call_tool("add_note", {"words": f"{word} {number}"})
                found: list[str] = json.loads(said(await session.call_tool("list_notes")))
                return found

        seen = await asyncio.gather(*(play(path, word) for path, word in zip(paths, ("left", "right"), strict=True)))
        assert seen == [["first", *(f"{word} {number}" for number in range(10))] for word in ("left", "right")]


async def test_both_planes_step_one_episode(planes: Server, trainer: Wire) -> None:
    observation = trainer.reset("shelf_house_1", 0)
    async with agent(planes.url + plane(observation)) as session:
        trainer.value("add_note", words="by the trainer")
        assert json.loads(said(await session.call_tool("add_note", {"words": "found it"}))) == {"added": "found it"}
        assert json.loads(said(await session.call_tool("list_notes"))) == ["first", "by the trainer", "found it"]
        assert trainer.value("list_notes") == ["first", "by the trainer", "found it"]
        verdict = trainer.call("verify")
        assert (verdict["reward"], verdict["observation"]["reward_type"]) == (1.0, "complete")
        assert (await session.call_tool("fail")).isError
        ended = trainer.seen("done", keep_session=True)
    kept = json.loads(Path(ended["trajectory_path"]).read_text())
    actions = [(step["action"], step.get("tool_name")) for step in kept["trajectory"]]
    assert actions == [
        ("call_tool", "add_note"),
        ("call_tool", "add_note"),
        ("list_tools", None),  # the client looks for the schema of what it called
        ("call_tool", "list_notes"),
        ("call_tool", "list_notes"),
        ("verify", None),
        ("call_tool", "fail"),
    ]
    assert kept["steps"] == ended["steps_taken"] == 8
    assert plane(observation).split("/")[2] not in json.dumps(kept)


async def test_a_token_is_dead_when_its_episode_is(planes: Server, trainer: Wire) -> None:
    first = planes.url + plane(trainer.reset("shelf_house_1", 0))
    second = planes.url + plane(trainer.reset("shelf_house_1", 0))
    assert (gone(first), gone(second)) == (True, False)
    async with agent(second) as session:
        trainer.seen("done")
        with pytest.raises(McpError):
            await session.call_tool("list_notes")
    third = planes.url + plane(trainer.reset("shelf_house_1", 0))
    assert not gone(third)
    assert trainer.ask({"type": "reset", "data": {"scenario": "nowhere_9"}})["data"]["observation"]["error"]
    assert gone(third)  # also when no other episode has begun
    with Wire(planes.url) as leaving, Wire(planes.url) as cut:
        fourth = planes.url + plane(leaving.reset("shelf_house_1", 0))
        fifth = planes.url + plane(cut.reset("shelf_house_1", 0))
        assert (gone(fourth), gone(fifth)) == (False, False)
        leaving.send({"type": "close"})
        cut.hang_up()
        assert wait_until(lambda: gone(fourth) and gone(fifth), 20)


def rpc(server: Server, method: str, **params: Any) -> Any:
    """A request to the control plane's `/mcp`."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(server.url + "/mcp", json=body, timeout=30, trust_env=False, verify=False).json()["result"]


def test_a_kept_sessions_token_lives_until_it_is_closed(planes: Server) -> None:
    session_id = rpc(planes, "openenv/session/create")["session_id"]
    with Wire(planes.url, f"?session_id={session_id}") as attached:
        url = planes.url + plane(attached.reset("shelf_house_1", 0))
    assert ask(url, "tools/call", name="add_note", arguments={"words": "found it"}).json()["result"]["isError"] is False
    verified = rpc(planes, "tools/call", session_id=session_id, name="verify")
    assert verified["data"]["reward_type"] == "complete"
    rpc(planes, "openenv/session/close", session_id=session_id)
    assert gone(url)


def test_reaping_takes_the_token_and_an_agents_calls_are_no_idleness(tmp_path: Path) -> None:
    data = write_pack(tmp_path / "data", scenarios())
    often = {"OPENENV_AWM_MAX_IDLE_TIME": "3", "OPENENV_AWM_ALLOWED_IDLE_SESSIONS": "0",
             "OPENENV_AWM_CLEANUP_INTERVAL": "0.1"}  # fmt: skip
    with serving(tmp_path, ["--awm-data", str(data)], **often) as server, Wire(server.url) as trainer:
        url = server.url + plane(trainer.reset("shelf_house_1", 0))
        for _ in range(8):
            time.sleep(0.5)
            assert not gone(url)  # it asks, so it is there
        assert wait_until(lambda: not server.episodes(), 30)
        assert gone(url)
        assert "idle" in trainer.seen("list_notes")["error"]


async def test_an_agents_call_wakes_a_hibernated_episode(tmp_path: Path) -> None:
    data = write_pack(tmp_path / "data", scenarios())
    soon = {"QUINTAIN_HIBERNATE_AFTER": "0.3", "QUINTAIN_WARM_AFTER": "0"}
    with serving(tmp_path, ["--awm-data", str(data)], **soon) as server, Wire(server.url) as trainer:
        url = server.url + plane(trainer.reset("quiet_room_4", 0))
        async with agent(url) as session:
            await session.call_tool("add_note", {"words": "before"})
            for number in range(3):
                assert wait_until(lambda: figures(server)["hibernated"] == 1 and not server.episodes(), 20)
                await session.list_tools()
                await session.send_ping()
                assert figures(server)["hibernated"] == 1
                assert "before" in said(await session.call_tool("list_notes")), number
                assert figures(server)["live"] == 1
        assert server.complaints == []


async def test_no_byte_of_the_agent_plane_tells_of_anything_else(tmp_path: Path) -> None:
    data = write_pack(tmp_path / "data", scenarios())
    token = canary("control-token")
    with (
        serving(tmp_path, ["--awm-data", str(data)], QUINTAIN_TOKEN=token, QUINTAIN_WARM_AFTER="0",
                QUINTAIN_HIBERNATE_AFTER="0.5", QUINTAIN_CALL_TIMEOUT="1") as server,
        recording(server.port) as overheard,
        recording(server.port) as control,
    ):  # fmt: skip
        headers = {"Authorization": f"Bearer {token}"}
        seen = await _play(server, overheard.url, control.url, headers)
        inward, outward, told = overheard.sent, overheard.received, control.received
    # what was planted was there to be told, and the recorder hears
    for word in ("verdict", "gold-answer", "evidence", "task-text", "label", "model"):
        assert canary(word).encode() in told, word
    assert b"7.125" in told
    assert b"-9.375" in told
    assert outward.count(b"HTTP/1.1 200") > 20
    assert b"the shelf is full" in outward
    # and of all that the agent was told nothing
    for both in (inward, outward):
        assert b"canary" not in both.lower()
        for secret in seen["secrets"]:
            assert secret.encode() not in both, secret
    for number in (b"7.125", b"3.0625", b"9.375"):
        assert number not in outward
    found = {word: outward.lower().count(word.encode()) for word in TELLTALES}
    assert found == dict.fromkeys(TELLTALES, 0)
    names = set(re.findall(rb"^([\w-]+):", outward, re.MULTILINE))
    assert names == {b"date", b"server", b"content-length", b"content-type"}
    assert seen["verdicts"] == ["incomplete", "incomplete", "complete"]


async def _play(server: Server, url: str, control: str, headers: dict[str, str]) -> dict[str, Any]:
    """An episode scored in the middle too, then one that hibernates, each with its agent; a neighbour beside."""
    verdicts, secrets = [], []
    planted = {
        "reward_config": {"complete": 7.125, "incomplete": 3.0625, "format_error": -9.375},
        "model_digest": canary("model"),
        "episode_id": canary("label"),
    }
    with Wire(control, headers=headers) as trainer, Wire(control, headers=headers) as neighbour:
        beside = neighbour.reset("neighbour_3", 0)
        neighbour.value("add_note", words=canary("neighbour-row"))
        for scenario in ("shelf_house_1", "quiet_room_4"):
            observation = trainer.reset(scenario, 0, **planted)
            metadata = observation["metadata"]
            secrets += [metadata["episode_id"], metadata["environment_class_id"], plane(beside).split("/")[2]]
            async with agent(url + plane(observation)) as session:
                await session.list_tools()
                await session.call_tool("add_note", {"words": "a plain note"})
                trainer.seen("no_such_tool")
                if scenario == "shelf_house_1":
                    verdicts.append(trainer.seen("verify", final_answer=canary("final-answer"))["reward_type"])
                for name, arguments in CALLS:
                    await session.call_tool(name, arguments)
                if scenario == "quiet_room_4":
                    assert wait_until(lambda: not server.episodes(), 20)  # the neighbour hibernates too
                await session.call_tool("list_notes", {})
                for malformed in (b"{", b"[]", b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}'):
                    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
                        await client.post(url + plane(observation), content=malformed, headers=JSON_ALONE)
                neighbour.value("add_note", words=canary("neighbour-row"))
                verdicts.append(trainer.seen("verify", final_answer=canary("final-answer"))["reward_type"])
                assert trainer.ask({"type": "state"})["data"]["episode_id"] == canary("label")
                trainer.seen("done")
                with pytest.raises(McpError):
                    await session.call_tool("list_notes", {})
    return {"verdicts": verdicts, "secrets": secrets}


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_notes", {}),
    ("fail", {}),
    ("refuse", {}),
    ("add_note", {}),
    ("nap", {"seconds": 30}),
    ("list_notes", {}),
    ("vanish", {}),
    ("list_notes", {}),
    ("big", {"size": 11 * 2**20}),
    ("nowhere", {}),
    ("add_note", {"words": "found it"}),
    ("list_notes", {}),
]
JSON_ALONE = {"Accept": "application/json", "Content-Type": "application/json"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str, str]]:
    """A server with a token; the path of an episode's agent plane, and the path of one that is over."""
    folder = tmp_path_factory.mktemp("guarded")
    with (
        serving(folder, QUINTAIN_TOKEN="open sesame") as server,
        Wire(server.url, headers={"Authorization": "Bearer open sesame"}) as trainer,
    ):
        dead = plane(trainer.reset("vet_clinic_1", 3))
        yield server, plane(trainer.reset("vet_clinic_1", 3)), dead
        assert trainer.ask({"type": "state"})["data"]["step_count"] == 0  # nobody got in
        assert server.complaints == []


def answered(server: Server, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer to the bytes of a request, without the date."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while data := connection.recv(65536):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    return re.sub(rb"\r\ndate: [^\r]*", b"", head), body


NOTHING = (
    b"HTTP/1.1 404 Not Found\r\nserver: uvicorn\r\ncontent-length: 9\r\ncontent-type: text/plain; charset=utf-8",
    b"Not Found",
)
LIST = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'


def test_a_dead_tokens_answer_is_that_to_no_token(guarded: tuple[Server, str, str]) -> None:
    server, path, dead = guarded
    live = path.split("/")[2]
    for address in (
        dead,
        f"/agent/{'A' * 43}/mcp",
        f"/agent/{live[:-1]}/mcp",
        f"/agent/{live}A/mcp",
        f"/agent/{live.swapcase()}/mcp",
        f"/agent/{live}",
        f"/agent/{live}/",
        f"/agent/{live}/mcp/",
        f"/agent/{live}/mcp%0A",
        f"/agent/{live}/mcp%00",
        f"/agent/{live}/MCP",
        f"/agent/{live}/stats",
        f"/agent/{live}/../../stats",
        f"/agent/{live}%2F..%2F..%2Fstats",
        "/agent/../stats",
        "/agent/..%2fws",
        "/agent/",
        "/agent//mcp",
        "/agent/open%20sesame/mcp",
        "/agent/health",
    ):
        assert answered(server, post(address, LIST)) == NOTHING, address
        assert answered(server, post(address, LIST, Authorization="Bearer open sesame")) == NOTHING, address
        get = f"GET {address} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        assert answered(server, get) == NOTHING, address
    for address in ("/agent", "//agent/x/mcp", "/Agent/x/mcp", "/x/agent/" + live + "/mcp", "/%2e/agent/x/mcp"):
        assert b" 401 " in answered(server, post(address, LIST))[0], address
    handshake = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
                 "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in handshake.items())
    for address in (path, dead, "/agent/ws"):
        head, _ = answered(server, f"GET {address} HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
        assert b" 403 " in head, address


NEAR = st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), max_size=60)


@settings(max_examples=150)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW"]),
    below=NEAR | NEAR.map(lambda text: text + "/mcp") | st.binary(max_size=33).map(lambda raw: raw.hex() + "/mcp"),
    query=st.sampled_from(["", "?session_id=1", "?token=open sesame".replace(" ", "%20")]),
)
def test_nothing_near_it_is_anything(guarded: tuple[Server, str, str], method: str, below: str, query: str) -> None:
    request = post("/agent/" + below + query, LIST).replace(b"POST", method.encode(), 1)
    head, body = answered(guarded[0], request)
    assert (head, body) == (NOTHING[0], b"" if method == "HEAD" else NOTHING[1])


def nap(path: str, seconds: float) -> bytes:
    """The bytes of a call that takes a while."""
    call = {"name": "nap", "arguments": {"seconds": seconds}}
    return post(path, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode())


def test_agents_that_hang_up_leave_nothing_open(tmp_path: Path) -> None:
    data = write_pack(tmp_path / "data", scenarios())
    calm = {"QUINTAIN_WARM_AFTER": "1000", "QUINTAIN_HIBERNATE_AFTER": "0"}
    with serving(tmp_path, ["--awm-data", str(data)], **calm) as server, Wire(server.url) as trainer:
        path = plane(trainer.reset("shelf_house_1", 0))
        assert not gone(server.url + path)
        descriptors, threads = (Path(f"/proc/{server.process.pid}/{what}") for what in ("fd", "task"))
        before = len(list(descriptors.iterdir())), len(list(threads.iterdir()))
        parting = (
            nap(path, 0.05),
            post(path, LIST, **{"Content-Length": "100"}),
            b"POST " + path.encode() + b" HTTP/1.1\r\nHost: x\r\n",
            post(path, LIST),
        )
        for request in parting * 15:
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(request)
                if request is parting[-1]:
                    connection.recv(20)
        assert wait_until(lambda: len(list(descriptors.iterdir())) <= before[0], 20)
        assert len(list(threads.iterdir())) <= before[1]
        assert trainer.value("list_notes") == ["first"]
        assert server.complaints == []


def test_an_agent_that_reads_nothing_holds_up_nobody(planes: Server, trainer: Wire) -> None:
    path = plane(trainer.reset("shelf_house_1", 0))
    big = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "big", "arguments": {"size": 9**7}}}
    silent = []
    for _ in range(4):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", planes.port))
        connection.sendall(post(path, json.dumps(big).encode()))
        silent.append(connection)
    assert wait_until(lambda: trainer.ask({"type": "state"})["data"]["step_count"] == 4, 20)
    assert trainer.value("list_notes") == ["first"]
    assert not gone(planes.url + path)
    for connection in silent:
        connection.close()


def test_a_trainer_that_dies_frees_the_place_its_agent_was_at_work_in(planes: Server) -> None:
    sessions = figures(planes)["sessions"]
    with Wire(planes.url) as trainer:
        path = plane(trainer.reset("shelf_house_1", 0))
        with socket.create_connection(("127.0.0.1", planes.port), timeout=20) as connection:
            connection.sendall(nap(path, 25))
            time.sleep(0.3)
            trainer.hang_up()
            assert b" 404 " in connection.recv(1000)
    assert wait_until(lambda: figures(planes)["sessions"] <= sessions, 20)
    assert gone(planes.url + path)


@pytest.mark.parametrize("kept", [False, True])
def test_the_server_ends_in_the_middle_of_an_agents_call(tmp_path: Path, kept: bool) -> None:
    data = write_pack(tmp_path / "data", scenarios())
    server = Server(tmp_path, ["--awm-data", str(data)], QUINTAIN_SHUTDOWN_GRACE="2")
    try:
        query = "?session_id=" + rpc(server, "openenv/session/create")["session_id"] if kept else ""
        with Wire(server.url, query) as trainer:
            path = plane(trainer.reset("shelf_house_1", 0))
            with (
                socket.create_connection(("127.0.0.1", server.port), timeout=20) as calling,
                socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow,
                socket.create_connection(("127.0.0.1", server.port), timeout=20),
            ):
                calling.sendall(nap(path, 25))
                slow.sendall(post(path, LIST, **{"Content-Length": "100"}))
                time.sleep(0.3)
                below = server.descendants()
                assert server.stop(signal.SIGTERM, 15) == 0
        assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20)
        assert server.leftovers() == []
        assert kept or "Traceback" not in server.log  # a kept session's call is cut off when the grace is over
    finally:
        server.stop(signal.SIGKILL)


def test_what_speaks_for_agents_is_loaded_when_one_asks(tmp_path: Path) -> None:
    with serving(tmp_path, command=COMMAND) as server, Wire(server.url) as trainer:
        url = server.url + plane(trainer.reset("vet_clinic_1", 3))

        def loaded() -> bool:
            maps = Path(f"/proc/{server.process.pid}/maps").read_text()
            return "rpds" in maps  # a library of the SDK that is no Python

        assert not loaded()
        assert gone(server.url + "/agent/" + "A" * 43 + "/mcp")
        assert not loaded()
        assert not gone(url)
        assert loaded()
