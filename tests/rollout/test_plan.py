"""Plans: read strictly, told apart by what they do, and split into items whose names never change."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from quintain.errors import UsageError
from quintain.rollout import PlannedTask, RolloutPlan
from quintain.rollout.plan import ModelSpec

TASK = {"scenario": "vet_clinic_1", "task_idx": 0}
CHAT = {"kind": "chat", "endpoint": {"base_url": "http://127.0.0.1:9/v1", "model": "m"}}


def plan(**fields: Any) -> RolloutPlan:
    return RolloutPlan.model_validate({"tasks": [TASK], **fields})


def test_speed_is_not_in_the_digest_and_everything_else_is() -> None:
    assert plan().digest == plan(concurrency=3, max_unverified=7).digest
    different = [
        plan(attempts=2),
        plan(verifier="sql"),
        plan(limits={"max_steps": 4}),
        plan(retries={"starts": 0}),
        plan(agents=[{"kind": "random"}]),
        plan(agents=[{"kind": "noisy", "rates": {"loop": 0.1}}]),
        plan(tasks=[{**TASK, "seed": 1}]),
    ]
    assert len({one.digest for one in [plan(), *different]}) == len(different) + 1


def test_the_names_of_items_are_stable_and_distinct() -> None:
    made = plan(tasks=[TASK, {**TASK, "seed": 3}], attempts=2, agents=[{"kind": "reference"}, {"kind": "random"}])
    names = [item.name for item in made.items()]
    assert names[:3] == ["vet_clinic_1/0@0/reference/0", "vet_clinic_1/0@0/reference/1", "vet_clinic_1/0@0/random/0"]
    assert len(set(names)) == made.size == 8


@given(
    st.lists(
        st.builds(PlannedTask, scenario=st.text("abc_1", min_size=1), task_idx=st.integers(0, 9)),
        min_size=1, max_size=5, unique=True,
    ),
    st.integers(1, 5),
)  # fmt: skip
def test_a_plan_survives_its_own_file(tmp_path_factory: Any, tasks: list[PlannedTask], attempts: int) -> None:
    made = RolloutPlan(tasks=tuple(tasks), attempts=attempts)
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    path.write_text(made.model_dump_json())
    assert RolloutPlan.read(path) == made
    assert len({item.name for item in made.items()}) == made.size


def test_yaml_is_read_and_a_key_twice_is_not(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text("tasks: [{scenario: vet_clinic_1, task_idx: 0}]\nattempts: 3\n")
    assert RolloutPlan.read(path).attempts == 3
    path.write_text("tasks: []\nattempts: 3\nattempts: 4\n")
    with pytest.raises(UsageError, match="twice"):
        RolloutPlan.read(path)
    with pytest.raises(UsageError, match="cannot be read"):
        RolloutPlan.read(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"tasks": []}, "at least 1"),
        ({"tasks": [TASK, TASK]}, "twice"),
        ({"attempts": 0}, "greater than"),
        ({"agents": [{"kind": "reference"}, {"kind": "reference"}]}, "names that differ"),
        ({"agents": [CHAT, {**CHAT, "name": "other"}]}, "same settings"),
        ({"agents": [{"kind": "random", "min_steps": 9, "max_steps": 3}]}, "is over"),
        ({"agents": [{"kind": "wizard"}]}, "wizard"),
        ({"attempts": 100_000, "tasks": [{**TASK, "task_idx": n} for n in range(11)]}, "make several"),
        ({"surprise": 1}, "not permitted"),
    ],
)
def test_what_is_no_plan(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        plan(**fields)


def test_a_plan_holds_no_key_and_its_error_does_not_either(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    path.write_text(
        "tasks: [{scenario: a, task_idx: 0}]\n"
        "agents: [{kind: chat, endpoint: {base_url: 'http://h/v1', model: m, api_key: sk-secret-123}}]\n"
    )
    with pytest.raises(UsageError, match="api_key_env") as refused:
        RolloutPlan.read(path)
    assert "sk-secret-123" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_how_a_model_samples_names_it_and_how_fast_does_not() -> None:
    one = ModelSpec.model_validate(CHAT)
    assert one.model == ModelSpec.model_validate({**CHAT, "max_at_once": 3, "api_key_env": "KEY"}).model
    warm = {**CHAT, "endpoint": {**CHAT["endpoint"], "temperature": 1.0}}  # type: ignore[dict-item]
    assert one.model != ModelSpec.model_validate(warm).model
    assert one.model != ModelSpec.model_validate({**CHAT, "kind": "text"}).model
    assert ModelSpec.model_validate({**CHAT, "model_digest": "mine"}).model == "mine"
