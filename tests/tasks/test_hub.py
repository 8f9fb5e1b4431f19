"""Downloading with the real library from a small hub on loopback."""

import hashlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from quintain.errors import DatasetError
from quintain.tasks import AwmDataset, layout
from quintain.tasks.hub import REPOSITORY, download

pytest.importorskip("huggingface_hub", reason="the extra [hub] is not installed")

MakeDataset = Callable[..., Path]
COMMIT = "5" * 40


class Hub:
    """What the library asks of a hub: a revision's commit and files, then each file."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commit = COMMIT
        self.requests: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _answer(self, body: bool) -> None:
                path = self.path.partition("?")[0]
                hub.requests.append(f"{self.command} {path}")
                status, data = hub.answer(path)
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
                self.send_header("X-Repo-Commit", hub.commit)
                if status == 404:
                    self.send_header("X-Error-Code", "RevisionNotFound")
                self.end_headers()
                if body:
                    self.wfile.write(data)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str) -> tuple[int, bytes]:
        if path == f"/api/datasets/{REPOSITORY}/revision/main":
            files = [{"rfilename": item.name} for item in sorted(self.folder.iterdir())]
            return 200, json.dumps({"id": REPOSITORY, "sha": self.commit, "siblings": files}).encode()
        prefix = f"/datasets/{REPOSITORY}/resolve/{self.commit}/"
        if path.startswith(prefix) and (self.folder / path.removeprefix(prefix)).is_file():
            return 200, (self.folder / path.removeprefix(prefix)).read_bytes()
        return 404, b""


@pytest.fixture
def hub(make_dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("NO_PROXY", "*")
    hub = Hub(make_dataset(2))
    thread = threading.Thread(target=hub.server.serve_forever, args=(0.01,))
    thread.start()
    yield hub
    hub.server.shutdown()
    thread.join()
    hub.server.server_close()


def test_a_download_is_a_dataset_that_knows_its_commit(hub: Hub, tmp_path: Path) -> None:
    folder = download(tmp_path / "awm", endpoint=hub.url)
    assert folder == tmp_path / "awm" / COMMIT
    for name in layout.FILES:
        assert (folder / name).read_bytes() == (hub.folder / name).read_bytes()
    with AwmDataset.open(folder) as source, AwmDataset.open(hub.folder) as original:
        assert source.dataset_digest == original.dataset_digest
        said = source.provenance
    assert (said.source, said.revision, said.commit, said.licence) == (REPOSITORY, "main", COMMIT, "CC-BY-4.0")


def test_a_commit_that_is_there_is_not_downloaded_again(hub: Hub, tmp_path: Path) -> None:
    folder = download(tmp_path, endpoint=hub.url)
    hub.requests.clear()
    assert download(tmp_path, endpoint=hub.url) == folder
    assert hub.requests == [f"GET /api/datasets/{REPOSITORY}/revision/main"]
    hub.requests.clear()
    assert download(tmp_path, COMMIT, endpoint=hub.url) == folder
    assert hub.requests == []


def test_a_new_commit_gets_its_own_folder(hub: Hub, tmp_path: Path) -> None:
    first = download(tmp_path, endpoint=hub.url)
    hub.commit = "6" * 40
    with (hub.folder / layout.SCENARIO).open("a") as file:
        file.write('{"name": "New 1"}\n')
    second = download(tmp_path, endpoint=hub.url)
    assert second.name == "6" * 40
    with AwmDataset.open(first) as old, AwmDataset.open(second) as new:
        assert len(new.scenarios()) == len(old.scenarios()) + 1


def test_a_broken_download_is_not_taken_for_a_dataset(hub: Hub, tmp_path: Path) -> None:
    folder = download(tmp_path, endpoint=hub.url)
    (folder / "provenance.json").unlink()
    (folder / layout.ENVS).unlink()
    hub.requests.clear()
    assert download(tmp_path, endpoint=hub.url) == folder
    assert any(request.endswith(layout.ENVS) for request in hub.requests)
    assert (folder / layout.ENVS).read_bytes() == (hub.folder / layout.ENVS).read_bytes()
    assert (folder / "provenance.json").is_file()


def test_a_revision_that_is_not_there_is_named(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"cannot download .*AgentWorldModel-1K at 'v9': .*404"):
        download(tmp_path, "v9", endpoint=hub.url)


def test_a_repository_that_lacks_a_file_is_refused(hub: Hub, tmp_path: Path) -> None:
    (hub.folder / layout.DB).unlink()
    with pytest.raises(DatasetError, match=f"has no {layout.DB}; choose another revision"):
        download(tmp_path, endpoint=hub.url)


def test_without_a_network_the_commits_at_hand_are_named(hub: Hub, tmp_path: Path) -> None:
    download(tmp_path, endpoint=hub.url)
    nobody = "http://127.0.0.1:9"
    with pytest.raises(DatasetError, match=f"try again, or use a commit that is here: {COMMIT}"):
        download(tmp_path, endpoint=nobody)
    with pytest.raises(DatasetError, match="try again, or name a folder that holds the data"):
        download(tmp_path / "empty", endpoint=nobody)


def test_a_hub_that_names_no_commit_is_refused(hub: Hub, tmp_path: Path) -> None:
    hub.commit = "../../elsewhere"
    with pytest.raises(DatasetError, match="names no commit"):
        download(tmp_path, endpoint=hub.url)


def test_without_the_extra_the_message_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['huggingface_hub'] = None\n"
        "from pathlib import Path\n"
        "from quintain.errors import SettingsError\n"
        "from quintain.tasks.hub import download\n"
        "try:\n    download(Path(sys.argv[1]))\n"
        "except SettingsError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "install quintain[hub], or download the files yourself" in done.stdout
