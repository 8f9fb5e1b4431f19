"""The packs that come with the package, so that nothing need be downloaded to begin."""

from pathlib import Path
from typing import Final

from quintain.errors import DatasetError
from quintain.tasks.awm import AwmDataset
from quintain.tasks.base import OpenSource
from quintain.tasks.packs import PackSource
from quintain.tasks.packs.reading import PACK as PACK_FILE

PACK = Path(__file__).parent / "pack"
"""The folder of the pack `awm`, in the published layout."""

PACKS = Path(__file__).parents[1] / "packs"
"""The folder of the other packs, each in a folder of its name."""

AWM: Final = "awm"


def open_pack(cache_dir: Path | None = None) -> AwmDataset:
    """Open the pack `awm`. It is small: without a cache directory its index is built in memory."""
    return AwmDataset.open(PACK, cache_dir)


def shipped_packs() -> list[str]:
    """The names of the packs that come with the package."""
    others = sorted({one.parents[1].name for one in PACKS.glob("*/*/environment.yaml")}) if PACKS.is_dir() else []
    return [AWM, *others]


def is_pack(name: str) -> bool:
    """Whether a name is that of a shipped pack, or a pack's folder."""
    return name in shipped_packs() or (Path(name) / PACK_FILE).is_file()


def open_named(name: str) -> OpenSource:
    """Open a pack by the name of a shipped one, or by its folder.

    Raises:
        DatasetError: it is neither, or does not open.
    """
    if name == AWM:
        return open_pack()
    if name in shipped_packs():
        return PackSource.open(PACKS / name)
    folder = Path(name)
    if not (folder / PACK_FILE).is_file():
        raise DatasetError(
            f"{name[:300]!r} is no pack: it is none of those shipped ({', '.join(shipped_packs())}), and no folder "
            f"with a {PACK_FILE}; name one of these"
        )
    return PackSource.open(folder)
