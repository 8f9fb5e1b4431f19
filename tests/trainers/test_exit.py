"""A trainer's process that ends without closing anything, over real sandboxes: nothing is left of them."""

import subprocess
import sys
from pathlib import Path

from e2e.serving import CACHE, environment

PROGRAM = """
import sys
from pathlib import Path

from quintain.episodes.assembly import Assembly
from quintain.trainers.local import LocalPlatform
from quintain.trainers.trl import AwmGrpo

platform = LocalPlatform(Assembly(cache=Path(sys.argv[1]), scratch=Path(sys.argv[2])))
spec = AwmGrpo(platform, ["tool_library_1/3"], model_digest="m")
pool = [spec.environment_factory() for _ in range(2)]
for one in pool:
    one.reset(**spec.rows[0])
print(pool[0].reserve_tool(tool_id=4)[:1], spec.reward_funcs[0]([], ["Reserved."], environments=pool[:1]))
print(len(list(Path(sys.argv[2]).iterdir())))
if sys.argv[3] == "error":
    raise RuntimeError("training failed")
"""


def test_at_exit_everything_is_closed(tmp_path: Path) -> None:
    for how, code in (("plain", 0), ("error", 1)):
        scratch = tmp_path / how
        scratch.mkdir()
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM, str(CACHE), str(scratch), how], env=environment(tmp_path),
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert done.stdout.splitlines() == ["{ [1.0]", "1"]
        assert ("training failed" in done.stderr) == (how == "error")
        assert done.stderr.count("Traceback") == code
        assert list(scratch.iterdir()) == []
