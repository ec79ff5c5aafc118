"""Fetching from a hub with the real client, each time in a process with its own environment."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from senteval_layout import columns, senteval_layout, table

from harness import fetching

CONTENT = b"".join(b"sentence number %d\n" % number for number in range(40_000))
SUM = hashlib.sha256(CONTENT).hexdigest()


def entry(checksum: str | None = f"sha256:{SUM}") -> str:
    known = f', checksum = "{checksum}"' if checksum else ""
    return f"""
        [words]
        title = "words"
        licence = "none"
        origins = [{{ file = "words.txt", hub = "owner/words", revision = "{"c" * 40}"{known} }}]
        outputs = [{{ path = "text/words.txt", origin = "words.txt", rows = 40_000 }}]
    """


def finish(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, _ = process.communicate(timeout=300)
    assert "Traceback" not in out, out
    return process.returncode, out


def nothing_used(root: Path) -> bool:
    return not (root / "text").exists() and not list((root / ".catalogue").glob("*.sha256"))


@pytest.mark.parametrize(
    "checksum", [f"sha256:{SUM}", None], ids=["of the catalogue", "of the hub"]
)
def test_a_file_is_fetched_checked_and_recorded(standin, start, tmp_path, checksum):
    path = standin.hub_file("owner/words", "words.txt", CONTENT)
    code, out = finish(start(tmp_path, entry(checksum)))
    assert code == 0, out
    heads = [method for method, asked, _ in standin.asked if asked == path].count("HEAD")
    assert heads == (1 if checksum else 2), (
        "the hub is asked for its own where the catalogue has none"
    )
    assert (tmp_path / "text" / "words.txt").read_bytes() == CONTENT
    check = subprocess.run(
        ["sha256sum", "--check", ".catalogue/words.sha256"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.stdout == "text/words.txt: OK\n"
    assert not (tmp_path / ".catalogue" / "staging" / "words").exists()


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, "EntryNotFound", "the hub has no owner/words/words.txt"),
        pytest.param(404, "RevisionNotFound", "(404)", marks=pytest.mark.long),
        (401, "GatedRepo", "owner/words is gated; accept its terms"),
        pytest.param(
            401,
            "RepoNotFound",
            "has no data set owner/words that you may see",
            marks=pytest.mark.long,
        ),
    ],
)
def test_refusals_are_one_line(standin, start, tmp_path, status, error, words):
    path = standin.hub_file("owner/words", "words.txt", CONTENT)
    standin.refuse[path] = (status, error)
    code, out = finish(start(tmp_path, entry()))
    assert code == 2
    (complaint,) = (line for line in out.splitlines() if line.startswith("error:"))
    assert words in complaint
    assert "harness data import" in complaint
    assert nothing_used(tmp_path)


def test_offline_takes_the_hub_cache_alone(standin, start, tmp_path):
    code, out = finish(start(tmp_path, entry(), HF_HUB_OFFLINE="1"))
    assert code == 2
    assert "hf download owner/words words.txt --repo-type dataset" in out
    cache = tmp_path / "hf" / "hub" / "datasets--owner--words"
    (cache / "blobs").mkdir(parents=True)
    (cache / "blobs" / SUM).write_bytes(CONTENT)
    (cache / "snapshots" / ("c" * 40)).mkdir(parents=True)
    (cache / "snapshots" / ("c" * 40) / "words.txt").symlink_to(cache / "blobs" / SUM)
    assert finish(start(tmp_path, entry(), "--offline"))[0] == 0
    assert (tmp_path / "text" / "words.txt").read_bytes() == CONTENT
    assert (cache / "blobs" / SUM).is_file()
    assert standin.asked == []


def test_of_two_processes_one_fetches_and_one_waits(standin, start, tmp_path):
    path = standin.hub_file("owner/words", "words.txt", CONTENT)
    standin.hangs[path] = 1000
    first = start(tmp_path, entry())
    while not standin.gets(path):
        time.sleep(0.02)
        assert first.poll() is None
    second = start(tmp_path, entry())
    assert "waiting" in second.stdout.readline()
    standin.go_on.set()
    results = [finish(first), finish(second)]
    assert [code for code, _ in results] == [0, 0]
    assert len(standin.gets(path)) == 1
    assert "already present" in results[1][1]


def test_files_of_a_pattern_are_drawn_by_seed(standin, start, tmp_path):
    for number in range(6):
        standin.hub_file("owner/shards", f"de/train-{number}-of-6.txt", b"%d\n" % number)
    standin.hub_file("owner/shards", "fr/train-0-of-6.txt", b"x\n")
    text = f"""
        [shards]
        title = "shards"
        licence = "none"
        origins = [{{ file = "de/train-*.txt", hub = "owner/shards", revision = "{"c" * 40}", pick = 1 }}]
        outputs = [{{ path = "one.txt", origin = "de/train-*.txt", rows = 1 }}]
    """
    assert finish(start(tmp_path / "a", text))[0] == 0
    assert finish(start(tmp_path / "b", text))[0] == 0
    drawn = (tmp_path / "a" / "one.txt").read_bytes()
    assert drawn == (tmp_path / "b" / "one.txt").read_bytes()
    assert drawn in [b"%d\n" % number for number in range(6)]


@pytest.mark.long
def test_the_command_line_fetches_a_shipped_entry(standin, client_env, data_root, tmp_path):
    """SentEval's archive at its full counts, by `harness data fetch`, from nothing to the tables of
    the data bundle.
    """
    made = fetching.find_entry("senteval")
    senteval_layout(data_root, tmp_path / "layout")
    with tarfile.open(tmp_path / "senteval.tar", "w") as archive:
        archive.add(tmp_path / "layout", ".")
    packed = (tmp_path / "senteval.tar").read_bytes()
    standin.hub_file(
        str(made.origins[0].hub), "senteval.tar", packed, str(made.origins[0].revision)
    )
    root = tmp_path / "root"

    def data(*words: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-c",
            "from harness.cli.main import main; main()",
            "data",
            *words,
        ]
        env = client_env | {"HARNESS_DATA": str(root)}
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False)

    fetched = data("fetch", "senteval", "wiki1m", "--accept-licences", "senteval")
    assert fetched.returncode == 2
    assert fetched.stderr.splitlines()[-1].startswith(
        "error: wiki1m: the hub has no princeton-nlp/datasets-for-simcse"
    )
    assert fetching.find_state(root, made).word == "present"
    assert data("verify").stdout == "senteval: OK\n"
    for output in made.outputs:
        header, _ = table(root / output.path)
        kept, known = (columns(folder / output.path, tuple(header)) for folder in (root, data_root))
        assert kept == known, output.path
