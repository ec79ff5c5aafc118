"""The `data` command: lists, imports and verifies entries of the catalogue."""

from __future__ import annotations

import shutil

from click.testing import CliRunner

from harness import fetching
from harness.cli.main import cli


def invoke(*words: str, **env: str | None):
    return CliRunner().invoke(cli, ["data", *words], env={"HARNESS_DATA": None, **env})


def test_the_list_names_what_a_profile_needs(data_root):
    shown = invoke("list", "--profile", "small", "--data-root", str(data_root))
    assert shown.exit_code == 0, shown.output
    rows = {line.split("  ")[0].strip(): line for line in shown.output.splitlines()}
    assert "found" in rows["suite sts"]
    assert "senteval" in rows["suite sts"]
    assert "90 MB" in rows["the suite sts"]
    for name in fetching.entries():
        assert name in rows
    assert "by hand" in rows["flickr-images"]
    assert "https://drive.google.com/file/d/10x7Kf5ZD406gxcxONNn_CBpoaxij6Jv0" in invoke("list", "flickr-resnet").output
    detail = invoke("list", "wiki1m").output
    assert "e145e8bb659b2aa2669f32ef79cb4cdef6c58fef" in detail
    assert "7b1825863a99aa76479b0456f7c210539dfaeeb69598b41fb4de4f524dd5a706" in detail
    assert "unknown" in invoke("list", "karpathy").output


def test_import_path_and_verify_from_the_command_line(data_root, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    shutil.copy(data_root / "captions" / "flickr_random_captions.txt", given)
    place = ("--data-root", str(tmp_path))
    assert invoke("import", "flickr-captions", str(given), *place).exit_code == 0
    assert invoke("path", "flickr-captions", *place).output == f"{tmp_path / 'flickr' / 'captions.txt'}\n"
    assert invoke("verify", *place).output == "flickr-captions: OK\n"
    (tmp_path / "flickr" / "captions.txt").write_text("other\n")
    changed = invoke("verify", "flickr-captions", *place)
    assert changed.exit_code == 1
    assert "1 rows, expected 29783" in changed.output
