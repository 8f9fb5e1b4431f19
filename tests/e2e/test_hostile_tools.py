"""Tools that do harm: that call gets a clear error in bounded time, the next a truthful one, other sessions nothing."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.conftest import refuse_without_limits
from e2e.serving import Server, wait_until
from e2e.wire import Wire, step

pytestmark = pytest.mark.xdist_group("e2e-hostile")

ENDINGS = {
    # tool: (limit in seconds, reward type, words of the error, words of the next call's warning or None)
    "spin": (1, "timeout", "did not answer within 1 s", "stopped after a timeout"),
    "spin_async": (1, "timeout", "did not answer within 1 s", "stopped after a timeout"),
    "fork_for_ever": (1, "timeout", "did not answer within 1 s", "stopped after a timeout"),
    "leave": (10, "server_error", "ended without answering", "ended without answering"),
    "crash": (10, "server_error", "ended without answering", "ended without answering"),
    "hang_up": (10, "server_error", "ended without answering", "ended without answering"),
    "allocate": (10, "server_error", "MemoryError", None),
    "fill_disk": (10, "server_error", "OSError", None),
    "recurse": (10, "server_error", "RecursionError", None),
    "recurse_natively": (10, "server_error", "", None),
    "stop": (10, "server_error", "SystemExit", None),
    "stop_async": (10, "server_error", "KeyboardInterrupt", None),
    "fail": (10, "server_error", "ValueError", None),
    "endless_body": (10, "tool_error", "10 MiB", None),
}


@pytest.fixture(scope="module")
def bystander(hostile: Server) -> Iterator[Wire]:
    """A session of the same scenario that lives through everything done to the others."""
    with Wire(hostile.url) as session:
        session.reset("hostile_house_1")
        session.value("add_note", words="mine")
        yield session
        assert session.value("list_notes") == ["first", "mine"]


@pytest.mark.parametrize("tool", ENDINGS)
def test_harm_ends_with_its_call(house: Wire, bystander: Wire, tool: str) -> None:
    limit, reward_type, words, warning = ENDINGS[tool]
    house.value("add_note", words="kept")
    started = time.monotonic()
    answer = house.call(tool, {"timeout_s": limit}, really=True)
    assert time.monotonic() - started < limit + 3
    observation = answer["observation"]
    assert observation["reward_type"] == reward_type
    assert words in observation["error"]
    assert answer["reward"] == 0.0
    assert answer["done"] is False
    assert observation.get("metadata", {}).get("reward_valid", True) is True  # provoking a failure masks nothing

    if tool == "fill_disk":
        house.seen("make_room")
    following = house.seen("list_notes")
    assert following["reward_type"] == "tool_call_ok", following
    assert json.loads(following["tool_result"]) == ["first", "kept"]
    if warning is None:
        assert "warning" not in following or "ended" in following["warning"]
    else:
        assert warning in following["warning"]
        assert "as last committed" in following["warning"]
        assert "warning" not in house.seen("list_notes")  # said once
    assert bystander.value("list_notes") == ["first", "mine"]

    house.value("add_note", words="done")
    verdict = house.call("verify")
    assert (verdict["reward"], verdict["observation"]["reward_type"]) == (1.0, "complete")


def test_an_uncommitted_change_is_lost_with_its_process_and_the_warning_says_so(house: Wire) -> None:
    assert house.seen("leave", really=True, words="never committed")["reward_type"] == "server_error"
    following = house.seen("list_notes")
    assert json.loads(following["tool_result"]) == ["first"]
    assert "what was not committed is lost" in following["warning"]


def test_the_episode_is_scored_even_when_its_process_is_gone(house: Wire) -> None:
    house.value("add_note", words="done")
    assert house.seen("leave", really=True)["reward_type"] == "server_error"
    verdict = house.call("verify")
    assert (verdict["reward"], verdict["observation"]["reward_type"]) == (1.0, "complete")


def test_a_provoked_failure_does_not_save_from_a_failed_verify(house: Wire) -> None:
    house.seen("fail", really=True)
    house.seen("leave", really=True)
    verdict = house.call("verify")
    assert (verdict["reward"], verdict["observation"]["reward_type"]) == (0.1, "incomplete")
    assert verdict["observation"].get("metadata", {}).get("reward_valid", True) is True


def test_no_process_can_be_started(house: Wire) -> None:
    assert house.value("fork_some", really=True) == 0


def test_threads_that_never_end_go_with_the_episode(hostile: Server) -> None:
    before = set(hostile.episodes())
    with Wire(hostile.url) as session:
        session.reset("hostile_house_1")
        assert session.value("start_thread", really=True) >= 2
        assert session.value("start_busy_thread", really=True) == "started"
        assert session.value("list_notes") == ["first"]
        session.call("done")
        assert wait_until(lambda: not set(hostile.episodes()) - before, 5)


@pytest.mark.parametrize("tool", ["spin", "spin_async", "hang_up"])
def test_a_client_that_goes_away_in_an_endless_call_takes_it_along(hostile: Server, tool: str) -> None:
    before = set(hostile.episodes())
    with Wire(hostile.url) as session:
        session.reset("hostile_house_1")
        refuse_without_limits(session)
        assert set(hostile.episodes()) - before
        session.send(step(tool, {"really": True}))
        time.sleep(0.2)
        session.hang_up()
        assert wait_until(lambda: not set(hostile.episodes()) - before, 5)


def test_a_killed_process_serves_the_next_call_anew(house: Wire) -> None:
    """The first process of a namespace may ignore its own SIGKILL; either way the next call is served."""
    house.seen("kill_itself", really=True)
    assert house.value("list_notes") == ["first"]


@pytest.mark.parametrize(
    ("harm", "reason"), [("spoil_database", "file is not a database"), ("link_database", "unable to open")]
)
def test_a_destroyed_database_is_opened_nowhere_but_in_a_sandbox(house: Wire, harm: str, reason: str) -> None:
    """The verifier's code meets it, and fails; a link is never followed out of the sandbox."""
    house.value(harm, really=True)
    verdict = house.call("verify")
    observation = verdict["observation"]
    assert (verdict["reward"], observation["reward_type"]) == (0.0, "judge_error")
    assert observation["metadata"]["reward_valid"] is False
    assert reason in observation["verify_result"]["error_message"]
    assert house.seen("echo", words="alive")["reward_type"] == "tool_call_ok"
    folder = Path(house.call("done", keep_session=True)["observation"]["session_dir"])
    for path in folder.iterdir():
        assert path.is_file()
        assert not path.is_symlink()
        assert b"root:" not in path.read_bytes()


def test_forged_answers_cannot_shift_the_conversation(house: Wire) -> None:
    """A call that writes into the channel may spoil its own answer, never the next one."""
    house.seen("forge", {"timeout_s": 2}, really=True)
    following = house.seen("echo", words="in step")
    if following["reward_type"] == "tool_call_ok":
        assert json.loads(following["tool_result"]) == {"echo": "in step"}
    after = house.seen("echo", words="still")
    assert json.loads(after["tool_result"]) == {"echo": "still"}


def test_a_step_may_allow_more_or_less_time(house: Wire) -> None:
    started = time.monotonic()
    assert house.seen("sleep", {"timeout_s": 0.3}, seconds=5)["reward_type"] == "timeout"
    assert time.monotonic() - started < 3
    assert house.seen("sleep", {"timeout_s": 5}, seconds=0.5)["reward_type"] == "tool_call_ok"
    ignored = house.seen("sleep", {"timeout_s": -1})
    assert ignored["reward_type"] == "tool_call_ok"
    assert "timeout_s" in ignored["warning"]


def test_files_of_the_host_are_out_of_reach(house: Wire) -> None:
    for path in ("/etc/passwd", "/etc/shadow", "/root/.bashrc", "/home", "/proc/2/environ", "/proc/1/root/etc/passwd"):
        assert "refused" in house.value("read_file", path=path), path
    own = house.value("read_file", path="/proc/1/environ")["read"]
    assert "QUINTAIN" not in own
    assert "/root" not in own
    for path in ("/etc/planted", "/quintain/inside/planted.py", "/usr/lib/planted", "../planted"):
        assert house.seen("write_file", path=path)["reward_type"] == "server_error", path


def test_what_a_tool_prints_stays_off_the_wire(house: Wire) -> None:
    observation = house.seen("chatter", lines=2000)
    assert observation["tool_result"] == "2000"
    assert "line 1" not in json.dumps(observation)


def test_statuses_are_told_apart_by_cause(house: Wire) -> None:
    for status, expected in ((404, "tool_error"), (409, "tool_error"), (422, "invalid_args"), (503, "server_error")):
        answer = house.call("missing", status=status)
        assert answer["observation"]["reward_type"] == expected
        assert "Order not found" in answer["observation"]["error"]
        assert answer["reward"] == (-1.0 if expected == "invalid_args" else 0.0)


def test_module_level_state_begins_anew_with_every_episode(house: Wire, hostile: Server) -> None:
    assert [house.value("remember") for _ in range(3)] == [1, 2, 3]
    with Wire(hostile.url) as other:
        other.reset("hostile_house_1")
        assert other.value("remember") == 1
    house.reset("hostile_house_1")
    assert house.value("remember") == 1
