"""`harness run --released`: the public weights of a profile, under the names that `harness eval` gives them."""

from __future__ import annotations

import json
import shutil
from importlib.resources import files
from pathlib import Path

import pytest
from cli_words import Typed

from harness.toy import student_folder

COMMIT = "b17f672f6143a6b6ff2d60250a7c2fa7574ac6eb"


@pytest.fixture
def profile(tmp_path: Path) -> str:
    """The tiny profile with public weights in a folder of the data root."""
    shutil.copytree(student_folder(), tmp_path / "data" / "weights")
    tiny = (files("harness.profiles") / "tiny.toml").read_text("utf-8")
    weights = [
        *("[released.weights]", 'folder = "weights"', 'pooling = "mean"', 'encoder = "bert-base-uncased"'),
        *('rows = [{ tables = ["mcse:T1"], published = "mcse", setting = "wiki+flickr" }]', 'source = "here"'),
    ]
    (tmp_path / "mine.toml").write_text("\n".join([tiny, *weights]), "utf-8")
    return "./mine.toml"


def scores(tmp_path: Path) -> dict[str, list[str]]:
    """Run -> its suites, of every result file."""
    found = (json.loads(path.read_text()) for path in (tmp_path / "results").rglob("seed-*.json"))
    return {
        "/".join(str(one["spec"][name]) for name in ("variant", "setting", "encoder", "seed")): [
            evaluation["suite"] for evaluation in one["evaluations"]
        ]
        for one in found
    }


def test_weights_are_evaluated_once_whichever_command_asks(typed: Typed, tmp_path: Path, profile: str) -> None:
    where = ("--profile", profile, "--data-root", "data", "--device", "cpu")
    code, out, err = typed("run", "--released", "--table", "mcse:T1", *where)
    assert code == 0, err
    assert "mcse:T1      1 run, 0 done" in out
    assert scores(tmp_path) == {"none[pooling=mean]/none/weights/0": ["sts"]}
    code, out, err = typed("eval", "data/weights", "--pooling", "mean", "--suites", "sts", *where)
    assert code == 0, err
    assert "nothing to do" in out
    code, out, err = typed("run", "--released", "--suites", "sts", *where)
    assert "1 run, 1 done, 0 to do" in out


def test_missing_weights_are_named_with_their_commit(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    code, out, err = typed("run", "--released", "--table", "mcse:T1", "--dry-run")
    assert code == 0, err
    missing = [line for line in out.splitlines() if line.lstrip().startswith("missing   the weights of")]
    assert len(missing) == 6
    assert any("UdS-LSV/mcse-flickr-bert-base-uncased" in line and COMMIT in line for line in missing)


def test_weights_in_the_cache_are_found_under_the_listed_commit(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "models--UdS-LSV--mcse-flickr-bert-base-uncased" / "snapshots" / COMMIT
    shutil.copytree(student_folder(), snapshot)
    code, out, err = typed("run", "--released", "--table", "mcse:T1", "--dry-run")
    assert out.count("the weights of") == 6, "a snapshot without mcse.pt is not complete"
    (snapshot / "mcse.pt").touch()
    code, out, err = typed("run", "--released", "--table", "mcse:T1", "--dry-run")
    assert code == 0, err
    assert out.count("the weights of") == 5
    assert "mcse-flickr-bert-base-uncased --revision" not in out


def test_the_list_of_public_weights(typed: Typed) -> None:
    code, out, err = typed("list", "released")
    assert code == 0, err
    (line,) = (line for line in out.splitlines() if "UdS-LSV/mcse-flickr-bert-base-uncased" in line)
    tables = ["mcse:T1,", "mcse:T6,", "kdmcse:T1,", "dalr:T1"]
    assert line.split() == ["UdS-LSV/mcse-flickr-bert-base-uncased", COMMIT, "cls", *tables]
