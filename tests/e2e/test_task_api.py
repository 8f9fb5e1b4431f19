"""The task routes, as OpenEnv's own typed client reads them."""

import pytest

from e2e.peer import run_script
from e2e.serving import Server
from e2e.wire import Wire

pytestmark = pytest.mark.xdist_group("e2e-pack")


def test_openenvs_client_lists_tasks_and_begins_one(server: Server, wire: Wire) -> None:
    seen = run_script("openenv", "task_api.py", server.url)
    assert seen["splits"] == [{"name": "train", "type": "train"}]
    assert seen["count"] >= 33
    assert [one["index"] for one in seen["range"]] == [0, 1, 2]
    assert seen["last"]["index"] == seen["count"] - 1
    assert "400" in seen["beyond"]
    for task in [*seen["range"], seen["last"]]:
        scenario, _, index = task["task_id"].rpartition("/")
        assert (task["task_name"], len(task["dataset"])) == (task["task_id"], len("sha256:") + 64)
        assert wire.reset(scenario, int(index))["task"] == task["instruction"]
