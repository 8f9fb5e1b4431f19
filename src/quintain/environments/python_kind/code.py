"""A pack's files as modules, imported from memory, and the classes and modules among them that are entries."""

import base64
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import shutil
import sys
import traceback
import types
from collections.abc import Sequence
from typing import Any

from .problems import CodeError

_FOLDER = "files"
_TAIL = 12


class Files:
    """The files of a payload: Python files are modules, the others lie in the working directory."""

    def __init__(self, files: dict[str, Any], root: str) -> None:
        self._sources = {name: text for name, text in files.items() if name.endswith(".py") and isinstance(text, str)}
        self._data = {name: content for name, content in files.items() if name not in self._sources}
        self._root = os.path.abspath(root)

    def install(self) -> None:
        """Let the modules be imported, before any other of the same name."""
        sys.meta_path.insert(0, _Finder(self._sources))
        for name, text in self._sources.items():
            linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)

    def lay(self) -> None:
        """Put the data files into the working directory, as they were."""
        folder = os.path.join(self._root, _FOLDER) if self._data else self._root
        for name, content in self._data.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data = content.encode() if isinstance(content, str) else base64.b64decode(content["base64"])
            with open(path, "wb") as file:
                file.write(data)
        os.chdir(folder)

    def clear(self) -> None:
        """Leave nothing behind in the directory."""
        os.chdir(self._root)
        shutil.rmtree(os.path.join(self._root, _FOLDER), ignore_errors=True)

    def text(self, name: str) -> str:
        """A data file's text.

        Raises:
            CodeError: there is none of that name.
        """
        content = self._data.get(name)
        if not isinstance(content, str):
            raise CodeError(f"docs: no text file {name!r}; name one of {', '.join(sorted(self._data)) or 'none'}")
        return content


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, sources: dict[str, str]) -> None:
        self._sources = sources
        self._folders = {name.rpartition("/")[0] for name in sources}

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        place = fullname.replace(".", "/")
        for name, package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
            if name in self._sources:
                spec = importlib.machinery.ModuleSpec(fullname, self, origin=name, is_package=package)
                spec.has_location = True
                return spec
        if any(folder == place or folder.startswith(f"{place}/") for folder in self._folders):
            return importlib.machinery.ModuleSpec(fullname, None, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        assert module.__spec__ is not None
        name = module.__spec__.origin or ""
        exec(compile(self._sources[name], name, "exec", dont_inherit=True), module.__dict__)


class Entry:
    """One class or module whose methods or functions are tools."""

    def __init__(self, name: str, module: types.ModuleType, made_of: type | types.ModuleType) -> None:
        self.name = name
        self.module = module
        self.made_of = made_of

    @property
    def is_class(self) -> bool:
        """Whether it is a class, of which each episode makes an object."""
        return isinstance(self.made_of, type)


def entries(named: Sequence[str]) -> list[Entry]:
    """The entries of a document, imported: `module` or `module:Class`.

    Raises:
        CodeError: one is not there, or its module does not load.
    """
    found = [_entry(one) for one in named]
    names = [one.name for one in found]
    for name in names:
        if names.count(name) > 1:
            raise CodeError(f"entry: two entries are called {name!r}; rename one class")
    return found


def _entry(named: str) -> Entry:
    module_name, _, class_name = named.partition(":")
    module = imported(module_name, "entry")
    if not class_name:
        return Entry(module_name.rpartition(".")[2], module, module)
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise CodeError(f"entry: {module_name}.py has no class {class_name!r}; correct the name")
    return Entry(class_name, module, found)


def imported(name: str, field: str) -> types.ModuleType:
    """A module of the pack.

    Raises:
        CodeError: it is not there, or fails; the message has the last lines of its traceback.
    """
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name == name:
            raise CodeError(f"{field}: no module {name!r} among the files; add {name}.py") from None
        raise CodeError(f"{field}: {name} does not load: {explained(error)}") from None
    except BaseException as error:
        raise CodeError(f"{field}: {name} does not load: {explained(error)}") from None
    if not isinstance(module.__spec__ and module.__spec__.loader, _Finder):
        raise CodeError(f"{field}: {name!r} is a module of Python's own, or a folder; name a module of the pack")
    return module


def explained(error: BaseException) -> str:
    """The end of an exception's traceback, without the frames that are not the pack's."""
    try:
        frames = [one for one in traceback.extract_tb(error.__traceback__) if not os.path.isabs(one.filename)]
        frames = [one for one in frames if not one.filename.startswith("<frozen")]
        lines = traceback.format_list(frames) + traceback.format_exception_only(error)
        return "\n" + "".join(lines[-_TAIL:]).rstrip()
    except Exception:  # a message that cannot be made
        return type(error).__name__
