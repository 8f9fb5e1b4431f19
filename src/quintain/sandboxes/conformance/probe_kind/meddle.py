"""Probes of what is another's: hidden files, channels to others, the clock, the state that is judged."""

import ctypes
import errno
import gc
import json
import mmap
import os
import platform
import re
import socket
import struct
import time
from collections.abc import Callable
from typing import Any

_X86 = {"msgsnd": 69, "msgrcv": 70, "shmat": 30, "semop": 65, "mq_open": 240, "mq_unlink": 241}
_ARM = {"msgsnd": 189, "msgrcv": 188, "shmat": 196, "semop": 193, "mq_open": 180, "mq_unlink": 181}
_IPC_NOWAIT = 0o4000


def tokens(kind: Any, prefix: str) -> list[str]:
    """Every `<prefix><32 hexadecimal digits>` in this process's memory."""
    pattern = re.compile(re.escape(prefix).encode() + rb"[0-9a-f]{32}")
    try:
        found = _in_pages(pattern)
    except OSError:  # no /proc here: what the interpreter can reach
        found = _in_objects(pattern)
    return sorted(token.decode() for token in found)


def _in_pages(pattern: "re.Pattern[bytes]") -> set[bytes]:
    found: set[bytes] = set()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            first, last = (int(part, 16) for part in span.split("-"))
            for at in range(first, last if "r" in rights else first, 2**22):
                try:
                    memory.seek(at)
                    found.update(pattern.findall(memory.read(min(2**22 + 256, last - at))))
                except (OSError, ValueError, OverflowError):
                    break  # not to be read, as the kernel's own page
    return found


def _in_objects(pattern: "re.Pattern[bytes]") -> set[bytes]:
    found: set[bytes] = set()
    seen: set[int] = set()
    waiting = gc.get_objects()
    while waiting:
        fresh = {id(one): one for one in waiting if id(one) not in seen}
        seen.update(fresh)
        for one in fresh.values():
            if isinstance(one, str):
                found.update(pattern.findall(one.encode("utf-8", "replace")))
            elif isinstance(one, bytes | bytearray):
                found.update(pattern.findall(one))
        waiting = gc.get_referents(*fresh.values())
    return found


def reach_others(kind: Any, places: dict[str, Any]) -> dict[str, str]:
    """What each way to another process gave: the name of an error, or 'reached'.

    Args:
        places: what the other process offers, each a way that is tried: ids of message `queue`, `segment` and
            `semaphore`, a `mailbox` name, an `abstract` and a `bound` socket, a `shared` file and a `pipe`.
    """
    ways: dict[str, Callable[[Any], object]] = {
        "queue": _send_and_receive,
        "segment": lambda number: _call("shmat", number, 0, 0),
        "semaphore": lambda number: _call("semop", number, ctypes.create_string_buffer(struct.pack("Hhh", 0, 1, 0)), 1),
        "mailbox": lambda name: _call("mq_open", ctypes.c_char_p(name.encode()), os.O_RDWR, 0, 0),
        "unlinked_mailbox": lambda name: _call("mq_unlink", ctypes.c_char_p(name.encode())),
        "abstract": lambda name: _datagram("\0" + name),
        "bound": _datagram,
        "shared": lambda path: os.close(os.open(path, os.O_RDWR)),
        "pipe": lambda path: os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK)),
    }
    return {name: _tried(ways[name], place) for name, place in places.items()}


def _call(name: str, *arguments: Any) -> None:
    number = (_X86 if platform.machine() == "x86_64" else _ARM)[name]
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    if libc.syscall(ctypes.c_long(number), *given) == -1:
        raise OSError(ctypes.get_errno(), name)


def _send_and_receive(queue: int) -> None:
    _call("msgsnd", queue, ctypes.create_string_buffer(struct.pack("l4s", 1, b"here")), 4, _IPC_NOWAIT)
    _call("msgrcv", queue, ctypes.create_string_buffer(64), 32, 0, _IPC_NOWAIT)


def _datagram(address: str) -> None:
    left, right = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with left, right:
        left.sendto(b"here", address)


def set_clock(kind: Any) -> str:
    """'set', if the clock can be set, to what it shows."""
    time.clock_settime(time.CLOCK_REALTIME, time.time())
    return "set"


def clock_error(kind: Any, name: str) -> str:
    """What a call that sets clocks answers to arguments of -1, with which it fails wherever it is not refused."""
    numbers = {
        "settimeofday": (164, 170),
        "clock_settime": (227, 112),
        "adjtimex": (159, 171),
        "clock_adjtime": (305, 266),
    }
    number = numbers[name][platform.machine() != "x86_64"]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), ctypes.c_long(-1), ctypes.c_long(-1)) == 0:
        return "done"
    return errno.errorcode.get(ctypes.get_errno(), "unknown")


def tamper(kind: Any, name: str = "state.txt") -> dict[str, str]:
    """What each way to change a state file gave: the name of an error, or 'reached'."""
    path = os.path.join(kind.root, name)
    held = os.open(path, os.O_RDONLY)
    ways: dict[str, Callable[[], object]] = {
        "open": lambda: os.open(path, os.O_RDWR),
        "open_held": lambda: os.open(f"/proc/self/fd/{held}", os.O_RDWR),
        "truncate": lambda: os.truncate(path, 0),
        "unlink": lambda: os.unlink(path),
        "rename": lambda: os.rename(path, path + ".old"),
        "replace": lambda: os.symlink("/dev/null", path + ".new"),
        "link": lambda: os.link(path, path + ".link"),
        "map": lambda: mmap.mmap(held, 1, mmap.MAP_SHARED, mmap.PROT_WRITE),
        "directory": lambda: os.mkdir(os.path.join(kind.root, "over")),
    }
    try:
        return {way: _tried(lambda _, attempt=attempt: attempt(), None) for way, attempt in ways.items()}
    finally:
        os.close(held)


def replace_state(kind: Any, name: str, by: str, target: str = "") -> str:
    """Put something that is no file in a state file's place: a fifo, a directory, or a link to `target`."""
    path = os.path.join(kind.root, name)
    os.unlink(path)
    {"fifo": os.mkfifo, "directory": os.mkdir, "link": lambda at: os.symlink(target, at)}[by](path)
    return by


def hold_state(kind: Any, name: str = "state.txt") -> None:
    """Open a state file for writing and keep it open."""
    kind.held = os.open(os.path.join(kind.root, name), os.O_RDWR)


def write_held(kind: Any, content: str) -> None:
    """Write over the beginning of the file held open, and let go of it."""
    os.pwrite(kind.held, content.encode(), 0)
    os.close(kind.held)


def forge(kind: Any, value: str) -> str:
    """Write answers that were not asked for into every descriptor, with the numbers of the next calls."""
    for number in range(kind.calls, kind.calls + 8):
        body = json.dumps({"id": number, "answer": {"value": value}}).encode()
        for fd in range(3, 256):
            try:
                os.write(fd, struct.pack("<I", len(body)) + body)
            except OSError:
                continue
    return value


def _tried(way: Callable[[Any], object], place: Any) -> str:
    try:
        way(place)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except Exception as error:
        return type(error).__name__
    return "reached"
