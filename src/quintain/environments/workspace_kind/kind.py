"""The workspace kind: one tree, and what an agent does in it."""

import ctypes
import os
import sys
from typing import Any

from inside import trees

from . import files, repository, testing
from .answers import Refusal, done, refused
from .processes import Ended, Job, Processes

TREE, BASE, TESTS, BUNDLE = "tree.tar", "base.tar", "tests.tar", "repository.bundle"
_PR_SET_DUMPABLE = 4
_FILE_TOOLS = {"read": files.read, "write": files.write, "edit": files.edit, "search": files.search}


class Kind:
    """Nothing is loaded ahead: a tree comes with the claim, as `tree.tar`, which may hold changes over `base.tar`."""

    tends_processes = True

    def load(self, payload: dict[str, Any], root: str) -> dict[str, Any]:
        """Remember where the tree will be."""
        self._root = root
        self._processes = Processes()
        self._epoch = 0
        self._in_tmp: set[str] = set()
        return {}

    def warm(self) -> dict[str, Any]:
        """Nothing is left to be warmed."""
        return {"warm": True}

    def begin(self, start: dict[str, Any]) -> None:
        """Unpack the tree. `start` holds the `epoch` of the episode's clock, in seconds."""
        self._processes.begin()
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)  # what it runs cannot look into it
        self._epoch = int(start.get("epoch", 0))
        self._in_tmp = set(os.listdir("/tmp"))  # a part of the class's runtime, where that lies there
        tree, base = (os.path.join(self._root, name) for name in (TREE, BASE))
        if os.path.exists(tree):
            trees.unpack(files.WORKSPACE, tree, base if trees.over(tree) else None)
        tests = os.path.join(self._root, TESTS)
        if os.path.exists(tests):
            os.mkdir(os.path.join(self._root, "tests"), 0o700)
            trees.unpack(os.path.join(self._root, "tests"), tests)
        for path in (tree, base, tests):
            if os.path.exists(path):
                os.unlink(path)

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """`{"op": "tool", "name", "arguments", "index", "timeout_s"}`: the answer of a tool.

        `{"op": "tests", "command", "timeout_s", "variables"}`: what the tests of `tests.tar` come to; see `testing`.
        `{"op": "unbundle", "ref"}` makes the tree a state of the repository in `repository.bundle`.
        `{"op": "rest"}` says whether the tree is all there is: `{"rest", "why"}`.
        """
        if request.get("op") == "rest":
            why = self._reason_to_stay()
            return {"rest": why is None, "why": why}
        if request.get("op") == "tests":
            folder = os.path.join(self._root, "tests")
            return testing.run(self._processes, request, folder, self._environment(0), self._root)
        if request.get("op") == "unbundle":
            return self._unbundled(request["ref"])
        if request.get("op") != "tool":
            return {"status": "server_error", "error": f"no such operation: {request.get('op')!r}"}
        try:
            self._processes.current()
            return self._tool(request)
        except Refusal as error:
            return refused(str(error))
        except (OSError, MemoryError) as error:  # of processes, disk, descriptors or memory there are no more
            return refused(f"{request['name']} could not be done: {error or type(error).__name__}")

    def _unbundled(self, ref: str) -> dict[str, Any]:
        bundle, scratch = (os.path.join(self._root, name) for name in (BUNDLE, "tmp"))
        try:
            repository.unbundle(bundle, ref, scratch, self._environment(0))
        except Refusal as error:
            return refused(str(error))
        return done("")

    def _reason_to_stay(self) -> str | None:
        """What there is beside the tree; None for nothing."""
        if self._processes.jobs:
            return f"{len(self._processes.jobs)} background jobs were started"
        return "there are files in /tmp" if set(os.listdir("/tmp")) - self._in_tmp else None

    def _tool(self, request: dict[str, Any]) -> dict[str, Any]:
        name, arguments = request["name"], request["arguments"]
        if name in _FILE_TOOLS:
            return done(_FILE_TOOLS[name](arguments))
        environment = self._environment(request["index"])
        limit = min(float(arguments.get("timeout_s", request["timeout_s"])), float(request["timeout_s"]))
        if name == "bash":
            argv = ["/usr/bin/bash", "-c", arguments["command"]]
            if arguments.get("background", False):
                job = self._processes.start(arguments["command"], argv, files.WORKSPACE, environment)
                return done(f"started job {job.number}; output(job={job.number}) tells what it prints")
            return _told(self._processes.run(argv, files.WORKSPACE, environment, limit))
        if name == "python":
            argv = [sys.executable, "-c", arguments["code"]]
            return _told(self._processes.run(argv, files.WORKSPACE, environment, limit))
        if name == "jobs":
            return done("\n".join(map(_line, self._processes.current())) or "there are no jobs")
        return self._job_tool(name, arguments["job"])

    def _job_tool(self, name: str, number: int) -> dict[str, Any]:
        job = self._processes.jobs.get(number)
        if job is None:
            raise Refusal(f"there is no job {number}; list the jobs to see which there are")
        if name == "stop":
            self._processes.stop(job)
            return done(f"job {number}: {job.told()}")
        return done(Ended(job.output, job.status, job.told()).text())

    def _environment(self, index: int) -> dict[str, str]:
        """What a command finds in its environment. Times of commits follow the episode's clock."""
        moment = f"{self._epoch + index} +0000"
        return {
            "PATH": f"{os.path.dirname(sys.executable)}:/usr/bin",
            "HOME": "/tmp",
            "TMPDIR": "/tmp",
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "TERM": "dumb",
            "PAGER": "cat",
            "USER": "agent",
            "LOGNAME": "agent",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "MALLOC_ARENA_MAX": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "agent",
            "GIT_AUTHOR_EMAIL": "agent@localhost",
            "GIT_AUTHOR_DATE": moment,
            "GIT_COMMITTER_NAME": "agent",
            "GIT_COMMITTER_EMAIL": "agent@localhost",
            "GIT_COMMITTER_DATE": moment,
        }


def _told(ended: Ended) -> dict[str, Any]:
    return refused(ended.text()) if ended.stopped else done(ended.text())


def _line(job: Job) -> str:
    return f"{job.number}: {job.told()}: {job.command[:200]}"
