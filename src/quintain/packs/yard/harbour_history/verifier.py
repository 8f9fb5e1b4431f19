"""What must be true in the end, or must have been told. Files beside git's own must be as they were."""

import re
from pathlib import Path

AUTHORS = ("Bo Ferrin", "Cai Holm", "Ree Alders")


def verdict(right):
    return {"result": "complete" if right else "others"}


def content(file):
    """The bytes of a regular file; None for a link, for anything else, and for what cannot be read."""
    try:
        return file.read_bytes() if file.is_file() and not file.is_symlink() else None
    except OSError:
        return None


def files(folder):
    """All that lies in a folder but folders and what is git's, by its path."""
    found, left = {}, [Path(folder)]
    while left:
        inside = left.pop()
        try:
            for one in inside.iterdir():
                if one.is_dir() and not one.is_symlink():
                    left += [one] if one.name != ".git" else []
                else:
                    found[str(one.relative_to(folder))] = content(one)
        except OSError:
            found[str(inside.relative_to(folder))] = None
    return found


def kept(initial_dir, final_dir, but=""):
    """Whether all files but one are as they were; new ones may have come."""
    first = {name: written for name, written in files(initial_dir).items() if name != but}
    return first.items() <= files(final_dir).items()


def verify_named(initial_dir, final_dir, final_answer, variables):
    """Author and commit are named, and no other author or commit; nothing was added."""
    said = (final_answer or "").lower()
    hashes = re.findall(r"\b(?=[0-9a-f]{0,39}\d)[0-9a-f]{7,40}\b", said)
    named = [one for one in AUTHORS if re.search(rf"\b{one.partition(' ')[0]}\b", said, re.IGNORECASE)]
    right = hashes and all(variables["hash"].startswith(one) for one in hashes) and named == [variables["who"]]
    whole = variables["who"].lower() in said and not re.search(r"\bnot\b|n't\b", said)
    return verdict(bool(right) and whole and files(initial_dir) == files(final_dir))


INITIALS = b'''def initials(name):
    """First letters of a name."""
    return "".join(part[0].upper() for part in name.split())


'''


def verify_brought_back(initial_dir, final_dir, tests, variables):
    """It stands where it should as it was; the rest of its module, and all other files, are as they were."""
    name, above = "tide/names.py", f"def {variables['above']}(".encode()
    wanted = content(Path(initial_dir, name)).replace(above, INITIALS + above)
    right = content(Path(final_dir, name)) == wanted
    return verdict(tests["complete"] and right and kept(initial_dir, final_dir, name))


def verify_mended(initial_dir, final_dir, tests, variables):
    return verdict(tests["complete"] and kept(initial_dir, final_dir, variables["case"][0]))


def numbers(text):
    """The numbers of a text; parts of dates, names and codes are none."""
    return {float(one) for one in re.findall(r"(?<![\w.:-])\d+(?:\.\d+)?(?![\w-]|[.:]\d)", text or "")}


def verify_reckoned(initial_dir, final_dir, final_answer, tests, variables):
    told = numbers(final_answer) == {variables["told"]}
    return verdict(tests["complete"] and told and kept(initial_dir, final_dir))
