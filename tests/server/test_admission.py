"""Resets while there is no room: they wait, they are refused with counts, and steps go on all the while."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import live as live_server
from quintain.episodes.admission import Admission
from quintain.sandboxes.inprocess import InProcessProvider
from toy import ToyWorld

TOY = "toy_notes_1"
MIB = 2**20


class Memory:
    """Memory with as much left as a test says, or as much as live episodes leave."""

    def __init__(self) -> None:
        self.mib = 1000
        self.provider: InProcessProvider | None = None

    def available(self) -> int:
        taken = 0 if self.provider is None else 100 * self.provider.live
        return (self.mib - taken) * MIB


def serving(stack: ExitStack, tmp_path: Path, memory: Memory, max_queued: int = 8, **options: Any) -> live_server.Live:
    """A server whose resets wait for 2 s at most while fewer than 100 MiB are left."""
    gate = Admission(4, available=memory.available, floor_bytes=100 * MIB, max_queued=max_queued, timeout_s=2.0)
    world = ToyWorld(tmp_path, InProcessProvider(tmp_path / "instances"), admission=gate)
    return stack.enter_context(live_server.serving(world, tmp_path / "kept", **options))


def test_a_reset_without_room_is_capacity_reached_and_the_session_stays_usable(tmp_path: Path) -> None:
    memory = Memory()
    with ExitStack() as stack:
        live = serving(stack, tmp_path, memory, hibernate_after_s=0)
        old = stack.enter_context(live.client())
        new = stack.enter_context(live.client())
        old.reset(scenario=TOY)
        memory.mib = 40
        new.send({"type": "reset", "data": {"scenario": TOY}})
        live.wait_for(lambda: live.get("/stats").json()["quintain"]["queued"] == 1)
        assert live.get("/stats").json()["quintain"]["available_memory_bytes"] == 40 * MIB
        for _ in range(10):  # steps of running episodes are never refused
            assert old.step("add_note", text="x")["observation"]["reward_type"] == "tool_call_ok"
        refused = new.receive()
        assert refused["type"] == "error"
        counts = {name: refused["data"][name] for name in ("active_sessions", "max_sessions", "queued_resets")}
        assert counts == {"active_sessions": 2, "max_sessions": 10000, "queued_resets": 1}
        assert refused["data"]["code"] == "CAPACITY_REACHED"
        assert "40 MiB of memory are left" in refused["data"]["message"]
        assert new.step("list_notes")["observation"]["reward_type"] == "server_error"
        memory.mib = 1000
        assert new.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok"
        assert live.log.messages == []


def test_one_reset_too_many_in_the_queue_is_refused_at_once(tmp_path: Path) -> None:
    memory = Memory()
    memory.mib = 0
    with ExitStack() as stack:
        live = serving(stack, tmp_path, memory, max_queued=1)
        first, second = (stack.enter_context(live.client()) for _ in range(2))
        first.send({"type": "reset", "data": {"scenario": TOY}})
        live.wait_for(lambda: live.world.rooms.admission.queued == 1)
        refused = second.ask({"type": "reset", "data": {"scenario": TOY}})
        assert refused["data"]["code"] == "CAPACITY_REACHED"
        assert (refused["data"]["queued_resets"], refused["data"]["max_queued_resets"]) == (1, 1)
        memory.mib = 1000
        assert first.receive()["data"]["observation"]["reward_type"] == "reset_ok"


def test_idle_sessions_hibernate_early_to_make_room(tmp_path: Path) -> None:
    memory = Memory()
    memory.mib = 400  # three live episodes leave the floor
    with ExitStack() as stack:
        live = serving(stack, tmp_path, memory, hibernate_after_s=600)
        memory.provider = live.world.provider
        clients = [stack.enter_context(live.client()) for _ in range(6)]
        for number, client in enumerate(clients):
            assert client.reset(scenario=TOY)["observation"]["reward_type"] == "reset_ok", number
            client.step("add_note", text=f"mine {number}")
        assert live.get("/stats").json()["quintain"]["hibernations"] >= 2
        for number, client in enumerate(clients):
            assert f"mine {number}" in client.step("list_notes")["observation"]["tool_result"]
        assert live.log.messages == []


def test_who_leaves_the_queue_gives_its_place_back(tmp_path: Path) -> None:
    memory = Memory()
    memory.mib = 0
    with ExitStack() as stack:
        live = serving(stack, tmp_path, memory)
        for _ in range(3):
            with live.client() as client:
                client.send({"type": "reset", "data": {"scenario": TOY}})
                live.wait_for(lambda: live.world.rooms.admission.queued == 1)
            live.wait_for(lambda: live.world.rooms.admission.queued == 0 and len(live.registry) == 0)
