"""The conformance suite against every provider: the default one as whoever runs the tests, and the in-process fake."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from quintain.sandboxes.base import IsolationLevel, SandboxProvider
from quintain.sandboxes.conformance import Bench, Check, Violation, applicable
from quintain.sandboxes.fork import ForkProvider
from quintain.sandboxes.inprocess import InProcessProvider

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("conformance")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fork(tmp_path_factory: pytest.TempPathFactory, runtime_cache: Path) -> AsyncIterator[SandboxProvider]:
    provider = ForkProvider(runtime_cache)
    yield provider
    await provider.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reduced(tmp_path_factory: pytest.TempPathFactory, runtime_cache: Path) -> AsyncIterator[SandboxProvider]:
    provider = ForkProvider(runtime_cache, level=IsolationLevel.REDUCED)
    yield provider
    await provider.close()


@pytest.mark.parametrize("check", applicable(IsolationLevel.FULL), ids=lambda check: check.name)
async def test_fork_provider(fork: SandboxProvider, check: Check, tmp_path: Path) -> None:
    await check.run(Bench(fork, tmp_path))  # raises Violation


@pytest.mark.parametrize("check", applicable(IsolationLevel.REDUCED), ids=lambda check: check.name)
async def test_reduced_provider(reduced: SandboxProvider, check: Check, tmp_path: Path) -> None:
    await check.run(Bench(reduced, tmp_path))  # raises Violation


@pytest.mark.parametrize("check", applicable(IsolationLevel.NONE), ids=lambda check: check.name)
async def test_in_process_fake(check: Check, tmp_path: Path) -> None:
    provider = InProcessProvider(tmp_path / "instances")
    try:
        await check.run(Bench(provider, tmp_path))  # raises Violation
    finally:
        await provider.close()


async def test_the_suite_finds_a_provider_that_does_not_isolate(tmp_path: Path) -> None:
    """The fake, asked what only isolation can give, by those checks that touch nothing even where they succeed."""
    harmless = {
        "host_files_are_out_of_sight", "no_network", "other_processes_are_out_of_sight", "no_interfaces",
        "others_cannot_be_reached", "a_judged_state_cannot_be_changed",
    }  # fmt: skip
    provider = InProcessProvider(tmp_path / "instances")
    bench = Bench(provider, tmp_path)
    found = set()
    try:
        for check in applicable(IsolationLevel.FULL):
            if check.name in harmless:
                with pytest.raises(Violation):
                    await check.run(bench)
                found.add(check.name)
    finally:
        await provider.close()
    assert found == harmless
