"""A stand-in hub and drive on loopback, which speak what the installed clients ask, and plain
addresses.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

import pytest

COMMIT = "c" * 40
#: the content of a file, or where it is on disk
Content = bytes | Path
#: the drive's question about files that it does not scan for viruses
QUESTION = (
    '<html><form id="download-form" action="https://drive.usercontent.google.com/download" method="get">'
    '<input type="hidden" name="id" value="{id}"><input type="hidden" name="confirm" value="t"></form></html>'
)
#: larger files of the drive are sent once its question is answered
DRIVE_SCANS = 100_000_000
#: hosts of the drive, whose files are asked for by `id`
DRIVE_HOSTS = ("https://drive.google.com", "https://drive.usercontent.google.com")


@dataclass
class StandIn:
    """What the server holds and does; files are named by the path of their address."""

    address: str
    files: dict[str, Content] = field(default_factory=dict)
    #: id of a file on the drive -> its name and content
    drive: dict[str, tuple[str, Content]] = field(default_factory=dict)
    #: path -> headers besides the usual ones
    headers: dict[str, dict[str, str]] = field(default_factory=dict)
    #: path -> status and X-Error-Code
    refuse: dict[str, tuple[int, str]] = field(default_factory=dict)
    #: path -> where each of the next connections is cut, in bytes of the body
    cuts: dict[str, list[int]] = field(default_factory=dict)
    #: path -> the body hangs after so many bytes until this is set
    hangs: dict[str, int] = field(default_factory=dict)
    go_on: threading.Event = field(default_factory=threading.Event)
    ranges: bool = True
    asked: list[tuple[str, str, str]] = field(default_factory=list)

    def gets(self, path: str) -> list[str]:
        """The ranges of the GET requests for a path, '' for a whole one."""
        return [wanted for method, asked, wanted in self.asked if method == "GET" and asked == path]

    #: repository, as in addresses -> its newest commit, COMMIT where none is named; those made here
    #: are `private`
    heads: dict[str, str] = field(default_factory=dict)
    private: set[str] = field(default_factory=set)
    #: the token without which nothing is written
    token: str = ""
    #: commits -> their parent, in order
    commits: dict[str, str] = field(default_factory=dict)

    #: name of a file -> SHA-256 that the hub states for it instead of the true one
    stated: dict[str, str] = field(default_factory=dict)
    #: model or data set, as in addresses -> what its card says
    cards: dict[str, dict[str, str]] = field(default_factory=dict)

    def hub_file(self, hub: str, file: str, content: Content, commit: str = COMMIT) -> str:
        """Put a file into a data set; its path."""
        return self.model_file(f"datasets/{hub}", file, content, commit)

    def model_file(self, hub: str, file: str, content: Content, commit: str = COMMIT) -> str:
        """Put a file into a model; its path."""
        path = f"/{hub}/resolve/{commit}/{file}"
        self.files[path] = content
        return path

    def inside(self, hub: str, commit: str) -> dict[str, Content]:
        """The files of a repository, as in addresses, by name."""
        start = f"/{hub}/resolve/{commit}/"
        return {
            path.removeprefix(start): content
            for path, content in self.files.items()
            if path.startswith(start)
        }


@contextmanager
def serving() -> Iterator[StandIn]:
    """Serve on a free port of loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    held = StandIn(f"http://127.0.0.1:{server.server_port}")
    server.RequestHandlerClass = type("Handler", (_Handler,), {"standin": held})
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    yield held
    held.go_on.set()
    server.shutdown()
    server.server_close()


def client_variables(standin: StandIn, home: Path) -> dict[str, str]:
    """The environment of a process with a hub client that uses the stand-in and a cache below
    `home`.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HF_", "HARNESS_"))
    }
    clean = {name: value for name, value in clean.items() if "proxy" not in name.lower()}
    clean |= {"HF_ENDPOINT": standin.address, "HF_HOME": str(home), "NO_PROXY": "127.0.0.1"}
    return clean | {
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "OMP_NUM_THREADS": "1",
    }


def use_client(standin: StandIn, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Let this process's hub client use the stand-in and a cache below `home`."""
    from huggingface_hub import constants

    patch.setattr(constants, "ENDPOINT", standin.address)
    template = standin.address + "/{repo_id}/resolve/{revision}/{filename}"
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    patch.setattr(constants, "HF_HUB_OFFLINE", False)
    patch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    patch.setattr(constants, "HF_HUB_CACHE", str(home / "hub"))
    patch.setattr(constants, "HF_TOKEN_PATH", str(home / "token"))
    patch.setenv("NO_PROXY", "127.0.0.1")


def read(content: Content) -> memoryview:
    """The bytes of a file, mapped if it is on disk."""
    if isinstance(content, bytes):
        return memoryview(content)
    with content.open("rb") as stream:
        return memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))


@cache
def sum_of(content: Content) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(read(content)).hexdigest()


def _entries(files: dict[str, Content]) -> list[dict[str, Any]]:
    """Files and folders of a repository as the hub lists them."""
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents} - {"."}
    listed: list[dict[str, Any]] = [
        {"type": "directory", "path": name, "oid": "0" * 40} for name in sorted(folders)
    ]
    return listed + [
        {"type": "file", "path": name, "size": len(read(content)), "oid": sum_of(content)[:40]}
        for name, content in files.items()
    ]


class _Handler(BaseHTTPRequestHandler):
    """Answers as the hub, the drive and plain addresses do; each server has a subclass with its
    stand-in.
    """

    standin: ClassVar[StandIn]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        return

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        path = unquote(self.path.partition("?")[0])
        wanted = self.headers.get("Range", "")
        self.standin.asked.append((self.command, path, wanted))
        if path in self.standin.refuse:
            code, error = self.standin.refuse[path]
            self._send(
                code,
                ({"X-Error-Code": error} if error else {}) | self.standin.headers.get(path, {}),
                b"no",
            )
        elif path.startswith("/api/datasets/") and "/tree/" in path:
            self._tree(path)
        elif path.startswith("/api/"):
            self._repository(path)
        elif path in ("/uc", "/download") and self.standin.drive:
            self._drive(path, wanted, body)
        elif path in self.standin.files:
            self._content(path, self.standin.files[path], wanted, body)
        else:
            code = "EntryNotFound" if "/resolve/" in path else ""
            self._send(404, {"X-Error-Code": code} if code else {}, b"no")

    def _tree(self, path: str) -> None:
        """A folder of a repository, with all that is below it where that is asked."""
        hub, _, below = path.removeprefix("/api/").partition("/tree/")
        commit, _, folder = below.partition("/")
        entries = _entries(self.standin.inside(hub, commit))
        start = f"{folder}/" if folder else ""
        inside = [entry for entry in entries if entry["path"].startswith(start)]
        if "recursive=true" not in self.path.lower():
            inside = [entry for entry in inside if "/" not in entry["path"].removeprefix(start)]
        if inside:
            self._json(inside)
        else:
            self._send(404, {"X-Error-Code": "EntryNotFound"}, b"no")

    def do_POST(self) -> None:
        """What is known of some paths of a repository, or a step of writing to one."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.standin.asked.append(("POST", self.path, ""))
        if "/paths-info/" in self.path:
            asked = parse_qs(body.decode())
            hub, _, commit = self.path.removeprefix("/api/").partition("/paths-info/")
            self._json(
                [
                    row
                    for row in _entries(self.standin.inside(hub, commit))
                    if row["path"] in asked["paths"]
                ]
            )
        elif self.path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif (
            not self.standin.token
            or self.headers.get("Authorization") != f"Bearer {self.standin.token}"
        ):
            self._send(403, {}, b"no")
        elif self.path in self.standin.refuse:
            self._send(self.standin.refuse[self.path][0], {}, b"no")
        else:
            self._write(body)

    def _write(self, body: bytes) -> None:
        """Make a repository, say how files are to be sent, or take a commit of them."""
        if self.path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            hub = f"datasets/{name}" if asked.get("type") == "dataset" else name
            if hub in self.standin.heads or self.standin.inside(hub, COMMIT):
                self._json({"url": f"{self.standin.address}/{hub}", "error": "it is there"}, 409)
                return
            self.standin.heads[hub] = "0" * 40
            self.standin.private |= {hub} if asked.get("visibility") == "private" else set()
            self._json({"url": f"{self.standin.address}/{hub}", "name": name})
            return
        step = self.path.removeprefix("/api/").removeprefix("models/")
        if "/preupload/" in step:
            files = [file["path"] for file in json.loads(body)["files"]]
            self._json(
                {
                    "files": [
                        {"path": path, "uploadMode": "regular", "shouldIgnore": False}
                        for path in files
                    ]
                }
            )
            return
        hub = step.partition("/commit/")[0]
        head = self.standin.heads.get(hub, COMMIT)
        lines = [json.loads(line) for line in body.splitlines()]
        if lines[0]["value"].get("parentCommit", head) != head:
            self._send(412, {}, b"another commit came first")
            return
        fresh = hashlib.sha1(head.encode() + body).hexdigest()
        kept = self.standin.inside(hub, head)
        sent = {
            line["value"]["path"]: b64decode(line["value"]["content"])
            for line in lines
            if line["key"] == "file"
        }
        for name, content in (kept | sent).items():
            self.standin.model_file(hub, name, content, fresh)
        self.standin.heads[hub], self.standin.commits[fresh] = fresh, head
        self._json(
            {"commitUrl": f"{self.standin.address}/{hub}/commit/{fresh}", "commitOid": fresh}
        )

    def _json(self, answer: object, code: int = 200) -> None:
        self._send(code, {"Content-Type": "application/json"}, json.dumps(answer).encode())

    def _repository(self, path: str) -> None:
        """What a repository holds; `main` is its newest commit."""
        hub, _, wanted = path.removeprefix("/api/").removeprefix("models/").partition("/revision/")
        head = self.standin.heads.get(hub, COMMIT)
        commit = head if wanted in ("", "main") else wanted
        held = self.standin.inside(hub, commit)
        if not held and commit != self.standin.heads.get(hub):
            self._send(
                404, {"X-Error-Code": "RevisionNotFound" if wanted else "RepoNotFound"}, b"no"
            )
            return
        files = []
        for name, content in held.items():
            size, stated = len(read(content)), self.standin.stated.get(name, sum_of(content))
            lfs = {"size": size, "sha256": stated, "pointerSize": 1}
            files.append({"rfilename": name, "size": size, "blobId": "0" * 40, "lfs": lfs})
        known = {
            "id": hub.removeprefix("datasets/"),
            "sha": commit,
            "siblings": files,
            "tags": [],
            "downloads": 0,
        }
        known |= {
            "cardData": self.standin.cards.get(hub, {}),
            "private": False,
            "disabled": False,
            "likes": 0,
        }
        self._json(known)

    def _drive(self, path: str, wanted: str, body: bool) -> None:
        """A file of the drive by its id, or the question about it."""
        number = parse_qs(self.path.partition("?")[2]).get("id", [""])[0]
        name, content = self.standin.drive[number]
        if path == "/uc" and len(read(content)) > DRIVE_SCANS:
            page = QUESTION.format(id=number).encode()
            self._send(200, {"Content-Type": "text/html; charset=utf-8"}, page)
            return
        headers = {"Content-Type": "application/octet-stream"}
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
        self._content(path, content, wanted, body, headers)

    def _content(
        self, path: str, held: Content, wanted: str, body: bool, more: dict[str, str] | None = None
    ) -> None:
        content = read(held)
        tag = f'"{sum_of(held)}"'
        headers = (
            {"ETag": tag, "Accept-Ranges": "bytes"}
            | (more or {})
            | self.standin.headers.get(path, {})
        )
        if "/resolve/" in path:
            commit = path.partition("/resolve/")[2].partition("/")[0]
            headers |= {
                "X-Repo-Commit": commit,
                "X-Linked-Size": str(len(content)),
                "X-Linked-ETag": tag,
            }
        same = self.headers.get("If-Range", tag) == tag
        start = (
            int(wanted.removeprefix("bytes=").split("-")[0])
            if wanted and self.standin.ranges and same
            else 0
        )
        code = 200
        if start >= len(content) > 0:
            self._send(416, {"Content-Range": f"bytes */{len(content)}"}, b"")
            return
        if start:
            code = 206
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self._send(code, headers, content[start:] if body else b"", len(content) - start, path)

    def _send(
        self,
        code: int,
        headers: dict[str, str],
        content: bytes | memoryview,
        length: int | None = None,
        path: str = "",
    ) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.standin.cuts.get(path):
            self.wfile.write(content[: self.standin.cuts[path].pop(0)])
            self.close_connection = True
            return
        if path in self.standin.hangs and not self.standin.go_on.is_set():
            self.wfile.write(content[: self.standin.hangs[path]])
            self.wfile.flush()
            self.standin.go_on.wait(60)
            content = content[self.standin.hangs[path] :]
        self.wfile.write(content)
