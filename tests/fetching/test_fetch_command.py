"""`harness fetch` and `harness run --fetch` against the stand-in hub, with the real client."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
from datasets import Dataset
from huggingface_hub import constants
from PIL import Image
from standin import StandIn, use_client

from harness.cli.main import main
from harness.fetching.archives import write_parquet
from harness.fetching.entries import read_entries
from harness.fetching.repositories import read_commit
from harness.planning.missing import make_fetch_list
from harness.sources import Missing
from harness.toy import clip_folder, student_folder

COMMIT = "c" * 40
#: the tests' vocabulary has colours and no numbers
WORDS = b"".join(
    b"a %s circle number %d\n" % ((b"red", b"blue")[number % 2], number) for number in range(200)
)
PROFILE = f"""
description = "words from the hub, pairs of the toy world, models from the hub"
images = "clip"
dev = "ToySTS-dev"
[defaults]
methods = ["mcse"]
settings = ["mixed"]
encoders = ["bert"]
seeds = 1
[corpora.words]
kind = "sentences-file"
file = "text/words.txt"
how = "ask for words"
[corpora.pairs]
kind = "toy-pairs"
size = 64
[settings.mixed]
corpora = ["words", "pairs"]
[settings.plain]
corpora = ["words"]
[corpora.secret]
kind = "sentences-file"
file = "text/secret.txt"
[settings.secret]
corpora = ["secret", "pairs"]
[encoders.bert]
hub = "owner/bert"
revision = "{COMMIT}"
about = 460_000
[teachers.clip]
hub = "owner/clip"
revision = "main"
[training]
steps = 2
batch_size = 8
[suites.sts]
tasks = ["ToySTS"]
"""
STEPS = "secret.txt: write to the authors; then `harness data import secret FOLDER` (theirs)"
Harness = Callable[..., "Ended"]
#: a module that a function of its package hides
catalogue = import_module("harness.fetching.entries")


@pytest.fixture
def world(standin, tmp_path: Path) -> Path:
    """A folder with a profile, entries and an empty data root; the stand-in holds what they name."""
    (tmp_path / "mine.toml").write_text(PROFILE)
    (tmp_path / "root").mkdir()
    _write_entries(tmp_path)
    standin.hub_file("owner/words", "words.txt", WORDS)
    for name, folder in (("owner/bert", student_folder()), ("owner/clip", clip_folder())):
        for file in folder.iterdir():
            standin.model_file(name, file.name, file.read_bytes())
        standin.model_file(name, "pytorch_model.bin", b"another format")
        standin.model_file(name, "tf_model.h5", b"another framework")
    standin.cards |= {"owner/bert": {"license": "apache-2.0"}, "owner/clip": {"license": "mit"}}
    return tmp_path


def _write_entries(folder: Path, restricted: bool = False, about: int | None = 9_000) -> None:
    checksum = f"sha256:{hashlib.sha256(WORDS).hexdigest()}"
    (folder / "entries.toml").write_text(f"""
        [words]
        title = "two hundred words"
        licence = "for non-commercial research"
        restricted = {str(restricted).lower()}
        {f"about = {about}" if about else ""}
        origins = [{{ file = "words.txt", hub = "owner/words", revision = "{COMMIT}", checksum = "{checksum}" }}]
        outputs = [{{ path = "text/words.txt", origin = "words.txt", rows = 200 }}]
        [secret]
        title = "secret words"
        licence = "theirs"
        origins = [{{ file = "secret.txt", hand = "write to the authors" }}]
        outputs = [{{ path = "text/secret.txt", origin = "secret.txt" }}]
    """)


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def harness(
    standin: StandIn,
    world: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Harness]:
    """Run a command with the test's profile, entries and data root, and the stand-in hub."""
    use_client(standin, world / "hf", monkeypatch)
    monkeypatch.setenv("HARNESS_DATA", "root")
    monkeypatch.chdir(world)

    def run(
        *words: str, profile: str = "./mine.toml", offline: bool = False, hub: str | None = None
    ) -> Ended:
        serial = ("--executor", "serial") if words[0] == "run" else ()
        own_entries = read_entries((world / "entries.toml").read_text())
        with monkeypatch.context() as patch:
            patch.setattr(catalogue, "read_entries", lambda text: own_entries)
            patch.setattr(constants, "HF_HUB_OFFLINE", offline)
            patch.setattr(constants, "ENDPOINT", hub or standin.address)
            patch.setattr(sys, "argv", ["harness", *words, *serial, "--profile", profile])
            catalogue.entries.cache_clear()
            with pytest.raises(SystemExit) as ended:
                main()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    yield run
    catalogue.entries.cache_clear()


def snapshot(world: Path, hub: str) -> set[str]:
    folder = world / "hf" / "hub" / f"models--{hub.replace('/', '--')}" / "snapshots" / COMMIT
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()


def test_what_an_entry_is_made_from_is_listed_too_unless_it_is_there(tmp_path):
    missing = [Missing("flickr/captions.parquet", "fetch it")]
    listed = ["flickr-captions", "flickr-matched", "flickr30k-entities"]
    assert (
        sorted(item.name for item in make_fetch_list(missing, tmp_path, ask=False).items) == listed
    )
    (tmp_path / "flickr").mkdir()
    (tmp_path / "flickr/captions.txt").write_text("a caption\n")
    assert (
        sorted(item.name for item in make_fetch_list(missing, tmp_path, ask=False).items)
        == listed[1:]
    )


def test_a_dry_run_lists_everything_and_brings_nothing(standin, world, harness):
    _write_entries(world, restricted=True, about=None)
    shown = harness("fetch", "--dry-run", "--settings", "mixed,secret")
    assert shown.returncode == 0, shown.stderr
    assert f"by hand   secret: {STEPS}" in shown.stdout
    weights = sum(file.stat().st_size for file in student_folder().iterdir())
    assert "to fetch  3 items" in shown.stdout
    rows = {line.split()[0]: line for line in shown.stdout.splitlines() if line.strip()}
    assert f"{len(WORDS) / 1000:.0f} kB" in rows["words"], (
        "the hub knows what the catalogue does not"
    )
    assert f"{weights / 1000:.0f} kB" in rows["owner/bert"]
    assert "licence   words: for non-commercial research" in shown.stdout
    assert " needed, " in rows["disk"]
    assert not any("/resolve/" in path for _, path, _ in standin.asked)
    assert list((world / "root").iterdir()) == []
    offline = harness("fetch", "--dry-run", offline=True).stdout
    assert "unknown" in next(line for line in offline.splitlines() if line.split()[:1] == ["words"])


def test_a_plan_is_brought_whole_and_then_trains_offline(standin, world, harness):
    lacking = harness("run", offline=True)
    assert lacking.returncode == 2
    assert (
        "fetch     `harness fetch --profile ./mine.toml` downloads 3 items, 469 kB and more"
        in lacking.stdout
    )
    assert (
        "run `harness fetch --profile ./mine.toml` (469 kB and more of unknown size)"
        in lacking.stderr
    )
    brought = harness("fetch")
    assert brought.returncode == 0, brought.stderr
    assert (world / "root" / "text" / "words.txt").read_bytes() == WORDS
    for hub, folder in (("owner/bert", student_folder()), ("owner/clip", clip_folder())):
        held = {file.name for file in folder.iterdir()}
        assert snapshot(world, hub) <= held
        assert "model.safetensors" in snapshot(
            world, hub
        ) or "open_clip_model.safetensors" in snapshot(world, hub)
    assert read_commit(world / "root", "owner/clip") == COMMIT
    left = harness("run", "--settings", "secret", "--methods", "simcse")
    assert left.returncode == 2
    assert f"1 input missing: text/secret.txt; {STEPS}" in left.stderr
    asked = len(standin.asked)
    again = harness("fetch", offline=True)
    assert (again.returncode, again.stdout) == (0, "nothing to download: nothing is missing\n")
    done = harness("run", offline=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 run, 0 done, 1 to do" in done.stdout
    assert len(standin.asked) == asked
    for file in clip_folder().iterdir():
        standin.model_file("owner/clip", file.name, b"newer", "d" * 40)
    shutil.rmtree(world / "hf")
    assert harness("fetch").returncode == 0
    assert "open_clip_config.json" in snapshot(world, "owner/clip"), (
        "the recorded commit, though main has moved"
    )


def test_run_fetches_first_where_asked(world, harness):
    _write_entries(world, restricted=True)
    refused = harness("run", "--fetch", "--settings", "plain", "--methods", "simcse")
    assert refused.returncode == 2
    assert "(words: for non-commercial research)" in refused.stderr
    assert "add --accept-licences words" in refused.stderr
    assert not (world / "root" / "text").exists()
    accept = ("--accept-licences", "words")
    done = harness("run", "--fetch", *accept, "--settings", "plain", "--methods", "simcse")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "fetched   2 items" in done.stdout
    assert snapshot(world, "owner/clip") == set()
    assert list((world / "results").rglob("*.json"))


def test_failures_do_not_stop_the_others_and_are_made_good(standin, world, harness):
    """A gated model, and one whose weights differ from what the hub states."""
    standin.stated["open_clip_model.safetensors"] = "0" * 64
    path = f"/owner/bert/resolve/{COMMIT}/model.safetensors"
    standin.refuse[path] = (403, "GatedRepo")
    root = world / "deep" / "new"
    failed = harness("fetch", "--data-root", str(root))
    assert failed.returncode == 1
    assert (
        "failed    owner/bert: owner/bert is gated; accept its terms at https://huggingface.co/owner/bert"
        in (failed.stderr)
    )
    differs = "open_clip_model.safetensors has another SHA-256 than the hub states"
    assert f"failed    owner/clip: owner/clip: {differs}" in failed.stderr
    assert "open_clip_model.safetensors" not in snapshot(world, "owner/clip")
    assert "2 of 3 failed; run the same command again to retry" in failed.stderr
    assert (root / "text" / "words.txt").is_file()
    standin.stated.clear()
    del standin.refuse[path]
    standin.cuts[path] = [100_000]
    standin.asked.clear()
    assert harness("fetch", "--data-root", str(root)).returncode == 0
    assert len(standin.gets(path)) == 2, "a cut connection goes on"
    assert "open_clip_model.safetensors" in snapshot(world, "owner/clip")
    held = world / "hf" / "hub" / "models--owner--bert" / "snapshots" / COMMIT / "model.safetensors"
    assert held.read_bytes() == (student_folder() / "model.safetensors").read_bytes()
    assert standin.gets(f"/owner/bert/resolve/{COMMIT}/config.json") == []


def test_offline_and_without_a_hub_each_thing_says_so(standin, world, harness):
    for given in ({"offline": True}, {"hub": "http://127.0.0.1:9"}):
        failed = harness("fetch", "--methods", "none", "--suites", "sts", **given)
        assert failed.returncode == 1, failed.stdout
        assert "failed    owner/bert: the hub cannot be reached" in failed.stderr or (
            "failed    owner/bert: the connection to the hub failed" in failed.stderr
        )
        assert "give a folder instead" in failed.stderr
    assert standin.asked == []


@pytest.mark.long
def test_an_unknown_encoder_of_the_hub_is_fetched_by_its_name(standin, world, harness):
    for file in student_folder().iterdir():
        standin.model_file("other/bert", file.name, file.read_bytes())
    lacking = harness("eval", "other/bert", "--pooling", "cls")
    assert lacking.returncode == 2
    command = (
        "harness fetch --profile ./mine.toml --methods 'none[pooling=cls]' --encoders other/bert"
    )
    assert command in lacking.stderr
    assert (
        harness("fetch", "--methods", "none[pooling=cls]", "--encoders", "other/bert").returncode
        == 0
    )
    assert harness("eval", "other/bert", "--pooling", "cls", offline=True).returncode == 0


@pytest.mark.long
def test_data_sets_of_the_hub_train_as_the_documentation_says(standin, world, harness):
    """The tables of docs/your-data.md, as they stand there: triplets of the hub, sentences and
    captions of folders.
    """
    page = (
        (Path(__file__).parents[2] / "docs" / "your-data.md")
        .read_text()
        .partition("## Data sets of the hub")[2]
    )
    recipe = page.partition("```toml\n")[2].partition("```")[0]
    small = "[training]\nsteps = 2\nbatch_size = 8\n[suites.sts]\ntasks = ['ToySTS']\n"
    (world / "data.toml").write_text(f"extends = 'tiny'\n{recipe}\n{small}")
    texts = [
        f"a {size} {colour} circle"
        for size in ("small", "large")
        for colour in ("red", "blue", "green")
    ] * 3
    write_parquet(
        world / "nli.parquet",
        {"anchor": texts, "positive": texts[::-1], "negative": texts[1:] + texts[:1]},
    )
    commit, file = (
        "d482672c8e74ce18da116f430137434ba2e52fab",
        "triplet/train-00000-of-00001.parquet",
    )
    hub = "sentence-transformers/all-nli"
    asked = standin.hub_file(hub, file, (world / "nli.parquet").read_bytes(), commit)
    standin.hub_file(hub, "triplet/dev-00000-of-00001.parquet", b"not asked for", commit)
    standin.cards[f"datasets/{hub}"] = {"license": "cc-by-nc-4.0"}
    Dataset.from_dict({"text": texts}).save_to_disk(world / "texts", num_shards=2)
    (world / "pictures").mkdir()
    rows = [json.dumps({"file_name": f"{row}.png", "text": text}) for row, text in enumerate(texts)]
    (world / "pictures" / "metadata.jsonl").write_text("\n".join(rows) + "\n")
    for row in range(len(texts)):
        Image.new("RGB", (8, 8), (row, 0, 0)).save(world / "pictures" / f"{row}.png")
    typed = ("--methods", "simcse,simcse-sup,mcse", "--seeds", "1")
    shown = harness("fetch", "--dry-run", *typed, profile="./data.toml").stdout
    assert "train-*-of-00001.parquet of the hub's data set, licence cc-by-nc-4.0" in shown
    refused = harness("run", "--fetch", *typed, profile="./data.toml")
    assert (refused.returncode, standin.gets(asked)) == (2, [])
    assert f"({hub}: cc-by-nc-4.0); to accept them, add --accept-licences {hub}" in refused.stderr
    standin.stated[file] = "0" * 64
    brought = ("fetch", *typed, "--accept-licences", hub)
    assert "has another SHA-256" in harness(*brought, profile="./data.toml").stderr
    standin.stated.clear()
    assert harness(*brought, profile="./data.toml").returncode == 0
    held = world / "hf" / "hub" / "datasets--sentence-transformers--all-nli" / "snapshots" / commit
    assert [path.name for path in held.rglob("*.parquet")] == ["train-00000-of-00001.parquet"]
    done = harness("run", *typed, profile="./data.toml", offline=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 runs, 0 done, 3 to do" in done.stdout
