"""Documents that somebody has spoilt: either what is wrong is told, or they can be played."""

import asyncio
import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inprocess_play import payload, played
from quintain.artifacts import LocalArtifactStore
from quintain.environments import mock, simulator
from quintain.environments.inprocess import InProcessKind
from quintain.errors import TemplateError
from served import ROOT

ACTIONS = [
    ("get_order", {"id": "A17"}), ("refund", {"id": "A17", "amount": 3}), ("verify_pin", {"pin": "4711"}),
    ("respond", {"message": "Sorry, your PIN?"}), ("credit", {"amount": 2}), ("respond", {"message": "bye"}),
]  # fmt: skip
ODD = st.sampled_from([
    None, True, 0, -1, 1.5, 2**70, "", "x", "${", "${1/0}", "${state}", "${arguments}", "${[1].map(x, x)[0]}", "(",
    "any", [], [[]], {}, {"a": 1}, {"equals": 1}, "greeting", "refund", "\ud800", "$${x}",
    {"multipleOf": 1e-300, "type": "number"}, {"type": "integer", "maximum": 1e300},
])  # fmt: skip


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: a map or list, and a key or index of it."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from places(value[key])


@pytest.mark.parametrize(
    ("name", "make"), [("mock", mock.mock_kind), ("simulator", simulator.simulator_kind)], ids=["mock", "simulator"]
)
def test_a_spoilt_document_is_refused_or_played(
    tmp_path: Path, name: str, make: Callable[[LocalArtifactStore], InProcessKind]
) -> None:
    found = re.search(r"```yaml\n(.*?)```", (ROOT / "docs/reference" / f"{name}.md").read_text(), re.DOTALL)
    assert found is not None
    sound = yaml.safe_load(found[1])
    store = LocalArtifactStore(tmp_path)
    count = len(list(places(sound)))

    @settings(max_examples=150)
    @given(spoilt=st.lists(st.tuples(st.integers(0, count - 1), ODD | st.just("remove")), min_size=1, max_size=2))
    def told_or_played(spoilt: list[tuple[int, Any]]) -> None:
        document = copy.deepcopy(sound)
        for index, value in spoilt:
            where = list(places(document))
            holder, key = where[index % len(where)] if where else (document, "kind")
            if value == "remove":
                del holder[key]
            else:
                holder[key] = copy.deepcopy(value)
        read = payload(sound) | {"environment": document}
        try:
            ready = asyncio.run(make(store).prepare("any", lambda: read))
        except TemplateError:
            return
        first = asyncio.run(played(ready, ACTIONS, tmp_path, 3))
        assert asyncio.run(played(ready, ACTIONS, tmp_path, 3)) == first

    told_or_played()
