"""A hub that answers nonsense, or nothing: one line that names it, in bounded time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest
from huggingface_hub import constants

from harness.errors import UserError
from harness.fetching import repositories, transfer


def answered(
    body: bytes, kind: str = "application/json", more: str = "", length: int | None = None
) -> list[bytes]:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{more}Content-Length: {length or len(body)}\r\n\r\n"
    return [head.encode(), body]


#: what a hub sends; an endless list is sent piece by piece, and `None` is silence
ANSWERS: dict[str, list[bytes] | bytes | None] = {
    "a page": answered(b"<html>log in</html>", "text/html"),
    "an empty object": answered(b"{}"),
    "null": answered(b"null"),
    "a list": answered(b"[1, 2]"),
    "nested": answered(b"[" * 200_000),
    "other fields": answered(
        b'{"id": 3, "sha": null, "siblings": [{"rfilename": 7}, 4], "cardData": 7}'
    ),
    "no gzip": answered(b"\x1f\x8bnonsense", more="Content-Encoding: gzip\r\n"),
    "a body cut short": answered(b"{}", length=1000),
    "nothing at all": [],
    "no HTTP": [b"SSH-2.0\r\n\r\n"],
    "a circle": [
        b"HTTP/1.1 302 Found\r\nLocation: /api/datasets/a/b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    ],
    "headers without end": b"X-Header: " + b"a" * 1000 + b"\r\n",
    "a body byte by byte": b" ",
    "silence": None,
}


@pytest.fixture
def hub(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a hub that answers each question with the parameter, the same for all."""
    given, over = ANSWERS[request.param], threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.recv(65536)
            try:
                for piece in given if isinstance(given, list) else []:
                    connection.sendall(piece)
                if isinstance(given, bytes):
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\n" + b"Content-Length: 99\r\n\r\n" * (given == b" ")
                    )
                while isinstance(given, bytes) and not over.wait(0.1 if given == b" " else 0):
                    connection.sendall(given)
            except OSError:
                return
            if given is None:
                over.wait()

    def accept() -> None:
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=accept, daemon=True).start()
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr("huggingface_hub.hf_api.ENDPOINT", address, raising=False)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(transfer, "PATIENCE_S", 0.1)
        monkeypatch.setattr(transfer, "ANSWER_S", 0.3)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield address
        over.set()


@pytest.mark.parametrize("hub", ANSWERS, indirect=True)
@pytest.mark.parametrize("ask", ["look_up", "resolve"])
def test_an_answer_that_is_none_is_one_line(
    hub: str,
    ask: str,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    origin = transfer.Origin(file="*.txt", hub="a/b", revision="c" * 40, pick=1)
    asked = {
        "look_up": lambda: repositories.look_up("a/b", "model", "main"),
        "resolve": lambda: transfer.resolve(origin, "words"),
    }
    began = time.monotonic()
    with pytest.raises(UserError) as refused:
        asked[ask]()
    assert "\n" not in str(refused.value)
    assert "hub" in str(refused.value)
    assert time.monotonic() - began < 60
    if request.node.callspec.params["hub"] == "silence":
        assert f"waiting for the hub at {hub}" in caplog.text
        assert hub in str(refused.value)
