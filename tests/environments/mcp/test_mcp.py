"""MCP servers as environments: what is listed, what calls come to, what is kept, and what a server cannot do."""

import json
from pathlib import Path
from typing import Any

import pytest

from quintain.environments.mcp import McpKind
from quintain.environments.mcp.models import document_of, tools_of
from quintain.environments.mcp.schemas import plain_schema
from quintain.errors import TemplateError

from .conftest import Make, payload
from .servers import BENCH, WITH_SDK

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("mcp")]


async def test_tools_are_those_of_all_pages_with_their_schemas_written_out(playing: Make) -> None:
    async with playing(BENCH, exclude=["hang"]) as player:
        tools = {tool.name: tool for tool in player.environment.tools}
        assert {"add", "keep", "learn"} <= set(tools)
        assert "hang" not in tools
        assert tools["keep"].input_schema["properties"]["note"]["required"] == ["text"]
        assert (await player.call("hang")).status == "tool_not_found"
        assert await player.text("add", a=2, b=3) == "5"
        refused = await player.call("add", a="two", b=3)
        assert (refused.status, refused.owner) == ("invalid_args", "agent")
        assert (await player.call("keep", note={})).status == "invalid_args"


async def test_each_failure_has_its_owner(playing: Make) -> None:
    async with playing(BENCH) as player:
        failed = await player.call("fail")
        assert (failed.status, failed.error, failed.owner) == ("tool_error", "the shelf is full", "agent")
        refused = await player.call("refuse")
        assert (refused.status, refused.owner) == ("server_error", "environment")
        assert "not like this" in (refused.error or "")
        assert await player.text("add", a=1, b=1) == "2"
        assert json.loads(await player.text("keep", note={"text": "x"})) == {
            "type": "image",
            "data": "AAAA",
            "mimeType": "image/png",
        }


async def test_a_crash_is_the_environments_and_ends_the_episode_with_the_state_as_it_was(playing: Make) -> None:
    async with playing(BENCH, state_files=["*.txt"]) as player:
        await player.text("write", name="a.txt", text="kept")
        crashed = await player.call("crash")
        assert (crashed.status, crashed.owner) == ("server_error", "environment")
        assert "exit status 3" in (crashed.error or "")
        assert "about to fall" in crashed.log
        assert player.environment.done
        assert (await player.call("add", a=1, b=1)).status == "server_error"
        assert await player.state() == {"files": {"a.txt": "kept"}}


async def test_a_call_that_does_not_end_is_a_timeout(playing: Make) -> None:
    async with playing(BENCH) as player:
        late = await player.call("hang", 1.0)
        assert (late.status, late.owner) == ("timeout", "environment")


async def test_what_is_no_answer_does_no_harm(playing: Make) -> None:
    async with playing(BENCH) as player:
        chatted = await player.call("chatter")
        assert (chatted.status, chatted.text) == ("ok", "said")
        assert "this is no message" in chatted.log
        assert await player.text("ask") == "-32601"
        assert (await player.call("large", size=11 * 2**20)).status == "tool_error"
        assert await player.text("add", a=1, b=1) == "2"
        assert (await player.call("large", size=20 * 2**20)).status == "server_error"
        assert player.environment.done


async def test_tools_that_change_are_listed_anew(playing: Make) -> None:
    async with playing(BENCH) as player:
        assert (await player.call("taught")).status == "tool_not_found"
        await player.text("learn")
        assert "taught" in {tool.name for tool in player.environment.tools}
        assert await player.text("taught") == "done"
    async with playing(BENCH) as player:
        assert "taught" not in {tool.name for tool in player.environment.tools}


async def test_state_is_the_files_named_and_a_start_varies_them(playing: Make) -> None:
    files = {"shelf/a.txt": "a", "shelf/b.txt": "b"}
    start = {"files": {"shelf/c.txt": "c"}, "remove": ["shelf/a.txt"]}
    async with playing(BENCH, start, seed=7, files=files, env={"SHELF": "oak"}, state_files=["shelf/**"]) as player:
        (initial,) = player.environment.initial
        assert json.loads(initial.path.read_bytes()) == {"files": {"shelf/b.txt": "b", "shelf/c.txt": "c"}}
        assert json.loads(await player.text("who")) == ["7", "oak", ["server.py", "shelf"]]
        await player.text("write", name="shelf/c.txt", text="\x00")
        await player.text("write", name="other.txt", text="x")
        assert (await player.state())["files"] == {"shelf/b.txt": "b", "shelf/c.txt": "\x00"}


async def test_a_server_sees_nothing_of_the_host_or_the_platform(playing: Make) -> None:
    async with playing(BENCH) as player:
        for path in ("/etc/passwd", "/proc/1/environ", str(Path.home() / ".bashrc")):
            assert await player.text("reach", path=path) in ("FileNotFoundError", "PermissionError"), path


async def test_a_server_of_the_official_sdk(playing: Make) -> None:
    async with playing(WITH_SDK, state_files=["orders.txt"]) as player:
        (tool,) = player.environment.tools
        assert tool.input_schema["properties"]["order"]["properties"]["item"]["type"] == "string"
        assert await player.text("order", order={"item": "tent"}) == "1 left"
        failed = await player.call("order", order={"item": "tent", "count": 2})
        assert (failed.status, failed.owner) == ("tool_error", "agent")
        assert "not enough of tent" in (failed.error or "")
        assert await player.state() == {"files": {"orders.txt": "1 tent\n"}}


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('no shelf today')", "no shelf today"),
        ("import nothing_of_that_name", "nothing_of_that_name"),
        ("print('{}')", "ended with exit status 0"),
    ],
)
async def test_a_server_that_does_not_start_says_why(kind: McpKind, code: str, told: str) -> None:
    one = payload({"server.py": code})
    with pytest.raises(TemplateError, match=told):
        await kind.prepare(f"sha256:{hash(code)}", lambda: one)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"command": []}, "command"),
        ({"state_files": ["../x"]}, "working directory"),
        ({"port": 80}, "port"),
        ({"env": {"A B": "x"}}, "env"),
    ],
)
async def test_a_document_that_is_wrong_is_told_with_its_place(document: dict[str, Any], told: str) -> None:
    with pytest.raises(TemplateError, match=told):
        document_of(payload({}, **document))


@pytest.mark.parametrize(
    ("listed", "told"),
    [
        ([{"name": "done", "inputSchema": {}}], "platform's own"),
        ([{"name": "a b", "inputSchema": {}}], "name"),
        ([{"name": "a", "inputSchema": {"$ref": "https://elsewhere"}}], "not within it"),
        ([{"name": "a", "inputSchema": {}}, {"name": "a", "inputSchema": {}}], "second tool"),
        ([{"name": "a", "inputSchema": []}], "inputSchema"),
    ],
)
async def test_tools_that_cannot_be_offered_are_refused(listed: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(TemplateError, match=told):
        tools_of("bench", listed, [])


async def test_a_schema_that_refers_to_itself_takes_anything_there() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "$ref": {"type": "string"}}}
    found = plain_schema({"properties": {"first": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": {**node}}})
    assert found["properties"]["first"]["properties"] == {"next": {}, "$ref": {"type": "string"}}


async def test_a_schema_that_grows_without_end_is_refused() -> None:
    definitions: dict[str, Any] = {"L0": {"type": "string"}}
    for level in range(1, 12):
        definitions[f"L{level}"] = {"properties": {str(i): {"$ref": f"#/$defs/L{level - 1}"} for i in range(10)}}
    with pytest.raises(ValueError, match="parts"):
        plain_schema({"$ref": "#/$defs/L11", "$defs": definitions})
