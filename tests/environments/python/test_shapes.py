"""Annotations, docstrings and function-doc files as schemas; values there and back."""

import dataclasses
import datetime
import enum
import inspect
import json
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from quintain.environments.inprocess.schemas import schema_findings
from quintain.environments.python_kind import docs
from quintain.environments.python_kind.code import Entry
from quintain.environments.python_kind.plain import shown, state_text
from quintain.environments.python_kind.problems import CodeError, MismatchError
from quintain.environments.python_kind.shapes import shape_of
from quintain.environments.python_kind.signatures import described, tools_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: float = 0.5
    tags: tuple[str, ...] = ()


class Row(TypedDict):
    id: int
    note: NotRequired[str | None]


@dataclasses.dataclass
class Node:
    below: "list[Node]"


Name = NewType("Name", str)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
integers = st.integers(-(2**40), 2**40)
numbers = st.floats(allow_nan=False, allow_infinity=False, width=32)
points = st.builds(Point, x=integers, y=numbers, tags=st.lists(texts, max_size=2).map(tuple))
rows: st.SearchStrategy[Any] = st.fixed_dictionaries({"id": integers}, optional={"note": st.none() | texts})
LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (str, texts),
    (int, integers),
    (float, numbers),
    (bool, st.booleans()),
    (type(None), st.none()),
    (Name, texts),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    (Point, points),
    (Row, rows),
    (datetime.datetime, st.datetimes()),
    (datetime.date, st.dates()),
    (Annotated[int, "how many"], integers),
]


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def lists(pair: Any) -> Any:
        return list[pair[0]], st.lists(pair[1], max_size=3)  # type: ignore[name-defined]

    def maps(pair: Any) -> Any:
        return dict[str, pair[0]], st.dictionaries(texts, pair[1], max_size=3)  # type: ignore[name-defined]

    def numbered(pair: Any) -> Any:
        return Mapping[int, pair[0]], st.dictionaries(integers, pair[1], max_size=3)  # type: ignore[name-defined]

    def pairs(pair: Any) -> Any:
        return tuple[pair[0], int], st.tuples(pair[1], integers)  # type: ignore[name-defined]

    def perhaps(pair: Any) -> Any:
        return pair[0] | None if pair[0] is not type(None) else (type(None)), pair[1] | st.none()

    return st.one_of(*(inner.map(one) for one in (lists, maps, numbered, pairs, perhaps)))


annotated = st.recursive(st.sampled_from(LEAVES), _wider, max_leaves=4)


def as_json(value: Any) -> Any:
    """A value as an agent would write it: dataclasses without the name of their type."""

    def bare(one: Any) -> Any:
        if isinstance(one, dict):
            return {key: bare(item) for key, item in one.items() if key != "_type"}
        return [bare(item) for item in one] if isinstance(one, list) else one

    return bare(json.loads(state_text({"value": value}))["value"])


@given(st.data())
def test_a_value_written_as_json_fits_its_schema_and_comes_back(data: st.DataObject) -> None:
    annotation, values = data.draw(annotated)
    value = data.draw(values)
    shape = shape_of(annotation)
    Draft202012Validator.check_schema(shape.schema)
    written = as_json(value)
    Draft202012Validator(shape.schema).validate(written)
    back = shape.convert(written)
    assert back == value
    assert as_json(back) == written


jsons = st.recursive(
    st.none() | st.booleans() | integers | numbers | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(annotated, jsons)
def test_what_a_schema_refuses_is_not_converted(pair: Any, value: Any) -> None:
    shape = shape_of(pair[0])
    try:
        converted = shape.convert(value)
    except MismatchError:
        return
    assert Draft202012Validator(shape.schema).is_valid(value), (pair[0], value, converted)


@given(st.lists(st.tuples(st.sampled_from(LEAVES), st.booleans(), st.sampled_from(list(inspect._ParameterKind)[:2])),
                max_size=5))  # fmt: skip
def test_any_signature_of_such_parameters_is_a_schema_that_is_accepted(drawn: Sequence[Any]) -> None:
    positional = [one for one in drawn if one[2] is inspect.Parameter.POSITIONAL_ONLY]
    others = [one for one in drawn if one[2] is not inspect.Parameter.POSITIONAL_ONLY]
    ordered = [(pair, kind, has) for group in ([*positional, *others],) for pair, has, kind in group]
    needed = [one for one in ordered if not one[2]]
    module = types.ModuleType("made_up")

    def method(*args: Any, **kwargs: Any) -> Any: ...

    names = [f"p{number}" for number in range(len(ordered))]
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=pair[0],
                          default=None if has else inspect.Parameter.empty)
        for name, (pair, _, has) in zip(names, ordered, strict=True)
    ]  # fmt: skip
    method.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    method.__annotations__ = {name: pair[0] for name, (pair, _, _) in zip(names, ordered, strict=True)}
    method.__module__ = "made_up"
    module.method = method  # type: ignore[attr-defined]
    (tool,) = tools_of(Entry("made_up", module, module), frozenset(), {})
    assert list(schema_findings(tool.input_schema, ())) == []
    assert list(tool.input_schema["properties"]) == names
    assert len(tool.input_schema.get("required", [])) == len(needed)


@pytest.mark.parametrize("annotation", [bytes, complex, dict[float, int], type, Node, "int | Missing"])
def test_what_cannot_be_described_is_told_with_its_place(annotation: Any) -> None:
    module = types.ModuleType("app")
    sys.modules["app"] = module

    def method(what: Any) -> None: ...

    method.__annotations__ = {"what": annotation}
    method.__module__ = "app"
    module.method = method  # type: ignore[attr-defined]
    try:
        with pytest.raises(CodeError, match=r"test_shapes\.py:\d+: method"):
            list(tools_of(Entry("app", module, module), frozenset(), {}))
    finally:
        del sys.modules["app"]


def test_docstrings_tell_of_tools_and_their_arguments() -> None:
    arguments = "Args:\n    place (str): where\n        to\n    n: how often\n"
    text, told = described(f"Moves it.\n\nSlowly.\n\n{arguments}\nReturns:\n    int: steps\n")
    assert told == {"place": "where to", "n": "how often"}
    assert text == "Moves it.\n\nSlowly.\n\nReturns:\n    int: steps"


BFCL = {
    "name": "go",
    "description": "Goes.",
    "parameters": {
        "type": "dict",
        "properties": {
            "to": {"type": "tuple", "description": "Place.", "items": {"type": "float"}},
            "how": {"type": "dict", "properties": {"fast": {"type": "boolean"}, "any": {"type": "any"}}},
        },
        "required": ["to"],
    },
    "response": {"type": "dict"},
}


@pytest.mark.parametrize("lines", [True, False])
def test_the_dialect_of_function_docs_is_read(lines: bool) -> None:
    other = {"name": "stop"}
    text = f"{json.dumps(BFCL)}\n\n{json.dumps(other)}\n" if lines else json.dumps([BFCL, other])
    found = docs.read("docs.json", text)
    assert list(found) == ["go", "stop"]
    assert found["go"].properties == {
        "to": {"type": "array", "description": "Place.", "items": {"type": "number"}},
        "how": {"type": "object", "properties": {"fast": {"type": "boolean"}, "any": {}}},
    }
    assert found["go"].required == ("to",)


@pytest.mark.parametrize("text", ["{", "[1]", '{"name": 1}', '{"name": "a", "parameters": []}\n{', "[[]]"])
def test_what_are_no_function_docs_is_told(text: str) -> None:
    with pytest.raises(CodeError, match=r"docs\.json"):
        docs.read("docs.json", text)


class Plain:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


@given(jsons)
def test_json_is_kept_as_it_is(value: Any) -> None:
    assert json.loads(state_text({"value": value}))["value"] == value
    assert json.loads(shown(value)) == value if not isinstance(value, str) else shown(value) == value


def test_equal_states_are_equal_bytes() -> None:
    one = {"b": {"x", "y", "z"}, "a": Plain(n=1, m=(1, 2))}
    other = {"a": Plain(m=(1, 2), n=1), "b": {"z", "y", "x"}}
    assert state_text(one) == state_text(other)
    assert state_text(one) == '{"a":{"_type":"Plain","m":[1,2],"n":1},"b":["x","y","z"]}'


def test_values_of_many_kinds_have_a_form() -> None:
    moment = datetime.datetime(2026, 2, 10, tzinfo=datetime.UTC)
    held = {"when": moment, "raw": b"\x00a", "to": float("inf"), "how": Colour.RED, "at": {1: 2, None: 3, (1, 2): 4}}
    assert json.loads(state_text(held)) == {
        "when": "2026-02-10T00:00:00+00:00",
        "raw": {"_bytes": "0061"},
        "to": "Infinity",
        "how": "red",
        "at": {"1": 2, "null": 3, "[1,2]": 4},
    }


def test_an_object_that_refers_to_one_above_it_says_where() -> None:
    parent = Plain(name="root")
    parent.child = Plain(name="leaf", parent=parent)  # type: ignore[attr-defined]
    kept = json.loads(state_text({"tree": parent}))["tree"]
    assert kept["child"] == {"_type": "Plain", "name": "leaf", "parent": {"_ref": "tree"}}


def test_what_cannot_be_kept_is_told_with_its_place() -> None:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    clash = {1: "a", "1": "b"}
    for value, words in [
        (cycle, r"value\[0\]\.again holds itself \(it is value\)"),
        (clash, "value has two keys that are '1'"),
        ([len], r"value\[0\] is a builtin_function_or_method"),
        (iter([]), "value is a list_iterator"),
        ("x" * (2 * 2**20), "over 2097152"),
        (10**5000, "cannot be kept"),
    ]:
        with pytest.raises(CodeError, match=words):
            state_text({"value": value})


def test_results_without_a_form_are_shown_without_addresses() -> None:
    assert shown(lambda: 1).startswith("<function")
    assert "0x" not in shown([object(), lambda: 1])
    assert shown(x * 2 for x in (1, 2)) == "[2,4]"
    assert shown(None) == "null"
    assert shown(float("nan")) == "NaN"
