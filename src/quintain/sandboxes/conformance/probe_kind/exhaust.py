"""Probes of limits. Each has a harmless half that only reads the limit, and a bounded half that runs into it."""

import os
import resource
import threading
import time
from typing import Any


def limits(kind: Any) -> dict[str, int]:
    """Hard resource limits by name; -1 is unlimited."""
    names = ("AS", "NPROC", "CPU", "NOFILE", "FSIZE", "CORE")
    return {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1] for name in names}


def disk_size(kind: Any) -> int:
    """Bytes of the file system that holds the state directory."""
    status = os.statvfs(kind.root)
    return status.f_blocks * status.f_frsize


def fill_memory(kind: Any, size: int) -> int:
    """Map and touch memory up to `size` bytes; the bytes got. Raises MemoryError at the limit."""
    kept = []
    for _ in range(size // 2**20):
        kept.append(bytearray(2**20))
    return len(kept) * 2**20


def fill_disk(kind: Any, size: int) -> int:
    """Write up to `size` bytes into the state directory, in several files; the bytes written."""
    written = 0
    for number in range(64):
        with open(os.path.join(kind.root, f"fill-{number}"), "wb", buffering=0) as file:
            for _ in range(size // 64 // 2**16):
                written += file.write(bytes(2**16))
    return written


def unfill_disk(kind: Any) -> None:
    """Take the files of `fill_disk` away."""
    for name in os.listdir(kind.root):
        if name.startswith("fill-"):
            os.unlink(os.path.join(kind.root, name))


def start_threads(kind: Any, count: int) -> int:
    """Start up to `count` waiting threads; how many could run at once. They end before the answer."""
    release = threading.Event()
    threads = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=release.wait)
            thread.start()
            threads.append(thread)
    except RuntimeError:
        pass  # no more
    finally:
        release.set()
        for thread in threads:
            thread.join()
    return len(threads)


def start_processes(kind: Any, count: int) -> int:
    """Start up to `count` processes that wait; how many could run at once. They end before the answer."""
    reader, writer = os.pipe()
    children = []
    try:
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            children.append(pid)
    except OSError:
        pass  # no more
    finally:
        os.close(writer)
        os.close(reader)
        for pid in children:
            os.waitpid(pid, 0)
    return len(children)


def leave_process(kind: Any) -> str:
    """Start a process in a session of its own that outlives the call."""
    if os.fork() == 0:
        os.setsid()
        time.sleep(60)
        os._exit(0)
    return "left"


def fork_without_end(kind: Any) -> None:
    """Every process forks for ever and ignores failure."""
    while True:
        try:
            os.fork()
        except OSError:
            pass


def open_files(kind: Any, count: int) -> int:
    """Open up to `count` descriptors; how many could be had."""
    opened = []
    try:
        for _ in range(count):
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass  # no more
    finally:
        for fd in opened:
            os.close(fd)
    return len(opened)


def spin(kind: Any) -> None:
    """Compute without end."""
    while True:
        pass
