"""The python kind: code loaded once, its episodes forked from that, its methods called one at a time."""

import builtins
import inspect
import threading
from typing import Any

from inside.capture import Output
from inside.clock import Clock
from inside.seeds import Seeds

from . import docs
from .code import Entry, Files, entries, explained
from .plain import public, shown, stable, state_text
from .problems import CodeError, MismatchError
from .shapes import hints_of, shape_of
from .signatures import Tool, tools_of

MAX_RESULT = 10 * 2**20
"""Bytes of UTF-8 that a result may have."""

Json = dict[str, Any]


class Kind:
    """One environment's code. The process belongs to it: clock, random sources and output are replaced for good."""

    def __init__(self) -> None:
        self._output = Output()
        self._seeds = Seeds()
        self._seed = 0
        self._objects: dict[str, Any] = {}
        self._told: str | None = None

    def load(self, payload: Json, root: str) -> Json:
        """Import the code and describe its tools.

        Args:
            payload: scenario, epoch, environment (the document), files.
            root: the state directory; nothing is left there.

        Returns:
            `tools`, and `threads` that the code started.

        Raises:
            CodeError: it is no environment; the message says why.
        """
        self._document = document = payload["environment"]
        self._output.install()
        self._clock = Clock(payload["epoch"])
        self._clock.start()
        self._seeds.install()
        self._set(0)
        threads = threading.active_count()
        self._files = Files(payload["files"], root)
        self._files.install()
        self._files.lay()
        named = document["entry"]
        self._several = isinstance(named, list)
        self._entries = entries(named if isinstance(named, list) else [named])
        self._errors = tuple(self._error_class(name) for name in document.get("errors", ()))
        self._tools = self._described()
        self._check_names()
        self._files.clear()
        self._output.take()
        return {"tools": [tool.listed for tool in self._tools.values()], "threads": threading.active_count() - threads}

    def warm(self) -> Json:
        """Nothing is exercised: what a class remembers of it could show."""
        return {}

    def begin(self, start: Json) -> None:
        """A new process, which `{"op": "begin"}` makes an episode."""
        self._files.lay()

    def call(self, request: Json) -> Json:
        """`{"op": "begin", "seed", "start"}` first, then `{"op": "tool", "name", "arguments", "index"}`.

        Returns:
            For begin: `state`, or `error`. For a call: status, text or error, log; `state` where it changed, and
            `done` once the environment has ended the episode.
        """
        if request.get("op") == "begin":
            return self._begun(int(request["seed"]), request.get("start") or {})
        if request.get("op") != "tool":
            return _failure("server_error", f"no such operation: {request.get('op')!r}; there are begin and tool")
        self._output.take()
        self._set(int(request["index"]))
        answer = self._called(request["name"], request.get("arguments") or {})
        answer |= self._state_after(request["name"], answer)
        if any(getattr(held, "done", False) is True for held in self._objects.values()):
            answer["done"] = True
        log = self._output.take()
        return answer | {"log": log} if log else answer

    def _begun(self, seed: int, start: Json) -> Json:
        self._seed = seed
        self._set(0)
        self._output.take()
        try:
            for entry in self._entries:
                self._objects[entry.name] = self._made(entry, self._share(entry, start))
            self._told = self._state()
        except CodeError as error:
            return {"error": str(error)[:8192]}
        except BaseException as error:
            return {"error": f"it does not begin: {explained(error)}"[:8192]}
        self._output.take()
        return {"state": self._told}

    def _share(self, entry: Entry, start: Json) -> Json:
        """What of a start map, or of `construct`, is an entry's: all, or what stands under its name."""
        if not self._several:
            return start
        if strange := [name for name in start if name not in {one.name for one in self._entries}]:
            raise CodeError(
                f"start: {strange[0]!r} is no entry; there are {', '.join(one.name for one in self._entries)}"
            )
        found = start.get(entry.name) or {}
        if not isinstance(found, dict):
            raise CodeError(f"start: {entry.name} is no map of attributes")
        return found

    def _made(self, entry: Entry, start: Json) -> Any:
        load = self._document.get("load")
        if not entry.is_class:
            made: Any = entry.made_of
            arguments: Json = {}
        else:
            assert isinstance(entry.made_of, type)
            hints = _constructor_hints(entry.made_of)
            arguments = dict(self._share(entry, self._document.get("construct") or {}))
            if load is None:
                arguments |= {name: value for name, value in start.items() if name in hints}
            made = entry.made_of(
                **{name: _converted(name, value, hints.get(name)) for name, value in arguments.items()}
            )
        if load is None:
            _set_attributes(entry, made, {name: value for name, value in start.items() if name not in arguments})
        elif callable(getattr(made, load, None)):
            getattr(made, load)(start)
        elif start or not self._several:
            raise CodeError(f"load: {entry.name} has no method {load!r}; correct the name")
        return made

    def _called(self, name: str, arguments: Json) -> Json:
        tool = self._tools.get(name)
        if tool is None:
            return _failure("tool_not_found", f"no tool is called {name[:200]!r}; list the tools to see which are")
        try:
            converted = tool.arguments(arguments)
        except MismatchError as error:
            return _failure("invalid_args", f"arguments of {name} were refused: {error}")
        try:
            text = shown(tool.call(self._objects[tool.entry], converted))
        except self._errors as error:
            return _failure("tool_error", stable(str(error)) or type(error).__name__)
        except BaseException as error:
            self._output.write(stable(explained(error)) + "\n")
            return _failure("server_error", f"{name} failed inside the environment ({type(error).__name__})")
        data = text.encode("utf-8", "replace")  # half a surrogate pair cannot leave as UTF-8
        if len(data) > MAX_RESULT:
            told = f"the result of {name} has {len(data)} bytes, over the limit of {MAX_RESULT} (10 MiB); ask for less"
            return _failure("tool_error", told)
        return {"status": "ok", "text": text if text.isascii() else data.decode()}

    def _state_after(self, name: str, answer: Json) -> Json:
        try:
            state = self._state()
        except CodeError as error:
            return _failure("server_error", f"the state after {name} cannot be kept: {error}") | {"text": None}
        if state == self._told:
            return {}
        self._told = state
        return {"state": state}

    def _state(self) -> str:
        held = {entry.name: self._kept(entry) for entry in self._entries}
        return state_text(held if self._several else next(iter(held.values())))

    def _kept(self, entry: Entry) -> Json:
        """The declared attributes of an entry, by name."""
        thing, names = self._objects[entry.name], self._document.get("state")
        if isinstance(names, dict):
            names = names.get(entry.name)
        if names is None:
            return public(thing) if entry.is_class else {}
        if missing := [one for one in names if not hasattr(thing, one)]:
            raise CodeError(f"state: {entry.name} has no attribute {missing[0]!r}; correct the name")
        return {one: getattr(thing, one) for one in names}

    def _described(self) -> dict[str, Tool]:
        files = self._document.get("docs") or []
        known: dict[str, docs.Doc] = {}
        for file in files if isinstance(files, list) else [files]:
            known |= docs.read(file, self._files.text(file))
        load = self._document.get("load")
        exclude = frozenset(self._document.get("exclude", ())) | ({load} if load else set())
        tools: dict[str, Tool] = {}
        for entry in self._entries:
            for tool in tools_of(entry, exclude, known):
                if tool.name in tools:
                    other = tools[tool.name].entry
                    raise CodeError(f"entry: {other} and {entry.name} both have {tool.name}; exclude it, or rename one")
                tools[tool.name] = tool
        if strange := [name for name in known if name not in tools and name not in exclude]:
            raise CodeError(f"{known[strange[0]].file}: {strange[0]} is described, but is no public method; correct it")
        return tools

    def _check_names(self) -> None:
        for name in self._document.get("exclude", ()):
            if not any(hasattr(entry.made_of, name) for entry in self._entries):
                raise CodeError(f"exclude: there is no method {name!r}; correct the name")

    def _error_class(self, name: str) -> type[BaseException]:
        places = [vars(entry.module) for entry in self._entries] + [vars(builtins)]
        found = next((place[name] for place in places if name in place), None)
        if not isinstance(found, type) or not issubclass(found, BaseException):
            raise CodeError(f"errors: no exception class {name!r} in the entries' modules or among Python's own")
        return found

    def _set(self, index: int) -> None:
        self._clock.move(index)
        self._seeds.begin(self._seed, index)


def _constructor_hints(made_of: type) -> Json:
    """The annotations of the constructor's parameters; None for one that has none."""
    try:
        names = [name for name, one in inspect.signature(made_of).parameters.items() if one.kind.name != "VAR_KEYWORD"]
    except (TypeError, ValueError):
        return {}
    hints = hints_of(made_of.__init__, made_of.__name__)
    return {name: hints.get(name) for name in names}


def _set_attributes(entry: Entry, made: Any, start: Json) -> None:
    hints = hints_of(entry.made_of, entry.name)
    for name, value in start.items():
        if name.startswith("_") or (not hasattr(made, name) and name not in hints):
            there = ", ".join(sorted(public(made))) if entry.is_class else ""
            raise CodeError(
                f"start: {entry.name} has no attribute {name!r}; there are {there or 'those of the module'}"
            )
        setattr(made, name, _converted(name, value, hints.get(name)))


def _converted(name: str, value: Any, hint: Any) -> Any:
    """A value of `construct` or of a start as an annotation asks for; as it is where none can be described."""
    if hint is None:
        return value
    try:
        return shape_of(hint).convert(value)
    except MismatchError as error:
        raise CodeError(f"{name}: {error}") from None
    except CodeError:
        return value


def _failure(status: str, error: str) -> Json:
    return {"status": status, "error": error.encode("utf-8", "replace").decode()}
