"""A verifier of states that are JSON gets them read, by the names of its parameters."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from quintain.verifiers.verifier_kind.kind import Kind

Verify = Callable[..., dict[str, Any]]


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    """Verify two states with a piece of code."""

    def run(code: str, *, final: str = '{"orders": {"A1": "refunded"}}', **more: Any) -> dict[str, Any]:
        (tmp_path / "initial.json").write_text(json.dumps({"orders": {"A1": "open"}}))
        (tmp_path / "final.json").write_text(final)
        kind = Kind()
        kind.load({}, str(tmp_path))
        names = {"initial": "initial.json", "final": "final.json"}
        kind.begin(dict(names))
        return kind.call({"op": "verify", "code": code, "final_answer": None, **names, **more})

    return run


@pytest.mark.parametrize(
    "signature",
    [
        "initial_state, final_state, final_answer, trace, variables",
        "variables, trace, final_answer, final_state, initial_state",
        "*, variables, trace, final_answer, final_state, initial_state",
    ],
)
def test_every_input_goes_by_its_name(signature: str, verify: Verify) -> None:
    code = f"def verify_it({signature}):\n    return [initial_state, final_state, final_answer, trace, variables]\n"
    answer = verify(code, trace=[{"tool_name": "refund"}], variables={"order": "A1"}, final_answer="done")
    assert answer["value"] == [
        {"orders": {"A1": "open"}},
        {"orders": {"A1": "refunded"}},
        "done",
        [{"tool_name": "refund"}],
        {"order": "A1"},
    ]


def test_a_function_takes_what_it_names_and_no_more(verify: Verify) -> None:
    assert verify("def verify_it(final_state):\n    return final_state['orders']\n")["value"] == {"A1": "refunded"}
    assert verify("def verify_it(variables):\n    return variables\n")["value"] == {}
    missing = verify("def verify_it(final_state, nothing_such):\n    return 1\n")
    assert missing["status"] == "error"
    assert "nothing_such" in missing["error"]


def test_one_of_several_functions_is_called(verify: Verify) -> None:
    code = "def verify_a():\n    return 'a'\ndef verify_b():\n    return 'b'\n"
    assert [verify(code, function=name)["value"] for name in ("verify_b", "verify_a", None)] == ["b", "a", "a"]


@pytest.mark.parametrize("final", ["", "{", "[" * 100_000])
def test_a_state_that_is_no_json_is_an_error(final: str, verify: Verify) -> None:
    answer = verify("def verify_it(final_state):\n    return 1\n", final=final)
    assert answer["status"] == "error"
    assert "a state is no JSON" in answer["error"]
