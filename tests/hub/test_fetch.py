"""Downloading from a hub: a server on this machine with the routes of the real one."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError, SpecError
from regard.hub.fetch import fetch
from regard.hub.load import import_folder, match_family
from regard.hub.save import export_folder
from tests.hub.test_load import CONFIG

COMMIT = "a" * 40


class Hub(BaseHTTPRequestHandler):
    """One repository, `someone/tiny`."""

    folder: Path
    asked: list[str]

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        self.asked.append(path)
        if path == f"/api/models/someone/tiny/tree/{COMMIT}":
            sizes = {name: (self.folder / name).stat().st_size for name in self.names()}
            tree = [{"type": "file", "path": name, "size": size, "oid": "b" * 40} for name, size in sizes.items()]
            return self.send(json.dumps(tree).encode())
        if path.startswith("/api/models/someone/tiny"):
            files = [{"rfilename": name} for name in self.names()]
            return self.send(json.dumps({"id": "someone/tiny", "sha": COMMIT, "siblings": files}).encode())
        name = path.removeprefix(f"/someone/tiny/resolve/{COMMIT}/")
        if name != path and (self.folder / name).is_file():
            return self.send((self.folder / name).read_bytes())
        self.send_response(404)
        self.send_header("X-Error-Code", "RepoNotFound")
        self.send_header("X-Error-Message", "there is no such model")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def names(self) -> list[str]:
        found = (path for path in self.folder.rglob("*") if path.is_file())
        return sorted(path.relative_to(self.folder).as_posix() for path in found)

    def send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *words: object) -> None: ...


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    torch.manual_seed(0)
    plan = match_family(CONFIG)
    export_folder(plan, plan.spec.build(), tmp_path / "served")
    (tmp_path / "served" / "modeling_evil.py").write_text("raise SystemExit")
    for name in ("pytorch_model.bin", "LICENSE", "1_Pooling/config.json", "1_Pooling/x.bin", "onnx/config.json"):
        (tmp_path / "served" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "served" / name).write_bytes(b"{}")
    asked: list[str] = []
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Here", (Hub,), {"folder": tmp_path / "served", "asked": asked})
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_model_is_downloaded_without_its_code(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    endpoint, asked = hub
    folder = fetch("someone/tiny", tmp_path / "here", endpoint)
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    wanted = {"config.json", "model.safetensors", "LICENSE", "1_Pooling/config.json"}
    assert {name for name in there if not name.startswith(".cache")} == wanted
    assert not any("evil" in path or path.endswith(".bin") for path in asked)
    served = import_folder(tmp_path / "served").model.state_dict()
    assert all(torch.equal(served[name], tensor) for name, tensor in import_folder(folder).model.state_dict().items())


def test_a_model_that_is_not_there_is_told(hub: tuple[str, list[str]], tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="someone/none"):
        fetch("someone/none", tmp_path / "here", hub[0])


def test_without_a_network_it_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RegardError) as caught:
        fetch("someone/tiny", tmp_path / "here", "http://127.0.0.1:9")
    assert "where there is a network" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["tiny", "a/b/c", "../x", "a/..", "", "a b/c"])
def test_a_name_that_is_none_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="owner/name"):
        fetch(name, tmp_path)
