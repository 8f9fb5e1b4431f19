"""The sandbox class of verifiers: its own identity and file system, the standard library and nothing else."""

from pathlib import Path

from quintain.sandboxes.base import SandboxClass, SandboxLimits


def verifier_class(time_limit_s: float) -> SandboxClass:
    """The sandbox class that runs verifier code; its limits leave room for the two databases and little more."""
    here = Path(__file__).parent
    limits = SandboxLimits(disk_bytes=192 * 2**20, pids=16, cpu_seconds=int(time_limit_s) + 10, open_files=64)
    lock, kind = here / "verifier.lock.txt", here / "verifier_kind"
    return SandboxClass("verifier", lock, kind, ("datetime", "re"), limits=limits)
