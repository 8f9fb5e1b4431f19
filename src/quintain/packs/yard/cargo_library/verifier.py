"""What must be true of the tree beside what the hidden tests say."""

from pathlib import Path


def verdict(right):
    return {"result": "complete" if right else "others"}


def same(initial_dir, final_dir, names):
    """Whether files, and what is in folders, are byte for byte as they were; new files in tests/ do no harm."""
    for name in names:
        first, last = Path(initial_dir, name), Path(final_dir, name)
        for file in [first] if first.is_file() else sorted(one for one in first.rglob("*") if one.is_file()):
            now = last / file.relative_to(first) if first.is_dir() else last
            if "__pycache__" not in file.parts and (not now.is_file() or now.read_bytes() != file.read_bytes()):
                return False
    return True


def verify_kept(initial_dir, final_dir, tests):
    """The hidden tests pass; the tests and the check that were there are as they were."""
    return verdict(tests["complete"] and same(initial_dir, final_dir, ["tests", "check.sh"]))


def verify_renamed(initial_dir, final_dir, tests, variables):
    """As above, and the old name is nowhere in the library or its tests."""
    files = [file for part in ("cargo", "tests") for file in Path(final_dir, part).rglob("*.py")]
    gone = not any("bill_total" in file.read_text() for file in files)
    return verdict(tests["complete"] and gone and same(initial_dir, final_dir, ["check.sh", "tests/test_rates.py"]))
