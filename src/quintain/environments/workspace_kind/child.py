"""Code of the tree, in a process of its own: `python -s -P child.py TOLD`, in the tree's folder.

On standard input is what to do (see `outside`), as JSON; to the descriptor TOLD goes what it came to.
"""

import importlib
import json
import operator
import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, ExtensionFileLoader, FileFinder, SourceFileLoader
from types import CodeType

COMPILED = "/tmp/pycache"
"""Where programs of the tree look for what Python compiled: where there is nothing. `only_sources` costs less, since
what the standard library was compiled to is still found."""


class _Source(SourceFileLoader):
    """A module as its source says, whatever was compiled beside it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), path)
        return code


def only_sources() -> None:
    """From now on, import from sources alone what lies in any folder but the standard library's and installed ones."""
    find = FileFinder.path_hook((ExtensionFileLoader, EXTENSION_SUFFIXES), (_Source, SOURCE_SUFFIXES))
    ours = tuple(os.path.join(os.path.realpath(one), "") for one in (os.path.dirname(os.__file__), sys.prefix))

    def found(path: str) -> object:
        if os.path.join(os.path.realpath(path), "").startswith(ours):
            raise ImportError
        return find(path)

    sys.path_hooks.insert(0, found)
    sys.path_importer_cache.clear()


def main() -> None:
    """Do it."""
    told, given = int(sys.argv[1]), json.load(sys.stdin)
    only_sources()
    os.environ["PYTHONPYCACHEPREFIX"] = COMPILED
    sys.path.append(os.getcwd())
    try:
        if given["code"] is not None:
            names = dict(given["named"])
            exec(compile(given["code"], "<test>", "exec"), names)
            value = names.get("result")
        else:
            module, _, name = given["where"].partition(":")
            value = operator.attrgetter(name)(importlib.import_module(module))(*given["args"], **given["named"])
        text = json.dumps({"value": value})
    except BaseException as error:
        text = json.dumps({"error": type(error).__name__, "message": str(error)})
    with open(told, "w", closefd=False) as file:
        file.write(text)


if __name__ == "__main__":
    main()
