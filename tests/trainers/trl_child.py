"""Runs in TRL's environment: what TRL makes of the spec, as one line of JSON, and then the example, in one process.

Arguments: a server's address, and the example's file with its arguments.
"""

import json
import runpy
import sys

from quintain.contracts.tools import Tool
from quintain.trainers.environment import EpisodeEnvironment, environment_class
from quintain.trainers.trl import AwmGrpo

too_early = [name for name in ("torch", "trl", "transformers", "datasets") if name in sys.modules]

from datasets import Dataset  # noqa: E402
from transformers.utils import get_json_schema  # noqa: E402

ODD = [
    {"name": "reset", "description": "Args:\n  all", "input_schema": {}},
    {
        "name": "a-b",
        "description": "",
        "input_schema": {
            "properties": {
                "from": {"type": "string", "description": "Returns: it (choices: [1"},
                "self": {"enum": ["x", 1, None]},
                "return": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "integer"}}}},
                "many words": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]},
                "maybe": {"type": ["number", "null"], "default": None},
                "any": {},
                "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
            },
            "required": ["self", "from"],
        },
    },
]


def schemas(kind: type[EpisodeEnvironment]) -> list[dict[str, object]]:
    """What TRL shows a model of a class's tools."""
    return [get_json_schema(getattr(kind, one.name))["function"] for one in kind._functions]


with AwmGrpo(sys.argv[1], ["outdoor_marketplace_1", "vet_clinic_1/3"], model_digest="m") as spec:
    dataset = spec.train_dataset
    kinds = spec.environment_factory
    shown = {name: schemas(kind) for name, kind in kinds.items()}
    told = {
        "too_early": too_early,
        "is_dataset": isinstance(dataset, Dataset),
        "columns": dataset.column_names,
        "rows": dataset.to_list(),
        "expected": spec.rows,
        "tools": {name: len(found) for name, found in shown.items()},
        "add_cart_item": next(one for one in shown["outdoor_marketplace_1"] if one["name"] == "add_cart_item"),
        "odd": schemas(environment_class("Odd", [Tool.model_validate(one) for one in ODD], spec, frozenset())),
    }
print(json.dumps(told), flush=True)

sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
