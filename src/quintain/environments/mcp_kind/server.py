"""A server's process, and JSON-RPC 2.0 over its pipes, a message in each line (MCP's stdio transport)."""

import contextlib
import json
import os
import selectors
import subprocess
import time
from typing import Any

PROTOCOL = "2025-06-18"
MAX_LINE = 12 * 2**20
"""Bytes of the longest message that is read."""

MAX_PAGES = 20
_MAX_LOG = 64 * 1024
_CHUNK = 2**16
_MOST_AT_ONCE = 256
_METHOD_NOT_FOUND = -32601

Json = dict[str, Any]


class GoneError(Exception):
    """The server has ended, or does not speak the protocol; says how."""


class LateError(Exception):
    """The server did not answer in time."""


class RpcError(Exception):
    """The server answered with an error of the protocol."""


class Server:
    """One running server. Used by one thread."""

    def __init__(self, argv: list[str], folder: str, environment: dict[str, str]) -> None:
        """Raises GoneError where it cannot be started."""
        try:
            self._process = subprocess.Popen(
                argv,
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise GoneError(f"the command {argv[0]!r} cannot be started: {error}") from error
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._in, self._out, self._err = (pipe.fileno() for pipe in pipes if pipe is not None)
        with contextlib.suppress(OSError), open(f"/proc/{self._process.pid}/oom_score_adj", "w") as file:
            file.write("1000")  # where memory runs out, it goes before this process does
        self._selector = selectors.DefaultSelector()
        for descriptor in (self._in, self._out, self._err):
            os.set_blocking(descriptor, False)
        self._selector.register(self._out, selectors.EVENT_READ)
        self._selector.register(self._err, selectors.EVENT_READ)
        self._sent = bytearray()
        self._read = bytearray()
        self._log = bytearray()
        self._answers: dict[int, Json] = {}
        self._wanted: int | None = None
        self._next = 0
        self.changed = False
        """Whether it has said that its tools are others now."""

    def begin(self, deadline: float) -> None:
        """The handshake."""
        about = {"name": "quintain", "version": "1"}
        self.request("initialize", {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}, deadline)
        self._send({"method": "notifications/initialized"})

    def tools(self, deadline: float) -> list[Any]:
        """Every tool that there is now."""
        found: list[Any] = []
        cursor: Json = {}
        self.changed = False
        for _ in range(MAX_PAGES):
            page = self.request("tools/list", cursor, deadline)
            listed = page.get("tools")
            if not isinstance(listed, list):
                raise GoneError("the server's answer to tools/list has no list of tools")
            found += listed
            if not page.get("nextCursor"):
                return found
            cursor = {"cursor": page["nextCursor"]}
        raise GoneError(f"the server's tools are over {MAX_PAGES} pages")

    def request(self, method: str, params: Json, deadline: float) -> Json:
        """The result of a request.

        Raises:
            GoneError, LateError, RpcError: there is none.
        """
        self._next += 1
        self._wanted = number = self._next
        self._answers.clear()
        self._send({"id": number, "method": method, "params": params})
        while number not in self._answers:
            left = deadline - time.monotonic()
            if left <= 0:
                self._send({"method": "notifications/cancelled", "params": {"requestId": number, "reason": "timeout"}})
                raise LateError(method)
            self._pump(left)
        answer = self._answers.pop(number)
        if "error" in answer:
            error = answer["error"]
            told = error.get("message") if isinstance(error, dict) else error
            code = error.get("code") if isinstance(error, dict) else None
            raise RpcError(f"{told} (code {code})")
        result = answer.get("result")
        if not isinstance(result, dict):
            raise RpcError(f"the result of {method} is no object")
        return result

    def settle(self) -> None:
        """Take what has been said meanwhile."""
        for _ in range(_MOST_AT_ONCE):
            if not self._pump(0):
                return

    def log(self) -> str:
        """What it has written to standard error since this was last asked."""
        text = bytes(self._log).decode("utf-8", "replace")
        self._log.clear()
        return text

    def _send(self, message: Json) -> None:
        self._sent += json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        self._write()

    def _write(self) -> None:
        try:
            while self._sent:
                del self._sent[: os.write(self._in, self._sent[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:  # it has closed its end; that it is gone shows where it is read from
            self._sent.clear()

    def _pump(self, timeout_s: float) -> bool:
        """Wait for the server, and take what came; whether anything did."""
        known = self._in in self._selector.get_map()
        if self._sent and not known:
            self._selector.register(self._in, selectors.EVENT_WRITE)
        elif known and not self._sent:
            self._selector.unregister(self._in)
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            if key.fd == self._in:
                self._write()
                continue
            try:
                data = os.read(key.fd, _CHUNK)
            except BlockingIOError:
                continue
            if not data:
                self._selector.unregister(key.fd)
                if key.fd == self._out:
                    self._take_rest()
                    raise GoneError(self._end())
            elif key.fd == self._err:
                self._log += data
                del self._log[:-_MAX_LOG]
            else:
                self._take(data)
        return bool(ready)

    def _take_rest(self) -> None:
        """What stands in the pipe of its errors."""
        with contextlib.suppress(OSError):
            while data := os.read(self._err, _CHUNK):
                self._log += data
                del self._log[:-_MAX_LOG]

    def _end(self) -> str:
        try:
            status = self._process.wait(1)
        except subprocess.TimeoutExpired:
            return "the server has closed its output"
        return f"the server ended by signal {-status}" if status < 0 else f"the server ended with exit status {status}"

    def _take(self, data: bytes) -> None:
        self._read += data
        if len(self._read) > MAX_LINE:
            raise GoneError(f"the server sent a message of over {MAX_LINE} bytes")
        if b"\n" not in data:
            return
        *lines, rest = bytes(self._read).split(b"\n")
        self._read = bytearray(rest)
        for line in lines:
            if line.strip():
                self._message(line)

    def _message(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._log += b"[no message: " + line[:200] + b"]\n"
            return
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict):
                self._one(one)

    def _one(self, message: Json) -> None:
        number, method = message.get("id"), message.get("method")
        if method is None:
            if number == self._wanted and isinstance(number, int):
                self._answers[number] = message
        elif number is None:
            self.changed = self.changed or method == "notifications/tools/list_changed"
        elif method == "ping":
            self._send({"id": number, "result": {}})
        else:
            self._send({"id": number, "error": {"code": _METHOD_NOT_FOUND, "message": f"{method} is not offered"}})
