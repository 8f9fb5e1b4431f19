"""The descriptor: what is accepted, what is refused with which words, and what enters an id."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from quintain.contracts import MAX_SEED, EnvironmentEpisode, Limits, digest_of
from quintain.errors import DescriptorError

LOCK, POLICY, PAYLOAD, DATASET, VERIFIER, FAULTS = (f"cas://sha256/{digit * 64}" for digit in "123456")
IMAGE = "registry.example/base/python@sha256:" + "a" * 64

CLASS_PARTS: dict[str, Any] = {
    "baseImage": IMAGE,
    "dependencyLock": "cas://sha256/" + "b" * 64,
    "runtime": "other/2",
    "policyDigest": "cas://sha256/" + "c" * 64,
    "toolContract": {"protocol": "mcp-tools/1", "maxSteps": 31},
}
EPISODE_PARTS: dict[str, Any] = {
    "taskPayload": "cas://sha256/" + "d" * 64,
    "datasetManifest": "cas://sha256/" + "e" * 64,
    "verifierImage": "registry.example/verifier/swe@sha256:" + "f" * 64,
    "seed": 1,
    "faultPolicy": FAULTS,
}


def document(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "environmentClass": "awm",
        "baseImage": "host",
        "dependencyLock": LOCK,
        "runtime": "fork/1",
        "toolContract": {"protocol": "mcp-tools/1", "maxSteps": 30},
        "policyDigest": POLICY,
        "taskPayload": PAYLOAD,
        "datasetManifest": DATASET,
        "verifierImage": VERIFIER,
        "limits": {"cpu": "2", "memory": "4Gi", "pids": 64, "disk": "256Mi", "timeoutSeconds": 900, "maxTokens": 32768},
    }
    spec.update(changes)
    return {"apiVersion": "quintain.dev/v1alpha1", "kind": "EnvironmentEpisode", "spec": spec}


def episode(**changes: Any) -> EnvironmentEpisode:
    return EnvironmentEpisode.from_object(document(**changes))


def shuffled(value: Any, data: st.DataObject) -> Any:
    """The same document with its keys in another order and its whole numbers as 30 or 30.0."""
    if isinstance(value, dict):
        keys = data.draw(st.permutations(list(value)))
        return {key: shuffled(value[key], data) for key in keys}
    if isinstance(value, int) and data.draw(st.booleans()):
        return float(value)
    return value


def test_ids_are_the_digests_the_contract_names() -> None:
    one = episode(seed=7, faultPolicy=FAULTS)
    class_id = digest_of(
        {
            "base_image": "host",
            "dependency_lock": LOCK,
            "runtime": "fork/1",
            "policy": POLICY,
            "tool_contract": {"protocol": "mcp-tools/1", "maxSteps": 30},
        }
    )
    assert one.environment_class_id == class_id
    assert one.episode_id == digest_of(
        {
            "environment_class_id": class_id,
            "task_payload": PAYLOAD,
            "dataset": DATASET,
            "verifier": VERIFIER,
            "seed": 7,
            "faults": FAULTS,
        }
    )


@given(seed=st.integers(0, MAX_SEED), data=st.data())
def test_key_order_number_form_and_encoding_do_not_change_an_id(seed: int, data: st.DataObject) -> None:
    plain = document(seed=seed, faultPolicy=FAULTS)
    other = shuffled(plain, data)
    first = EnvironmentEpisode.from_object(plain)
    for read in (
        EnvironmentEpisode.from_object(other),
        EnvironmentEpisode.from_json(json.dumps(other)),
        EnvironmentEpisode.from_yaml(yaml.safe_dump(other, sort_keys=False)),
    ):
        assert read == first
        assert (read.environment_class_id, read.episode_id) == (first.environment_class_id, first.episode_id)


@given(data=st.data())
def test_any_change_of_named_parts_changes_the_ids(data: st.DataObject) -> None:
    of_class = data.draw(st.lists(st.sampled_from(sorted(CLASS_PARTS)), unique=True))
    of_episode = data.draw(st.lists(st.sampled_from(sorted(EPISODE_PARTS)), unique=True))
    changes = {name: (CLASS_PARTS | EPISODE_PARTS)[name] for name in of_class + of_episode}
    before, after = episode(), episode(**changes)
    assert (after.environment_class_id != before.environment_class_id) == bool(of_class)
    assert (after.episode_id != before.episode_id) == bool(of_class or of_episode)


@given(first=st.integers(0, MAX_SEED), second=st.integers(0, MAX_SEED))
def test_ids_are_equal_only_for_equal_seeds(first: int, second: int) -> None:
    assert (episode(seed=first).episode_id == episode(seed=second).episode_id) == (first == second)


@given(
    limits=st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(["500m", 4, "0.5"]),
            "memory": st.sampled_from(["1Gi", 1e9, "512M"]),
            "pids": st.integers(1, 4096),
            "disk": st.sampled_from(["64Mi", "1G"]),
            "timeoutSeconds": st.integers(1, 10**6),
            "maxTokens": st.integers(1, 10**6),
        },
    ),
    name=st.text(min_size=1, max_size=20),
)
def test_limits_and_the_class_name_are_not_identity(limits: dict[str, Any], name: str) -> None:
    changed = episode(limits=limits, environmentClass=name)
    assert changed.environment_class_id == episode().environment_class_id
    assert changed.episode_id == episode().episode_id


def test_an_absent_seed_is_zero() -> None:
    assert episode().spec.seed == 0
    assert episode().episode_id == episode(seed=0).episode_id


@pytest.mark.parametrize("seed", [-1, MAX_SEED + 1, float(2**53), 1.5, "7", True, None, float("nan")])
def test_a_seed_out_of_range_is_refused_with_the_range(seed: Any) -> None:
    with pytest.raises(DescriptorError, match=r"^job\.yaml: spec\.seed: .* from 0 to 9007199254740991"):
        EnvironmentEpisode.from_object(document(seed=seed), "job.yaml")


def test_the_largest_seed_is_accepted() -> None:
    assert EnvironmentEpisode.from_json(json.dumps(document(seed=MAX_SEED))).spec.seed == MAX_SEED


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sead": 1}, r"spec\.sead: unknown field; did you mean seed\?"),
        ({"limits": {"gpu_count": 1}}, r"spec\.limits\.gpu_count: unknown field"),
        ({"limits": {"memory": "4 GB"}}, r"spec\.limits\.memory: expected a quantity .* got '4 GB'"),
        ({"limits": {"pids": 0}}, r"spec\.limits\.pids: .* got 0"),
        ({"toolContract": {"maxSteps": "30"}}, r"spec\.toolContract\.maxSteps: .* got '30'"),
        ({"taskPayload": "cas://md5/abc"}, r"spec\.taskPayload: expected cas://sha256/"),
        ({"baseImage": "python:3.11"}, r"spec\.baseImage: expected an image pinned by digest"),
        ({"verifierImage": "cas://sha256/12"}, r"spec\.verifierImage: expected cas://sha256/"),
        ({"runtime": ""}, r"spec\.runtime: "),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(DescriptorError, match=message):
        episode(**changes)


def test_every_missing_field_is_named() -> None:
    with pytest.raises(DescriptorError, match=r"spec\.taskPayload: missing; add it.*spec\.verifierImage: missing"):
        EnvironmentEpisode.from_object({"spec": {"environmentClass": "awm", "runtime": "fork/1"}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("spec: [1", "not readable as YAML"),
        ("spec: {}\nspec: {}", "key 'spec' twice"),
        ("- 1", "expected a mapping .* got list"),
        ("", "expected a mapping .* got NoneType"),
        (b"\xff\xfe\x00\xd8", "not readable as YAML"),
        ("spec: !!python/object/apply:os.getcwd []", "not readable as YAML"),
    ],
)
def test_bad_yaml_is_refused_in_one_line(text: str | bytes, message: str) -> None:
    with pytest.raises(DescriptorError, match=message) as caught:
        EnvironmentEpisode.from_yaml(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", '{"spec": {}, "spec": {}}', "[" * 100_000, b"\xff"])
def test_bad_json_is_refused(text: str | bytes) -> None:
    with pytest.raises(DescriptorError, match="not readable as JSON"):
        EnvironmentEpisode.from_json(text)


def test_another_version_is_refused() -> None:
    with pytest.raises(DescriptorError, match=r"apiVersion: .*'quintain\.dev/v2'"):
        EnvironmentEpisode.from_object(document() | {"apiVersion": "quintain.dev/v2"})


def test_yaml_out_is_yaml_in() -> None:
    one = episode(seed=3)
    text = one.to_yaml()
    assert EnvironmentEpisode.from_yaml(text) == one
    assert "taskPayload" in text
    assert "faultPolicy" not in text


def test_limits_read_kubernetes_quantities() -> None:
    limits = Limits(cpu="1500m", memory="4Gi", disk="1.5k")
    assert (limits.cpu_cores, limits.memory_bytes, limits.disk_bytes) == (1.5, 4 * 2**30, 1500)
    assert Limits.model_validate({"cpu": 2, "memory": 1e9}).memory_bytes == 10**9
    assert Limits(memory="1e3").memory_bytes == 1000
    assert Limits(memory="1500m").memory_bytes == 2
