"""Where models come from, without loading them."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

import pytest

from harness.encoders.locate import MAIN, HubModel, MissingModel, compute_git_id
from harness.errors import MissingData, UserError

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A local hub cache as huggingface_hub lays it, with one model at one commit."""
    cache = tmp_path / "hub"
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    model = cache / "models--owner--model"
    snapshot = model / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors").write_bytes(b"weights")
    return snapshot


def test_a_cached_commit_is_found_by_its_name_and_another_has_its_command(hub: Path) -> None:
    model = HubModel("owner/model", COMMIT)
    assert model.missing(None) == []
    assert model.path() == hub
    assert HubModel("owner/model", MAIN).path() == hub
    assert HubModel("owner/model", MAIN).fingerprint(None) == model.fingerprint(None)
    other = HubModel("owner/model", COMMIT[::-1])
    others = (other, HubModel("owner/model", COMMIT, trusted=True))
    assert model.fingerprint(None) not in [each.fingerprint(None) for each in others]
    (missing,) = other.missing(None)
    assert isinstance(missing, MissingModel)
    assert f"hf download owner/model --revision {COMMIT[::-1]}" in missing.how
    with pytest.raises(MissingData):
        other.path()


@pytest.mark.parametrize(
    ("links", "files"),
    [
        pytest.param(["model.safetensors"], ["config.json"], id="weights that were not downloaded"),
        pytest.param(["config.json"], ["model.safetensors"], id="a configuration that was not"),
        pytest.param(
            ["tokenizer.json"], ["config.json", "model.safetensors"], id="a tokenizer that was not"
        ),
        pytest.param(
            [], ["config.json", "model-00001-of-00002.safetensors"], id="one of two parts"
        ),
        pytest.param(
            [], ["config.json", "pytorch_model-00002-of-00003.bin"], id="one of three parts"
        ),
    ],
)
def test_half_a_download_is_missing(links: list[str], files: list[str], hub: Path) -> None:
    for path in hub.iterdir():
        path.unlink()
    for name in links:
        (hub / name).symlink_to("../../blobs/gone")
    for name in files:
        (hub / name).write_text("{}")
    (missing,) = HubModel("owner/model", COMMIT).missing(None)
    assert "hf download owner/model" in missing.how


def test_weights_in_parts_are_found_once_all_are_there(hub: Path) -> None:
    (hub / "model.safetensors").unlink()
    for number in (1, 2):
        (hub / f"model-0000{number}-of-00002.safetensors").write_bytes(b"weights")
    assert HubModel("owner/model", COMMIT).path() == hub


def test_a_snapshot_needs_weights_and_one_of_sentence_transformers_no_configuration_of_its_own(
    hub: Path,
) -> None:
    for name in ("model.safetensors", "config.json"):
        (hub / name).unlink()
        assert HubModel("owner/model", COMMIT).missing(None)
    listed = [{"type": "sentence_transformers.models.StaticEmbedding", "path": "0_StaticEmbedding"}]
    (hub / "modules.json").write_text(json.dumps(listed))
    (hub / "0_StaticEmbedding").mkdir()
    assert HubModel("owner/model", COMMIT).missing(None), "there are no weights yet"
    (hub / "0_StaticEmbedding" / "model.safetensors").write_bytes(b"weights")
    assert HubModel("owner/model", COMMIT).path() == hub


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_bytes_of_the_cache_that_are_not_those_of_the_hub_are_refused(
    name: str, hub: Path, tmp_path: Path
) -> None:
    """Replaced in place, at the same size and times."""
    blobs = hub.parents[1] / "blobs"
    blobs.mkdir()
    contents = {"config.json": b"{}", "model.safetensors": b"weights"}
    names = {
        "config.json": compute_git_id(contents["config.json"]),
        "model.safetensors": sha256(contents["model.safetensors"]).hexdigest(),
    }
    for file, content in contents.items():
        (blobs / names[file]).write_bytes(content)
        (hub / file).unlink()
        (hub / file).symlink_to(f"../../blobs/{names[file]}")
    model = HubModel("owner/model", COMMIT)
    known = model.fingerprint(None)

    stored = blobs / names[name]
    times = stored.stat()
    stored.write_bytes(contents[name][::-1])
    os.utime(stored, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(UserError, match=f"{name} is not the file that the hub stated.* remove"):
        model.fingerprint(None)

    stored.write_bytes(contents[name])
    assert model.fingerprint(None) == known
    # as git names a file of these two bytes
    assert names["config.json"] == "9e26dfeeb6e641a33dae4961196235bdb965b21b"
