"""Many episodes through one server, and what it holds afterwards."""

import asyncio
import os
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from e2e.serving import Server
from quintain.clients.wire import WireSession

SCENARIOS = ("outdoor_marketplace_1", "vet_clinic_1", "parcel_desk_1")
READS = {"outdoor_marketplace_1": "list_products", "vet_clinic_1": "list_pets", "parcel_desk_1": "list_depots"}


DESCRIPTORS_OF_A_STANDBY = 3
STANDBYS_OF_A_TEMPLATE = 2
MIB_OF_A_STANDBY = 4.0


@dataclass(frozen=True)
class Holdings:
    """What a server that rests holds on to, but for what stands by: of that there may be a fixed number at any time."""

    standbys: int
    descriptors: int
    processes: dict[str, int]
    mounts_outside: int
    mounts_inside: int
    directories: int
    control_groups: int
    memory_mib: float
    processes_memory_mib: float

    @classmethod
    def of(cls, server: Server) -> "Holdings":
        """Counted now."""
        pid = server.process.pid
        every = server.descendants()
        below = {one: name for one, name in every.items() if name != "q-standby"}
        names, standbys = list(below.values()), len(every) - len(below)
        assert standbys <= STANDBYS_OF_A_TEMPLATE * names.count("q-template"), every
        return cls(
            standbys=standbys,
            descriptors=len(os.listdir(f"/proc/{pid}/fd")) - DESCRIPTORS_OF_A_STANDBY * standbys,
            processes={name: names.count(name) for name in sorted(set(names))},
            mounts_outside=len(Path("/proc/self/mounts").read_text().splitlines()),
            mounts_inside=sum(len(_told(one, "mounts")) for one in below),
            directories=sum(1 for _ in server.temporary.rglob("*")),
            control_groups=sum(1 for path in Path("/sys/fs/cgroup").rglob(f"*quintain*{pid}*") if path.is_dir()),
            memory_mib=_private_mib(pid),
            processes_memory_mib=sum(_proportional_mib(one) for one in every),
        )

    def grown(self, before: "Holdings") -> list[str]:
        """What has become more than a settled server may have gained: nothing, but for some slack in memory."""
        found = [
            f"{name}: {getattr(before, name)} -> {getattr(self, name)}"
            for name in ("descriptors", "mounts_outside", "mounts_inside", "directories", "control_groups")
            if getattr(self, name) > getattr(before, name)
        ]
        if any(count > before.processes.get(name, 0) for name, count in self.processes.items()):
            found.append(f"processes: {before.processes} -> {self.processes}")
        gained = MIB_OF_A_STANDBY * max(self.standbys - before.standbys, 0)
        for name, slack in (("memory_mib", 6.0), ("processes_memory_mib", 12.0 + gained)):
            if getattr(self, name) > getattr(before, name) + slack:
                found.append(f"{name}: {getattr(before, name):.1f} -> {getattr(self, name):.1f}")
        return found


async def play(url: str, episodes: int, at_once: int = 8) -> list[str]:
    """Play that many short episodes over real sessions; what went wrong."""
    numbers = iter(range(episodes))
    problems: list[str] = []

    async def client() -> None:
        while taken := list(islice(numbers, 3)):  # connections come and go too
            async with WireSession(url) as session:
                for number in taken:
                    problems.extend(await _episode(session, number))

    await asyncio.gather(*(client() for _ in range(at_once)))
    return problems


async def _episode(session: WireSession, number: int) -> list[str]:
    scenario = SCENARIOS[number % len(SCENARIOS)]
    begun = await session.reset(scenario=scenario, task_idx=0, seed=number)
    read = await session.call(READS[scenario])
    seen = [begun["observation"]["reward_type"], read["observation"]["reward_type"]]
    if number % 2:
        verified = await session.call("verify")
        seen.append(verified["observation"]["reward_type"])
    if number % 3:
        ended = await session.call("done")
        seen.append(ended["observation"]["reward_type"])
    expected = ["reset_ok", "tool_call_ok", *["incomplete"] * (number % 2), *["episode_done"] * (number % 3 > 0)]
    return [] if seen == expected else [f"episode {number} of {scenario}: {seen}"]


def _private_mib(pid: int) -> float:
    lines = _told(pid, "smaps_rollup")
    return sum(int(line.split()[1]) for line in lines if line.startswith("Private_")) / 1024


def _proportional_mib(pid: int) -> float:
    """A process's own pages and its share of the others: what stands by shares most of its template's."""
    return sum(int(line.split()[1]) for line in _told(pid, "smaps_rollup") if line.startswith("Pss:")) / 1024


def _told(pid: int, name: str) -> list[str]:
    """What the kernel tells of a process; nothing of one that has ended since it was counted."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []


def endure(server: Server, warm_up: int, episodes: int, settle_s: float) -> tuple[Holdings, Holdings, list[str]]:
    """Holdings after a warm-up and after all the rest, and what went wrong."""
    problems = asyncio.run(_played(server, warm_up, settle_s))
    before = Holdings.of(server)
    problems += asyncio.run(_played(server, episodes, settle_s))
    return before, Holdings.of(server), problems


async def _played(server: Server, episodes: int, settle_s: float) -> list[str]:
    problems = await play(server.url, episodes)
    await asyncio.to_thread(server.settle)
    while True:  # a template that another replaces goes a little later than the last episode
        below = server.descendants()
        await asyncio.sleep(settle_s)
        if server.descendants() == below:
            return problems
