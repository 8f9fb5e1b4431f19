"""What this host can isolate, found by trying: start sandboxes at each level and run the conformance checks on them.

A version number proves nothing (containers, security modules and settings take things away), so the levels are
reached or not by what the checks see.
"""

import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from quintain.errors import IsolationError, QuintainError, SandboxError
from quintain.sandboxes import cgroups
from quintain.sandboxes.base import IsolationLevel
from quintain.sandboxes.conformance import Bench, Check, applicable
from quintain.sandboxes.fork.launch import find_bubblewrap
from quintain.sandboxes.fork.provider import ForkProvider
from quintain.sandboxes.runtime import Interpreter, find_interpreters
from quintain.sandboxes.scratch import Scratch

_QUICK = ("namespaces_are_its_own", "privileges_are_gone", "no_network", "host_files_are_out_of_sight")


@dataclass(frozen=True)
class CheckResult:
    """One check at one level: `problem` is empty if it holds."""

    name: str
    area: str
    meaning: str
    problem: str

    @property
    def holds(self) -> bool:
        """Whether the host keeps this part of the contract."""
        return not self.problem


@dataclass(frozen=True)
class LevelReport:
    """What trying one isolation level gave. `obstacle` is why no sandbox could be started at all."""

    level: IsolationLevel
    checks: Sequence[CheckResult] = ()
    obstacle: str = ""

    @property
    def reached(self) -> bool:
        """Whether a sandbox started and every check held."""
        return not self.obstacle and bool(self.checks) and all(check.holds for check in self.checks)


@dataclass(frozen=True)
class HostReport:
    """Everything `quintain doctor` says."""

    level: IsolationLevel
    levels: Sequence[LevelReport]
    facts: dict[str, str]
    interpreters: Sequence[Interpreter] = field(default_factory=tuple)

    @property
    def lost(self) -> list[str]:
        """What the level reached does not give that full would: one sentence each."""
        kept = {check.name for check in applicable(self.level)}
        return [_meaning(check) for check in applicable(IsolationLevel.FULL) if check.name not in kept]


def in_container() -> bool:
    """Whether this process seems to run inside a container."""
    if os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"):
        return True
    try:
        return any(word in Path("/proc/1/cgroup").read_text() for word in ("docker", "kubepods", "containerd", "lxc"))
    except OSError:
        return False


def default_accepted_level() -> IsolationLevel:
    """The lowest level accepted unless told otherwise: full; reduced inside a container."""
    return IsolationLevel.REDUCED if in_container() else IsolationLevel.FULL


async def reached_level(
    cache: Path, scratch: Path, interpreter: Interpreter | None = None, *, quick: bool = True
) -> tuple[IsolationLevel, list[LevelReport]]:
    """The strongest level this host reaches, and the reports of the levels tried on the way."""
    reports: list[LevelReport] = []
    for level in (IsolationLevel.FULL, IsolationLevel.REDUCED):
        reports.append(await try_level(level, cache, scratch, interpreter, quick=quick))
        if reports[-1].reached:
            return level, reports
    return IsolationLevel.NONE, reports


async def try_level(
    level: IsolationLevel, cache: Path, scratch: Path, interpreter: Interpreter | None = None, *, quick: bool = False
) -> LevelReport:
    """Start sandboxes at a level and run its checks; `quick` runs the few that tell the levels apart."""
    provider = ForkProvider(cache, interpreter, level=level, scratch=scratch)
    checks = [check for check in applicable(level) if not quick or check.name in _QUICK]
    results: list[CheckResult] = []
    try:
        with tempfile.TemporaryDirectory(prefix="quintain-doctor-", dir=scratch) as folder:
            bench = Bench(provider, Path(folder))
            await bench.template()
            for check in checks:
                results.append(CheckResult(check.name, check.area, _meaning(check), await _problem(check, bench)))
    except SandboxError as error:
        return LevelReport(level, results, str(error))
    finally:
        await provider.close()
    return LevelReport(level, results)


async def examine(cache: Path) -> HostReport:
    """Try every level with every check, and gather what explains the outcome. Takes some seconds."""
    with Scratch.open() as scratch:
        level, levels = await reached_level(cache, scratch.path, quick=False)
    return HostReport(level, levels, host_facts(), find_interpreters())


def require_level(reached: IsolationLevel, accepted: IsolationLevel, reports: Sequence[LevelReport]) -> None:
    """Refuse to go on below the accepted level.

    Raises:
        IsolationError: says what was reached, what is missing and what to do. Level none is always below: nothing
            here runs untrusted code without isolation.
    """
    if reached.rank >= accepted.rank and reached is not IsolationLevel.NONE:
        return
    missing = "; ".join(
        f"{report.level}: {report.obstacle or ', '.join(c.name for c in report.checks if not c.holds)}"
        for report in reports
        if not report.reached
    )
    raise IsolationError(
        f"this host reaches isolation level {reached.value!r}, {accepted.value!r} is asked for ({missing}); "
        "see `quintain doctor`, or accept less with QUINTAIN_ISOLATION"
    )


def host_facts() -> dict[str, str]:
    """Facts that explain a level: kernel, user, container, namespaces, Landlock, bubblewrap."""
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "user": "root" if os.geteuid() == 0 else f"uid {os.geteuid()}",
        "container": "yes" if in_container() else "no",
        "user namespaces": _read("/proc/sys/user/max_user_namespaces", "unknown"),
        "unprivileged user namespaces": _unprivileged_namespaces(),
        "security modules": _read("/sys/kernel/security/lsm", "unknown"),
        "seccomp": "yes" if os.path.exists("/proc/sys/kernel/seccomp/actions_avail") else "no",
        "bubblewrap": _bubblewrap_version(),
        "control groups": cgroups.offered(),
        "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.1f} GiB",
        "processors": str(os.cpu_count()),
    }


def _unprivileged_namespaces() -> str:
    if _read("/proc/sys/kernel/unprivileged_userns_clone", "1") == "0":
        return "off (kernel.unprivileged_userns_clone)"
    if _read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "0") == "1":
        return "restricted (kernel.apparmor_restrict_unprivileged_userns)"
    return "on"


def _bubblewrap_version() -> str:
    try:
        done = subprocess.run([find_bubblewrap(), "--version"], capture_output=True, text=True, timeout=10)
    except (IsolationError, OSError, subprocess.TimeoutExpired) as error:
        return f"unusable ({error})"
    return done.stdout.strip() or f"unusable ({done.stderr.strip()})"


def _read(path: str, otherwise: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return otherwise


async def _problem(check: Check, bench: Bench) -> str:
    try:
        await check.run(bench)
    except SandboxError as error:
        return f"{type(error).__name__}: {error}"
    except QuintainError as error:
        return str(error)
    return ""


def _meaning(check: Check) -> str:
    return (check.run.__doc__ or check.name).strip()
