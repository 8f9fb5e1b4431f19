"""Commands, jobs and files of a workspace, as an agent meets them."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("workspace")]

DAEMON = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        for fd in range(3):
            os.close(fd)
        while True:
            with open('/tmp/beat', 'a') as file:
                file.write('.')
            time.sleep(0.01)
    os._exit(0)
os.wait()
"""


async def test_a_command_runs_in_the_tree_and_tells_its_exit_status(workshop: Any, tmp_path: Path) -> None:
    files = {"run.sh": "#!/bin/sh\necho ran $1\n", "data/one.txt": "1\n"}
    async with workshop.playing(files, tmp_path, modes={"run.sh": "755"}) as player:
        assert await player.text("bash", command="pwd; ./run.sh here; cat data/*; exit 3") == (
            "/workspace\nran here\n1\n[exit status 3]"
        )
        assert await player.text("bash", command="kill -9 $$") == "[ended by signal 9]"
        assert await player.text("bash", command="printf no-newline; cat") == "no-newline\n[exit status 0]"
        printed = await player.text("python", code="import sys; print(1); print(2, file=sys.stderr); sys.exit(4)")
        assert printed in ("1\n2\n[exit status 4]", "2\n1\n[exit status 4]")


async def test_what_there_is_and_what_can_be_written(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({}, tmp_path) as player:
        await player.bash("git --version && sed --version && grep -V && find . && python -m pytest --version")
        for place in ("/", "/usr/bin", "/etc", "/dev", "/quintain"):
            assert "[exit status 1]" in await player.text("bash", command=f"touch {place}/x")
        await player.bash("touch /tmp/x /workspace/x")
        assert "[exit status 0]" not in await player.text("bash", command="ls /root /home /work 2>&1 | grep .ssh")
        code = "import socket\nfor f in (2, 1, 10, 16):\n try: socket.socket(f)\n except OSError as e: print(e.errno)"
        assert await player.text("python", code=code) == "1\n1\n1\n1\n[exit status 0]"


async def test_of_much_output_the_beginning_and_the_end_are_told(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({}, tmp_path) as player:
        text = await player.bash("echo first; yes | head -c 1000000; echo last")
        assert len(text) < 40_000
        assert text.startswith("first\ny\n")
        assert text.endswith("y\nlast\n")
        assert f"[{6 + 1_000_000 + 5 - 2 * 16 * 1024} bytes left out here]" in text
        stopped = await player.error("bash", command="yes")
        assert "[stopped: it printed over 16777216 bytes; send output to a file]" in stopped
        assert await player.others() == 0


async def test_a_command_over_its_time_is_ended_with_all_that_it_started(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({"daemon.py": DAEMON}, tmp_path) as player:
        told = await player.error("bash", command="python daemon.py; echo begun; sleep 1000", timeout_s=5)
        assert told == "begun\n[stopped after 5 s, with everything it had started]"
        assert await player.others() == 0
        before = await player.bash("cat /tmp/beat | wc -c")
        assert int(before) > 0
        await asyncio.sleep(0.2)
        assert await player.bash("cat /tmp/beat | wc -c") == before


async def test_what_a_command_leaves_behind_is_ended(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({"daemon.py": DAEMON}, tmp_path) as player:
        await player.bash("python daemon.py; (sleep 1000 &); setsid sleep 1000 & echo")
        assert await player.others() == 0


async def test_jobs_go_on_beside_calls_and_end_with_what_they_started(workshop: Any, tmp_path: Path) -> None:
    ticks = "echo begun; (while true; do echo tick >> /tmp/ticks; sleep 0.02; done) & wait"
    async with workshop.playing({"daemon.py": DAEMON}, tmp_path) as player:
        assert await player.text("jobs") == "there are no jobs"
        assert (await player.text("bash", command=ticks, background=True)).startswith("started job 1")
        assert (await player.text("bash", command="sleep 0.1; exit 7", background=True)).startswith("started job 2")
        await player.bash("python daemon.py; until [ -s /tmp/ticks ]; do sleep 0.02; done; cp /tmp/ticks /tmp/before")
        await player.bash("until ! cmp -s /tmp/ticks /tmp/before; do sleep 0.02; done")  # it still ticks
        while "2: still running" in await player.text("jobs"):
            await player.bash("sleep 0.02")
        assert (await player.text("jobs")).splitlines() == [
            f"1: still running: {ticks}",
            "2: exit status 7: sleep 0.1; exit 7",
        ]
        assert await player.text("output", job=1) == "begun\n[still running]"
        assert (await player.environment.hibernate()).why == "2 background jobs were started"
        assert await player.text("stop", job=1) == "job 1: stopped"
        assert await player.others() == 0
        assert "there is no job 9" in await player.error("output", job=9)


async def test_at_most_eight_jobs_run_at_once(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({}, tmp_path) as player:
        for _ in range(8):
            await player.text("bash", command="sleep 1000", background=True)
        assert "stop one" in await player.error("bash", command="true", background=True)
        await player.text("stop", job=3)
        await player.text("bash", command="true", background=True)


async def test_the_sandbox_itself_cannot_be_ended_or_looked_into(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({}, tmp_path) as player:
        await player.text("bash", command="kill -9 1; kill -9 -1; kill -STOP 1; true")
        told = await player.text("bash", command="cat /proc/1/environ /proc/1/mem; ls /proc/1/fd /proc/1/cwd/")
        assert told.count("Permission denied") == 4
        assert await player.bash("echo on") == "on\n"


async def test_lines_of_files_are_read(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({"a.txt": "one\ntwo\nthree"}, tmp_path) as player:
        assert await player.text("read", path="a.txt") == "one\ntwo\nthree"
        assert await player.text("read", path="/workspace/a.txt", offset=2, limit=1) == "two\n[lines 2 to 2 of 3]"
        assert "offset 4 is after its end" in await player.error("read", path="a.txt", offset=4)
        assert "No such file" in await player.error("read", path="b.txt")
        assert "is a folder" in await player.error("read", path=".")
        await player.bash("ln -s /proc/self/environ out; ln -s /dev/zero zero")
        for path in ("out", "zero", "../etc/passwd", "/proc/1/status"):
            assert "is outside of /workspace and /tmp" in await player.error("read", path=path)


async def test_files_are_written_and_edited(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({"a.txt": "x = 1\ny = 1\n"}, tmp_path) as player:
        assert await player.text("write", path="new/deep/b.txt", content="ä\n") == "made new/deep/b.txt, 3 bytes"
        assert await player.text("write", path="new/deep/b.txt", content="") == "replaced new/deep/b.txt, 0 bytes"
        assert await player.text("edit", path="a.txt", old="x = 1", new="x = 2") == "replaced 1 place in a.txt"
        assert "does not hold" in await player.error("edit", path="a.txt", old="x = 1", new="x")
        assert "stands 2 times" in await player.error("edit", path="a.txt", old=" = ", new="=")
        assert await player.text("edit", path="a.txt", old=" = ", new="=", all=True) == "replaced 2 places in a.txt"
        assert await player.bash("cat a.txt") == "x=2\ny=1\n"
        assert "outside" in await player.error("write", path="/etc/x", content="")
        outcome = await player.environment.call("edit", {"path": "a.txt", "old": "", "new": "x"}, 5.0)
        assert (outcome.status, outcome.owner) == ("invalid_args", "agent")
        outcome = await player.environment.call("erase", {}, 5.0)
        assert (outcome.status, outcome.owner) == ("tool_not_found", "agent")


async def test_lines_are_searched_for(workshop: Any, tmp_path: Path) -> None:
    files = {"a.py": "def one():\n    pass\n", "b/c.txt": "one\n", "many.txt": "m\n" * 500}
    async with workshop.playing(files, tmp_path) as player:
        assert await player.text("search", pattern=r"\bone\b") == "a.py:1: def one():\nb/c.txt:1: one"
        assert await player.text("search", pattern="one", glob="*.py") == "a.py:1: def one():"
        assert await player.text("search", pattern="one", path="b") == "b/c.txt:1: one"
        assert await player.text("search", pattern="two") == "no line matches"
        many = (await player.text("search", pattern="^m$")).splitlines()
        assert (len(many), many[-1]) == (201, "[over 200 lines match; these are the first]")
        assert "is no regular expression" in await player.error("search", pattern="(")


async def test_a_runtime_that_lies_in_tmp_is_there_too(open_workshop: Any, runtime_cache: Path, tmp_path: Path) -> None:
    cache = Path(tempfile.mkdtemp(prefix="quintain-cache-", dir="/tmp"))
    try:
        (cache / "runtimes").symlink_to(runtime_cache)
        async with open_workshop(None, cache / "runtimes") as opened, opened.playing({}, tmp_path) as player:
            code = "import os, sys; print(sys.executable, os.statvfs(sys.prefix).f_flag & os.ST_RDONLY)"
            told = await player.text("python", code=code)
            assert told.startswith(f"{cache}/runtimes/workspace-")
            assert told.endswith("/bin/python 1\n[exit status 0]")
            await player.bash("touch /tmp/x && rm /tmp/x && python -m pytest --version")
            assert (await player.environment.hibernate()).done
    finally:
        shutil.rmtree(cache)
