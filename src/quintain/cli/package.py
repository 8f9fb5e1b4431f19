"""`quintain package`: a pack as a folder that OpenEnv's tools take: an image to build, or a Space to push."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Annotated, Final

import typer

from quintain import __version__
from quintain.contracts.untrusted import printable
from quintain.errors import UsageError
from quintain.tasks import PackSource, normalised, open_named
from quintain.tasks.packs.files import LEFT_OUT, PackFiles

TEMPLATES: Final = Path(__file__).parent / "templates" / "package"

_UNREAD: Final = ".in"
"""Ends the name of a template that tools would take for a file of ours."""


def package(
    pack: Annotated[str, typer.Argument(help="A pack, by a shipped one's name or its folder.")],
    out: Annotated[Path, typer.Argument(help="The folder to make; it must not be there yet.")],
    wheel: Annotated[
        Path | None,
        typer.Option(help="A wheel of Quintain to put in, where no package registry has this version."),
    ] = None,
) -> None:
    """Make a folder that OpenEnv's tools take: server, Dockerfile, Space header, and the pack itself."""
    made = packaged(pack, out, wheel)
    typer.echo(f"{made} is ready; see what OpenEnv says of it, and start it:")
    folder = shlex.quote(str(made))
    typer.echo(f"openenv validate {folder} --level static --skip-build")
    typer.echo(f"cd {folder} && python -m server.app")


def packaged(pack: str, out: Path, wheel: Path | None = None) -> Path:
    """Write the folder and return it.

    Raises:
        DatasetError: the pack does not open.
        UsageError: it is no pack of this format, or the folder cannot be made.
    """
    with open_named(pack) as source:
        if not isinstance(source, PackSource):
            raise UsageError(
                f"{pack} is a dataset in Agent World Model's layout; only packs with a pack.yaml are packaged"
            )
        if wheel is not None and (wheel.suffix != ".whl" or not wheel.is_file()):
            raise UsageError(f"{wheel} is no wheel; build one with `pip wheel --no-deps`")
        values = _values(source, wheel)
        files = PackFiles(source.folder)
    try:
        out.mkdir(parents=True)
        for template in sorted(TEMPLATES.rglob("*")):
            if template.is_file() and not LEFT_OUT.intersection(template.parts):
                name = str(template.relative_to(TEMPLATES)).removesuffix(_UNREAD)
                _write(out / name, _filled(template.read_text(encoding="utf-8"), values))
        for name in files.digests:
            _write(out / "pack" / name, files[name])
        if wheel is not None:
            (out / "wheels").mkdir()
            shutil.copyfile(wheel, out / "wheels" / wheel.name)
    except FileExistsError:
        raise UsageError(f"{out} is there already; name another folder") from None
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror or error}; name another folder") from error
    return out


def _values(source: PackSource, wheel: Path | None) -> dict[str, str]:
    scenarios = source.scenarios()
    rows = [f"| {_cell(one.title)} | {one.kind} | {len(one.tasks)} |" for one in scenarios]
    return {
        "NAME": source.name.replace("_", "-"),
        "MODULE": normalised(source.name),
        "TITLE": _cell(source.title),
        "QUOTED": json.dumps(source.title, ensure_ascii=False),
        "DESCRIPTION": printable(source.description.strip()) or _cell(source.title),
        "DIGEST": source.dataset_digest,
        "LICENCE": _cell(source.provenance.licence),
        "TASKS": str(sum(len(one.tasks) for one in scenarios)),
        "ROWS": "\n".join(rows),
        "FIRST": scenarios[0].name,
        "VERSION": __version__,
        "FIND": "" if wheel is None else "--find-links wheels ",
    }


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|")


def _filled(text: str, values: dict[str, str]) -> str:
    parts = text.split("@")
    return "".join(values.get(part, part) if number % 2 else part for number, part in enumerate(parts))


def _write(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
