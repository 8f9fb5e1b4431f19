"""Killing a server, a zygote, a template or an episode leaves nothing behind, and the rest goes on."""

import os
import random
import signal
import sys
from pathlib import Path

import pytest

from e2e import reduced
from e2e.chaos import no_orphans, survive
from e2e.serving import Server, alive, serving, wait_until
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-crashes")

STRIKES = ["episode"] * 3 + ["template"] * 3 + ["zygote"] * 2 + ["server"] * 2
HIBERNATING = {"QUINTAIN_HIBERNATE_AFTER": "0.1", "QUINTAIN_WARM_AFTER": "0"}


def test_a_few_kills_under_load(tmp_path: Path) -> None:
    kinds = random.Random(4).sample(STRIKES, len(STRIKES))
    chaos = survive(tmp_path, 4, kinds, clients=4, **HIBERNATING)
    assert not chaos.failures, chaos.summary
    assert chaos.tally["calls"] > 50
    assert sum(count for name, count in chaos.tally.items() if name.endswith(" killed")) >= 8


def test_at_reduced_isolation_the_folders_go_too(tmp_path: Path) -> None:
    command = [sys.executable, Path(reduced.__file__)]
    options = {"command": command, "QUINTAIN_ISOLATION": "reduced"}
    with no_orphans():
        server = Server(tmp_path, **options)
        assert server.ready["isolation"] == "reduced"
        with Wire(server.url) as session:
            session.reset("vet_clinic_1", 0)
            assert [name for name in server.leftovers() if name.startswith("quintain-state-")]
            below = server.descendants()
            assert "q-episode" in below.values()
            server.stop(signal.SIGKILL)
        assert wait_until(lambda: not [pid for pid in below if alive(pid)], 20)
        (dead,) = server.runs()
        with serving(tmp_path, **options) as again:
            assert len(again.runs()) == 1
            assert not dead.exists()
            with Wire(again.url) as session:
                session.reset("vet_clinic_1", 0)
                _kill(again, "q-zygote")
                told = session.seen("list_pets")
                assert told["reward_type"] == "server_error"
                assert "ended without answering" in told["error"] or "no new one could be started" in told["error"]
                session.reset("vet_clinic_1", 0)
                assert session.value("list_pets")
    assert list(again.temporary.iterdir()) == []


def _kill(server: Server, name: str) -> None:
    pids = [pid for pid, found in server.descendants().items() if found == name]
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not any(map(alive, pids)), 20)
