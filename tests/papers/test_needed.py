"""The runs of tables and figures, counted by hand from the papers, and stand-ins for their names."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.errors import UserError
from harness.papers.needed import (
    Runs,
    StandIns,
    find_figure,
    find_paper,
    find_table,
    list_entry_runs,
    list_paper_runs,
    merge_runs,
)
from harness.papers.published import read_papers
from harness.papers.schema import PaperColumn, PaperRow, PaperTable
from harness.profiles import load_profile
from harness.profiles.schema import StandsFor
from harness.spec import RunSpec

PAPERS = read_papers()
OWN = StandIns()
TINY = StandIns.of(load_profile("tiny"))


def runs(text: str, names: StandIns = OWN, seeds: list[int] | None = None) -> Runs:
    return list_entry_runs(*find_table(PAPERS, text), names, seeds)


#: trained runs by what the papers say, with both sides of their claims; seeds that are not stated
#: count five
COUNTS = {
    **{"mcse:T1": 5 * 2 * 5, "mcse:T2": 3 * 2 * 2 * 5, "mcse:T4": 5 * 2 * 5, "mcse:T5": 2 * 2 * 5},
    **{"mcse:T6": 4, "mcse:T7": 3 * 2 * 2 * 5, "mcse:T8": 2},
    **{
        "kdmcse:T1": 2 * 2 * 2 * 5,
        "kdmcse:T2": 2 * 2 * 2 * 5,
        "kdmcse:T3": 3 * 5,
        "kdmcse:T4": 4 * 5,
    },
    **{"kdmcse:T5": 4 * 5},
    **{
        "dalr:T1": 2 * 2 * 2 * 5,
        "dalr:T2": 12 * 5,
        "dalr:T3": 45,
        "dalr:T4": 3 * 2 * 5,
        "dalr:T5": 4 * 5,
    },
    **{"dalr:T6": 2 * 2 * 5, "dalr:T7": 2 * 2 * 5, "dalr:T8": 45, "dalr:T9": 10 * 5, "dalr:T10": 2},
    **{
        "nonling:T1": 3,
        "nonling:T2": 2 * 3,
        "nonling:T3": 3 * 2 * 5,
        "nonling:T4": 4,
        "nonling:T5": 8,
        "nonling:T6": 3,
    },
    **{"nonling:TE.1": 6, "nonling:TG.1": 4, "nonling:TH.1": 4, "nonling:TD.1": 2},
}


#: runs of figures, untrained ones too; the kinds of dalr and of kdmcse from F8 on draw the runs of
#: others
FIGURES = {
    **{"mcse:F2": 2 * 4 * 5, "mcse:F3": 2 * 2 * 6 * 5, "mcse:F4": 2 * 2 * 5},
    **{"kdmcse:F2": 1, "kdmcse:F5": 1, "kdmcse:F6": 1, "kdmcse:F7": 9 * 5},
    **{"nonling:F2": 6 + 1, "nonling:F3": 6 + 1, "nonling:F4": 6},
}
#: papers' figures without numbers of their own here
OTHERS = {*(f"kdmcse:F{number}" for number in range(8, 13)), "dalr:F3", "dalr:F4"}


def test_every_table_and_figure_is_there_with_its_trained_runs() -> None:
    tables = {f"{paper.name}:{name}" for paper in PAPERS for name in paper.run_tables}
    assert {
        name: sum(str(spec.setting) != "none" for spec in runs(name)) for name in tables
    } == COUNTS
    assert [f"{paper.name}:{name}" for paper in PAPERS for name in paper.configuration] == [
        "mcse:T3",
        "nonling:TC.1",
    ]
    figures = {
        f"{paper.name}:{name}": figure for paper in PAPERS for name, figure in paper.figures.items()
    }
    assert set(figures) == {*FIGURES, *OTHERS}
    assert {name: len(list_entry_runs(name, figures[name], OWN)) for name in FIGURES} == FIGURES
    plot = list_entry_runs("nonling:F4", figures["nonling:F4"], OWN)
    assert set(plot.values()) == {("geometry", "sts")}
    assert Counter(str(spec.setting) for spec in plot).most_common(1)[0][1] == 1


def test_untrained_rows_have_one_seed_whatever_is_asked_and_a_row_may_have_its_own() -> None:
    untrained = [str(spec) for spec in runs("mcse:T1", seeds=[3, 4]) if str(spec.setting) == "none"]
    assert untrained == [
        f"none[pooling=avg-first-last]/none/{e}/seed-0"
        for e in ("bert-base-uncased", "roberta-base")
    ]
    assert {spec.seed for spec in runs("mcse:T2", seeds=[3, 4])} == {3, 4}
    _, table = find_table(PAPERS, "dalr:T3")
    assert isinstance(table, PaperTable)
    lone = table.rows[1].model_copy(update={"seeds": 2})
    changed = table.model_copy(update={"rows": (lone, table.rows[0])})
    counts = Counter(str(spec.variant) for spec in list_entry_runs("kdmcse:T2", changed, OWN))
    assert counts == {str(lone.variant): 2, "dalr": 5}


def test_readings_of_tables_and_figures() -> None:
    table = find_table(PAPERS, "MCSE:t1")
    both = list_entry_runs(*table, OWN, read_as=["paper", "official"])
    assert len(both) == 2 * COUNTS["mcse:T1"] + 2, "an untrained encoder has one reading"
    assert both.keys() > list_entry_runs(*table, OWN).keys()
    official = list_entry_runs(*table, OWN, read_as=["official"])
    variants = {str(spec.variant) for spec in official}
    assert variants == {"none[pooling=avg-first-last]", "simcse@official", "mcse@official"}
    assert {spec.setting for spec in official} == {
        spec.setting for spec in list_entry_runs(*table, OWN)
    }
    named = list_entry_runs(
        *find_table(PAPERS, "nonling:TD.1"), TINY, read_as=["paper", "official"]
    )
    assert [str(spec.variant) for spec in named] == [
        "simcse@official",
        "visualcse",
        "visualcse@official",
    ]
    figure = find_figure(PAPERS, "kdmcse:F5")
    assert [str(spec.variant) for spec in list_entry_runs(*figure, OWN, read_as=["official"])] == [
        "kdmcse@official"
    ]


def test_rows_that_the_authors_of_dalr_ran_have_the_values_that_they_state() -> None:
    """Appendix C: KDMCSE with a batch of 128 and 4 epochs, in every table that they made."""
    for table in ("T2", "T4", "T5", "T7"):
        variants = {spec.variant for spec in runs(f"dalr:{table}") if spec.variant.name == "kdmcse"}
        assert variants
        for variant in variants:
            assert {("batch_size", "128"), ("epochs", "4")} <= {*variant.options}
    own = {str(spec.variant) for spec in runs("dalr:T4", TINY)}
    assert "kdmcse[with=cml]" in own, "a profile with stand-ins has training values of its own"


def test_a_level_of_noise_is_three_kinds_at_once() -> None:
    figure = find_figure(PAPERS, "nonling:F3")
    noisy = {spec.setting for spec in list_entry_runs(*figure, OWN) if spec.setting.options}
    assert {tuple(name for name, _ in setting.options) for setting in noisy} == {
        ("deletion", "insertion", "swap")
    }
    assert "nli[deletion=0.3,insertion=2,swap=2]" in map(str, noisy), "the one that is printed"


def test_a_run_of_two_tables_is_counted_once_and_scored_for_both() -> None:
    whole = merge_runs(list_paper_runs(find_paper(PAPERS, "dalr"), OWN).values())
    plain = RunSpec.parse("dalr/wiki+flickr/bert-base-uncased/seed-0")
    assert set(whole[plain]) == {"sts", "transfer", "retrieval", "mteb", "geometry", "figures"}
    assert whole[RunSpec.parse("dalr[without=rank]/wiki+coco/bert-base-uncased/seed-4")] == (
        "sts",
        "transfer",
    )
    parts = list_paper_runs(find_paper(PAPERS, "mcse"), OWN)
    # T1 52, T2 60, T4 40 that no other has, T5 20, T7 20 with CLIP, F3 100 with fewer pairs; T6,
    # T8, F2, F4 in T1, T2
    assert len(merge_runs(parts.values())) == 52 + 60 + 40 + 20 + 20 + 100
    assert len(merge_runs(parts.values())) < sum(map(len, parts.values()))


def test_suites_are_the_columns() -> None:
    suites = {name: {s for each in runs(name).values() for s in each} for name in COUNTS}
    assert suites["dalr:T3"] == suites["dalr:T9"] == {"sts", "transfer"}
    assert suites["dalr:T5"] == {"mteb"}
    assert suites["mcse:T4"] == suites["dalr:T7"] == {"sts"}
    assert suites["kdmcse:T2"] == {"geometry"}
    assert suites["nonling:T5"] == {"stsb-multi"}


#: of nearest sentences: the runs of the paper and their stand-ins, without the encoder
NEAREST = {
    "mcse:T8": ("simcse/flickr mcse/flickr", "simcse/toy-pairs mcse/toy-pairs"),
    "dalr:T10": ("kdmcse/wiki+flickr dalr/wiki+flickr", "kdmcse/toy dalr/toy"),
    "nonling:TD.1": (
        "simcse@official/wiki visualcse/wiki+imagenet",
        "simcse@official/toy-text visualcse/toy",
    ),
}


@pytest.mark.parametrize("name", NEAREST)
def test_tables_of_nearest_sentences_score_the_suite_that_keeps_them(name: str) -> None:
    for names, encoder, keys in zip(
        (OWN, TINY), ("bert-base-uncased", "toy-bert"), NEAREST[name], strict=True
    ):
        wanted = {RunSpec.parse(f"{key}/{encoder}/seed-0"): ("figures",) for key in keys.split()}
        assert runs(name, names) == wanted


def test_the_toy_world_stands_for_table_3_of_dalr() -> None:
    toy = runs("dalr:T3", TINY, [0, 1])
    assert len(toy) == 9 * 2
    assert {(str(spec.setting), spec.encoder) for spec in toy} == {("toy", "toy-bert")}
    assert set(toy.values()) == {("sts",)}, "the toy world has no transfer tasks"


TEACHERS = [
    *(
        f"dalr[text={name}]"
        for name in ("run:mcse/toy/toy-bert/seed-0", "run:mcse/toy/toy-bert/seed-1", "clip")
    ),
    *("dalr", "dalr[text=run:mcse/toy/toy-bert/seed-0+run:mcse/toy/toy-bert/seed-2]"),
]


@pytest.mark.parametrize(
    ("name", "variants"),
    [
        ("mcse:T1", ["none[pooling=avg-first-last]", "simcse", "simcse", "mcse"]),
        ("mcse:T2", ["simcse", "mcse", "mcse[images=shuffled]"]),
        ("kdmcse:T3", ["kdmcse", "kdmcse[without=margin]", "kdmcse[without=filter]"]),
        ("dalr:T5", ["mcse", "kdmcse", "kdmcse[with=iml]", "dalr"]),
        ("dalr:T9", TEACHERS),
        ("nonling:T4", ["visualcse[contrast=simclr]", "visualcse"]),
        ("nonling:T5", []),
    ],
)
def test_rows_that_have_a_stand_in(name: str, variants: list[str]) -> None:
    assert [str(spec.variant) for spec in runs(name, TINY, [0])] == variants


@pytest.mark.parametrize(
    ("find", "text", "says"),
    [
        (find_table, "dalr:T33", "did you mean dalr:T3"),
        (find_table, "MCSE:t3", "needs no runs"),
        (find_table, "darl:T3", "dalr:T3"),
        (find_figure, "mcse:F33", "mcse:F3"),
        (find_paper, "non-ling", "did you mean nonling"),
    ],
)
def test_a_wrong_name_gets_the_nearest(find: object, text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        find(PAPERS, text)  # type: ignore[operator]


STANDS = StandsFor(
    settings={"flickr": "toy-pairs", "nli[size=5]": "toy"},
    encoders={"b": "toy-bert"},
    teachers={"clip": "toy-clip"},
    tasks={"sts": {"Avg": "ToySTS"}},
)


def test_options_of_a_setting_go_with_its_stand_in() -> None:
    names = StandIns(STANDS)
    assert names.place("mcse", "flickr[shot=100]", "b") == (
        "mcse",
        "toy-pairs[shot=100]",
        "toy-bert",
    )
    assert names.place("mcse", "nli[size=5]", "b") == ("mcse", "toy", "toy-bert")
    assert names.place("mcse", "nli", "b") is None
    assert names.place("mcse", "flickr", "other") is None
    assert (names.has_suite("sts"), names.has_suite("transfer")) == (True, False)


REPLACED = {
    "eyes=clip,other=clip": "eyes=toy-clip,other=clip",
    "eyes=clip+clip": "eyes=toy-clip+toy-clip",
}
REPLACED |= {"eyes=shuffled": "eyes=shuffled"}


@pytest.mark.parametrize(("options", "expected"), [*REPLACED.items(), ("eyes=unknown", None)])
def test_only_options_that_name_teachers_are_replaced(
    monkeypatch: pytest.MonkeyPatch, options: str, expected: str | None
) -> None:
    monkeypatch.setattr(
        "harness.papers.needed.list_teacher_options", {"mine": ["eyes"]}.__getitem__
    )
    stand_in = StandIns(STANDS).place(f"mine[{options}]", "flickr", "b")
    assert (stand_in and stand_in.variant) == (expected and f"mine[{expected}]")
    assert StandIns().place(f"mine[{options}]", "nli", "b") == (f"mine[{options}]", "nli", "b")


def test_a_table_reads_the_split_that_fits_where_a_model_was_trained() -> None:
    """MCSE's captions are of training images of Flickr30k Entities; other settings keep the table's
    own task.
    """
    row = PaperRow(variant="mcse", setting="flickr", task="Flickr30k", published="mcse")
    words = {"name": "R@1", "benchmark": "retrieval", "printed": "R@1", "decimals": 1}
    column = PaperColumn.model_validate(
        words | {"suite": "retrieval", "task": "Avg", "metric": "i2t_R@1"}
    )
    names = StandIns(tests={"flickr": {"Flickr30k": "Flickr30k-Entities"}})
    for setting, task in (
        ("flickr", "Flickr30k-Entities"),
        ("flickr[shot=9]", "Flickr30k-Entities"),
        ("flickr-karpathy", "Flickr30k"),
        ("none", "Flickr30k"),
    ):
        assert names.score(row, column, setting) == ("retrieval", task, "i2t_R@1")
