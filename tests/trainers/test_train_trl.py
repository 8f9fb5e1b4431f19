"""TRL itself, in an environment of its own: what it makes of the spec, and training on a CPU."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from served import ROOT, environment, served

TRL = ROOT / ".venvs/trl"
CHILD = ROOT / "tests/trainers/trl_child.py"
EXAMPLE = ROOT / "examples/train_trl.py"

pytestmark = [
    pytest.mark.xdist_group("trl"),
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not (TRL / ".ready").exists(),
        reason="TRL's environment is not there (no torch to be had?); make trl sets it up, or says why it cannot",
    ),
]


@pytest.fixture(scope="module")
def printed(runtime_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the child printed; it is one process, since importing TRL takes longer than all else here."""
    cache = runtime_cache.parent
    with served(cache, tmp_path_factory.mktemp("trl") / "server.log") as url:
        done = subprocess.run(
            [TRL / "bin/python", CHILD, url, EXAMPLE, "--steps", "2", "--group", "4"],
            env=environment(cache, AWM_BASE_URL=url, HF_HUB_OFFLINE="1"), cwd="/",
            capture_output=True, text=True, timeout=360, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def told(printed: list[str]) -> Any:
    return json.loads(printed[0])


def test_the_dataset_has_a_row_for_each_task(told: Any) -> None:
    assert told["is_dataset"]
    assert told["columns"] == ["prompt", "scenario", "task_idx", "seed", "environment"]
    assert told["rows"] == told["expected"]
    assert len(told["rows"]) == 11
    assert {(row["scenario"], row["environment"]) for row in told["rows"]} == {
        ("outdoor_marketplace_1", "outdoor_marketplace_1"),
        ("vet_clinic_1", "vet_clinic_1"),
    }


def test_no_library_of_a_trainer_is_loaded_before_it_is_needed(told: Any) -> None:
    assert told["too_early"] == []


def test_transformers_reads_every_tool(told: Any) -> None:
    assert told["tools"]["outdoor_marketplace_1"] == 31
    assert told["tools"]["vet_clinic_1"] > 20
    shown = told["add_cart_item"]
    assert shown["description"].startswith("Add a product to the cart\n")
    assert shown["parameters"] == {
        "type": "object",
        "properties": {
            "product_id": {"type": "integer", "description": "Product identifier to add"},
            "quantity": {"type": "integer", "description": "Quantity to add [default 1]"},
        },
        "required": ["product_id"],
    }


def test_transformers_reads_odd_tools_too(told: Any) -> None:
    first, second = told["odd"]
    assert (first["name"], first["description"]) == ("reset_", "Args -\n  all")
    assert second["name"] == "a_b"
    assert second["parameters"]["required"] == ["from_", "self_"]
    assert {name: one | {"description": ""} for name, one in second["parameters"]["properties"].items()} == {
        "from_": {"type": "string", "description": ""},
        "self_": {"type": ["string", "integer", "null"], "enum": ["x", 1, None], "description": ""},
        "return_": {"type": "array", "items": {"type": "object"}, "nullable": True, "description": ""},
        "many_words": {
            "anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}],
            "nullable": True,
            "description": "",
        },
        "maybe": {"type": "number", "nullable": True, "description": ""},
        "any": {"description": ""},
        "map": {"type": "object", "additionalProperties": {"type": "boolean"}, "nullable": True, "description": ""},
    }


def test_the_example_trains(printed: list[str]) -> None:
    shown = "\n".join(printed[1:])
    assert re.search(r"^\d{6} parameters, 2 tasks$", shown, re.MULTILINE)
    rows = re.findall(r"^ +(\d+) +(-?\d+\.\d+) +(\d+) +(\d+) +(\d+\.\d+)$", shown, re.MULTILINE)
    assert [int(step) for step, *_ in rows] == [1, 2]
    for _, reward, complete, masked, calls in rows:
        assert int(masked) == 0
        assert 0 <= int(complete) <= 8
        assert float(reward) == pytest.approx((int(complete) + 0.1 * (8 - int(complete))) / 8, abs=1e-3)
        assert float(calls) > 0
    assert shown.count("grad_norm") == 2


def test_the_example_says_what_it_needs() -> None:
    text = EXAMPLE.read_text()
    assert set(re.findall(r"^(?:from|import) (\w+)", text, re.MULTILINE)) - set(sys.stdlib_module_names) == {
        "quintain", "tokenizers", "torch", "transformers", "trl",
    }  # fmt: skip
    assert "pip install '.[trl]'" in text
