"""Importing by hand, verifying, and resuming after a stop between two renames."""

from __future__ import annotations

import errno
import hashlib
import os
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from harness import fetching
from harness.errors import UserError
from harness.fetching.entries import read_entries

SENTENCES = "".join(f"sentence {number}\n" for number in range(100))


def made(rows: int = 100, checksum: bool = True) -> fetching.Entry:
    known = (
        f', checksum = "sha256:{hashlib.sha256(SENTENCES.encode()).hexdigest()}"'
        if checksum
        else ""
    )
    text = f"""
        [lines]
        title = "lines"
        licence = "none"
        origins = [{{ file = "lines.txt", hand = "ask for lines.txt"{known} }}, {{ file = "more.txt", hand = "ask" }}]
        outputs = [
          {{ path = "y/lines.txt", origin = "lines.txt", rows = {rows} }},
          {{ path = "y/more.txt", origin = "more.txt" }},
        ]
    """
    return read_entries(text)["lines"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    data = tmp_path / "root"
    data.mkdir()
    return data


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    downloads = tmp_path / "downloads"
    downloads.mkdir()
    (downloads / "lines.txt").write_text(SENTENCES)
    (downloads / "more.txt").write_text("more\n")
    return downloads


def import_given(root: Path, entry: fetching.Entry, folder: Path, link: bool = False) -> list[str]:
    lines: list[str] = []
    fetching.import_folder(root, entry, folder, link, lines.append, lambda _: lambda *_: None)
    return lines


@pytest.mark.parametrize("link", [False, True])
def test_files_are_copied_or_linked_and_verified(root, folder, link):
    import_given(root, made(), folder, link)
    assert (root / "y" / "lines.txt").read_text() == SENTENCES
    assert (root / "y" / "lines.txt").is_symlink() == link
    assert (folder / "lines.txt").read_text() == SENTENCES
    assert fetching.find_state(root, made()).word == "present"
    assert fetching.verify(root, made()) == []
    assert "already present" in import_given(root, made(), folder)[0]
    (root / "y" / "more.txt").write_text("Mora\n")
    assert [line.split()[0] for line in fetching.verify(root, made())] == ["y/more.txt"]
    (root / "y" / "more.txt").unlink()
    assert fetching.verify(root, made()) == ["y/more.txt is missing"]
    (folder / "more.txt").write_text("more\n")
    import_given(root, made(), folder)
    assert fetching.verify(root, made()) == []


def test_what_is_missing_different_or_in_the_way_is_named_and_both_folders_are_left_alone(
    tmp_path, root, folder
):
    with pytest.raises(UserError, match="there is no folder"):
        import_given(root, made(), tmp_path / "nowhere")
    (folder / "more.txt").unlink()
    with pytest.raises(UserError, match=r"files of lines are missing in .*: more.txt \(ask\)"):
        import_given(root, made(), folder)
    (folder / "more.txt").write_text("more\n")
    (folder / "lines.txt").write_text(SENTENCES + "harm\n")
    with pytest.raises(UserError, match=r"lines.txt is not the file of the catalogue: sha256"):
        import_given(root, made(), folder)
    assert (folder / "lines.txt").read_text() == SENTENCES + "harm\n"
    with pytest.raises(UserError, match="101 rows, expected 100"):
        import_given(root, made(checksum=False), folder)
    assert not (root / "y").exists()
    (root / "y").mkdir()
    (root / "y" / "more.txt").write_text("mine\n")
    with pytest.raises(UserError, match="move it away"):
        import_given(root, made(checksum=False, rows=101), folder)
    assert (root / "y" / "more.txt").read_text() == "mine\n"


def test_a_stop_between_two_renames_is_gone_on_with(root, folder, monkeypatch):
    replace, calls = os.replace, []

    def stop_at_second(source: str, target: str, **folders: int) -> None:
        folder = folders.get("src_dir_fd")
        if folder is not None and "/out" in str(Path(f"/proc/self/fd/{folder}").readlink()):
            calls.append(source)
            if len(calls) == 2:
                raise KeyboardInterrupt
        replace(source, target, **folders)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stop_at_second)
        with pytest.raises(KeyboardInterrupt):
            import_given(root, made(), folder)
    assert fetching.find_state(root, made()).word == "part"
    (folder / "lines.txt").unlink()
    import_given(root, made(), folder)
    assert fetching.find_state(root, made()).word == "present"
    assert fetching.verify(root, made()) == []


def test_a_folder_may_stand_for_an_archive(tmp_path, root):
    text = """
        [both]
        title = "a folder"
        licence = "none"
        recipe = "unpack"
        options = { inside = { "a.zip" = "a" } }
        origins = [{ file = "a.zip", folder = "a", hand = "ask" }]
        outputs = [{ path = "x/a", kind = "folder", origin = "a.zip", files = 2, pattern = "*.txt" }]
    """
    entry = read_entries(text)["both"]
    source = tmp_path / "given" / "a"
    source.mkdir(parents=True)
    for name in ("1.txt", "2.txt", "notes.md"):
        (source / name).write_text(name)
    for target, link in ((tmp_path / "copied", False), (tmp_path / "linked", True)):
        target.mkdir()
        import_given(target, entry, tmp_path / "given", link)
        assert fetching.verify(target, entry) == []
        assert (target / "x" / "a").is_symlink() == link
    with zipfile.ZipFile(tmp_path / "given" / "a.zip", "w") as packed:
        packed.write(source / "1.txt", "a/1.txt")
    with pytest.raises(UserError, match="x/a has 1 files, expected 2"):
        import_given(root, entry, tmp_path / "given")


def test_features_are_counted(tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    with h5py.File(given / "flickr_resnet.hdf5", "w") as file:
        file["features"] = np.arange(29782, dtype=np.float32)[:, None]
    with pytest.raises(UserError, match="29782 rows, expected 29783"):
        import_given(tmp_path, fetching.find_entry("flickr-resnet"), given)


def test_a_manifest_that_was_changed_is_named(root, folder):
    import_given(root, made(), folder)
    manifest = root / ".catalogue" / "lines.sha256"
    text = manifest.read_text()
    for damaged in (
        text[:-20],
        text.replace("more.txt", "less.txt"),
        text.replace("# lines", "# line"),
    ):
        manifest.write_text(damaged)
        with pytest.raises(
            UserError, match=r"lines\.sha256 was changed or damaged after it was written; remove it"
        ):
            fetching.verify(root, made())
    manifest.write_text(text.partition("\n")[2])
    assert fetching.verify(root, made()) == [], "of an earlier version, without a digest"


def test_a_source_that_may_not_be_read_is_named_and_not_the_data_root(
    root: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(source: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(source))

    monkeypatch.setattr("shutil.copyfile", forbidden)
    with pytest.raises(UserError, match=rf"^{folder}(?!.*cannot be written)"):
        import_given(root, made(), folder)
