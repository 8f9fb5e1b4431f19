"""MCP servers for tests: one on the standard library that can be told to misbehave, and one with the official SDK."""

BENCH = """
import json
import os
import sys
import time

NOTES = {"$ref": "#/$defs/Note"}
TOOLS = {
    "add": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "write": {"name": {"type": "string"}, "text": {"type": "string"}},
    "keep": {"note": NOTES},
    "fail": {}, "refuse": {}, "crash": {}, "hang": {}, "chatter": {}, "large": {"size": {"type": "integer"}},
    "learn": {}, "who": {}, "reach": {"path": {"type": "string"}}, "ask": {},
}
NOTE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def schema(properties):
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": properties,
            "required": sorted(properties), "$defs": {"Note": NOTE}}


def page(cursor):
    listed = [{"name": name, "description": name + "s", "inputSchema": schema(one)} for name, one in TOOLS.items()]
    if cursor is None:
        return {"tools": listed[:3], "nextCursor": "more"}
    return {"tools": listed[3:]}


def call(name, given):
    if name == "add":
        return text(str(given["a"] + given["b"]))
    if name == "write":
        with open(given["name"], "w") as file:
            file.write(given["text"])
        return text("written")
    if name == "keep":
        return {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}], "structuredContent": given}
    if name == "fail":
        return text("the shelf is full", isError=True)
    if name == "crash":
        print("about to fall", file=sys.stderr)
        os._exit(3)
    if name == "hang":
        time.sleep(3600)
    if name == "chatter":
        print("this is no message")
        send({"method": "notifications/message", "params": {"level": "info", "data": "x"}})
        return text("said")
    if name == "large":
        return text("x" * given["size"])
    if name == "learn":
        TOOLS["taught"] = {}
        send({"method": "notifications/tools/list_changed"})
        return text("learnt")
    if name == "who":
        return text(json.dumps([os.environ.get("QUINTAIN_SEED"), os.environ.get("SHELF"), sorted(os.listdir("."))]))
    if name == "reach":
        try:
            with open(given["path"]) as file:
                return text(file.read()[:100])
        except OSError as error:
            return text(type(error).__name__)
    if name == "ask":
        send({"id": "q1", "method": "sampling/createMessage", "params": {}})
        return text(json.dumps(json.loads(sys.stdin.readline())["error"]["code"]))
    return text("done")


for line in sys.stdin:
    message = json.loads(line)
    number, method, params = message.get("id"), message.get("method"), message.get("params") or {}
    if number is None:
        continue
    if method == "initialize":
        about = {"name": "bench", "version": "1"}
        send({"id": number, "result": {"protocolVersion": params["protocolVersion"], "serverInfo": about,
                                       "capabilities": {"tools": {"listChanged": True}}}})
    elif method == "tools/list":
        send({"id": number, "result": page(params.get("cursor"))})
    elif method == "tools/call" and params["name"] != "refuse":
        send({"id": number, "result": call(params["name"], params["arguments"])})
    else:
        send({"id": number, "error": {"code": -32602, "message": "not like this"}})
"""

WITH_SDK = '''
from pydantic import BaseModel

from mcp.server.fastmcp import FastMCP

server = FastMCP("shop")
STOCK = {"tent": 2}


class Order(BaseModel):
    item: str
    count: int = 1


@server.tool()
def order(order: Order) -> str:
    """Order something."""
    if STOCK.get(order.item, 0) < order.count:
        raise ValueError(f"not enough of {order.item}")
    STOCK[order.item] -= order.count
    with open("orders.txt", "a") as file:
        file.write(f"{order.count} {order.item}\\n")
    return f"{STOCK[order.item]} left"


server.run()
'''
