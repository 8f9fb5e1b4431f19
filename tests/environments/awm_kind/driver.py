"""Runs in the class's own interpreter: loads the kind, forks a process per episode, prints what came of it as JSON.

Standard input: `{"kinds": folder, "payload", "root", "warm": bool, "episodes": [{"seed", "calls"}]}`, calls being
`[tool, arguments]`. A call may be `[tool, arguments, index]`.

With arguments, a folder and modules, it is a zygote: it imports them once and plays every line of standard input
in a fork of itself.
"""

import importlib
import json
import os
import signal
import sys
import time
import traceback
from typing import Any


def main() -> None:
    if len(sys.argv) > 1:
        _serve(*sys.argv[1:])
    else:
        _play(json.load(sys.stdin), os.dup(1))


def _serve(kinds: str, *modules: str) -> None:
    _find(kinds)
    for name in modules:
        importlib.import_module(name)
    out = os.dup(1)
    for line in sys.stdin.buffer:  # the next is sent when this one is answered, so that nothing is read ahead
        if os.fork() == 0:
            try:
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                _play(json.loads(line), out)
            finally:
                traceback.print_exc()
                os._exit(1)
        _, status = os.wait()
        os.write(out, b"\n" if status == 0 else f"ended with status {status}\n".encode())


def _find(kinds: str) -> None:
    """Kinds, and what they share with everything else that runs inside."""
    sys.path[:0] = [kinds, os.path.join(os.path.dirname(kinds), "sandboxes")]


def _play(order: dict[str, Any], out: int) -> None:
    if order["kinds"] not in sys.path:
        _find(order["kinds"])
    from awm_kind.files import StateFiles
    from awm_kind.kind import Kind

    kind = Kind()
    files = StateFiles(order["root"])
    result: dict[str, Any] = {"episodes": []}
    try:
        result["description"] = kind.load(order["payload"], order["root"])
        result["descriptors"] = _open_files(order["root"])
        result["initial"] = files.digests()
        initial = files.take()
        if order["warm"]:
            started = time.monotonic()
            result["warmed"] = kind.warm()
            result["warm_ms"] = (time.monotonic() - started) * 1e3
            result["after_warming"] = files.digests()
            result["descriptors"] += _open_files(order["root"])
        for episode in order["episodes"]:
            files.restore(initial)
            answers = _forked(kind, episode)
            result["episodes"].append({**answers, "final": files.digests()})
    except Exception:
        result["error"] = traceback.format_exc()
    with os.fdopen(out, "wb") as told:
        told.write(json.dumps(result).encode())
    os._exit(0)


def _open_files(root: str) -> list[str]:
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    targets = [os.readlink(link) for link in links if os.path.islink(link)]
    return [target for target in targets if target.startswith(root)]


def _forked(kind: Any, episode: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        signal.alarm(60)
        try:
            with os.fdopen(writing, "w") as pipe:
                json.dump(_played(kind, episode), pipe)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"answers": [], "times": [], "died": True}


def _played(kind: Any, episode: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    kind.begin({"seed": episode["seed"]})
    answers, times = [], [(time.monotonic() - started) * 1e3]
    for number, (tool, arguments, *index) in enumerate(episode["calls"], 1):
        started = time.monotonic()
        request = {"op": "tool", "name": tool, "arguments": arguments, "index": (index or [number])[0]}
        answers.append(kind.call(request))
        times.append((time.monotonic() - started) * 1e3)
    return {"answers": answers, "times": times}


if __name__ == "__main__":
    main()
