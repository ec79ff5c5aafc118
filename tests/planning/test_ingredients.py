"""Experiments: their identity, which never changes, what they miss, and the runs that are their
teachers.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest
from executor_jobs import experiment, with_lit, with_teachers

from harness.errors import UserError
from harness.profiles import load_profile
from harness.profiles.schema import Corpus, Setting
from harness.toy.corpora import ToyPairs

GOLDEN = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "training_identities.json").read_text()
)


@pytest.mark.parametrize("key", GOLDEN)
def test_the_fingerprints_of_this_backend_stay(key: str) -> None:
    """Digests of toy runs of backend 3: a change of one makes finished runs stale."""
    assert experiment(key, with_lit(load_profile("tiny"))).fingerprint == GOLDEN[key]


def test_seeds_share_a_group_that_options_leave() -> None:
    first, other, tempered = (
        experiment(f"simcse{options}/toy/toy-bert/seed-{seed}")
        for options, seed in (("", 0), ("", 1), ("[temperature=0.1]", 0))
    )
    assert first.group == other.group != tempered.group
    assert first.identity | {"seed": 1} == other.identity
    assert first.fingerprint != other.fingerprint


def test_teachers_of_teachers_and_of_lit_teachers_come_first() -> None:
    inner = "dalr[text=run:simcse/toy/toy-bert/seed-0]/toy/toy-bert/seed-0"
    for key, teachers in (
        (f"dalr[text=run:{inner}]/toy/toy-bert/seed-0", ["simcse/toy/toy-bert/seed-0", inner]),
        ("kdmcse[images=lit]/toy/toy-bert/seed-0", ["none[pooling=mean]/none/toy-bert/seed-0"]),
    ):
        assert [teacher.key for teacher in experiment(key, with_lit()).teachers] == teachers


def test_what_is_missing_is_listed_once_and_named_in_the_identity(tmp_path: Path) -> None:
    tiny = with_lit()
    files = Corpus(kind="captions-file", file="captions.parquet", how="fetch it", images="photos")
    under = tiny.model_copy(
        update={
            "corpora": {**tiny.corpora, "files": files},
            "settings": {**tiny.settings, "files": Setting(corpora=("files",))},
        }
    )
    taught = "dalr[text=run:simcse/files/toy-bert/seed-0]/files/toy-bert/seed-0"
    student = experiment(taught, under, tmp_path)
    assert [item.what for item in student.missing] == ["captions.parquet", "photos"]
    assert student.identity["corpora"] == ["absent: captions.parquet"]
    assert student.teachers[0].missing == student.missing[:1]


def test_an_experiment_in_another_process_does_not_compute_its_fingerprints_again(
    monkeypatch,
) -> None:
    made = experiment("mcse/toy-pairs/toy-bert/seed-0")
    fingerprint = made.fingerprint
    sent = pickle.dumps(made)
    monkeypatch.setattr(ToyPairs, "fingerprint", None)
    received = pickle.loads(sent)
    assert received.fingerprint == fingerprint
    assert [corpus.read.fingerprint for corpus in received.corpora]


def test_a_run_is_not_its_own_teacher() -> None:
    """By way of the profile: the key of a run cannot hold itself."""
    key = "kdmcse[images=own]/toy/toy-bert/seed-0"
    own = with_lit().teachers["lit"].model_copy(update={"captions": f"run:{key}"})
    with pytest.raises(UserError, match="would be its own teacher"):
        experiment(key, with_teachers(own=own))
