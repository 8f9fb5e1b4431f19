"""Processes that stand by for a claim: clean, replaced when they are taken or die, and gone with their template."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from quintain.sandboxes import cgroups
from quintain.sandboxes.base import KeepsStandbys, SandboxClass, SecurityPolicy, StateFile, Template
from quintain.sandboxes.fork import ForkProvider
from sandboxes.test_fork_provider import processes_below

pytestmark = pytest.mark.xdist_group("conformance")
KIND = Path(__file__).parents[1] / "kinds" / "made_to_order"


async def at_once() -> None:
    """No lull is waited for: on a machine that runs tests there may be none."""


@pytest_asyncio.fixture
async def provider(runtime_cache: Path) -> AsyncIterator[ForkProvider]:
    made = ForkProvider(runtime_cache, max_templates=2, keep_asked_s=0, lull=at_once)
    yield made
    await made.close()
    assert standing_by() == set()


@pytest.fixture
def ordered(tmp_path: Path) -> SandboxClass:
    lock = tmp_path / "ordered.lock.txt"
    lock.write_text("# standard library only\n")
    return SandboxClass("ordered", lock, KIND)


def standing_by() -> set[int]:
    found = set()
    for pid in processes_below(os.getpid()):
        try:
            if Path(f"/proc/{pid}/comm").read_text().strip() == "q-standby":
                found.add(pid)
        except OSError:
            continue
    return found


async def come_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def hot(provider: ForkProvider, ordered: SandboxClass, key: str = "hot", **payload: str) -> Template:
    template = await provider.template(ordered, key, payload, warm=True)
    await come_true(lambda: len(standing_by()) == 2)
    return template


@pytest.mark.skipif(cgroups.offered().startswith("none"), reason="this host offers this user no control group")
async def test_closed_while_one_gets_its_control_group_no_group_is_left(
    runtime_cache: Path, ordered: SandboxClass, monkeypatch: pytest.MonkeyPatch
) -> None:
    making, make = threading.Event(), cgroups.make_inner

    def slowly(*given: Any) -> Any:
        made = make(*given)
        making.set()
        time.sleep(0.3)
        return made

    monkeypatch.setattr("quintain.sandboxes.fork.template.make_inner", slowly)
    provider = ForkProvider(runtime_cache, lull=at_once, group_limits=cgroups.GroupLimits(2**30, 4096))
    several = replace(ordered, name="several", policy=SecurityPolicy(processes=True))
    await provider.template(several, "hot", {}, warm=True)
    await come_true(making.is_set)
    await provider.close()
    assert not list(Path("/sys/fs/cgroup").glob(f"**/quintain-{os.getpid()}-*"))


async def test_a_claim_of_a_hot_template_takes_a_process_that_stood_by_and_another_follows(
    provider: ForkProvider, ordered: SandboxClass, tmp_path: Path
) -> None:
    template = await hot(
        provider,
        ordered,
        begin="open('/data/word', 'w').write(start['word'])",
        call="answer = open('/data/given').read() + open('/data/word').read()",
    )
    before = standing_by()
    given = tmp_path / "given"
    given.write_text("state of ")
    sandbox = await provider.claim(template, {"word": "this claim"}, [StateFile("given", given)])
    assert (sandbox.stood_by, sandbox.pid in before, set(sandbox.segments)) == (True, True, {"inject", "begin"})
    assert await sandbox.call({}, 5) == {"answer": "state of this claim"}
    await come_true(lambda: len(standing_by()) == 2 and sandbox.pid not in standing_by())
    await sandbox.destroy()


async def test_no_process_stands_by_for_a_template_that_is_not_hot(
    provider: ForkProvider, ordered: SandboxClass
) -> None:
    template = await provider.template(ordered, "cold", {})
    sandbox = await provider.claim(template, {}, [])
    await asyncio.sleep(0.1)
    assert (sandbox.stood_by, standing_by()) == (False, set())
    assert {"fork", "namespaces", "inject", "begin"} == set(sandbox.segments)
    await sandbox.destroy()


async def test_a_claim_with_limits_of_its_own_gets_a_process_of_its_own(
    provider: ForkProvider, ordered: SandboxClass
) -> None:
    template = await hot(provider, ordered, call="import os; answer = os.statvfs('/data').f_blocks * 4096")
    usual = template.sandbox_class.limits
    sandbox = await provider.claim(template, {}, [], limits=replace(usual, disk_bytes=2**20))
    assert (sandbox.stood_by, await sandbox.call({}, 5)) == (False, {"answer": 2**20})
    await sandbox.destroy()


async def test_killed_processes_that_stood_by_are_not_missed(provider: ForkProvider, ordered: SandboxClass) -> None:
    template = await hot(provider, ordered, call="answer = 'served'")
    for number in range(5):
        for pid in standing_by():
            os.kill(pid, signal.SIGKILL)
        if number % 2:
            await asyncio.sleep(0.05)  # known to be dead, or found out when it is claimed
        sandbox = await provider.claim(template, {}, [])
        assert await sandbox.call({}, 5) == {"answer": "served"}
        await sandbox.destroy()
    assert await provider.template(ordered, "hot", {}, warm=True) is template
    await (await provider.claim(template, {}, [])).destroy()  # a claim has what died replaced
    await come_true(lambda: len(standing_by()) == 2)


async def test_those_of_a_retired_template_go_before_its_last_episode(
    provider: ForkProvider, ordered: SandboxClass
) -> None:
    template = await hot(provider, ordered, call="answer = 'still here'")
    sandbox = await provider.claim(template, {}, [])
    await come_true(lambda: len(standing_by()) == 2)
    mine = standing_by()
    for number in range(2):
        await provider.template(ordered, f"other {number}", {})
    await come_true(lambda: not mine & standing_by())
    assert await sandbox.call({}, 5) == {"answer": "still here"}
    await sandbox.destroy()


async def test_a_storm_of_claims_leaves_no_more_of_them_than_before(
    provider: ForkProvider, ordered: SandboxClass
) -> None:
    template = await hot(provider, ordered, call="answer = 1")
    sandboxes = await asyncio.gather(*(provider.claim(template, {}, []) for _ in range(20)))
    assert len({sandbox.pid for sandbox in sandboxes}) == 20
    assert sum(sandbox.stood_by for sandbox in sandboxes) == 2
    await asyncio.gather(*(sandbox.destroy() for sandbox in sandboxes))
    await come_true(lambda: len(standing_by()) == 2)
    await asyncio.sleep(0.3)
    assert len(standing_by()) == 2


async def test_those_that_stood_down_are_gone_and_are_not_replaced(
    provider: ForkProvider, ordered: SandboxClass
) -> None:
    template = await hot(provider, ordered, call="answer = 'served'")
    assert isinstance(provider, KeepsStandbys)
    await provider.stand_down()
    await provider.stand_down()
    assert standing_by() == set()
    for _ in range(3):
        sandbox = await provider.claim(template, {}, [])
        assert (sandbox.stood_by, await sandbox.call({}, 5)) == (False, {"answer": "served"})
        await sandbox.destroy()
    await asyncio.sleep(0.1)
    assert standing_by() == set()
