"""What a workspace's payload says of its tree, and how a task varies it."""

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from quintain.contracts.identity import Digest
from quintain.errors import TemplateError
from quintain.sandboxes.trees import MAX_DEPTH, MAX_PATH

JsonObject = dict[str, Any]

TREE: Final = "tree/"
MAX_TREE_BYTES: Final = 96 * 2**20
"""Largest tree that a workspace begins with, in bytes of its files together."""

MAX_TREE_FILES: Final = 10_000
"""Most files of such a tree."""

_DEFAULT_MODE = 0o644


def _path(path: str) -> str:
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise ValueError(f"{path[:80]!r} is no path within a tree; write folder/file, without . and ..")
    if len(parts) > MAX_DEPTH or len(path.encode()) > MAX_PATH:
        raise ValueError(f"{path[:80]!r} is deeper than {MAX_DEPTH} folders or longer than {MAX_PATH} bytes")
    return path


TreePath = Annotated[str, AfterValidator(_path)]
_Mode = Annotated[str, StringConstraints(pattern=r"^0?[0-7]{3}$")]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class GitModel(_Model):
    """A state of a repository: what is reachable from a ref of a bundle, and nothing else."""

    bundle: TreePath
    ref: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", max_length=200)]


class WorkspaceModel(_Model):
    """The document. The tree is the pack's folder tree/, unless it is a repository or a tar that was kept."""

    kind: Literal["workspace"] = "workspace"
    modes: dict[TreePath, _Mode] = Field(default_factory=dict, max_length=MAX_TREE_FILES)
    """File modes, octal, of paths within the tree; 644 for those that are not named."""
    git: GitModel | None = None
    archive: Digest | None = None
    """Digest of a tar in the artifact store."""


class StartModel(_Model):
    """How a task varies the tree: files written, and paths removed before."""

    files: dict[TreePath, str] = Field(default_factory=dict, max_length=MAX_TREE_FILES)
    remove: list[TreePath] = Field(default_factory=list, max_length=MAX_TREE_FILES)


class Payload(_Model):
    """A workspace's payload, read."""

    scenario: str
    epoch: str
    document: WorkspaceModel
    files: dict[str, bytes]

    @classmethod
    def of(cls, payload: JsonObject) -> "Payload":
        """Raises TemplateError where it is none."""
        scenario = payload.get("scenario")
        try:
            return cls(
                scenario=payload.get("scenario", ""),
                epoch=payload.get("epoch", ""),
                document=WorkspaceModel.model_validate(payload.get("environment")),
                files=_content(payload.get("files", {})),
            )
        except (ValidationError, ValueError, TypeError) as error:
            raise TemplateError(f"scenario {scenario!r} is no workspace: {told(error)}") from error

    @model_validator(mode="after")
    def _one_tree(self) -> Self:
        document = self.document
        own = any(name.startswith(TREE) for name in self.files)
        if (document.git is not None) + (document.archive is not None) + own > 1:
            raise ValueError("the tree comes from one place: git, archive or the folder tree/; keep one of them")
        return self

    @property
    def tree(self) -> dict[str, tuple[int, bytes]]:
        """Mode and content of the files under tree/.

        Raises:
            TemplateError: a path or a mode is of no use, or there is too much.
        """
        modes = self.document.modes
        try:
            found = {
                _path(name.removeprefix(TREE)): (
                    int(modes.get(name.removeprefix(TREE), oct(_DEFAULT_MODE)[2:]), 8),
                    data,
                )
                for name, data in self.files.items()
                if name.startswith(TREE)
            }
        except ValueError as error:
            raise TemplateError(f"scenario {self.scenario!r}: {error}") from error
        if unknown := sorted(set(modes) - set(found)):
            raise TemplateError(f"scenario {self.scenario!r}: modes names {unknown[0]!r}, which is no file of the tree")
        size = sum(len(data) for _, data in found.values())
        if len(found) > MAX_TREE_FILES or size > MAX_TREE_BYTES:
            raise TemplateError(
                f"scenario {self.scenario!r}: its tree has {len(found)} files and {size} bytes; over {MAX_TREE_FILES} "
                f"files or {MAX_TREE_BYTES} bytes is too much"
            )
        return found


def start_of(scenario: str, start: JsonObject) -> StartModel:
    """How a task varies the tree.

    Raises:
        TemplateError: `start` has another form.
    """
    try:
        return StartModel.model_validate(start)
    except ValidationError as error:
        raise TemplateError(
            f"a task of {scenario!r} varies its tree by {{files: {{path: text}}, remove: [paths]}}; {told(error)}"
        ) from error


def told(error: Exception) -> str:
    """What is wrong, in one line."""
    if not isinstance(error, ValidationError):
        return str(error)[:500]
    first = error.errors(include_url=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}"[:500]


def _content(files: Mapping[str, Any]) -> dict[str, bytes]:
    found = {}
    for name, given in files.items():
        if isinstance(given, str):
            found[name] = given.encode("utf-8", "surrogatepass")
        else:
            try:
                found[name] = base64.b64decode(given["base64"], validate=True)
            except (KeyError, TypeError, binascii.Error) as error:
                raise ValueError(f"the file {name[:80]!r} is neither text nor base64") from error
    return found
