"""Models on the hub: the real client, in this process, against the stand-in."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from standin import StandIn, serving, use_client

from harness.errors import UserError
from harness.runs.export import push_model
from harness.toy import student_folder

TOKEN = "a-token-of-the-test"
REPOSITORY = "me/a-model"


@pytest.fixture
def standin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    with serving() as server:
        server.token = TOKEN
        use_client(server, tmp_path / "hf", monkeypatch)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What `export` writes; see test_export.py."""
    folder = shutil.copytree(student_folder(), tmp_path / "model")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / "README.md").write_text("---\nlicense: unknown\n---\n\n# A model\n")
    return folder


def test_a_model_is_pushed_to_a_new_repository_and_never_over_another(
    standin: StandIn, folder: Path
) -> None:
    commit = push_model(folder, REPOSITORY, "a run")
    assert commit == standin.heads[REPOSITORY]
    assert standin.private == {REPOSITORY}

    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert standin.inside(REPOSITORY, commit) == files

    (folder / "README.md").write_text("another card")
    with pytest.raises(UserError, match=f"has {len(files)} files already; give a new repository"):
        push_model(folder, REPOSITORY, "a run")
    assert standin.heads[REPOSITORY] == commit


def test_the_token_is_written_nowhere(standin: StandIn, folder: Path, tmp_path: Path) -> None:
    push_model(folder, REPOSITORY, "a run")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_a_repository_that_cannot_be_written_to_is_one_line(
    standin: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="'a-model' is not the name of a repository"):
        push_model(folder, "a-model", "a run")

    standin.refuse[f"/api/models/{REPOSITORY}/commit/main"] = (412, "")
    with pytest.raises(UserError, match="was changed by someone else in the meantime"):
        push_model(folder, REPOSITORY, "a run")

    monkeypatch.setenv("HF_TOKEN", "another")
    with pytest.raises(UserError, match=rf"does not let you use {REPOSITORY} \(403\)"):
        push_model(folder, REPOSITORY, "a run")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="HF_HUB_OFFLINE"):
        push_model(folder, REPOSITORY, "a run")
