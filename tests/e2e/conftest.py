"""Servers shared by the tests of one worker. Modules that share one are in the same xdist group."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.hostile import hostile_scenarios
from e2e.pack import write_pack
from e2e.serving import Server, serving
from e2e.wire import Wire

BUILD_LIMIT_S = 9
"""How long the hostile server lets a scenario load."""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the shipped scenarios. Whatever is done to it, its log stays free of complaints."""
    with serving(tmp_path_factory.mktemp("server")) as running:
        yield running
        running.settle()
        assert running.episodes() == []
        assert running.leftovers() == []
        assert running.complaints == []


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of scenarios that do harm. Its log stays free of complaints too: that a tool fails is no event."""
    folder = tmp_path_factory.mktemp("hostile")
    data = write_pack(folder / "data", hostile_scenarios())
    with serving(folder, ["--awm-data", str(data)], OPENENV_AWM_READY_TIMEOUT=str(BUILD_LIMIT_S)) as running:
        yield running
        running.settle()
        assert running.episodes() == []
        assert running.leftovers() == []
        assert running.complaints == []


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    """A session with the server of the shipped scenarios."""
    with Wire(server.url) as session:
        yield session


@pytest.fixture
def house(hostile: Server) -> Iterator[Wire]:
    """An episode of the hostile notebook, in a sandbox that was looked at from inside before anything is risked."""
    with Wire(hostile.url) as session:
        session.reset("hostile_house_1", 0)
        refuse_without_limits(session)
        yield session


def refuse_without_limits(session: Wire) -> None:
    """Fail unless the episode's process is held by limits, a filter and namespaces of its own."""
    found = session.value("probe")
    limits = found["limits"]
    assert 0 < limits["AS"] < 4 * 2**30, "memory is not bounded"
    assert 0 < limits["NPROC"] <= 64, "processes are not bounded"
    assert 0 < limits["FSIZE"] <= 64 * 2**20, "files are not bounded"
    assert limits["CPU"] > 0, "processor time is not bounded"
    assert limits["NOFILE"] <= 256, "descriptors are not bounded"
    assert 0 < found["disk_bytes"] <= 64 * 2**20, "the disk is not its own"
    assert found["pid"] == 1, "the process namespace is not its own"
    assert found["processes"] == [1], "other processes can be seen"
    assert found["seccomp"] == 2, "there is no seccomp filter"
    assert found["no_new_privs"] == 1, "privileges can be gained"
    assert found["capabilities"] == 0, "it holds capabilities"
    for name, own in found["namespaces"].items():
        assert own != (Path("/proc/self/ns") / name).readlink().as_posix(), f"the {name} namespace is the host's"
