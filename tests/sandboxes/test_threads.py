"""How many threads a payload can run under the default limits."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from quintain.sandboxes.base import IsolationLevel, SandboxClass
from quintain.sandboxes.fork import ForkProvider

pytestmark = pytest.mark.xdist_group("conformance")
KIND = Path(__file__).parents[1] / "kinds" / "made_to_order"
THREADS = """
import threading
barrier = threading.Barrier(33, timeout=20)
def work():
    kept = [b"x" * 200 for _ in range(1000)]  # each thread allocates for itself
    barrier.wait()
started = []
try:
    for _ in range(32):
        thread = threading.Thread(target=work)
        thread.start()
        started.append(thread)
    barrier.wait()
    answer = len(started)
except (RuntimeError, MemoryError) as error:
    barrier.abort()
    answer = f"{len(started)} threads, then {type(error).__name__}: {error}"
for thread in started:
    thread.join()
"""


@pytest_asyncio.fixture(params=[IsolationLevel.FULL, IsolationLevel.REDUCED])
async def provider(request: pytest.FixtureRequest, runtime_cache: Path) -> AsyncIterator[ForkProvider]:
    made = ForkProvider(runtime_cache, level=request.param)
    yield made
    await made.close()


async def test_thirty_two_threads_at_once(provider: ForkProvider, tmp_path: Path) -> None:
    lock = tmp_path / "ordered.lock.txt"
    lock.write_text("# standard library only\n")
    template = await provider.template(SandboxClass("ordered", lock, KIND), "threads", {"call": THREADS})
    sandbox = await provider.claim(template, {}, [])
    try:
        assert await sandbox.call({}, 30) == {"answer": 32}
    finally:
        await sandbox.destroy()
