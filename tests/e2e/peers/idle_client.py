"""Begins an episode and says so, then waits for a line and makes a call; says what came of it."""

import json
import sys

from websockets.sync.client import connect

STEP = {"type": "step", "data": {"type": "call_tool", "tool_name": "list_notes", "arguments": {}}}

with connect(sys.argv[1], proxy=None, compression=None, ping_interval=None) as socket:
    socket.send(json.dumps({"type": "reset", "data": {"scenario": "hostile_house_1"}}))
    print(json.loads(socket.recv(30))["data"]["observation"]["reward_type"], flush=True)
    for _ in sys.stdin:
        try:
            socket.send(json.dumps(STEP))
            print(json.loads(socket.recv(30))["data"]["observation"]["reward_type"], flush=True)
        except Exception as error:
            print(type(error).__name__, flush=True)
