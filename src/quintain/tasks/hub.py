"""Getting the published dataset from the Hugging Face hub (extra `[hub]`).

Each commit gets a folder of its own, and `provenance.json` is written last, so a folder that has it is whole and
no folder ever mixes two commits.
"""

import os
import re
import tempfile
from pathlib import Path
from types import ModuleType

from quintain.errors import DatasetError, SettingsError
from quintain.tasks import layout
from quintain.tasks.awm import PROVENANCE
from quintain.tasks.base import Provenance

REPOSITORY = "Snowflake/AgentWorldModel-1K"
LICENCE = "CC-BY-4.0"


def download(cache_dir: Path, revision: str = "main", *, token: str | None = None, endpoint: str | None = None) -> Path:
    """Download the dataset, unless that commit is there already, and return its folder.

    Args:
        cache_dir: the commit's folder is made in it.
        revision: branch, tag or commit. A full commit that was downloaded before needs no network.
        token: for the hub; None means none is sent.
        endpoint: of the hub; None means the library's default (`HF_ENDPOINT`).

    Raises:
        SettingsError: the extra is not installed.
        DatasetError: the hub cannot be reached, or does not have the revision or a file.
    """
    if re.fullmatch(r"[0-9a-f]{40}", revision) and _whole(cache_dir / revision):
        return cache_dir / revision
    hub = _hub()
    failures = (OSError, ValueError, getattr(hub.errors, "HTTPError", OSError))
    credential: str | bool = token or False
    try:
        info = hub.HfApi(endpoint=endpoint).dataset_info(REPOSITORY, revision=revision, token=credential)
        folder = cache_dir / _commit(info.sha, revision)
        if _whole(folder):
            return folder
        published = {sibling.rfilename for sibling in info.siblings or ()}
        missing = [name for name in layout.REQUIRED if name not in published]
        if missing:
            raise DatasetError(f"{REPOSITORY} at {revision!r} has no {', '.join(missing)}; choose another revision")
        for name in (file for file in layout.FILES if file in published):
            hub.hf_hub_download(
                REPOSITORY,
                name,
                repo_type="dataset",
                revision=info.sha,
                local_dir=folder,
                token=credential,
                endpoint=endpoint,
            )
    except failures as error:
        have = sorted(path.parent.name for path in cache_dir.glob(f"*/{PROVENANCE}"))
        instead = f"or use a commit that is here: {', '.join(have)}" if have else "or name a folder that holds the data"
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DatasetError(f"cannot download {REPOSITORY} at {revision!r}: {reason}; try again, {instead}") from error
    _record(folder, Provenance(source=REPOSITORY, revision=revision, commit=info.sha, licence=LICENCE))
    return folder


def _hub() -> ModuleType:
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError as error:
        raise SettingsError(
            f"huggingface_hub is not installed, so {REPOSITORY} cannot be downloaded; "
            "install quintain[hub], or download the files yourself and name their folder"
        ) from error
    return huggingface_hub


def _commit(value: str | None, revision: str) -> str:
    # It becomes a folder's name, and it came from the network.
    if not re.fullmatch(r"[0-9a-f]{40}", value or ""):
        raise DatasetError(f"the hub names no commit for {REPOSITORY} at {revision!r}; choose another revision")
    return str(value)


def _whole(folder: Path) -> bool:
    return (folder / PROVENANCE).is_file() and all((folder / name).is_file() for name in layout.REQUIRED)


def _record(folder: Path, provenance: Provenance) -> None:
    handle, name = tempfile.mkstemp(dir=folder, prefix=PROVENANCE)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(provenance.model_dump_json(indent=2) + "\n")
    os.replace(name, folder / PROVENANCE)
