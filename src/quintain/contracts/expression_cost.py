"""What an expression may cost at most on what it is given, found without evaluating it.

The library that evaluates expressions cannot be stopped once it has begun, so what would take too long is not begun.
The bound is worked out over the tree: for each part, how large its value can be (`Shape`), and how long it takes to
make it of values so large, as often as the macros around it go round. The unit of work is a quarter of a nanosecond,
and the prices are what the library was measured to take, rounded up. Values are weighed by what a copy of them takes:
lists and maps are copied as a whole when they are picked out of others, put together, or gone through by `map` and
`filter`, which copy what they have so far with each element.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from quintain.contracts.expression_patterns import MAX_PATTERN, pattern_bounds_problem, pattern_work
from quintain.contracts.expression_syntax import ADDING, Node, Syntax
from quintain.contracts.expression_values import KEY, LIST, MAP, MAX_DEPTH, NUMBER, TEXT, Sizes

MAX_WORK: Final = 200_000_000
"""Most work of one evaluation: about 50 ms."""

Shape = tuple[tuple[int, int], ...]
"""Upper bounds of a value, level by level: of the value, then of whatever is in it, and so on, the greatest weight, and
the greatest number of elements (of a text: of characters)."""

_SCALAR: Final[Shape] = ((TEXT + 64, 0),)  # a number, or a short text that a function makes of one
_NODE: Final = 600
_ROUND: Final = 2_000
_CALLBACK: Final = 12_000
_GIVEN: Final = 14
_MEASURED: Final = 4
_ARGUMENT: Final = 8
_RETURNED: Final = 24
_RESULT: Final = 12
_LARGE: Final = 1_000_000
_CHEAP: Final = frozenset("size has string int double bool startsWith endsWith".split())
_ELEMENT: Final = frozenset("first last min max greatest least".split())
_SAME: Final = frozenset("sort distinct slice reverse trim charAt substring lowerAscii upperAscii keys".split())
_NATIVE: Final = frozenset("size has string bytes int uint double dyn type contains startsWith endsWith".split())


class _TooMuch(Exception):
    pass


class Known:
    """A value that is at hand, measured where it is asked for."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


Value = Shape | Known


def is_plain(syntax: Syntax) -> bool:
    """Whether its cost is bounded by its length and the weight of what it is given, as `plain_work` has it."""
    return syntax.degree == 0 and syntax.functions <= _CHEAP


def plain_work(syntax: Syntax, sizes: Sizes) -> int:
    """A bound of the work of a plain expression: each part makes at most a value of all others together, and that of
    what was given and stands in it."""
    largest = (syntax.parts + 1) * (sizes.weight + MAP + KEY + 2_000)
    return (_GIVEN + _RESULT) * sizes.weight + syntax.parts * (_NODE + 8 * largest)


def usual_work(syntax: Syntax, sizes: Sizes) -> int:
    """What a plain expression takes that does not copy the most it could."""
    return (_GIVEN + _RESULT) * sizes.weight + 4 * _NODE * syntax.parts


def work(syntax: Syntax, given: Mapping[str, Any], sizes: Sizes) -> int:
    """A bound of the work of evaluating an expression.

    Args:
        given: its variables.
        sizes: of all of them together.

    Returns:
        The bound; some number over MAX_WORK where that is over it.

    Raises:
        ValueError: a pattern in it is too large.
    """
    base = _GIVEN * sizes.weight
    if sizes.weight > _LARGE:  # measuring it takes longer than a look at the whole, which may do
        any_part: Shape = ((sizes.weight, max(sizes.longest, sizes.characters)),) * (MAX_DEPTH + 2)
        roughly = _worked(syntax, dict.fromkeys(given, any_part), base)
        if roughly <= MAX_WORK:
            return roughly
    known: dict[str, Value] = {name: Known(value) for name, value in given.items()}
    return _worked(syntax, known, base + _MEASURED * sizes.weight)


def _worked(syntax: Syntax, names: Mapping[str, Value], base: int) -> int:
    bound = _Bound()
    try:
        bound.spend(base)
        found = bound.shape(bound.of(syntax.root, names))
        bound.spend(_RESULT * found[0][0])
    except _TooMuch:
        return max(bound.work, MAX_WORK + 1)
    return bound.work


class _Bound:
    """One working out: `work` so far; `times` is how often the part at hand is evaluated."""

    def __init__(self) -> None:
        self.work = 0
        self.times = 1
        self._measured: dict[int, Shape] = {}

    def spend(self, each: int) -> None:
        self.work += self.times * each
        if self.work > MAX_WORK:
            raise _TooMuch

    def shape(self, value: Value) -> Shape:
        if not isinstance(value, Known):
            return value
        key = id(value.value)
        if key not in self._measured:
            self._measured[key] = _measured(value.value)
        return self._measured[key]

    def of(self, node: Node, names: Mapping[str, Value]) -> Value:
        """A bound of a part's value; the work of making it is spent."""
        self.spend(_NODE)
        match node.kind:
            case "literal":
                return Known(node.text) if node.size == 0 else ((TEXT + len(node.text), len(node.text)),)
            case "number":
                return _SCALAR
            case "name":
                return names.get(node.text, _SCALAR)
            case "steps":
                return self._steps(node, names)
            case "list" | "map":
                parts = [self.shape(self.of(one, names)) for one in node.parts]
                made = _holding(node.kind, parts)
                self.spend(made[0][0])
                return made
            case "choice":
                parts = [self.shape(self.of(one, names)) for one in node.parts]
                return _either(parts[1::2] + parts[-1:])
            case "level":
                return self._level(node, [self.shape(self.of(one, names)) for one in node.parts])
            case _:
                return self._called(node, [self.of(one, names) for one in node.parts])

    def _level(self, node: Node, parts: list[Shape]) -> Shape:
        whole = sum(one[0][0] for one in parts)
        if node.size != ADDING:
            self.spend(whole // 8)
            return _SCALAR
        made = _either(parts)
        self.spend(2 * len(parts) * whole)
        return ((whole, sum(one[0][1] for one in parts)), *made[1:])

    def _steps(self, node: Node, names: Mapping[str, Value]) -> Value:
        begun, *steps = node.parts
        value = self.of(begun, names)
        for step in steps:
            self.spend(_NODE)
            match step.kind:
                case "select":
                    value = self._picked(value, step.text)
                case "index":
                    (asked,) = step.parts
                    key = _key(asked)
                    if key is None:
                        self.of(asked, names)
                    value = self._picked(value, key)
                case "macro":
                    value = self._macro(step, self.shape(value), names)
                case _:
                    value = self._called(step, [value, *(self.of(one, names) for one in step.parts)])
        return value

    def _picked(self, value: Value, key: str | int | None) -> Value:
        """What is picked out of a list or map: itself where that can be told, or a bound of any part of it."""
        picked: Value | None = None
        if isinstance(value, Known):
            within = value.value
            if isinstance(key, str) and isinstance(within, Mapping):
                picked = Known(within[key]) if key in within else _SCALAR
            elif isinstance(key, int) and isinstance(within, list | tuple):
                picked = Known(within[key]) if key < len(within) else _SCALAR
        if picked is None:
            picked = _within(self.shape(value))
        self.spend(2 * self.shape(picked)[0][0])
        return picked

    def _macro(self, step: Node, through: Shape, names: Mapping[str, Value]) -> Shape:
        weight, rounds = through[0]
        element = _within(through)
        self.spend(_CALLBACK + (_ARGUMENT + _RETURNED) * weight)
        times, self.times = self.times, self.times * rounds
        inner = {**names, step.parts[0].text: element}
        self.spend(_ROUND + 2 * element[0][0])
        parts = [self.shape(self.of(one, inner)) for one in step.parts[1:]]
        self.times = times
        if step.text not in {"map", "filter"}:
            return _SCALAR
        made = _many(rounds, parts[-1] if step.text == "map" else element)
        self.spend(rounds * made[0][0])
        return made

    def _called(self, node: Node, given: list[Value]) -> Shape:
        name, parts = node.text, [self.shape(one) for one in given]
        first = parts[0] if parts else _SCALAR
        whole = sum(one[0][0] for one in parts)
        if name == "matches":
            self._matches(first, given[1:2])
            return _SCALAR
        if name in _NATIVE:
            self.spend(first[0][1] if name == "size" else 8 * whole)
            return _either([*parts, _SCALAR]) if name in {"dyn", "string", "bytes"} else _SCALAR
        made = self._made(name, parts, first)
        self.spend(_CALLBACK + _ARGUMENT * whole + _RETURNED * made[0][0])
        return made

    def _made(self, name: str, parts: list[Shape], first: Shape) -> Shape:
        """What a function of the library's Python makes; and the work of it that is not of handing values over."""
        (weight, many), second = first[0], (parts[1] if len(parts) > 1 else _SCALAR)
        if name in _SAME:
            if name == "distinct":
                self.spend(many * weight // 4)
            elif name in {"lowerAscii", "upperAscii"}:
                self.spend(500 * many)
            else:
                self.spend(weight * (many + 2).bit_length())
            return first
        if name in _ELEMENT:
            return _either([*parts, *map(_within, parts)])
        if name == "join":
            return ((weight + many * (second[0][1] + 1), weight + many * second[0][1]),)
        if name in {"split", "indexOf", "lastIndexOf"}:
            naive, either = 4 * many * second[0][1], 32 * (many + second[0][1])
            self.spend(naive if name == "lastIndexOf" else min(naive, 16_000_000 + either))
            return ((LIST + TEXT * (many + 1) + many, many + 1), (TEXT + many, many)) if name == "split" else _SCALAR
        return _either([*parts, _SCALAR])

    def _matches(self, text: Shape, pattern: list[Value]) -> None:
        """A pattern is compiled anew each time; see `pattern_work`."""
        known = pattern[0].value if pattern and isinstance(pattern[0], Known) else None
        if isinstance(known, str):
            if problem := pattern_bounds_problem(known):
                raise ValueError(problem)
            self.spend(_CALLBACK + pattern_work(known, text[0][1]))
        elif pattern and (long := self.shape(pattern[0])[0][1]):
            if long > MAX_PATTERN:
                raise ValueError(f"the pattern may have {long} characters, over {MAX_PATTERN}; shorten it")
            self.spend(pattern_work(None, text[0][1]))


def _key(node: Node) -> str | int | None:
    """The key that is written out as an index, where it can be told."""
    if node.kind == "number":
        return int(node.text) if node.text.isascii() and node.text.isdigit() else None
    return node.text if node.kind == "literal" and node.size == 0 else None


def _measured(value: Any) -> Shape:
    """The shape of a JSON value."""
    levels: list[list[int]] = []
    _measure(value, 0, levels)
    return tuple((weight, many) for weight, many in levels)


def _measure(value: Any, depth: int, levels: list[list[int]]) -> int:
    """The weight of a value; `levels` are brought up to what is in it."""
    while len(levels) <= depth + 1:
        levels.append([0, 0])
    weight, many = NUMBER, 0
    if isinstance(value, str):
        many = len(value)
        weight = TEXT + many
    elif isinstance(value, list | tuple):
        many = len(value)
        weight = LIST + _measure_all(value, depth + 1, levels)
    elif isinstance(value, dict | Mapping):
        many = len(value)
        longest = max(map(len, value), default=0)
        levels[depth + 1] = [max(levels[depth + 1][0], KEY + longest), max(levels[depth + 1][1], longest)]
        weight = MAP + KEY * many + sum(map(len, value)) + _measure_all(value.values(), depth + 1, levels)
    levels[depth] = [max(levels[depth][0], weight), max(levels[depth][1], many)]
    return weight


def _measure_all(values: Collection[Any], depth: int, levels: list[list[int]]) -> int:
    whole, longest, numbers = 0, -1, 0
    for one in values:
        if type(one) is str:
            whole += len(one) + TEXT
            longest = max(longest, len(one))
        elif isinstance(one, int | float) or one is None:
            numbers += 1
        else:
            whole += _measure(one, depth, levels)
    if longest >= 0:
        levels[depth] = [max(levels[depth][0], TEXT + longest), max(levels[depth][1], longest)]
    if numbers:
        levels[depth][0] = max(levels[depth][0], NUMBER)
    return whole + NUMBER * numbers


def _within(shape: Shape) -> Shape:
    return shape[1:] or _SCALAR


def _either(shapes: list[Shape]) -> Shape:
    """What bounds each of these."""
    return tuple(_levels(shapes)) or _SCALAR


def _levels(shapes: list[Shape]) -> Iterator[tuple[int, int]]:
    for depth in range(max(map(len, shapes), default=0)):
        there = [one[depth] for one in shapes if depth < len(one)]
        yield max(weight for weight, _ in there), max(many for _, many in there)


def _holding(kind: str, parts: list[Shape]) -> Shape:
    """A list of these, or a map of them, keys and values in turn."""
    own, whole = (MAP, KEY * len(parts)) if kind == "map" else (LIST, 0)
    return ((own + whole + sum(one[0][0] for one in parts), len(parts)), *_either(parts))


def _many(many: int, part: Shape) -> Shape:
    """A list of so many, each at most of that shape."""
    return ((LIST + many * part[0][0], many), *part)
