"""Malicious and damaged archives: nothing outside the target folder is ever changed."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from harness import files
from harness.errors import UserError
from harness.fetching.archives import unpack


def tar(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as archive:
        for info, content in members:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def zipped(path: Path, members: list[tuple[str, bytes, int]]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, content, zipfile.ZIP_DEFLATED)
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "secret.txt").write_text("untouched")
    return tmp_path / "in" / "target"


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz", "zip"])
def test_an_archive_as_it_should_be(tmp_path, target, mode):
    if mode == "zip":
        archive = zipped(
            tmp_path / "a",
            [("b/", b"", 0), ("b/c.txt", b"text", stat.S_IFREG | 0o777), ("empty", b"", 0)],
        )
    else:
        members = [
            (member("./b", tarfile.DIRTYPE), b""),
            (member("./b/c.txt"), b"text"),
            (member("empty"), b""),
        ]
        archive = tar(tmp_path / "a", members, mode)
    unpack(archive, target)
    assert (target / "b" / "c.txt").read_bytes() == b"text"
    assert not (target / "b" / "c.txt").stat().st_mode & 0o111
    assert (target / "empty").read_bytes() == b""


@pytest.mark.parametrize(
    "name", ["../secret.txt", "/tmp/secret.txt", "a/../../secret.txt", "..", "a\\..\\b", "a\nb"]
)
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_paths_that_leave_the_folder(tmp_path, target, name, kind):
    if kind == "tar":
        archive = tar(tmp_path / "a", [(member(name), b"harm")])
    else:
        archive = zipped(tmp_path / "a", [(name, b"harm", 0)])
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="outside the folder"):
        unpack(archive, target)
    assert {path for path in tmp_path.rglob("*") if not path.is_relative_to(target)} == before
    assert (tmp_path / "secret.txt").read_text() == "untouched"


LINKS = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


@pytest.mark.parametrize("kind", [*LINKS, stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO], ids=repr)
def test_links_and_devices_are_refused(tmp_path, target, kind):
    if isinstance(kind, bytes):
        archive = tar(
            tmp_path / "a", [(member("x", kind, "../../secret.txt"), b""), (member("x/y"), b"harm")]
        )
    else:
        archive = zipped(tmp_path / "a", [("x", b"../../secret.txt", kind | 0o777)])
    with pytest.raises(UserError, match="a link or a device"):
        unpack(archive, target)
    assert not (target / "x").is_symlink()
    assert not (target / "x").exists()


@pytest.mark.parametrize("names", [("x", "x"), ("x", "x/y"), ("x/y", "x")])
def test_a_name_that_comes_twice(tmp_path, target, names):
    archive = tar(tmp_path / "a", [(member(name), b"z") for name in names])
    with pytest.raises(UserError, match="twice" if names == ("x", "x") else "cannot be read"):
        unpack(archive, target)


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("members", [1, 4])
def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path, target, kind, members, monkeypatch
):
    monkeypatch.setattr(files, "UNPACKED_BYTES", 10**6)
    content = bytes(8 * 10**6 // members)
    names = [f"x{number}" for number in range(members)]
    if kind == "tar":
        archive = tar(tmp_path / "a", [(member(name), content) for name in names])
    else:
        archive = zipped(tmp_path / "a", [(name, content, 0) for name in names])
    with pytest.raises(UserError, match=r"unpacks to more than \d MB.*nothing of it is used"):
        unpack(archive, target)
    unpacked = [path for path in tmp_path.rglob("x*") if path.is_file()]
    assert sum(path.stat().st_size for path in unpacked) < 3 * 10**6


@pytest.mark.parametrize("kind", ["tar", "zip", "text"])
def test_damaged_archives_are_one_line(tmp_path, target, kind):
    content = bytes(range(256)) * 2000
    if kind == "tar":
        archive = tar(tmp_path / "a", [(member("x"), content)])
        archive.write_bytes(archive.read_bytes()[:-200])
    elif kind == "zip":
        archive = zipped(tmp_path / "a", [("x", content, 0)])
        raw = bytearray(archive.read_bytes())
        raw[100:140] = bytes(40)
        archive.write_bytes(bytes(raw))
    else:
        archive = tmp_path / "a"
        archive.write_text("<html>not found</html>")
    with pytest.raises(UserError, match="cannot be read"):
        unpack(archive, target)
