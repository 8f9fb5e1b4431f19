"""A hibernated environment: its state as files in a directory that the platform owns, and nothing else."""

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from quintain.errors import SandboxLost
from quintain.sandboxes.base import Sandbox, StateFile


@dataclass(frozen=True)
class RestingState:
    """The files; no descriptor is held. What is in them is the sandbox's word: only sandboxes open them."""

    directory: Path
    files: tuple[StateFile, ...]

    @classmethod
    async def take(cls, sandbox: Sandbox, names: Sequence[str], scratch: Path | None) -> "RestingState":
        """Copy an instance's state files out, with the instance stopped.

        Raises:
            SandboxError, OSError: they could not be copied; nothing is left behind.
        """
        directory = Path(tempfile.mkdtemp(prefix="quintain_resting_", dir=scratch))
        copying = asyncio.ensure_future(sandbox.snapshot(names, directory))
        try:
            return cls(directory, tuple(await asyncio.shield(copying)))
        except BaseException:
            await asyncio.wait([copying])  # what still copies would write into the directory again
            shutil.rmtree(directory, ignore_errors=True)
            raise

    async def copy(self, into: Path) -> list[StateFile]:
        """Copy the files into another directory.

        Raises:
            SandboxLost: they are gone.
        """
        try:
            return await asyncio.to_thread(self._copy, into)
        except FileNotFoundError as error:
            raise SandboxLost(f"the hibernated state is gone: {error}") from error

    def _copy(self, into: Path) -> list[StateFile]:
        return [StateFile(file.name, Path(shutil.copyfile(file.path, into / file.name))) for file in self.files]

    async def drop(self) -> None:
        """Remove the files."""
        await asyncio.to_thread(shutil.rmtree, self.directory, ignore_errors=True)
