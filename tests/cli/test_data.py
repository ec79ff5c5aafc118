"""The `data` command: lists, imports and verifies entries of the catalogue."""

from __future__ import annotations

import shutil
from pathlib import Path

from cli_words import Typed

from harness import fetching


def test_the_list_names_what_a_profile_needs(typed: Typed, data_root: Path) -> None:
    code, shown, _ = typed("data", "list", "--profile", "small", "--data-root", str(data_root))
    assert code == 0
    rows = {line.split("  ")[0].strip(): line for line in shown.splitlines()}
    assert "found" in rows["suite sts"]
    assert "senteval" in rows["suite sts"]
    assert "90 MB" in rows["the suite sts"]
    for name in fetching.entries():
        assert name in rows
    assert "by hand" in rows["flickr-images"]
    assert (
        "https://drive.google.com/file/d/10x7Kf5ZD406gxcxONNn"
        in typed("data", "list", "flickr-resnet")[1]
    )
    detail = typed("data", "list", "wiki1m")[1]
    assert "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef" in detail
    assert "7b1825863a99aa76479b0456f7c210539dfaeeb69598b41fb4de4f524dd5a706" in detail
    assert "unknown" in typed("data", "list", "karpathy")[1]


def test_import_path_and_verify_from_the_command_line(
    typed: Typed, data_root: Path, tmp_path: Path
) -> None:
    (tmp_path / "given").mkdir()
    shutil.copy(data_root / "captions" / "flickr_random_captions.txt", tmp_path / "given")
    here = ("--data-root", str(tmp_path))
    assert typed("data", "import", "flickr-captions", "given", *here)[0] == 0
    captions = tmp_path / "flickr" / "captions.txt"
    assert typed("data", "path", "flickr-captions", *here)[:2] == (0, f"{captions}\n")
    assert typed("data", "verify", *here)[:2] == (0, "flickr-captions: OK\n")
    captions.write_text("other\n")
    code, out, _ = typed("data", "verify", "flickr-captions", *here)
    assert (code, "1 rows, expected 29783" in out) == (1, True)
