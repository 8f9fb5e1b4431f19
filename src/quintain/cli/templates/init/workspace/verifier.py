"""Verifiers. Each names what it wants: the trees before and after, the answer, the trace, what was drawn.

They run in a sandbox of their own, with the standard library and nothing else.
"""

import configparser
from pathlib import Path


def content(folder):
    """Every file of a tree, by its path; links are none, and what cannot be read is None."""
    found, left = {}, [Path(folder)]
    while left:
        inside = left.pop()
        try:
            for path in inside.iterdir():
                if path.is_dir() and not path.is_symlink():
                    left.append(path)
                else:
                    found[str(path.relative_to(folder))] = read(path)
        except OSError:
            found[str(inside.relative_to(folder))] = None
    return found


def read(path):
    """What is in a regular file."""
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else None
    except OSError:
        return None


def settings(text):
    """What is set, by section; None where it is no configuration. An agent can have written anything."""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text.decode())
    except (ValueError, configparser.Error):
        return None
    return {name: dict(parser[name]) for name in parser.sections()}


def verify_hours(initial_dir, final_dir, variables):
    """The hours are set, and no other file has changed."""
    before, after = content(initial_dir), content(final_dir)
    told = settings(after.pop("library.cfg", None) or b"")
    before.pop("library.cfg")
    hours = {"desk": {"opens": str(variables["hour"]), "closes": str(variables["closes"])}}
    return {"result": "complete" if told == hours and before == after else "incomplete"}
