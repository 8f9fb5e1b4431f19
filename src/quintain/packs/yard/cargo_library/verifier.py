"""What must be true of the tree beside what the hidden tests say."""

import ast
from pathlib import Path

UNREADABLE = (ValueError, SyntaxError, RecursionError, MemoryError)


def verdict(right):
    return {"result": "complete" if right else "others"}


def content(file):
    """The bytes of a regular file; None for a link, for anything else, and for what cannot be read."""
    try:
        return file.read_bytes() if file.is_file() and not file.is_symlink() else None
    except OSError:
        return None


def files(folder):
    """All that lies in a folder but folders and caches, by its path."""
    found, left = {}, [Path(folder)]
    while left:
        inside = left.pop()
        try:
            for one in inside.iterdir():
                if one.is_dir() and not one.is_symlink():
                    left += [one] if one.name != "__pycache__" else []
                else:
                    found[str(one.relative_to(folder))] = content(one)
        except OSError:
            found[str(inside.relative_to(folder))] = None
    return found


def same(initial_dir, final_dir, names):
    """Whether files, and what is in folders, are byte for byte as they were; new files in tests/ do no harm."""
    last = files(final_dir)
    wanted = [(path, one) for path, one in files(initial_dir).items() if path.startswith(tuple(names))]
    return all(last.get(path) == one for path, one in wanted)


def verify_kept(initial_dir, final_dir, tests):
    """The hidden tests pass; the tests and the check that were there are as they were."""
    return verdict(tests["complete"] and same(initial_dir, final_dir, ["tests/", "check.sh"]))


def verify_renamed(initial_dir, final_dir, tests, variables):
    """The hidden tests pass, the old name is gone, and the tests that were there differ in the name alone."""
    first, last = files(initial_dir), files(final_dir)
    new = variables["name"].encode()
    named = [one for path, one in last.items() if path.startswith(("cargo/", "tests/")) and path.endswith(".py")]
    gone = all(one is not None and b"bill_total" not in one for one in named)
    own = [(path, one) for path, one in first.items() if path.startswith("tests/")]
    still = all(last.get(path) == one.replace(b"bill_total", new) for path, one in own)
    return verdict(tests["complete"] and gone and still and same(initial_dir, final_dir, ["check.sh"]))


WAYS = ("by_road", "by_rail", "by_boat")
OWN_WORK = (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda, ast.NamedExpr, ast.comprehension)


def called(function):
    """The names of what a function calls, if it is one return of a call and reckons nothing itself; else None."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    if len(body) != 1 or not isinstance(body[0], ast.Return) or not isinstance(body[0].value, ast.Call):
        return None
    inside = list(ast.walk(body[0]))
    if any(isinstance(one, OWN_WORK) for one in inside):
        return None
    targets = [one.func for one in inside if isinstance(one, ast.Call)]
    plain = all(isinstance(one, ast.Name | ast.Attribute) for one in targets)
    return sorted(one.id if isinstance(one, ast.Name) else one.attr for one in targets) if plain else None


def said_once(first, last):
    """Whether the three ways call the same, and what was said three times is said once in what is new.

    Args:
        first: the source of cargo/ways.py as it was.
        last: the sources of the library now that are not as they were, cargo/ways.py first.
    """
    functions = {one.name: one for one in ast.parse(last[0]).body if isinstance(one, ast.FunctionDef)}
    if not set(WAYS) <= functions.keys():
        return False
    calls = [called(functions[name]) for name in WAYS]
    nodes = [one for source in last for one in ast.walk(ast.parse(source))]
    raised = sum(isinstance(one, ast.Raise) for one in nodes)
    shorter = len(nodes) < 0.8 * len(list(ast.walk(ast.parse(first))))
    return calls[0] is not None and calls == [calls[0]] * 3 and raised <= 2 and shorter


def verify_said_once(initial_dir, final_dir, tests):
    """As `verify_kept`; and the three ways share one function, with no reckoning of their own."""
    first, last = files(initial_dir), files(final_dir)
    mine = "cargo/ways.py"
    changed = [
        one
        for path, one in sorted(last.items(), key=lambda item: item[0] != mine)
        if path.startswith("cargo/") and path.endswith(".py") and (path not in first or first[path] != one)
    ]
    try:
        right = last.get(mine) != first[mine] and None not in changed and said_once(first[mine], changed)
    except UNREADABLE:
        right = False
    return verdict(tests["complete"] and right and same(initial_dir, final_dir, ["tests/", "check.sh"]))
