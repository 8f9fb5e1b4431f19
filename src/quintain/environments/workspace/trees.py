"""The trees that workspaces begin with: built from a payload, varied by a task, kept by digest."""

import io
import tarfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from quintain.artifacts import ArtifactStore
from quintain.contracts.identity import digest_of
from quintain.environments.workspace.models import (
    MAX_TREE_BYTES,
    MAX_TREE_FILES,
    JsonObject,
    Payload,
    StartModel,
    start_of,
    told,
)
from quintain.errors import TemplateError
from quintain.sandboxes.base import StateFile
from quintain.sandboxes.trees import BaseTree, Manifest, manifest_of, tar_of

STATE = "tree.tar"
"""Name of the file that holds the state."""

_KEPT_VARIANTS = 1000


@dataclass(frozen=True)
class KeptTree:
    """A tree in the artifact store."""

    base: BaseTree
    path: Path

    @property
    def file(self) -> StateFile:
        """It as a file of the state."""
        return StateFile(STATE, self.path)


class Trees:
    """Trees kept in a store; variants of one are made once."""

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._variants: OrderedDict[str, KeptTree] = OrderedDict()

    def of_files(self, payload: Payload) -> KeptTree:
        """The tree of a payload's own files. Raises TemplateError where it has none of use."""
        return self.kept(*_built(payload.scenario, payload.tree, {}))

    def of_archive(self, payload: Payload, digest: str) -> KeptTree:
        """A tar of the store, made deterministic.

        Raises:
            TemplateError: it is no tar of files, folders and links, or too large.
            ArtifactError: the store does not have it.
        """
        return self.kept(*self._normal(payload.scenario, self._store.get(digest)))

    def of_tar(self, scenario: str, tar: bytes) -> KeptTree:
        """A tar, kept as it is. Raises TemplateError where it is none."""
        try:
            return self.kept(tar, manifest_of(tar))
        except (tarfile.TarError, ValueError) as error:
            raise TemplateError(f"the tree of scenario {scenario!r} cannot be read: {error}") from error

    def varied(self, scenario: str, tree: KeptTree, start: JsonObject) -> KeptTree:
        """The tree as a task varies it. Raises TemplateError where `start` has another form or does not fit."""
        change = start_of(scenario, start)
        key = digest_of({"tree": tree.base.digest, "start": start})
        kept = self._variants.get(key)
        if kept is None:
            kept = self.kept(*_changed(scenario, tree, change))
        self._variants[key] = kept
        self._variants.move_to_end(key)
        while len(self._variants) > _KEPT_VARIANTS:
            self._variants.popitem(last=False)
        return kept

    def kept(self, tar: bytes, manifest: Manifest) -> KeptTree:
        """Put a tree into the store."""
        digest = self._store.put(tar)
        return KeptTree(BaseTree(digest, manifest), self._store.path(digest))

    def _normal(self, scenario: str, tar: bytes) -> tuple[bytes, Manifest]:
        try:
            files, links = _read(tar)
        except (tarfile.TarError, ValueError) as error:
            raise TemplateError(f"the archive of scenario {scenario!r} cannot be read: {told(error)}") from error
        return _built(scenario, files, links)


Files = dict[str, tuple[int, bytes]]
Links = dict[str, str]


def _read(tar: bytes) -> tuple[Files, Links]:
    """Files and links of a tar; empty folders are left out of what a task varies, as those of a pack are."""
    files: Files = {}
    links: Links = {}
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:*", errors="surrogateescape") as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            if member.isdir():
                continue
            if any(part in ("", ".", "..") for part in name.split("/")):
                raise ValueError(f"{name[:80]!r} is no path within a tree")
            if member.issym():
                links[name] = member.linkname
            elif member.isreg():
                source = archive.extractfile(member)
                assert source is not None
                files[name] = (member.mode & 0o777, source.read(MAX_TREE_BYTES + 1))
            else:
                raise ValueError(f"{name[:80]!r} is neither file, folder nor symbolic link")
            if len(files) > MAX_TREE_FILES or sum(len(data) for _, data in files.values()) > MAX_TREE_BYTES:
                raise ValueError(f"it holds over {MAX_TREE_FILES} files or {MAX_TREE_BYTES} bytes")
    return files, links


def _changed(scenario: str, tree: KeptTree, change: StartModel) -> tuple[bytes, Manifest]:
    files, links = _read(tree.path.read_bytes())
    for path in change.remove:
        gone = [name for name in (*files, *links) if name == path or name.startswith(f"{path}/")]
        if not gone:
            raise TemplateError(f"a task of {scenario!r} removes {path!r}, which its tree does not have")
        for name in gone:
            files.pop(name, None)
            links.pop(name, None)
    for path, text in change.files.items():
        links.pop(path, None)
        mode = files[path][0] if path in files else 0o644
        files[path] = (mode, text.encode("utf-8", "surrogatepass"))
    return _built(scenario, files, links)


def _built(scenario: str, files: Files, links: Links) -> tuple[bytes, Manifest]:
    """Raises TemplateError where something is both a file and a folder."""
    leaves = {*files, *links}
    for path in leaves:
        parts = path.split("/")
        for depth in range(1, len(parts)):
            if (folder := "/".join(parts[:depth])) in leaves:
                raise TemplateError(f"the tree of {scenario!r} has {folder!r} as a file, and {path!r} in it")
    return tar_of(files, links)
