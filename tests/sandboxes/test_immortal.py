"""The immortal heap, on every interpreter of this host that a class runtime may use."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from quintain.sandboxes import inside
from quintain.sandboxes.runtime import Interpreter, find_interpreters

_SCRIPT = """
import gc, json, os, sys
sys.path.insert(0, sys.argv[1])
from inside import immortal

def private_kib():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))

kept = [{"number": n, "name": f"item {n}", "parts": [object() for _ in range(4)]} for n in range(20_000)]
supported = immortal.supported()
gc.collect()
marked = immortal.make_immortal() if supported and sys.argv[2] == "on" else 0
gc.freeze()
reading, writing = os.pipe()
if os.fork() == 0:
    before = private_kib()
    total = sum(entry["number"] + len(entry["parts"]) for entry in kept)  # reads only
    again = [part for entry in kept for part in entry["parts"]]
    kept[0]["number"] = "changed"
    kept.append("more")
    del again
    gc.collect()
    os.write(writing, json.dumps({"grown": private_kib() - before, "total": total, "last": kept[-1]}).encode())
    os._exit(0)
os.wait()
print(json.dumps({"supported": supported, "marked": marked, **json.loads(os.read(reading, 4096))}))
"""


def forked(interpreter: Interpreter, switch: str) -> dict[str, object]:
    folder = Path(inside.__file__).parent.parent
    done = subprocess.run(
        [interpreter.executable, "-c", _SCRIPT, str(folder), switch], capture_output=True, text=True, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("interpreter", find_interpreters(), ids=str)
def test_reading_what_was_there_before_the_fork_copies_little(interpreter: Interpreter) -> None:
    plain, immortal = forked(interpreter, "off"), forked(interpreter, "on")
    assert immortal["total"] == plain["total"] == sum(range(20_000)) + 80_000
    assert immortal["last"] == "more"
    if not immortal["supported"]:
        assert interpreter.version[:2] not in ((3, 12), (3, 13))
        return
    assert int(str(immortal["marked"])) > 100_000
    assert int(str(immortal["grown"])) < int(str(plain["grown"])) / 2


def test_an_interpreter_without_immortal_objects_is_left_alone() -> None:
    old = [one for one in find_interpreters() if one.version[:2] == (3, 11)]
    if not old and sys.version_info[:2] != (3, 11):
        pytest.skip("no Python 3.11 here")
    assert forked(old[0], "on")["supported"] is False


_HOLES = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from inside import holes, memory

os.chdir(sys.argv[2])

def private_kib():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_"))

kept = [bytes(100) for n in range(200_000)]
for n in range(0, len(kept), 30):
    kept[n] = None  # a hole in every page
plugs = memory.arrange(False) if sys.argv[3] == "on" else None
reading, writing = os.pipe()
if os.fork() == 0:
    before = private_kib()
    made = [bytes(100) for _ in range(5_000)]
    os.write(writing, str(private_kib() - before).encode())
    os._exit(0)
os.wait()
print(os.read(reading, 100).decode())
"""


def test_what_a_fork_allocates_lies_together_once_the_holes_are_plugged(tmp_path: Path) -> None:
    folder = Path(inside.__file__).parent.parent

    def grown(switch: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", _HOLES, str(folder), str(tmp_path), switch],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return int(done.stdout)

    assert grown("on") < grown("off") / 3
    assert list(tmp_path.iterdir()) == []
