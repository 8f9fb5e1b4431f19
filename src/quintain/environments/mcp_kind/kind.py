"""The mcp kind: the files of a pack, and one server that is started on them."""

import base64
import ctypes
import json
import os
import shutil
import sys
import time
from typing import Any

from . import state
from .server import GoneError, LateError, RpcError, Server

FOLDER = "/workspace"
"""Where the files lie, and the server works."""

MAX_RESULT = 10 * 2**20
_PR_SET_DUMPABLE = 4

Json = dict[str, Any]


class Kind:
    """One server. It is started when the episode begins; a template only remembers the files."""

    tends_processes = True

    def load(self, payload: Json, root: str) -> Json:
        """Remember what is to be started."""
        self._document = payload["environment"]
        self._files: Json = payload["files"]
        self._epoch = payload["epoch"]
        self._server: Server | None = None
        self._told: str | None = None
        return {}

    def warm(self) -> Json:
        """Nothing is exercised."""
        return {}

    def begin(self, start: Json) -> None:
        """A new process, which `{"op": "begin"}` makes an episode."""
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # what it runs cannot look into it

    def call(self, request: Json) -> Json:
        """`{"op": "begin", "seed", "start"}` first, then `{"op": "tool", "name", "arguments"}`; each with `timeout_s`.

        Returns:
            For begin: `tools` and `state`, or `error`. For a call: status, text or error, log; `state` and `tools`
            where they changed; `ended` once the server is gone.
        """
        deadline = time.monotonic() + float(request["timeout_s"])
        if request.get("op") == "begin":
            return self._begun(request, deadline)
        if request.get("op") != "tool" or self._server is None:
            return {"status": "server_error", "error": "no such operation, or no server"}
        try:
            answer = self._called(self._server, request["name"], request["arguments"], deadline)
        except GoneError as error:
            answer = {"status": "server_error", "error": str(error), "ended": True}
        try:
            answer |= self._state_after()
        except (state.StateError, OSError) as error:
            answer = {"status": "server_error", "error": f"the state cannot be kept: {error}", "ended": True}
        log = self._server.log()
        return answer | {"log": log} if log else answer

    def _begun(self, request: Json, deadline: float) -> Json:
        try:
            self._lay(request.get("start") or {})
            self._server = Server(self._argv(), FOLDER, self._environment(int(request["seed"])))
            self._server.begin(deadline)
            tools = self._server.tools(deadline)
            self._server.settle()
            return {"tools": tools, **self._state_after()}
        except LateError as error:
            why = f"the server did not answer {error} in time"
        except (GoneError, RpcError, state.StateError, OSError, ValueError) as error:
            why = str(error)
        log = self._server.log().strip() if self._server else ""
        return {"error": f"{why}\n{log[-4000:]}".strip()}

    def _called(self, server: Server, name: str, arguments: Json, deadline: float) -> Json:
        try:
            server.settle()
            result = server.request("tools/call", {"name": name, "arguments": arguments}, deadline)
        except LateError:
            return {"status": "timeout", "error": f"{name} did not answer in time; it was told to stop"}
        except RpcError as error:
            return {"status": "server_error", "error": f"{name}: {error}"}
        text = _text(result)
        if len(text.encode("utf-8", "replace")) > MAX_RESULT:
            answer = {"status": "tool_error", "error": f"the result of {name} is over 10 MiB; ask for less"}
        elif result.get("isError"):
            answer = {"status": "tool_error", "error": text or f"{name} failed and gave no reason"}
        else:
            answer = {"status": "ok", "text": text}
        server.settle()
        if server.changed:
            try:
                answer["tools"] = server.tools(deadline + 5)
            except (LateError, RpcError) as error:
                raise GoneError(f"the server said that its tools changed, and did not list them: {error}") from error
        return answer

    def _state_after(self) -> Json:
        found = state.told(FOLDER, self._document.get("state_files") or [])
        if found == self._told:
            return {}
        self._told = found
        return {"state": found}

    def _argv(self) -> list[str]:
        command = list(self._document["command"])
        if command[0] in ("python", "python3"):
            command[0] = sys.executable
        return command

    def _environment(self, seed: int) -> dict[str, str]:
        return {
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin",
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "QUINTAIN_SEED": str(seed),
            "QUINTAIN_EPOCH": self._epoch,
            **(self._document.get("env") or {}),
        }

    def _lay(self, start: Json) -> None:
        for name, content in self._files.items():
            _write(name, content)
        for name in start.get("remove", ()):
            place = os.path.join(FOLDER, name)
            shutil.rmtree(place) if os.path.isdir(place) else os.unlink(place)
        for name, content in start.get("files", {}).items():
            _write(name, content)


def _write(name: str, content: Any) -> None:
    place = os.path.join(FOLDER, name)
    os.makedirs(os.path.dirname(place), exist_ok=True)
    data = content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])
    with open(place, "wb") as file:
        file.write(data)


def _text(result: Json) -> str:
    """A result as text: its texts, each in lines of its own; other content as JSON; what is only structured as JSON."""
    content = result.get("content")
    parts = [
        part["text"]
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
        else json.dumps(part, separators=(",", ":"), ensure_ascii=False)
        for part in (content if isinstance(content, list) else [])
    ]
    if not parts and "structuredContent" in result:
        parts = [json.dumps(result["structuredContent"], separators=(",", ":"), ensure_ascii=False)]
    return "\n".join(parts).encode("utf-8", "replace").decode()
