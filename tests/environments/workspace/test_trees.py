"""Trees: what they begin as, what is kept of them, and that nothing in one leads out of it."""

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from environments.workspace.conftest import Player, payload
from quintain.environments.workspace.models import MAX_TREE_FILES
from quintain.errors import IsolationError, TemplateError
from quintain.sandboxes.base import IsolationLevel
from tars import entries, header

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.xdist_group("workspace")]


async def test_only_what_changed_is_kept(workshop: Any, tmp_path: Path) -> None:
    files = {"big.bin": "x" * 2_000_000, "a.txt": "a\n", "gone/b.txt": "b\n", "same/c.txt": "c\n"}
    async with workshop.playing(files, tmp_path) as player:
        assert entries(await player.snapshot()) == {}
        await player.bash(
            "echo more >> a.txt; rm -r gone; mkdir new; echo n > new/n; chmod 750 new/n; ln -s /etc/passwd new/out; "
            "touch same/c.txt; chmod 600 same/c.txt; umask"
        )
        tar = await player.snapshot()
        assert entries(tar) == {
            "a.txt": (0o644, "a\nmore\n"),
            "new": (0o755, ""),
            "new/n": (0o750, "n\n"),
            "new/out": (0o777, "/etc/passwd"),
            "same/c.txt": (0o600, "c\n"),
        }
        assert header(tar, "removed") == ["gone", "gone/b.txt"]
        assert tar.stat().st_size < 20_000
        assert (await player.snapshot()).read_bytes() == tar.read_bytes()


async def test_equal_trees_are_equal_bytes(workshop: Any, tmp_path: Path) -> None:
    kept = []
    for number, commands in enumerate(
        (("echo 1 > a", "echo 2 > b"), ("echo 3 > b", "echo 1 > a; sleep 1; echo 2 > b"))
    ):
        async with workshop.playing({"c": "c"}, tmp_path / str(number)) as player:
            for command in commands:
                await player.bash(command)
            kept.append((await player.snapshot()).read_bytes())
    assert kept[0] == kept[1]


async def test_a_task_varies_the_tree(workshop: Any, tmp_path: Path) -> None:
    start = {"files": {"a.txt": "other\n", "new/b.txt": "b\n"}, "remove": ["old"]}
    files = {"a.txt": "a\n", "old/x": "x", "old/y": "y", "kept": "k"}
    async with workshop.playing(files, tmp_path, start, modes={"a.txt": "755"}) as player:
        assert await player.bash("find . -type f | sort; cat a.txt; stat -c %a a.txt") == (
            "./a.txt\n./kept\n./new/b.txt\nother\n755\n"
        )
        assert entries(player.environment.initial[0].path)["a.txt"] == (0o755, "other\n")
        assert entries(await player.snapshot()) == {}


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"sql": []}, "varies its tree by"),
        ({"files": {"../x": ""}}, "is no path within a tree"),
        ({"remove": ["none"]}, "removes 'none', which its tree does not have"),
        ({"files": {"a/b": ""}}, "has 'a' as a file, and 'a/b' in it"),
    ],
)
async def test_what_cannot_vary_a_tree_is_refused(workshop: Any, start: Any, words: str) -> None:
    given = payload({"tree/a": "a"})
    environment = (await workshop.kind.prepare("varied", lambda: given)).environment()
    with pytest.raises(TemplateError, match=words):
        await environment.reset(0, start)
    await environment.close()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (payload({"tree/a": "a"}, mode="755"), "mode: Extra inputs"),
        (payload({"tree/a": "a"}, modes={"b": "755"}), "modes names 'b', which is no file of the tree"),
        (payload({"tree/a/../../b": "a"}), "is no path within a tree"),
        (payload({"tree/a": "a"}, git={"bundle": "b", "ref": "main"}), "the tree comes from one place"),
        (payload({}, git={"bundle": "b", "ref": "main"}), "has no file 'b' for its repository"),
        (payload({"b": "no bundle"}, git={"bundle": "b", "ref": "main"}), "the repository of scenario 'bench' cannot"),
        (payload({}, git={"bundle": "b", "ref": "--upload-pack=x"}), "String should match pattern"),
        (payload({f"tree/{n}": "" for n in range(MAX_TREE_FILES + 1)}), "10000 files"),
    ],
)
async def test_what_is_no_workspace_is_refused(workshop: Any, given: Any, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        await workshop.kind.prepare(words, lambda: given)
    assert list(workshop.scratch.iterdir()) == []


async def test_where_processes_cannot_be_bounded_there_are_no_workspaces(workshop: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(workshop.provider, "level", IsolationLevel.REDUCED)
    with pytest.raises(IsolationError, match="takes sandboxes of level full; here they are reduced"):
        await workshop.kind.prepare("any", lambda: payload({}))


async def test_after_its_sandbox_has_gone_the_tree_is_as_it_was(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({"a.txt": "a\n", "b/c": "c"}, tmp_path) as player:
        await player.bash("rm -r b; ln -s nowhere b; printf '\\377' > $'\\376'; mkdir -m 500 shut; echo x > /tmp/x")
        before = (await player.snapshot()).read_bytes()
        os.kill(player.environment._sandbox.pid, 9)
        assert (await player.environment.call("bash", {"command": "true"}, 30.0)).status == "server_error"
        assert (await player.snapshot()).read_bytes() == before
        outcome = await player.call("bash", command="readlink b; stat -c %a shut; test ! -e /tmp/x")
        assert outcome.text == "nowhere\n500\n[exit status 0]"
        assert "background jobs and /tmp are gone" in (outcome.warning or "")
        assert (await player.snapshot()).read_bytes() == before
        assert (await player.call("bash", command="true")).warning is None


async def test_asleep_it_is_a_file_and_wakes_as_it_was(workshop: Any, tmp_path: Path) -> None:
    async with workshop.playing({"a.txt": "a\n"}, tmp_path) as player:
        await player.bash("echo b > b.txt; echo x > /tmp/x")
        assert (await player.environment.hibernate()).why == "there are files in /tmp"
        await player.bash("rm /tmp/x")
        assert (await player.environment.hibernate(lambda: True)).why == "it was called meanwhile"
        before = (await player.snapshot()).read_bytes()
        assert (await player.environment.hibernate()).done
        assert player.environment.hibernated
        assert (await player.snapshot()).read_bytes() == before
        outcome = await player.call("bash", command="cat a.txt b.txt")
        assert (outcome.text, outcome.warning) == ("a\nb\n[exit status 0]", None)
        assert (await player.environment.hibernate()).done


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    ran = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return ran.stdout.strip()


@pytest.fixture
def bundle(tmp_path: Path) -> tuple[bytes, dict[str, str]]:
    """A repository with a past and a future, and the commits and blobs in it by name."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "trunk")
    known = {}
    for name in ("past", "now", "future"):
        (folder / "a.txt").write_text(f"{name}\n")
        git(folder, "add", ".")
        git(folder, "commit", "-q", "-m", name)
        git(folder, "tag", name)
        known[name] = git(folder, "rev-parse", "HEAD")
        known[f"{name}'s file"] = git(folder, "rev-parse", "HEAD:a.txt")
    git(folder, "bundle", "create", "all.bundle", "--all")
    return (folder / "all.bundle").read_bytes(), known


async def test_a_repository_has_its_past_and_no_future(
    workshop: Any, tmp_path: Path, bundle: tuple[bytes, dict[str, str]]
) -> None:
    data, known = bundle
    files = {"all.bundle": {"base64": base64.b64encode(data).decode()}}
    tars = []
    for number, ref in enumerate((known["now"], "now")):
        given = payload(files, git={"bundle": "all.bundle", "ref": ref})
        ready = await workshop.kind.prepare(f"git{number}", lambda given=given: given)
        tars.append(ready.tree.path.read_bytes())
    assert tars[0] == tars[1]
    environment = ready.environment()
    await environment.reset(0)
    player = Player(environment, tmp_path)
    assert await player.bash("git status --short; git log --format=%s; git branch -a; git tag; cat a.txt") == (
        "now\npast\n* main\nnow\n"
    )
    for name, there in (("past", True), ("now", True), ("future", False)):
        for what in (name, f"{name}'s file"):
            told = await player.text("bash", command=f"git cat-file -e {known[what]}")
            assert ("[exit status 0]" in told) is there, (what, told)
    assert await player.bash("git reflog; find .git -name '*.bundle' -o -name logs -o -name '*_HEAD'") == ""
    assert await player.bash("git fsck --full --unreachable --no-progress 2>&1; git for-each-ref | wc -l") == "1\n"
    assert known["future"].encode() not in tars[0]
    await player.bash("echo mine > a.txt; git commit -qam mine; git log -1 --format='%an %ad' --date=unix")
    assert await player.bash("git log -1 --format='%an %at'") == f"agent {1770681600 + 8 + 2}\n"
    await environment.close()
