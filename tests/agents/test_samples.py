"""What is drawn for a schema fits it, as an independent validator says."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker

from quintain.agents.samples import arguments, sample

CHECKER = FormatChecker()


def check(schema: Any, value: Any) -> None:
    Draft202012Validator(schema, format_checker=CHECKER).validate(value)


names = st.text("abc", min_size=1, max_size=2)
bounds = st.tuples(st.integers(-50, 50), st.integers(0, 40))
scalars = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": "null"}),
    st.builds(lambda low, more: {"type": "integer", "minimum": low, "maximum": low + more}, *[st.integers(0, 40)] * 2),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(-50, 50)),
    st.builds(lambda unit: {"type": "integer", "multipleOf": unit, "minimum": -7}, st.integers(1, 9)),
    st.builds(lambda low, high: {"type": "number", "minimum": low, "maximum": high}, st.floats(-9, 0), st.floats(0, 9)),
    st.builds(lambda low: {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": low + 1}, st.integers(-9, 9)),
    st.builds(lambda high: {"type": "string", "minLength": 8, "maxLength": high}, st.integers(8, 40)),
    st.builds(lambda kind: {"type": "string", "format": kind}, st.sampled_from(
        ["date", "date-time", "time", "email", "uuid", "ipv4", "ipv6", "uri", "hostname", "duration"])),
    st.builds(lambda of: {"enum": of}, st.lists(st.integers() | st.text() | st.none(), min_size=1, max_size=3)),
    st.builds(lambda one: {"const": one}, st.integers() | st.text()),
    st.just({"type": ["integer", "null"]}),
    st.just({"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"}),
)  # fmt: skip


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.builds(
        lambda known, needed: {"type": "object", "properties": known, "required": sorted(known)[:needed]},
        st.dictionaries(names, inner, max_size=4),
        st.integers(0, 4),
    )
    arrays = st.builds(
        lambda items, least, more: {"type": "array", "items": items, "minItems": least, "maxItems": least + more},
        inner,
        st.integers(0, 3),
        st.integers(0, 3),
    )
    unions = st.builds(lambda one, other: {"anyOf": [one, other]}, inner, inner)
    both = st.builds(lambda one, other: {"allOf": [one, {"title": "t"}], "description": other}, inner, st.text())
    return objects | arrays | unions | both


schemas = st.recursive(scalars, nested, max_leaves=8)


@given(schemas, st.integers())
def test_a_value_fits_its_schema(schema: Any, seed: int) -> None:
    value = sample(schema, random.Random(seed))
    check(schema, value)
    assert sample(schema, random.Random(seed)) == value


@given(st.dictionaries(names, schemas, max_size=4), st.integers(0, 4), st.integers())
def test_arguments_fit_a_tool(known: dict[str, Any], needed: int, seed: int) -> None:
    schema = {"type": "object", "properties": known, "required": sorted(known)[:needed]}
    check(schema, arguments(schema, random.Random(seed)))


NODE = {
    "type": "object", "required": ["size"],
    "properties": {
        "size": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
        "more": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 5}, "uniqueItems": True, "minItems": 5},
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "minItems": 2, "maxItems": 2},
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "minProperties": 2},
        {"oneOf": [{"type": "string", "enum": ["x"]}, {"type": "integer", "minimum": 3}]},
        {"minimum": 5, "maximum": 6, "anyOf": [{"type": "integer"}, {"type": "number"}]},
        {"properties": {"a": {"const": 1}}, "required": ["a"], "anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
        True,
        {},
    ],
    ids=repr,
)
def test_what_schemas_have_besides(schema: Any) -> None:
    for seed in range(50):
        check(schema, sample(schema, random.Random(seed)))


def test_both_sides_of_every_choice_are_drawn() -> None:
    schema = {
        "type": "object", "required": ["kind"],
        "properties": {"kind": {"enum": ["a", "b"]}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    }  # fmt: skip
    drawn = [arguments(schema, random.Random(seed)) for seed in range(60)]
    assert {one["kind"] for one in drawn} == {"a", "b"}
    assert {type(one.get("note", 0)) for one in drawn} == {int, str, type(None)}
