"""Checks of separation: hidden tests, other processes' channels, the clock, and the state that a reward rests on."""

import ctypes
import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from quintain.errors import QuintainError
from quintain.sandboxes.base import IsolationLevel, Sandbox
from quintain.sandboxes.conformance.bench import CALL_TIMEOUT_S, Bench, Check, host_pid, refusal_of, require, value_of

_PREFIX = "hidden-test-"
_REMOVE, _EVERYONE = 0, 0o666


async def hidden_tests_are_out_of_reach(bench: Bench) -> None:
    """What a verifier's instance is given is in no file and no memory that an agent's reaches: before, while, after."""
    name, token = f"test_{secrets.token_hex(8)}.py", _PREFIX + secrets.token_hex(16)
    hidden = bench.materialise({name: token.encode()})
    async with bench.sandbox() as agent:
        await _find_nothing(agent, [hidden[0].path], token)
        async with bench.sandbox(state=hidden, read_only=True) as verifier:
            require(await value_of(verifier, "read_state", name=name) == token, "the hidden test was not handed over")
            process = Path(f"/proc/{host_pid(verifier)}")
            paths = [hidden[0].path, process / "cwd" / name, process / "root/data" / name, Path("/data") / name]
            paths.append(Path(os.readlink(process / "cwd")) / name)
            await _find_nothing(agent, paths, token)
        await _find_nothing(agent, paths, token)
        async with bench.sandbox() as later:
            await _find_nothing(later, paths, token)


async def _find_nothing(agent: Sandbox, paths: list[Path], token: str) -> None:
    for path in paths:
        await refusal_of(agent, "read", path=str(path))
    known = await value_of(agent, "tokens", prefix=_PREFIX)
    require(token not in known, "the hidden test is in the agent's memory")
    mine = _PREFIX + secrets.token_hex(16)
    answer = await agent.call({"probe": "tokens", "arguments": {"prefix": _PREFIX}, "planted": mine}, CALL_TIMEOUT_S)
    require(mine in answer.get("value", ()), "the search does not find what is in memory")


async def others_cannot_be_reached(bench: Bench) -> None:
    """No queue, segment, semaphore, mailbox, local socket, shared file or pipe of another process can be reached."""
    with _offered() as (places, arrived):
        async with bench.sandbox() as sandbox:
            found = await value_of(sandbox, "reach_others", places=places)
        reached = sorted(name for name, outcome in found.items() if outcome == "reached")
        require(not reached, f"reached: {', '.join(reached)}")
        require(not arrived(), "something arrived from inside")


@contextmanager
def _offered() -> Iterator[tuple[dict[str, Any], Any]]:
    """Every way to this process that the kernel offers, open to everyone; and whether something came."""
    libc = ctypes.CDLL(None, use_errno=True)
    places: dict[str, Any] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="quintain-ipc-", dir="/tmp")))
        folder.chmod(0o755)
        ids = {"queue": libc.msgget(0, _EVERYONE), "segment": libc.shmget(0, 4096, _EVERYONE)}
        ids["semaphore"] = libc.semget(0, 1, _EVERYONE)
        removal = {"queue": (libc.msgctl, ()), "segment": (libc.shmctl, ()), "semaphore": (libc.semctl, (0,))}
        for name, number in ids.items():
            if number >= 0:  # else this kernel has none of it
                places[name] = number
                remove, more = removal[name]
                stack.callback(remove, number, *more, _REMOVE, None)
        boxes = []
        for name, address in (("abstract", f"\0{folder.name}"), ("bound", str(folder / "socket"))):
            box = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK))
            box.bind(address)
            boxes.append(box)
            places[name] = address.lstrip("\0")
        os.chmod(folder / "socket", _EVERYONE)
        os.mkfifo(folder / "pipe")
        shared = stack.enter_context(
            tempfile.NamedTemporaryFile(dir="/dev/shm" if os.path.isdir("/dev/shm") else folder)
        )
        for path in (str(folder / "pipe"), shared.name):
            os.chmod(path, _EVERYONE)
        places |= {"pipe": str(folder / "pipe"), "shared": shared.name}
        mailbox = f"/{folder.name}".encode()
        if (opened := libc.mq_open(mailbox, os.O_RDWR | os.O_CREAT, _EVERYONE, None)) >= 0:
            os.close(opened)
            stack.callback(libc.mq_unlink, mailbox)
            places |= {"mailbox": folder.name, "unlinked_mailbox": folder.name}
        yield places, lambda: any(_came(box) for box in boxes)


def _came(box: socket.socket) -> bool:
    try:
        return bool(box.recv(16))
    except BlockingIOError:
        return False


async def the_clock_cannot_be_set(bench: Bench) -> None:
    """No call that sets or slews a clock of the host is let through."""
    async with bench.sandbox() as sandbox:
        for name in ("settimeofday", "clock_settime", "adjtimex", "clock_adjtime"):
            found = await value_of(sandbox, "clock_error", name=name)
            require(found == "EPERM", f"{name} answered {found}, not EPERM")
        await refusal_of(sandbox, "set_clock")


async def a_judged_state_cannot_be_changed(bench: Bench) -> None:
    """Code that judges a read-only state can change, replace, move or shadow no file of it, whichever way it tries."""
    state = bench.materialise({"state.txt": b"as it was"})
    async with bench.sandbox(state=state, read_only=True) as sandbox:
        found = await value_of(sandbox, "tamper")
        done = sorted(way for way, outcome in found.items() if outcome == "reached")
        require(not done, f"a read-only state could be changed: {', '.join(done)}")
        require(await value_of(sandbox, "read_state") == "as it was", "the state was changed")
    require(state[0].path.read_bytes() == b"as it was", "the files given were changed")


async def what_is_no_file_is_no_state(bench: Bench) -> None:
    """A fifo, a directory or a link in a state file's place is left out of a snapshot, and holds nothing up."""
    for by, target in (("fifo", ""), ("directory", ""), ("link", "other.txt"), ("link", "/proc/self/fd/0")):
        into = bench.materialise({"marker": b""})[0].path.parent
        async with bench.sandbox() as sandbox:
            await value_of(sandbox, "write_state", name="other.txt", content="another file")
            how = {"name": "state.txt", "by": by, "target": target}
            answer = await sandbox.call({"probe": "replace_state", "arguments": how}, CALL_TIMEOUT_S)
            files = await sandbox.snapshot(["state.txt"], into)
            require(not files, f"after {answer} the snapshot holds {[file.path.read_bytes() for file in files]}")


async def a_snapshot_stays_as_it_was(bench: Bench) -> None:
    """What an instance writes later, into a file it held open all the time, does not reach a snapshot taken before."""
    into = bench.materialise({"marker": b""})[0].path.parent
    async with bench.sandbox() as sandbox:
        await value_of(sandbox, "hold_state")
        files = await sandbox.snapshot(["state.txt"], into)
        await value_of(sandbox, "write_held", content="FORGED!")
        require(await value_of(sandbox, "read_state") == "FORGED!", "the instance did not go on writing")
        require(files[0].path.read_text() == "initial", "the snapshot changed after it was taken")


async def answers_cannot_be_forged(bench: Bench) -> None:
    """Answers that a call writes ahead of time into every descriptor can be its own instance's, and nobody else's."""
    async with bench.sandbox() as other:
        async with bench.sandbox() as forger:
            try:
                await forger.call({"probe": "forge", "arguments": {"value": "forged"}}, CALL_TIMEOUT_S)
            except QuintainError:
                require(not forger.alive, "a conversation that was spoilt can go on")
            require(await value_of(other, "echo", value="true") == "true", "a sibling's answer was forged")
        async with bench.sandbox() as later:
            require(await value_of(later, "echo", value="true") == "true", "a later instance's answer was forged")


_NONE, _REDUCED = IsolationLevel.NONE, IsolationLevel.REDUCED
CHECKS = tuple(
    Check(run.__name__, area, level, run)
    for area, level, run in (
        ("hidden tests", _REDUCED, hidden_tests_are_out_of_reach),
        ("ipc", _REDUCED, others_cannot_be_reached),
        ("clock", _REDUCED, the_clock_cannot_be_set),
        ("reward", _REDUCED, a_judged_state_cannot_be_changed),
        ("reward", _NONE, what_is_no_file_is_no_state),
        ("reward", _NONE, a_snapshot_stays_as_it_was),
        ("reward", _REDUCED, answers_cannot_be_forged),
    )
)
