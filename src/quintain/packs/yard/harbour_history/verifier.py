"""What must be true in the end, or must have been told."""

import re
from pathlib import Path


def verdict(right):
    return {"result": "complete" if right else "others"}


def verify_passed(tests):
    return verdict(tests["complete"])


def verify_named(initial_dir, final_dir, final_answer, variables):
    """Author and commit are named, and no other commit; files beside git's own are as they were."""
    said = (final_answer or "").lower()
    hashes = re.findall(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,40}\b", said)
    right = hashes and all(variables["hash"].startswith(one) for one in hashes) and variables["who"].lower() in said
    first, last = (
        {
            str(one.relative_to(base)): one.read_bytes()
            for one in Path(base).rglob("*")
            if one.is_file() and ".git" not in one.relative_to(base).parts
        }
        for base in (initial_dir, final_dir)
    )
    return verdict(bool(right) and first == last)
