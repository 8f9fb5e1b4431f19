"""Processes that a payload leaves behind while it loads, where no process namespace takes them along."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from quintain.sandboxes.base import IsolationLevel, SandboxClass
from quintain.sandboxes.fork import ForkProvider

pytestmark = pytest.mark.xdist_group("conformance")
KIND = Path(__file__).parents[1] / "kinds" / "made_to_order"

# By raw system calls, so that no handler of the interpreter's sees them; each waits, and ends by itself at last.
ORPHANED = """
import ctypes, os, time
libc = ctypes.CDLL(None)
if libc.fork() == 0:
    os.setsid()
    if libc.fork() == 0:
        libc.prctl(15, b"{name}", 0, 0, 0)
        time.sleep(60)
    time.sleep(0.05)
    os._exit(0)
time.sleep(0.2)
"""
ADOPTED = """
import ctypes, os, platform, time
libc = ctypes.CDLL(None)
clone, parent, child = {{"x86_64": 56, "aarch64": 220}}[platform.machine()], 0x8000, 17
if libc.syscall(ctypes.c_long(clone), ctypes.c_ulong(parent | child), *[ctypes.c_long(0)] * 4) == 0:
    libc.prctl(15, b"{name}", 0, 0, 0)
    time.sleep(60)
    os._exit(0)
"""
CHAIN = """
import ctypes, os, time
libc = ctypes.CDLL(None)
end = time.monotonic() + 60
if libc.fork() == 0:
    libc.prctl(15, b"{name}", 0, 0, 0)
    while time.monotonic() < end:
        if libc.fork() != 0:
            os._exit(0)
        time.sleep(0.02)
time.sleep(0.2)
"""


def named(name: str) -> list[int]:
    """Processes of this host of that name."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().strip() == name:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def gone(name: str, seconds: float = 20) -> bool:
    """Whether no process of that name is left, soon and for good."""
    deadline = time.monotonic() + seconds
    while named(name) and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    return not named(name)


@pytest.fixture
def ordered(tmp_path: Path) -> SandboxClass:
    lock = tmp_path / "ordered.lock.txt"
    lock.write_text("# standard library only\n")
    return SandboxClass("ordered", lock, KIND)


@pytest.mark.parametrize(("load", "name"), [(ORPHANED, "q-orphaned"), (ADOPTED, "q-adopted")])
async def test_what_is_left_behind_is_ended_and_others_go_on(
    runtime_cache: Path, ordered: SandboxClass, load: str, name: str
) -> None:
    provider = ForkProvider(runtime_cache, level=IsolationLevel.REDUCED)
    try:
        sound = await provider.claim(await provider.template(ordered, "sound", {"call": "answer = 1"}), {}, [])
        await provider.template(ordered, "leaves", {"load": load.format(name=name)})
        assert gone(name)
        assert await sound.call({}, 5) == {"answer": 1}
    finally:
        await provider.close()


async def test_nothing_that_goes_on_forking_outlives_the_provider(runtime_cache: Path, ordered: SandboxClass) -> None:
    provider = ForkProvider(runtime_cache, level=IsolationLevel.REDUCED)
    try:
        await provider.template(ordered, "chain", {"load": CHAIN.format(name="q-chain")})
    finally:
        await provider.close()
    assert gone("q-chain", 0)


async def test_nothing_that_goes_on_forking_outlives_a_killed_platform(runtime_cache: Path, tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from quintain.sandboxes.base import IsolationLevel, SandboxClass
from quintain.sandboxes.fork import ForkProvider

async def main():
    lock = Path(sys.argv[2]) / "ordered.lock.txt"
    lock.write_text("# standard library only\\n")
    provider = ForkProvider(Path(sys.argv[1]), level=IsolationLevel.REDUCED)
    load = {CHAIN.format(name="q-chain-killed")!r}
    try:
        await provider.template(SandboxClass("ordered", lock, Path({str(KIND)!r})), "chain", {{"load": load}})
    finally:
        print("loaded", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", script, str(runtime_cache), str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as platform:
        assert platform.stdout is not None
        assert platform.stdout.readline() == "loaded\n"
        platform.kill()
    assert gone("q-chain-killed")
