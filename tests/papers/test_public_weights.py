"""Public weights: the list of the paper profile, the rows that it names, and the runs of a table."""

from __future__ import annotations

import re

import pytest

from harness.errors import UserError
from harness.papers.needed import (
    RowKey,
    check_released,
    find_released_places,
    find_released_runs,
    make_released_spec,
)
from harness.papers.published import read_papers, read_published
from harness.profiles import load_profile
from harness.profiles.schema import ReleasedRows

PAPERS = read_papers()
PAPER = load_profile("paper")
MCSE = "UdS-LSV/mcse-flickr-bert-base-uncased"


def test_every_row_of_the_list_is_one_of_a_paper() -> None:
    check_released(PAPER, PAPERS)
    assert (
        sum(len(rows.tables) for weights in PAPER.released.values() for rows in weights.rows) == 49
    )
    printed = {
        (f"{key.paper}:{key.table}", key.encoder, key.setting, key.source)
        for key in read_published()
    }
    assert {
        (key.table, key.encoder, key.setting, key.source) for key in find_released_places(PAPER)
    } <= printed


def test_each_entry_has_a_commit_a_source_the_pooling_of_its_kind_and_heads_and_teachers_are_the_same() -> (
    None
):
    """SimCSE README, Evaluation: `cls` for supervised models, `cls_before_pooler` for the others;
    so NonLing's.
    """
    for name, weights in PAPER.released.items():
        assert weights.encoder in name
        assert re.fullmatch(r"[0-9a-f]{40}|main", str(weights.revision)), name
        assert (
            ("commit" in weights.source)
            if weights.revision == "main"
            else ("hub" in weights.source)
        ), name
        supervised = name.partition("/")[2].startswith("sup-")
        assert weights.pooling == ("pooler" if supervised else "cls"), name
    # MCSE src/train_mix.py saves both heads beside the encoder; they read 2048 features, those of
    # ResNet-50
    heads = {
        name: (weights.heads, weights.images)
        for name, weights in PAPER.released.items()
        if weights.heads
    }
    assert heads == {
        name: ("mcse.pt", "resnet") for name in PAPER.released if name.startswith("UdS-LSV/mcse-")
    }
    assert len(heads) == 4
    same = [weights for weights in PAPER.teachers.values() if weights.hub in PAPER.released]
    assert len(same) == 5
    for teacher in same:
        weights = PAPER.released[str(teacher.hub)]
        assert (teacher.revision, teacher.pooling) == (weights.revision, weights.pooling)


#: models by table
MODELS = {
    "mcse:T1": 6,
    "mcse:T6": 2,
    "dalr:T1": 4,
    "kdmcse:T1": 4,
    "nonling:T1": 6,
    "nonling:T6": 3,
    "nonling:TE.1": 9,
}


def test_models_of_tables_and_of_whole_papers() -> None:
    models = find_released_runs(PAPER, list(MODELS), [])
    assert {table: len(runs) for table, runs in models.items()} == MODELS
    assert {(str(spec.setting), spec.seed) for runs in models.values() for spec in runs} == {
        ("none", 0)
    }
    assert set(find_released_runs(PAPER, [], ["mcse"])) == {"mcse:T1", "mcse:T6"}
    with pytest.raises(
        UserError, match=r"no public weights for mcse:T2; there are some for .*mcse:T1"
    ):
        find_released_runs(PAPER, ["mcse:T2"], [])
    nonling = find_released_runs(PAPER, [], ["nonling"]).values()
    assert {suites for runs in nonling for suites in runs.values()} == {("sts",), ("transfer",)}


def test_a_model_is_the_run_that_an_evaluation_of_it_makes() -> None:
    assert (
        str(make_released_spec(MCSE, PAPER.released[MCSE]))
        == f"none[pooling=cls]/none/{MCSE}/seed-0"
    )
    key = RowKey("mcse:T1", "bert-base-uncased", "mcse", "wiki+flickr", "own")
    assert find_released_places(PAPER)[key] == (("none[pooling=cls]", "none", MCSE),)
    two = PAPER.model_copy(
        update={"released": {MCSE: PAPER.released[MCSE], "mine": PAPER.released[MCSE]}}
    )
    assert [released.encoder for released in find_released_places(two)[key]] == [MCSE, "mine"]


@pytest.mark.parametrize(
    ("table", "method", "setting", "says"),
    [
        ("mcse:T1", "mscse", "wiki+flickr", "did you mean mcse"),
        ("mcse:T1", "mcse", "flickr", "no row mcse in flickr"),
        ("mcse:T9", "mcse", "wiki+flickr", "mcse:T9 has no row"),
    ],
)
def test_a_row_that_no_paper_has_is_refused(
    table: str, method: str, setting: str, says: str
) -> None:
    rows = ReleasedRows(tables=(table,), published=method, setting=setting)
    wrong = {MCSE: PAPER.released[MCSE].model_copy(update={"rows": (rows,)})}
    with pytest.raises(UserError, match=rf"\[released\.{MCSE}\].*{says}"):
        find_released_runs(PAPER.model_copy(update={"released": wrong}), ["mcse:T1"], [])
