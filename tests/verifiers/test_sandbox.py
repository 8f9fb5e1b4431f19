"""A verifier's sandbox is of another class than an episode's: its own zygote, its own user, its own world."""

import os
from pathlib import Path

import pytest

from quintain.sandboxes.base import SandboxClass
from quintain.sandboxes.conformance import probe_class
from quintain.sandboxes.fork import ForkProvider
from quintain.verifiers.sandbox import verifier_class

pytestmark = pytest.mark.xdist_group("conformance")


def _of(pid: int) -> dict[str, str]:
    """What tells one process from another on this host: the user it runs as, and the namespaces it is in."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    names = ("user", "mnt", "pid", "net", "ipc", "uts")
    return {"uid": status["Uid"], **{name: os.readlink(f"/proc/{pid}/ns/{name}") for name in names}}


async def test_it_has_nothing_in_common_with_an_episodes(runtime_cache: Path) -> None:
    provider = ForkProvider(runtime_cache)
    try:
        pids = {}
        for sandbox_class in (probe_class(), verifier_class(20)):
            template = await provider.template(sandbox_class, f"identity:{sandbox_class.name}", {"state": "initial"})
            sandbox = await provider.claim(template, {"initial": "a", "final": "b"}, [])
            pids[sandbox_class.name] = sandbox.pid  # type: ignore[attr-defined]
        episode, verifier = _of(pids["probe"]), _of(pids["verifier"])
        alike = {name for name in episode if episode[name] == verifier[name]}
        assert alike == (set() if os.geteuid() == 0 else {"uid"})  # an ordinary user has but one
        zygotes = {(await provider.zygote(one)).pid for one in (probe_class(), verifier_class(20))}
        assert len(zygotes) == 2
    finally:
        await provider.close()


def test_its_limits_leave_room_for_two_databases_and_little_more() -> None:
    found: SandboxClass = verifier_class(20)
    assert not found.policy.processes
    assert not found.policy.programs
    assert found.limits.disk_bytes < 256 * 2**20
    assert found.limits.pids <= 16
    assert 20 < found.limits.cpu_seconds <= 60
    requirements = [line for line in found.lock.read_text().splitlines() if line.strip() and not line.startswith("#")]
    assert requirements == []  # the standard library, and nothing that a dependency could bring along
