"""The escape corpus from inside a workspace: what an agent's processes may do that other sandboxes refuse, and no more.

Every attempt of the corpus that harms nothing is made by a command. Where processes make a difference, DIFFERENT says
which, and why that is contained.
"""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from escapes.corpus import CORPUS
from escapes.inside import HELPERS
from escapes.rooms import told
from tars import entries

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("workspace")]

RUN = """
import json
try:
    words = run_attempt(CODE, TOLD)
except BaseException as error:
    words = [f"raised {type(error).__name__}"]
print()
print(json.dumps(words))
"""
_OWN_ROOT: Final = "/data/../data/../proc/2/root/data"  # process 2 is the attempt itself
DIFFERENT: Final[dict[str, tuple[str, ...]]] = {
    # the root has /bin and /workspace too; nothing of another episode is in it
    "another episode's files": tuple(f"GOT {one}" for one in ("..", "../..", "/proc/self/cwd/..", _OWN_ROOT)),
    # /dev/shm is its own /tmp
    "writing elsewhere": ("GOT 'open for writing'",),
    "shared memory files": ("GOT 'open for writing'", "GOT SharedMemory", "GOT ['psm_"),
    # no command has the conversation's socket
    "the platform by its socket": ("raised LookupError",),
    "descriptors sent to the platform": ("raised LookupError",),
    "descriptors moved about": ("raised LookupError",),
    "typing into a terminal": ("raised LookupError",),
    # processes are what a workspace is for; their number, memory and time are bounded, and none outlives its call
    "starting processes": ("GOT ", "nothing"),
    # a process cannot have the host's clock hidden from it; it can set none
    "the clock that is seen": ("GOT ",),
    "environment variables": ("GIT_", "LOGNAME", "PAGER", "TERM", "USER"),
}
"""Words, or beginnings of words, that come back here and nowhere else."""

ELSEWHERE: Final = frozenset({"interpreter", "reward"})
"""Areas that are about an application's process and its database."""

REPLACED: Final = frozenset({"running programs"})
"""Attempts that become another program, and so tell nothing."""

MADE = [one for one in CORPUS if "tool" in one.roles and "full" in one.levels and one.ending == "answers"]
HARMLESS = [one for one in MADE if not one.destructive and one.area not in ELSEWHERE and one.name not in REPLACED]


async def attempted(player: Any, code: str, folder: Path) -> list[str]:
    places = {**told(folder, "full"), "own_token": "none", "pids": [os.getpid(), os.getppid()]}
    text = f"{HELPERS}\nCODE = {code!r}\nTOLD = {places!r}\n{RUN}"
    lines = (await player.text("python", code=text)).splitlines()
    found: list[str] = [str(word) for word in json.loads(lines[-2])]
    return found


@pytest.mark.parametrize("escape", [pytest.param(one, id=one.name.replace(" ", "_")) for one in HARMLESS])
async def test_an_attempt_fails(workshop: Any, tmp_path: Path, escape: Any) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    async with workshop.playing({}, tmp_path) as player:
        found = await attempted(player, escape.code, tmp_path)
        allowed, more = escape.allowed("tool", "full"), DIFFERENT.get(escape.name, ())
        wrong = sorted(word for word in set(found) - allowed if not word.startswith(tuple(more)))
        assert found, "it tried nothing"
        assert not wrong, f"{wrong}, where {sorted(allowed)} or {more} must be: {escape.reason}"
        assert await player.bash("echo on") == "on\n"


async def test_every_difference_is_one(workshop: Any, tmp_path: Path) -> None:
    assert set(DIFFERENT) <= {one.name for one in HARMLESS}
    async with workshop.playing({}, tmp_path) as player:
        for one in HARMLESS:
            if one.name in DIFFERENT:
                found = await attempted(player, one.code, tmp_path)
                assert set(found) - one.allowed("tool", "full"), f"{one.name} is contained as elsewhere"


async def test_the_first_process_cannot_be_made_to_go_first(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({}, tmp_path) as player:
        told = await player.text("bash", command="cat /proc/self/oom_score_adj; echo 1000 > /proc/1/oom_score_adj")
        assert told.startswith("1000\n")
        assert "Permission denied" in told


async def test_no_program_gives_privileges(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({}, tmp_path) as player:
        assert await player.bash("find / -xdev -perm /6000 2>/dev/null; grep -h CapEff /proc/self/status") == (
            "CapEff:\t0000000000000000\n"
        )
        await player.bash("cp /usr/bin/bash b; chmod 4755 b; ./b -c 'grep Uid /proc/self/status'")
        tar = await player.snapshot()
        assert entries(tar)["b"][0] == 0o755  # the bit is not kept
