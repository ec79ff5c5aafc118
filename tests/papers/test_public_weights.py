"""Public weights: the list of the paper profile, the rows that it names, and the runs of a table."""

from __future__ import annotations

import re

import pytest

from harness.errors import UserError
from harness.papers.needed import RowKey, check_released, released_places, released_runs, released_spec
from harness.papers.published import read_papers, read_published
from harness.profiles import Profile, load_profile
from harness.profiles.schema import ReleasedRows

PAPERS = read_papers()
PAPER = load_profile("paper")


def changed(name: str, **values: object) -> Profile:
    """The paper profile with other values of one model."""
    weights = PAPER.released[name].model_copy(update=values)
    return PAPER.model_copy(update={"released": {name: weights}})


def test_every_row_of_the_list_is_one_of_a_paper() -> None:
    check_released(PAPER, PAPERS)
    assert sum(len(rows.tables) for weights in PAPER.released.values() for rows in weights.rows) == 49


def test_every_row_is_printed_for_the_encoder_that_the_name_says() -> None:
    for name, weights in PAPER.released.items():
        assert weights.encoder in name
    printed = {(f"{key.paper}:{key.table}", key.encoder, key.setting, key.source) for key in read_published()}
    assert {(key.table, key.encoder, key.setting, key.source) for key in released_places(PAPER)} <= printed


def test_a_commit_is_whole_or_main_and_every_entry_has_a_source() -> None:
    for name, weights in PAPER.released.items():
        assert re.fullmatch(r"[0-9a-f]{40}|main", str(weights.revision)), name
        assert ("commit" in weights.source) if weights.revision == "main" else ("hub" in weights.source), name


def test_supervised_weights_are_read_through_their_head_and_the_others_before_it() -> None:
    """SimCSE README, Evaluation: `cls` for supervised models, `cls_before_pooler` for the others; so NonLing's."""
    for name, weights in PAPER.released.items():
        supervised = name.partition("/")[2].startswith("sup-")
        assert weights.pooling == ("pooler" if supervised else "cls"), name


def test_weights_of_mcse_have_its_heads_of_resnet_features() -> None:
    """MCSE src/train_mix.py saves both heads beside the encoder; they read 2048 features, those of ResNet-50."""
    heads = {name: (one.heads, one.images) for name, one in PAPER.released.items() if one.heads}
    assert heads == {name: ("mcse.pt", "resnet") for name in PAPER.released if name.startswith("UdS-LSV/mcse-")}
    assert len(heads) == 4


def test_teachers_are_the_same_weights_at_the_same_commit() -> None:
    same = [one for one in PAPER.teachers.values() if one.hub in PAPER.released]
    assert len(same) == 5
    for teacher in same:
        weights = PAPER.released[str(teacher.hub)]
        assert (teacher.revision, teacher.pooling) == (weights.revision, weights.pooling)


@pytest.mark.parametrize(
    ("table", "count"),
    [
        ("mcse:T1", 6),
        ("mcse:T6", 2),
        ("dalr:T1", 4),
        ("kdmcse:T1", 4),
        ("nonling:T1", 6),
        ("nonling:T6", 3),
        ("nonling:TE.1", 9),
    ],
)
def test_models_of_a_table(table: str, count: int) -> None:
    (runs,) = released_runs(PAPER, [table], []).values()
    assert len(runs) == count
    assert {str(spec.setting) for spec in runs} == {"none"}
    assert {spec.seed for spec in runs} == {0}


def test_a_whole_paper_leaves_out_tables_without_weights() -> None:
    assert set(released_runs(PAPER, [], ["mcse"])) == {"mcse:T1", "mcse:T6"}
    assert {suites for runs in released_runs(PAPER, [], ["nonling"]).values() for suites in runs.values()} == {
        ("sts",),
        ("transfer",),
    }


def test_a_model_is_the_run_that_an_evaluation_of_it_makes() -> None:
    name = "UdS-LSV/mcse-flickr-bert-base-uncased"
    assert str(released_spec(name, PAPER.released[name])) == f"none[pooling=cls]/none/{name}/seed-0"
    key = RowKey("mcse:T1", "bert-base-uncased", "mcse", "wiki+flickr", "own")
    assert released_places(PAPER)[key] == (("none[pooling=cls]", "none", name),)


def test_two_models_may_reproduce_one_row() -> None:
    name = "UdS-LSV/mcse-flickr-bert-base-uncased"
    two = PAPER.model_copy(update={"released": {name: PAPER.released[name], "mine": PAPER.released[name]}})
    key = RowKey("mcse:T1", "bert-base-uncased", "mcse", "wiki+flickr", "own")
    assert [place.encoder for place in released_places(two)[key]] == [name, "mine"]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (ReleasedRows(tables=("mcse:T1",), published="mscse", setting="wiki+flickr"), "did you mean mcse"),
        (ReleasedRows(tables=("mcse:T1",), published="mcse", setting="flickr"), "no row mcse in flickr"),
        (ReleasedRows(tables=("mcse:T9",), published="mcse", setting="wiki+flickr"), "mcse:T9 has no row"),
    ],
)
def test_a_row_that_no_paper_has_is_refused(rows: ReleasedRows, says: str) -> None:
    wrong = changed("UdS-LSV/mcse-flickr-bert-base-uncased", rows=(rows,))
    with pytest.raises(UserError, match=r"\[released\.UdS-LSV/mcse-flickr-bert-base-uncased\]") as caught:
        released_runs(wrong, ["mcse:T1"], [])
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("tables", "papers", "says"),
    [
        (["mcse:T2"], [], "no public weights for mcse:T2; there are some for .*mcse:T1"),
        (["mcse:T8"], [], "no public weights for mcse:T8"),
        (["mcse:T99"], [], "no such table"),
        ([], ["mcsee"], "did you mean mcse"),
    ],
)
def test_a_table_without_weights_is_one_line(tables: list[str], papers: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        released_runs(PAPER, tables, papers)
