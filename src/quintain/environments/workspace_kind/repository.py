"""A state of a git repository, out of a bundle: what is reachable from one ref, and nothing that came later.

A bundle's pack holds everything in it, so it is unpacked aside and only what the ref reaches is fetched from there. No
reflog, no other ref, no hook is left; the index holds no times, so that the same bundle makes the same bytes.
"""

import os
import shutil
import subprocess

from .answers import Refusal
from .files import WORKSPACE

_TIMEOUT_S = 120
_LEFT = ("logs", "hooks", "FETCH_HEAD", "ORIG_HEAD", "description", "branches")


def unbundle(bundle: str, ref: str, scratch: str, environment: dict[str, str]) -> None:
    """Make the workspace the tree of a ref, with its history, on a branch `main`.

    Raises:
        Refusal: the bundle or the ref is of no use.
    """
    whole = os.path.join(scratch, "whole.git")
    for command in (
        ["init", "-q", "--bare", whole],
        ["-C", whole, "config", "pack.threads", "1"],
        ["-C", whole, "fetch", "-q", bundle, "+refs/*:refs/*"],
    ):
        _git(command, environment)
    commit = _git(["-C", whole, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}"], environment).strip()
    own = ["-C", WORKSPACE, "-c", "core.logAllRefUpdates=false", "-c", "fetch.unpackLimit=1"]
    for command in (
        ["-C", whole, "update-ref", "refs/quintain/kept", commit],
        ["init", "-q", "-b", "main", WORKSPACE],
        [*own, "fetch", "-q", "--no-tags", whole, "refs/quintain/kept:refs/quintain/kept"],
        [*own, "checkout", "-q", "-B", "main", commit],
        [*own, "update-ref", "-d", "refs/quintain/kept"],
    ):
        _git(command, environment)
    git = os.path.join(WORKSPACE, ".git")
    os.unlink(os.path.join(git, "index"))
    _git([*own, "read-tree", "HEAD"], environment)
    for name in _LEFT:
        path = os.path.join(git, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.exists(path):
            os.unlink(path)
    shutil.rmtree(whole)


def _git(arguments: list[str], environment: dict[str, str]) -> str:
    try:
        ran = subprocess.run(
            ["/usr/bin/git", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise Refusal(f"git {' '.join(arguments)[:200]}: {error.stderr.decode(errors='replace')[-1000:]}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refusal(f"git cannot be run here: {error}") from error
    return ran.stdout.decode(errors="replace")
