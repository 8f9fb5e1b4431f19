"""YAML documents of a pack, read with the line of everything in them, so that each problem can be told with its place.

Plain scalars are read as YAML 1.2's core schema has them: `no`, `on` and `2026-02-10` are texts; `true`, `12`, `0o17`,
`1.5` and `null` are what they look like. Anchors and aliases are allowed; tags, keys that are no text, and keys that
stand twice are problems.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

Path = tuple[str | int, ...]
"""A place in a document: keys and indices from its root."""

MAX_BYTES: Final = 2 * 2**20
"""Largest YAML file."""

MAX_NODES: Final = 200_000
"""Most values in a document, each alias counted with all that it stands for."""

MAX_NESTING: Final = 40
"""Deepest nesting of lists and maps."""

_NULL: Final = re.compile(r"null|Null|NULL|~|")
_BOOL: Final = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT: Final = re.compile(r"[-+]?[0-9]+")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEX: Final = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NO_NUMBER: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_STR_TAG: Final = "tag:yaml.org,2002:str"
_MAX_INT: Final = 2**53 - 1


@dataclass(frozen=True)
class PackProblem:
    """One thing wrong with a pack: a file, the line (from 1), the field, and what is wrong and what to do."""

    file: str
    line: int | None
    field: str
    detail: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.field}: {self.detail}" if self.field else f"{where}: {self.detail}"


@dataclass(frozen=True)
class Document:
    """A YAML document: its value of JSON types, the line of every place in it, and what is wrong with its form."""

    file: str
    value: Any
    lines: dict[Path, int]
    problems: Sequence[PackProblem]

    def problem(self, path: Path, detail: str) -> PackProblem:
        """A problem at a place, or at the nearest one around it that the document has."""
        at = path
        while at and at not in self.lines:
            at = at[:-1]
        return PackProblem(self.file, self.lines.get(at, 1), field_name(path), detail)


def field_name(path: Path) -> str:
    """A place as people write it: `[2].variables.n`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def read_document(data: bytes, file: str) -> Document:
    """The one document in a file. It never raises: what is wrong stands among its problems."""
    reading = _Reading(file)
    if len(data) > MAX_BYTES:
        detail = f"{len(data)} bytes, over {MAX_BYTES}; split it over several environments"
        return Document(file, None, {}, (PackProblem(file, None, "", detail),))
    value = None
    try:
        value = reading.document(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        reading.problems.append(PackProblem(file, None, "", f"not UTF-8 at byte {error.start}; save it as UTF-8"))
    except _TooMuch as error:
        reading.problems.append(PackProblem(file, error.line, "", str(error)))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        words = " ".join(filter(None, (error.problem, error.context)))
        reading.problems.append(PackProblem(file, line, "", f"not YAML: {words}; correct it"))
    except yaml.YAMLError as error:
        reading.problems.append(PackProblem(file, None, "", f"not YAML: {' '.join(str(error).split())[:200]}"))
    return Document(file, value, reading.lines, tuple(reading.problems))


class _TooMuch(Exception):
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


@dataclass
class _Anchored:
    value: Any
    nodes: int


@dataclass
class _Reading:
    """One pass over a document's events."""

    file: str
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[PackProblem] = field(default_factory=list)
    nodes: int = 0
    anchors: dict[str, _Anchored | None] = field(default_factory=dict)

    def document(self, text: str) -> Any:
        events: Iterator[yaml.Event] = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        value, documents = None, 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
            elif isinstance(event, yaml.NodeEvent):
                if documents > 1:
                    raise _TooMuch(_line(event), "a second document; keep one in a file")
                value = self._value(event, events, ())
        return value

    def _value(self, event: Any, events: Iterator[yaml.Event], path: Path) -> Any:
        line = _line(event)
        self.lines[path] = line
        self._count(1, line)
        if len(path) > MAX_NESTING:
            raise _TooMuch(line, f"lists and maps nest deeper than {MAX_NESTING}")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        anchor, before = event.anchor, self.nodes
        if anchor is not None:
            self.anchors[anchor] = None  # not yet whole: an alias inside would have no end
        if event.tag is not None and event.tag not in (_STR_TAG, "!"):
            self._wrong(path, line, f"has the tag {event.tag}; write it without")
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._sequence(events, path)
        else:
            value = self._mapping(events, path)
        if anchor is not None:
            self.anchors[anchor] = _Anchored(value, self.nodes - before + 1)
        return value

    def _sequence(self, events: Iterator[yaml.Event], path: Path) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := next(events), yaml.SequenceEndEvent):
            items.append(self._value(event, events, (*path, len(items))))
        return items

    def _mapping(self, events: Iterator[yaml.Event], path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._value(event, events, (*path, ""))
            line = _line(event)
            if not isinstance(key, str):
                shown = key if isinstance(key, int | float | bool) else "a key that is no text"
                self._wrong(path, line, f"key {shown} is no text; write it in quotes")
                key = str(key)
            elif key in found:
                self._wrong((*path, key), line, "stands twice; take one away")
            value = self._value(next(events), events, (*path, key))
            self.lines[(*path, key)] = line
            found[key] = value
        self.lines.pop((*path, ""), None)
        return found

    def _alias(self, event: yaml.AliasEvent, path: Path) -> Any:
        line = _line(event)
        anchored = self.anchors.get(event.anchor or "")
        if anchored is None:
            self._wrong(path, line, f"*{event.anchor} names no anchor before it; define &{event.anchor} first")
            return None
        self._count(anchored.nodes, line)
        return anchored.value

    def _scalar(self, event: yaml.ScalarEvent, path: Path) -> Any:
        text: str = event.value
        if event.tag == _STR_TAG or event.style not in (None, ""):
            return text
        if _NULL.fullmatch(text):
            return None
        if found := _BOOL.fullmatch(text):
            return found[1] is not None
        if _NO_NUMBER.fullmatch(text):
            self._wrong(path, _line(event), f"{text} is no number that JSON has; write another, or quote it")
            return None
        number = _number(text)
        if isinstance(number, int) and abs(number) > _MAX_INT:
            self._wrong(path, _line(event), f"{text[:40]} is over 2^53; write it in quotes")
        return text if number is None else number

    def _count(self, nodes: int, line: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise _TooMuch(line, f"over {MAX_NODES} values, aliases counted in full; use fewer")

    def _wrong(self, path: Path, line: int, detail: str) -> None:
        self.problems.append(PackProblem(self.file, line, field_name(path), detail))


def _number(text: str) -> int | float | None:
    if _INT.fullmatch(text):
        return int(text) if len(text) < 40 else _MAX_INT + 1
    if _OCTAL.fullmatch(text):
        return int(text[2:], 8)
    if _HEX.fullmatch(text):
        return int(text[2:], 16)
    return float(text) if _FLOAT.fullmatch(text) and abs(float(text)) < float("inf") else None


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
