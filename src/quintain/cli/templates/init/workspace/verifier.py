"""Verifiers. Each names what it wants: the trees before and after, the answer, the trace, what was drawn.

They run in a sandbox of their own, with the standard library and nothing else.
"""

import configparser
from pathlib import Path


def content(folder):
    """Every file of a tree, by its path."""
    root = Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def verify_hours(initial_dir, final_dir, variables):
    """The hours are set, and no other file has changed."""
    before, after = content(initial_dir), content(final_dir)
    parser = configparser.ConfigParser()
    parser.read_string(after.pop("library.cfg", b"").decode())
    before.pop("library.cfg")
    hours = {"desk": {"opens": str(variables["hour"]), "closes": str(variables["closes"])}}
    told = {name: dict(parser[name]) for name in parser.sections()}
    return {"result": "complete" if told == hours and before == after else "incomplete"}
