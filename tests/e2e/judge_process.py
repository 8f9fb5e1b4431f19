"""A judge in a process of its own, which can be killed: `python -m e2e.judge_process PORT LOG`.

It judges by the evidence alone and always the same. A line on its standard input says how it behaves from then on.
"""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from e2e.serving import wait_until
from verifiers.judge_server import MODEL, Asked, Behaviour, JudgeServer, answer, respond, says, truncate

BEHAVIOURS = ("errors", "limits", "unsure", "babbles", "breaks_off", "stalls")
"""Ways of not judging."""


class Judge:
    """The process, on one port for as long as this object is used."""

    def __init__(self, folder: Path) -> None:
        self._told = folder / "judge.log"
        self._told.touch()
        self._port = 0
        self.start()

    @property
    def settings(self) -> dict[str, str]:
        """What a server must know of it."""
        return {"OPENENV_AWM_LLM_BASE_URL": f"http://127.0.0.1:{self._port}/v1", "OPENENV_AWM_LLM_MODEL": MODEL}

    @property
    def judged(self) -> list[str]:
        """The words that it answered."""
        return self._told.read_text().split()

    def start(self) -> None:
        """Start it on its port; another may have that port for a moment."""
        assert wait_until(self._started, 20), f"port {self._port} is taken"

    def _started(self) -> bool:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "e2e.judge_process", str(self._port), str(self._told)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.kill()
            return False
        self._port = int(line)
        return True

    def behave(self, how: str) -> None:
        """From now on."""
        assert self.process.stdin is not None
        self.process.stdin.write(how + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End it in the middle of whatever it is doing."""
        self.process.kill()
        self.process.communicate()


def verdict_on(asked: Asked) -> str:
    """Something is new or was changed, or else a call went wrong, or nothing was done."""
    evidence: dict[str, Any] = asked.data["evidence"]
    done = any(
        found != evidence[name.replace("after", "before")] if "after" in name else name.startswith("new_") and found
        for name, found in evidence.items()
    )
    if done:
        return "complete"
    return "agent_error" if "tool_not_found" in asked.data["trace"]["outcomes"] else "incomplete"


async def _judge(port: str, told: str) -> None:
    over = asyncio.Event()

    async def stall(_: Asked, __: asyncio.StreamWriter) -> None:
        await over.wait()

    async def judge(asked: Asked, writer: asyncio.StreamWriter) -> None:
        word = verdict_on(asked)
        await says(answer(word, 0.9, "by the evidence"))(asked, writer)
        await writer.drain()
        with Path(told).open("a") as log:  # noqa: ASYNC230 - a line
            log.write(word + "\n")

    behaviours: dict[str, Behaviour] = {
        "judges": judge,
        "errors": respond(500, json.dumps({"error": {"message": "out of order"}})),
        "limits": respond(429, "{}", retry_after="1"),
        "unsure": says(answer("complete", 0.2)),
        "babbles": says("It is complete, I think."),
        "breaks_off": truncate,
        "stalls": stall,
    }
    async with JudgeServer(port=int(port), otherwise=judge) as server:
        print(server.url.split(":")[2].split("/")[0], flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            server.otherwise = behaviours[line.strip()]
            over.set()
            over = asyncio.Event()


if __name__ == "__main__":
    asyncio.run(_judge(*sys.argv[1:]))
