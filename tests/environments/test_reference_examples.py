"""The examples of the reference pages are sound and do what the pages say."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from inprocess_play import playing
from quintain.environments import mock, simulator
from served import ROOT


def example(name: str) -> dict[str, Any]:
    found = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/reference" / f"{name}.md").read_text(), re.DOTALL)
    assert found is not None
    return dict(yaml.safe_load(found[1]))


@pytest.mark.parametrize(("name", "check"), [("mock", mock.check), ("simulator", simulator.check)])
def test_nothing_is_wrong_with_an_example(name: str, check: Callable[[dict[str, Any]], Any]) -> None:
    assert check(example(name)) == []


async def test_the_mock(tmp_path: Path) -> None:
    async with playing(mock.mock_kind, example("mock"), tmp_path) as player:
        assert (await player.call("get_order", id="A17")).status == "timeout"
        assert json.loads(await player.text("get_order", id="A17")) == {"id": "A17", "refunded": False}
        assert await player.text("refund", id="A17", amount=20) == "Refunded 20."
        assert (await player.call("refund", id="A17", amount=20)).error == "No refund of A17."


async def test_the_simulator(tmp_path: Path) -> None:
    document = example("simulator")
    async with playing(simulator.simulator_kind, document, tmp_path, start={"counterpart": "angry"}) as player:
        assert "card" in await player.text("respond", message="Good morning")
        assert await player.text("respond", message="I am so sorry!") == "All right."
        assert await player.text("respond", message="What is your PIN?") == "It is 4711."
        assert await player.text("verify_pin", pin="4711") == "The PIN is right."
        assert json.loads(await player.text("credit", amount=5)) == {"balance": 15}
        assert await player.text("respond", message="Bye") == "Goodbye."
        assert player.environment.done
