"""The fork provider's own life: shared builds, eviction, deaths, and what is left when the platform is killed."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from quintain.errors import CallTimeout, ResultTooLarge, SandboxError, SandboxLost, StateTooLarge, TemplateError
from quintain.sandboxes.base import SandboxClass, StateFile
from quintain.sandboxes.conformance import Bench
from quintain.sandboxes.conformance.bench import value_of
from quintain.sandboxes.fork import ForkProvider
from quintain.sandboxes.runtime import choose_interpreter, ensure_runtime

pytestmark = pytest.mark.xdist_group("conformance")
KIND = Path(__file__).parents[1] / "kinds" / "made_to_order"


@pytest_asyncio.fixture
async def provider(runtime_cache: Path) -> AsyncIterator[ForkProvider]:
    made = ForkProvider(runtime_cache, max_templates=2, build_timeout_s=20, keep_asked_s=0)
    yield made
    await made.close()


@pytest.fixture
def ordered(tmp_path: Path) -> SandboxClass:
    """A class whose kind does what its payload's code says."""
    lock = tmp_path / "ordered.lock.txt"
    lock.write_text("# standard library only\n")
    return SandboxClass("ordered", lock, KIND)


def processes_below(pid: int) -> set[int]:
    """Every descendant of a process on this host."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        fresh = children.get(waiting.pop(), [])
        found.update(fresh)
        waiting += fresh
    return found


async def gone(pids: set[int], within_s: float = 20.0) -> set[int]:
    """Those of the processes that are still there after the time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        left = {pid for pid in pids if os.path.exists(f"/proc/{pid}") and not _zombie(pid)}
        if not left:
            return set()
        await asyncio.sleep(0.02)
    return left


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


async def test_callers_at_the_same_time_share_one_build(provider: ForkProvider, tmp_path: Path) -> None:
    bench = Bench(provider, tmp_path)
    first, *others = await asyncio.gather(*(bench.template() for _ in range(8)))
    assert all(template is first for template in others)


async def test_a_retired_template_serves_its_living_episodes_and_then_ends(
    provider: ForkProvider, tmp_path: Path
) -> None:
    bench = Bench(provider, tmp_path)
    async with bench.sandbox() as sandbox:
        for number in range(3):  # more than the provider keeps
            await provider.template(bench.plain, f"other-{number}", {})
        before = processes_below(os.getpid())
        assert await value_of(sandbox, "echo", value="still here") == "still here"
        with pytest.raises(SandboxLost, match="ask for it again"):
            await provider.claim(replace(await bench.template(), key="conformance:never"), {}, [])
    async with asyncio.timeout(20):
        while len(processes_below(os.getpid())) >= len(before):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("after_s", [0.01, 0.03, 0.1])
async def test_closed_while_a_zygote_starts_nothing_is_left(
    after_s: float, runtime_cache: Path, ordered: SandboxClass
) -> None:
    interpreter = choose_interpreter()
    ensure_runtime(ordered.lock, runtime_cache, interpreter)
    before = processes_below(os.getpid())
    provider = ForkProvider(runtime_cache, interpreter)
    slow = replace(ordered, preload=("unittest.mock", "email.message", "http.client"))
    starting = asyncio.create_task(provider.zygote(slow))
    await asyncio.sleep(after_s)
    starting.cancel()
    await provider.close()
    assert processes_below(os.getpid()) <= before


async def test_a_killed_zygote_is_started_again(provider: ForkProvider, tmp_path: Path) -> None:
    bench = Bench(provider, tmp_path)
    async with bench.sandbox() as sandbox:
        zygote = await provider.zygote(bench.plain)
        os.kill(zygote.pid, signal.SIGKILL)
        with pytest.raises(SandboxLost):
            await sandbox.call({"probe": "sleep", "arguments": {"seconds": 5}}, 10)
        assert await gone({zygote.pid, sandbox.pid}) == set()  # type: ignore[attr-defined]
    async with bench.sandbox() as again:
        assert await value_of(again, "echo", value=1) == 1


async def test_close_leaves_no_process(runtime_cache: Path, tmp_path: Path) -> None:
    before = processes_below(os.getpid())
    provider = ForkProvider(runtime_cache)
    bench = Bench(provider, tmp_path)
    template = await bench.template()
    sandboxes = [await provider.claim(template, {}, []) for _ in range(3)]
    started = processes_below(os.getpid()) - before
    assert {sandbox.pid for sandbox in sandboxes} <= started
    await provider.close()
    assert await gone(started) == set()
    with pytest.raises(SandboxLost):
        await sandboxes[0].call({"probe": "echo", "arguments": {"value": 1}}, 5)


async def test_nothing_outlives_a_killed_platform(runtime_cache: Path, tmp_path: Path) -> None:
    script = """
import asyncio, json, sys
from pathlib import Path
from quintain.sandboxes.conformance import Bench
from quintain.sandboxes.fork import ForkProvider
from quintain.sandboxes.runtime import choose_interpreter, ensure_runtime

async def main():
    provider = ForkProvider(Path(sys.argv[1]))
    bench = Bench(provider, Path(sys.argv[2]))
    template = await bench.template()
    sandboxes = [await provider.claim(template, {}, []) for _ in range(3)]
    print(json.dumps([sandbox.pid for sandbox in sandboxes]), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", script, str(runtime_cache), str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as platform:
        assert platform.stdout is not None
        pids = set(json.loads(platform.stdout.readline()))
        pids |= processes_below(platform.pid)
        platform.kill()
    assert len(pids) >= 6  # three episodes, a template, a zygote, bubblewrap
    assert await gone(pids) == set()


async def test_a_payload_that_loads_without_end_is_stopped(
    runtime_cache: Path, ordered: SandboxClass, tmp_path: Path
) -> None:
    provider = ForkProvider(runtime_cache, build_timeout_s=1.0)
    try:
        before = processes_below(os.getpid()) | {(await provider.zygote(ordered)).pid}
        with pytest.raises(TemplateError, match="did not load within 1 s"):
            await provider.template(ordered, "endless", {"load": "while True: pass"})
        loading = {pid for pid in processes_below(os.getpid()) - before if _name(pid) == "q-template"}
        assert await gone(loading) == set()
        template = await provider.template(ordered, "sound", {"load": "value = 1"})
        assert template.description == {"loaded": True}
    finally:
        await provider.close()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


async def test_an_episode_that_never_is_ready_is_stopped(runtime_cache: Path, ordered: SandboxClass) -> None:
    provider = ForkProvider(runtime_cache, claim_timeout_s=1.0)
    try:
        template = await provider.template(ordered, "stuck", {"begin": "while True: pass"})
        claims = [provider.claim(template, {}, []) for _ in range(4)]
        failed = await asyncio.gather(*claims, return_exceptions=True)
        assert any(isinstance(error, TemplateError) and "not ready within 1 s" in str(error) for error in failed)
        assert all(isinstance(error, SandboxError) for error in failed)
        with pytest.raises(TemplateError, match="do not get ready"):  # at once: nobody waits for it again
            await provider.template(ordered, "stuck", {})
        below = {pid for pid in processes_below(os.getpid()) if _name(pid) == "q-episode"}
        assert await gone(below) == set()
    finally:
        await provider.close()


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ({"load": "raise ValueError('no such lance')"}, "no such lance"),
        ({"load": "import os; os._exit(3)"}, "ended while loading"),
        ({"load": "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"},
         "2 threads running"),
        ({"load": "open('/data/big', 'wb').write(b'x' * 2**20 * 63); open('/data/more', 'wb').write(b'x' * 2**22)"},
         "No space left"),
    ],
)  # fmt: skip
async def test_a_payload_that_cannot_be_a_template_says_why(
    provider: ForkProvider, ordered: SandboxClass, payload: dict[str, str], message: str
) -> None:
    with pytest.raises(TemplateError, match=message):
        await provider.template(ordered, "bad", payload)
    assert (await provider.template(ordered, "good", {})).description == {"loaded": True}


async def test_a_template_is_confined_while_it_loads(provider: ForkProvider, ordered: SandboxClass) -> None:
    code = """
import errno, os, socket
for attempt in (
    lambda: os.kill(2, 0), lambda: os.kill(0, 0), lambda: os.kill(-1, 0), lambda: socket.socket(),
    lambda: open('/quintain/inside/x', 'w'), lambda: os.execv('/bin/true', ['true']), lambda: open('/etc/passwd'),
):
    try:
        attempt()
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.EROFS, errno.ENOENT, errno.EACCES), error
    else:
        raise AssertionError('not refused')
assert os.listdir('/data') == ['tmp'], os.listdir('/data')
assert [name for name in os.listdir('/proc') if name.isdigit()] == ['1']
"""
    assert (await provider.template(ordered, "curious", {"load": code})).description == {"loaded": True}


async def test_claims_carry_state_and_refuse_names_that_are_paths(provider: ForkProvider, tmp_path: Path) -> None:
    bench = Bench(provider, tmp_path)
    file = tmp_path / "content"
    file.write_text("carried")
    with pytest.raises(SandboxError, match="not a state file name"):
        await provider.claim(await bench.template(), {}, [StateFile("../escape", file)])
    async with bench.sandbox(state=[StateFile("state.txt", file)]) as sandbox:
        assert await value_of(sandbox, "read_state") == "carried"


async def test_a_call_that_is_cancelled_does_not_shift_later_answers(provider: ForkProvider, tmp_path: Path) -> None:
    bench = Bench(provider, tmp_path)
    async with bench.sandbox() as sandbox:
        call = asyncio.create_task(sandbox.call({"probe": "sleep", "arguments": {"seconds": 0.2}}, 5))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        with pytest.raises(SandboxLost):
            await sandbox.call({"probe": "echo", "arguments": {"value": "mine"}}, 5)


async def test_many_claims_at_once(provider: ForkProvider, tmp_path: Path) -> None:
    bench = Bench(provider, tmp_path)
    template = await bench.template()
    files = bench.materialise(template.state)
    sandboxes = await asyncio.gather(*(provider.claim(template, {"seed": n}, files) for n in range(32)))
    try:
        seen = await asyncio.gather(*(value_of(sandbox, "started_with") for sandbox in sandboxes))
        assert seen == [{"seed": number} for number in range(32)]
        with pytest.raises(CallTimeout):
            await sandboxes[0].call({"probe": "spin", "arguments": {}}, 0.3)
        assert await value_of(sandboxes[1], "echo", value=1) == 1
    finally:
        await asyncio.gather(*(sandbox.destroy() for sandbox in sandboxes))


async def test_a_hot_template_is_replaced_by_a_warmed_one_behind(
    runtime_cache: Path, ordered: SandboxClass, tmp_path: Path
) -> None:
    provider = ForkProvider(runtime_cache, warm_after=2)
    payload = {"warm": "import time; time.sleep(0.2)", "call": "answer = 'answered'"}
    try:
        cold = await provider.template(ordered, "hot", payload)
        old = [await provider.claim(cold, {}, []) for _ in range(2)]  # the second makes it hot
        assert await provider.template(ordered, "hot", payload) is cold  # nobody waits for the warming
        async with asyncio.timeout(20):
            while (warm := await provider.template(ordered, "hot", payload)) is cold:  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        assert warm.state is cold.state
        new = await provider.claim(warm, {}, [])
        for sandbox in (*old, new):
            assert await sandbox.call({}, 5) == {"answer": "answered"}
            await sandbox.destroy()
    finally:
        await provider.close()


async def test_where_templates_are_warmed_first_one_that_was_asked_for_cold_stays_cold(
    runtime_cache: Path, ordered: SandboxClass
) -> None:
    provider = ForkProvider(runtime_cache, warm_after=0)
    payload = {"call": "answer = 1"}
    try:
        cold = await provider.template(ordered, "cold", payload)
        for _ in range(3):
            sandbox = await provider.claim(cold, {}, [])
            assert await sandbox.call({}, 5) == {"answer": 1}
            await sandbox.destroy()
        await asyncio.sleep(0.3)
        assert await provider.template(ordered, "cold", payload) is cold
    finally:
        await provider.close()


async def test_a_hot_template_that_cannot_be_warmed_stays_as_it_is(runtime_cache: Path, ordered: SandboxClass) -> None:
    provider = ForkProvider(runtime_cache, warm_after=1)
    payload = {"warm": "raise ValueError('not to be warmed')", "call": "answer = 1"}
    try:
        cold = await provider.template(ordered, "stubborn", payload)
        for _ in range(3):
            sandbox = await provider.claim(cold, {}, [])
            assert await sandbox.call({}, 5) == {"answer": 1}
            await sandbox.destroy()
            await asyncio.sleep(0.1)
        assert await provider.template(ordered, "stubborn", payload) is cold
    finally:
        await provider.close()


async def test_a_payload_that_failed_is_not_loaded_again_at_once(
    provider: ForkProvider, ordered: SandboxClass, tmp_path: Path
) -> None:
    payload = {"load": "raise ValueError('still broken')"}
    with pytest.raises(TemplateError, match="still broken"):
        await provider.template(ordered, "broken", payload)
    before = processes_below(os.getpid())
    for _ in range(20):
        with pytest.raises(TemplateError, match="still broken"):
            await provider.template(ordered, "broken", {"load": "pass"})  # it would load if it were tried
    assert processes_below(os.getpid()) == before


async def test_templates_are_bounded_by_the_memory_they_take(runtime_cache: Path, ordered: SandboxClass) -> None:
    provider = ForkProvider(runtime_cache, max_template_bytes=64 * 2**20, keep_asked_s=0)
    payload = {"load": "import builtins; builtins.ballast = bytearray(b'x') * (40 * 2**20)"}
    try:
        first = await provider.template(ordered, "first", payload)
        second = await provider.template(ordered, "second", payload)
        with pytest.raises(SandboxLost, match="ask for it again"):
            await provider.claim(first, {}, [])
        sandbox = await provider.claim(second, {}, [])
        await sandbox.destroy()
    finally:
        await provider.close()


_WRITE = """
import os, struct
links = {{int(name): os.readlink("/proc/self/fd/" + name) for name in os.listdir("/proc/self/fd") if name > "2"
         and os.path.lexists("/proc/self/fd/" + name)}}
CHANNEL = next(fd for fd, link in links.items() if link.startswith("socket"))
{body}
view = memoryview(struct.pack("<I", len(body)) + body)
while view:
    view = view[os.write(CHANNEL, view):]
"""


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("body = b'{\"id\":1,\"answer\":[' + b'[],' * (16 * 2**20) + b'[]]}'", ResultTooLarge),
        ("body = b'not json'", SandboxLost),
        ("body = b'[1, 2]'", SandboxLost),
        ("body = b'[' * 100_000 + b']' * 100_000", SandboxLost),
        ("body = b'{\"id\":1,\"answer\":7}'", SandboxLost),
        ("body = b'{\"id\":1,\"answer\":{},\"attached\":[[\"text\",999999999999]]}'", ResultTooLarge),
        ("body = b'{\"id\":1,\"answer\":{},\"attached\":[[\"text\",-5]]}'", SandboxLost),
        ("body = b'{\"id\":1,\"answer\":{},\"attached\":[[\"text\",2]]}' ; None", SandboxLost),
        ("body = b'{\"id\":99,\"answer\":{}}'\n"
         "for _ in range(40): os.write(CHANNEL, struct.pack('<I', len(body)) + body)", SandboxLost),
    ],
)  # fmt: skip
async def test_what_a_sandbox_writes_to_its_channel_harms_nobody_else(
    provider: ForkProvider, ordered: SandboxClass, body: str, error: type[Exception]
) -> None:
    forged = _WRITE.format(body=body) + "\nos._exit(0)"
    evil = await provider.template(ordered, "evil", {"call": forged})
    good = await provider.template(ordered, "good", {"call": "answer = 'still here'"})
    victim, other = await provider.claim(evil, {}, []), await provider.claim(good, {}, [])
    with pytest.raises(error):
        await victim.call({}, 10)
    assert await other.call({}, 5) == {"answer": "still here"}
    await asyncio.gather(victim.destroy(), other.destroy())


async def test_state_that_claims_more_than_the_disk_is_not_copied(
    provider: ForkProvider, ordered: SandboxClass, tmp_path: Path
) -> None:
    sparse = "for name in ('a', 'b'):\n    with open(name, 'w') as file:\n        file.truncate(60 * 2**20)\nanswer = 1"
    sandbox = await provider.claim(await provider.template(ordered, "sparse", {"call": sparse}), {}, [])
    assert await sandbox.call({}, 5) == {"answer": 1}
    with pytest.raises(StateTooLarge, match="over the disk"):
        await sandbox.snapshot(["a", "b"], tmp_path)
    assert [file.name for file in await sandbox.snapshot(["a"], tmp_path)] == ["a"]
    await sandbox.destroy()


async def test_durations_that_are_none_are_left_out(provider: ForkProvider, ordered: SandboxClass) -> None:
    lie = (
        "import sys\n"
        "channel = sys.modules['inside.channel']\n"
        "send = channel.Channel.send\n"
        "def lying(self, message, *args, **kwargs):\n"
        "    if 'segments' in message:\n"
        "        wrong = {'x': float('nan'), 'y': 'abc', 'z' * 99: 1, 'w': 10 ** 400, 'v': -1, '\\udc00': 1}\n"
        "        message = {**message, 'segments': {**wrong, 'fork': 2.5}}\n"
        "    send(self, message, *args, **kwargs)\n"
        "channel.Channel.send = lying\n"
    )
    template = await provider.template(ordered, "liar", {"load": lie})
    sandbox = await provider.claim(template, {}, [])
    assert template.build_ms == {"fork": 2.5}
    assert sandbox.segments == {"fork": 2.5}
    await sandbox.destroy()


async def test_a_full_disk_can_be_copied_and_gone_on_from(
    provider: ForkProvider, ordered: SandboxClass, tmp_path: Path
) -> None:
    fill = """
import os
if request.get("fill"):
    with open("/data/state.db", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65536)
        except OSError:
            pass
        os.truncate("/data/state.db", os.path.getsize("/data/state.db") - 4096)
        with open("/data/state.db-journal", "wb", buffering=0) as journal:
            journal.write(b"j" * 4096)  # the last page there is
        os.truncate("/data/state.db", 64 * 2**20)  # a hole at its end, beyond what the disk could hold
answer = {"size": os.path.getsize("/data/state.db"), "free": os.statvfs("/data").f_bfree}
"""
    template = await provider.template(ordered, "full", {"call": fill})
    given = tmp_path / "given"
    given.write_bytes(b"")
    state = [StateFile("state.db", given)]
    for _ in range(2):
        sandbox = await provider.claim(template, {}, state)
        told = (await sandbox.call({"fill": state[0].path == given}, 20))["answer"]
        assert told == {"size": 64 * 2**20, "free": 0}
        (tmp_path / "copy").mkdir(exist_ok=True)
        state = await sandbox.snapshot(["state.db", "state.db-journal"], tmp_path / "copy")
        assert [file.path.stat().st_size for file in state] == [64 * 2**20, 4096]
        await sandbox.destroy()


async def test_an_answer_of_very_many_lists_ends_the_conversation(
    provider: ForkProvider, ordered: SandboxClass
) -> None:
    template = await provider.template(ordered, "many", {"call": "answer = [[]] * 240_000"})
    sandbox = await provider.claim(template, {}, [])
    with pytest.raises(SandboxLost, match="more lists and objects"):
        await sandbox.call({}, 20)
    await sandbox.destroy()
