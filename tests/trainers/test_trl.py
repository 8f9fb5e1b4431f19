"""Episodes as GRPO drives them, over a server and in process: groups, tools, limits, scores, masks, endings.

TRL itself is not needed here; `test_train_trl.py` trains with it.
"""

import gc
import inspect
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import live as live_server
from quintain.errors import EpisodeOver, LifecycleError, SandboxError, TemplateError, UsageError
from quintain.rollout.plan import PlannedTask
from quintain.trainers.base import EpisodeSettings
from quintain.trainers.remote import ServerPlatform
from quintain.trainers.trl import AwmGrpo, final_answer
from trainers.conftest import Arena

NOTES, CRASHES, ANSWERS, SLOW = 0, 1, 3, 4
TOOLS = ["add_note", "boom", "die", "echo", "get_note", "large", "list_notes", "malformed", "shout", "slow", "tick"]


def spec_of(arena: Arena, *tasks: int, **options: Any) -> AwmGrpo:
    named = [f"toy_notes_1/{task}" for task in tasks] or ["toy_notes_1/0"]
    return AwmGrpo(arena.platform, named, **{"model_digest": "policy@1"} | options)


def group(spec: AwmGrpo, size: int = 1, row: int = 0) -> list[Any]:
    """Environments that were reset with one row, as a trainer does with the members of a group."""
    made = [spec.environment_factory() for _ in range(size)]  # type: ignore[operator]
    for one in made:
        assert one.reset(**spec.rows[row]) is None
    return made


def said(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": text}]


def rewards(spec: AwmGrpo, environments: list[Any], *answers: str, **more: Any) -> list[float | None]:
    completions = [said(text) for text in answers] or [said("Done.")] * len(environments)
    (reward,) = spec.reward_funcs
    return reward(prompts=[], completions=completions, completion_ids=[], environments=environments, **more)


def public(kind: type) -> list[str]:
    return [name for name, _ in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")]


def test_the_members_of_a_group_are_attempts_of_their_own_at_one_episode(arena: Arena) -> None:
    with spec_of(arena) as spec:
        members = group(spec, 4)
        members[0].add_note(text="buy milk")
        members[2].add_note(text="buy bread")
        assert [json.loads(one.list_notes())[0] for one in members] == [[1, "water plants"]] * 4
        assert rewards(spec, members) == [1.0, 0.1, 0.1, 0.1]
        identities = [one._identity for one in members]
    assert len({one["episode_id"] for one in identities}) == 1
    assert [one["attempt"] for one in identities] == [0, 1, 2, 3]
    assert {one["model_digest"] for one in identities} == {"policy@1"}


def test_the_same_row_has_the_same_draws_and_another_seed_others(arena: Arena) -> None:
    tasks = [PlannedTask(scenario="toy_notes_1", task_idx=0, seed=seed) for seed in (7, 8)]
    with AwmGrpo(arena.platform, tasks, model_digest="m") as spec:
        ticks = [[json.loads(one.tick()) for one in group(spec, 2, row)] for row in (0, 1)]
    assert ticks[0][0] == ticks[0][1]
    assert ticks[1][0] == ticks[1][1]
    assert [one["seed"] for one in ticks[0] + ticks[1]] == [7, 7, 8, 8]
    assert ticks[0][0]["draw"] != ticks[1][0]["draw"]


def test_only_reset_and_the_tools_are_public(arena: Arena) -> None:
    with spec_of(arena) as spec:
        kind = spec.environment_factory
        assert isinstance(kind, type)
        assert public(kind) == sorted([*TOOLS, "reset"])
        assert str(inspect.signature(group(spec)[0].get_note)) == "(*, note_id: int) -> str"


def shelve(arena: Arena, monkeypatch: pytest.MonkeyPatch, codes: dict[str, str]) -> None:
    """Give the world scenarios like the toy one, each with the tools that a payload's code stands for."""
    source = arena.world.source
    toy, payload = source.scenario("toy_notes_1"), source.payload("toy_notes_1")
    verifiers = source.verifiers("toy_notes_1", NOTES)
    for name in codes:
        monkeypatch.setitem(source._scenarios, name, toy.model_copy(update={"name": name, "tasks": toy.tasks[:1]}))
    monkeypatch.setattr(source, "payload", lambda name: payload | {"code": codes[name], "scenario": name})
    monkeypatch.setattr(source, "verifiers", lambda name, task_idx: verifiers)


def test_a_tool_of_the_control_planes_name_is_not_offered_over_it(
    arena: Arena, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelve(arena, monkeypatch, {"ends_5": "echo and done"})
    with AwmGrpo(arena.platform, ["ends_5"], model_digest="m") as spec:
        (one,) = group(spec)
        assert public(type(one)) == (["echo", "reset"] if arena.remote else ["done", "echo", "reset"])
        assert one.echo(a=1) == '{"a": 1}'
        assert rewards(spec, [one]) == [0.1]


def test_scenarios_with_other_tools_have_classes_of_their_own(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    shelve(arena, monkeypatch, {"plain_5": "plain", "full_6": "# the toy app\n", "plain_7": "plain"})
    with AwmGrpo(arena.platform, ["plain_5", "full_6", "plain_7"], model_digest="m") as spec:
        kinds: Any = spec.environment_factory
        assert {name: public(kind) for name, kind in kinds.items()} == {
            "plain_5": ["add_note", "get_note", "list_notes", "reset"],
            "full_6": sorted([*TOOLS, "reset"]),
        }
        assert [(row["scenario"], row["environment"]) for row in spec.rows] == [
            ("plain_5", "plain_5"), ("full_6", "full_6"), ("plain_7", "plain_5"),
        ]  # fmt: skip
        rows = [{name: value for name, value in row.items() if name != "environment"} for row in spec.rows]
        environments = [kinds[row["environment"]]() for row in spec.rows]
        for one, row in zip(environments, rows, strict=True):
            one.reset(**row)
            one.add_note(text="buy milk")
        assert rewards(spec, environments) == [1.0, 1.0, 1.0]
        with pytest.raises(UsageError, match="full_6 has other tools than this environment"):
            environments[0].reset(**rows[1])


def test_a_system_prompt_precedes_each_task(arena: Arena) -> None:
    with spec_of(arena, system_prompt="Be brief.") as spec:
        assert spec.rows == [
            {
                "prompt": [
                    {"role": "system", "content": "Be brief."},
                    {"role": "user", "content": "Do what verifier count looks for."},
                ],
                "scenario": "toy_notes_1",
                "task_idx": 0,
                "seed": 0,
            }
        ]


def test_what_goes_wrong_with_a_tool_is_text(arena: Arena) -> None:
    with spec_of(arena) as spec:
        (one,) = group(spec)
        assert one.get_note(note_id=1) == '{"text": "water plants"}'
        assert one.get_note(note_id=99) == "error: 404: Note not found"
        assert one.boom() == "error: 500: division by zero"
        assert one.add_note() == "error: 422: field 'text' is required"
        assert one.add_note(text="a", colour="red") == '{"id": 2}'
        assert one.add_note(text=3).startswith("error: 422")
        assert json.loads(one.echo(self=1, name=2)) == {"self": 1, "name": 2}
        assert one.die().startswith("error: ")
        assert json.loads(one.list_notes()) == [[1, "water plants"], [2, "a"]]
        assert rewards(spec, [one]) == [0.1]


def test_a_call_that_takes_too_long_is_text(arena: Arena) -> None:
    with spec_of(arena, settings=EpisodeSettings(call_timeout_s=0.5)) as spec:
        (one,) = group(spec)
        assert one.slow(seconds=3).startswith("error: ")
        assert rewards(spec, [one]) == [0.1]


def test_a_long_result_is_shortened(arena: Arena) -> None:
    with spec_of(arena, max_observation_chars=100) as spec:
        text = group(spec)[0].large(size=5000)
    assert "[4900 characters left out]" in text
    assert len(text) < 200


def test_the_final_answer_reaches_the_verifier(arena: Arena) -> None:
    with spec_of(arena, ANSWERS) as spec:
        assert rewards(spec, group(spec, 3), "42", "41", "") == [1.0, 0.1, 0.1]


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ([{"role": "assistant", "content": "x"}], "x"),
        ([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], "ab"),
        ([{"role": "assistant", "content": "so", "tool_calls": [{}]}], None),
        ([{"role": "assistant", "content": "", "tool_calls": [{}]}, {"role": "tool", "content": "r"}], None),
        ([], None),
        ("plain", "plain"),
    ],
)
def test_the_final_answer_is_the_last_word(completion: Any, answer: str | None) -> None:
    assert final_answer(completion) == answer


def test_after_the_end_no_call_is_taken_and_nothing_is_verified_again(arena: Arena) -> None:
    with spec_of(arena) as spec:
        (one,) = group(spec)
        assert rewards(spec, [one]) == [0.1]
        with pytest.raises(EpisodeOver, match="has ended"):
            one.add_note(text="buy milk")
        assert rewards(spec, [one]) == [0.1]
        assert len(arena.world.ledger.submitted) == 1


def test_the_calls_of_an_episode_are_bounded(arena: Arena) -> None:
    with spec_of(arena, max_steps=2) as spec:
        (one,) = group(spec)
        one.add_note(text="buy milk")
        one.list_notes()
        with pytest.raises(EpisodeOver, match="has had its 2 calls"):
            one.list_notes()
        with pytest.raises(EpisodeOver):
            one.list_notes()
        assert rewards(spec, [one]) == [1.0]
        one.reset(**spec.rows[0])
        assert json.loads(one.list_notes()) == [[1, "water plants"]]


def test_a_verifier_that_fails_masks_the_reward(arena: Arena) -> None:
    told: dict[str, Any] = {}
    with spec_of(arena, CRASHES, NOTES) as spec:
        environments = group(spec, 2, row=0) + group(spec, 1, row=1)
        assert rewards(
            spec, environments, "", "", "", log_metric=told.__setitem__, log_extra=told.__setitem__, seed=[0, 0, 0]
        ) == [None, None, 0.1]
        assert len(arena.world.ledger.submitted) == 3
    assert told["episodes/masked"] == 2
    assert told["episodes/complete"] == 0
    assert told["reward_type"] == ["judge_error", "judge_error", "incomplete"]


def test_training_stops_when_no_reward_can_be_used_for_long(arena: Arena) -> None:
    with spec_of(arena, CRASHES, max_masked_batches=2) as spec:
        environments = group(spec, 2)
        assert rewards(spec, environments) == [None, None]
        for one in environments:
            one.reset(**spec.rows[0])
        with pytest.raises(SandboxError, match="2 batches in a row had no reward"):
            rewards(spec, environments)


def test_rewards_can_be_other_numbers(arena: Arena) -> None:
    settings = EpisodeSettings(reward_config={"complete": 5.0, "incomplete": -2.0})
    with spec_of(arena, settings=settings) as spec:
        one, other = group(spec, 2)
        one.add_note(text="buy milk")
        assert rewards(spec, [one, other]) == [5.0, -2.0]


def test_each_reset_asks_who_tries(arena: Arena) -> None:
    step = iter(range(10))
    with spec_of(arena, model_digest=lambda: f"policy@{next(step)}") as spec:
        assert [one._identity["model_digest"] for one in group(spec, 2)] == ["policy@0", "policy@1"]


def test_a_reset_ends_what_was_not_scored(arena: Arena) -> None:
    with spec_of(arena) as spec:
        (one,) = group(spec)
        one.add_note(text="buy milk")
        one.reset(**spec.rows[0])
        assert arena.world.provider.live == 1
        assert rewards(spec, [one]) == [0.1]


def test_environments_that_are_dropped_leave_nothing_running(arena: Arena) -> None:
    with spec_of(arena) as spec:
        environments = group(spec, 3)
        assert arena.world.provider.live == 3
        del environments
        gc.collect()
        wait_for(lambda: arena.world.provider.live == 0)


def test_closing_ends_what_runs_and_nothing_is_taken_after_it(arena: Arena) -> None:
    with spec_of(arena) as spec:
        (one,) = group(spec)
    spec.close()
    with pytest.raises(LifecycleError, match="closed"):
        one.list_notes()
    with pytest.raises(LifecycleError, match="closed"):
        one.reset(**spec.rows[0])
    with pytest.raises(LifecycleError, match="closed"):
        rewards(spec, [one])


def test_a_spec_that_nobody_holds_is_closed(arena: Arena) -> None:
    spec = spec_of(arena)
    loop = spec.loop
    environments = group(spec, 2)
    del spec
    gc.collect()
    assert not loop.closed  # the environments need it
    del environments
    gc.collect()
    assert loop.closed


def test_a_call_before_the_first_reset_is_refused(arena: Arena) -> None:
    with spec_of(arena) as spec:
        kind: Any = spec.environment_factory
        with pytest.raises(LifecycleError, match="reset the environment first"):
            kind().list_notes()
        with pytest.raises(LifecycleError, match="reset the environment first"):
            rewards(spec, [kind()])


def test_environments_of_others_are_not_scored(arena: Arena) -> None:
    with spec_of(arena) as spec:
        assert rewards(spec, [object()]) == [None]
        with pytest.raises(UsageError, match="environment_factory"):
            spec.reward_funcs[0](prompts=[], completions=[])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"seed": None}, "a row has no seed; train on the spec's own train_dataset"),
        ({"scenario": None, "task_idx": None}, "a row has no scenario, task_idx"),
        ({"seed": 5}, "toy_notes_1/0 with seed 5, which is not of this spec"),
        ({"task_idx": 7}, "which is not of this spec"),
    ],
)
def test_a_row_must_say_which_episode_is_wanted(arena: Arena, change: dict[str, Any], why: str) -> None:
    with spec_of(arena) as spec:
        (one,) = group(spec)
        with pytest.raises(UsageError, match=why):
            one.reset(**spec.rows[0] | change)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"tasks": []}, "there are no tasks"),
        ({"tasks": ["nowhere"]}, "there is no scenario 'nowhere' here; there are"),
        ({"tasks": ["toy_notes_1/99"]}, "has no task 99"),
        ({"tasks": ["toy_notes_1/x"]}, "names no task; write SCENARIO/TASK"),
        ({"tasks": [3]}, "3 is no task"),
        ({"tasks": ["toy_notes_1", "toy_notes_1/2"]}, "toy_notes_1/2 with seed 0 is there twice"),
        ({"tasks": ["bare_2"]}, "scenario bare_2 offers no tools|has no code verifier"),
        ({"max_steps": 0}, "max_steps is 0; give a number of at least 1"),
        ({"starts": True}, "starts is True"),
        ({"model_digest": ""}, "model_digest is ''"),
        ({"settings": EpisodeSettings(verifier="moon")}, "verifier is 'moon'; give code, sql, hybrid"),  # type: ignore[arg-type]
        ({"settings": EpisodeSettings(call_timeout_s=0)}, "call_timeout_s is 0"),
        ({"settings": EpisodeSettings(reward_config={"perfect": 1.0})}, "perfect"),
    ],
)
def test_a_spec_that_cannot_be_used_is_refused_at_once(arena: Arena, options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        AwmGrpo(arena.platform, **{"tasks": ["toy_notes_1"], "model_digest": "m"} | options)


def test_a_scenario_that_does_not_start_is_refused_at_once(arena: Arena) -> None:
    with pytest.raises((TemplateError, SandboxError), match="cannot be loaded"):
        AwmGrpo(arena.platform, ["broken_3"], model_digest="m")


def test_without_a_server_it_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"no server could be used at http://127\.0\.0\.1:9 .*quintain serve"):
        AwmGrpo("http://127.0.0.1:9", ["toy_notes_1"], model_digest="m")


def test_a_server_that_goes_away_masks_and_another_is_found_again(
    serving: Callable[..., AbstractContextManager[live_server.Live]], caplog: pytest.LogCaptureFixture
) -> None:
    with serving() as first:
        spec = AwmGrpo(ServerPlatform(first.url), ["toy_notes_1/0"], model_digest="m", starts=1)
        (one,) = group(spec)
        one.add_note(text="buy milk")
    with spec:
        assert one.list_notes() == "error: the environment could not answer; the call may be tried again"
        with pytest.raises(EpisodeOver):
            one.list_notes()
        assert rewards(spec, [one]) == [None]
        one.reset(**spec.rows[0])
        assert "did not start and is masked" in caplog.text
        with pytest.raises(EpisodeOver):
            one.list_notes()
        assert rewards(spec, [one]) == [None]


def test_a_full_server_masks_what_it_has_no_room_for(
    serving: Callable[..., AbstractContextManager[live_server.Live]],
) -> None:
    with (
        serving(max_concurrent_envs=2) as live,
        AwmGrpo(live.url, ["toy_notes_1/0"], model_digest="m", starts=1) as spec,
    ):
        environments = group(spec, 3)
        assert rewards(spec, environments) == [0.1, 0.1, None]


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait for something to hold, for at most twenty seconds."""
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, "it did not come to hold in time"
        time.sleep(0.01)
