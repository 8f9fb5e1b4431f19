"""Sessions: apart from each other while they live, gone without a trace when they end, and counted truly."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed

from e2e.serving import Server, serving, wait_until
from e2e.wire import Wire, step

pytestmark = pytest.mark.xdist_group("e2e-pack")

AT_ONCE = 20


def stats(server: Server) -> dict[str, object]:
    """What `/stats` shows."""
    with urllib.request.urlopen(server.url + "/stats", timeout=10) as answer:
        found: dict[str, object] = json.load(answer)
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with three places."""
    with serving(tmp_path_factory.mktemp("small"), MAX_CONCURRENT_ENVS="3") as running:
        yield running
        assert running.complaints == []


def test_concurrent_sessions_never_see_each_others_rows(server: Server) -> None:
    together = threading.Barrier(AT_ONCE, timeout=60)

    def play(number: int) -> tuple[list[str], str]:
        with Wire(server.url) as session:
            session.reset("outdoor_marketplace_1", 0)
            together.wait()  # all have begun before any writes
            if number % 2:
                session.value("add_cart_item", product_id=3, quantity=2)
            else:
                for turn in range(4):
                    title = f"note of {number}"
                    session.value("create_product_review", product_id=5, rating=5, title=title, body=f"{turn}")
            together.wait()  # all have written before any reads
            reviews = session.value("list_product_reviews", product_id=5)["reviews"]
            verdict = session.seen("verify")["reward_type"]
            together.wait()
        return [review["title"] for review in reviews if review["title"].startswith("note of")], verdict

    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(play, range(AT_ONCE)))
    for number, (seen, verdict) in enumerate(results):
        assert seen == ([] if number % 2 else [f"note of {number}"] * 4)
        assert verdict == ("complete" if number % 2 else "incomplete")  # paid for its own work alone


def test_a_hundred_clean_closes_leave_nothing(server: Server) -> None:
    lines = len(server.complaints)
    for number in range(100):
        with Wire(server.url) as session:
            session.reset("vet_clinic_1", 3)
            if number % 3 == 0:
                session.call("done")
            if number % 2:
                session.send({"type": "close"})
                with pytest.raises(ConnectionClosed) as closed:
                    session.receive()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1000
    server.settle()
    assert server.episodes() == []
    assert server.leftovers() == []
    assert server.complaints[lines:] == []
    assert stats(server)["total_sessions"] == 0


def test_a_client_that_goes_away_in_the_middle_of_a_call_frees_its_place(small: Server) -> None:
    for _ in range(5):
        sessions = [Wire(small.url) for _ in range(3)]
        for session in sessions:
            session.__enter__()
            session.reset("recipe_box_1", 0)
        for session in sessions:
            session.send(step("export_archive", {"megabytes": 9}))
        time.sleep(0.05)
        for session in sessions:
            session.hang_up()
        assert wait_until(lambda: not small.episodes() and stats(small)["total_sessions"] == 0, 10)
    with Wire(small.url) as session:
        session.reset("recipe_box_1", 0)
        assert session.tools()


def test_capacity_is_refused_with_its_code_and_comes_back(small: Server) -> None:
    with Wire(small.url) as first, Wire(small.url) as second:
        with Wire(small.url) as third:
            for session in (first, second, third):
                session.reset("vet_clinic_1")
            with Wire(small.url) as fourth:
                refusal = fourth.receive()
                assert refusal["type"] == "error"
                assert refusal["data"]["code"] == "CAPACITY_REACHED"
                assert "MAX_CONCURRENT_ENVS" in refusal["data"]["message"]
                with pytest.raises(ConnectionClosed):
                    fourth.receive()
            assert stats(small)["total_sessions"] == 3
            assert stats(small)["scenarios"] == {"vet_clinic_1": 3}
        for _ in range(30):  # a place is free as soon as its client has said goodbye
            with Wire(small.url) as another:
                another.reset("vet_clinic_1")
        assert first.tools()


def test_a_session_may_play_many_episodes_each_on_a_clean_state(wire: Wire, server: Server) -> None:
    processes = set()
    for _ in range(3):
        wire.reset("outdoor_marketplace_1", 0)
        assert "Tarnlight" not in json.dumps(wire.value("get_cart"))
        wire.value("add_cart_item", product_id=3, quantity=2)
        assert "Tarnlight" in json.dumps(wire.value("get_cart"))
        (running,) = server.episodes()
        processes.add(running)
    assert len(processes) == 3  # an instance serves one episode


def test_nothing_of_an_episode_outlives_a_reset(wire: Wire, server: Server) -> None:
    wire.reset("outdoor_marketplace_1", 0)
    wire.ask({"type": "reset", "data": {"scenario": "nowhere_9"}})
    assert wait_until(lambda: server.episodes() == [], 20)
    assert wire.seen("list_products")["reward_type"] == "server_error"


def test_resets_at_once_share_one_template(server: Server) -> None:
    """Twenty clients that ask for the same scenario at once all get it."""

    def play(_: int) -> tuple[int, str]:
        with Wire(server.url) as session:
            return session.reset("tool_library_1", 0)["num_tools"], session.seen("verify")["reward_type"]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert set(pool.map(play, range(AT_ONCE))) == {(5, "incomplete")}

    def templates() -> int:
        return list(server.descendants().values()).count("q-template")

    assert wait_until(lambda: templates() <= 6, 10), "more templates than five scenarios and the verifier"


def test_every_process_of_a_server_has_a_name_and_a_reason(wire: Wire, server: Server) -> None:
    wire.reset("vet_clinic_1")
    names = sorted(set(server.descendants().values()))
    assert set(names) <= {"bwrap", "q-zygote", "q-template", "q-standby", "q-episode"}
