"""Which rows are controls of which row, when one confounds it, and what is missing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from builders import over_seeds, tables
from plugin_packages import Install

from harness.command_line import Selection
from harness.commands import Commands
from harness.metrics import Column, Metric
from harness.papers.published import read_ablations
from harness.planning.request import make_request
from harness.profiles import load_profile
from harness.reporting.sections.claims import make_claims_grid
from harness.reporting.seeds.cells import Label, compare
from harness.reporting.seeds.controls import (
    Control,
    Rival,
    TableRows,
    describe_rival,
    describe_teacher_fit,
    find_rivals,
    list_controls,
    list_missing_controls,
)
from harness.reporting.seeds.gains import make_forests, make_headline
from harness.store import Result, TeacherUse

AVG, SPEARMAN = Column("Avg", "spearman"), Metric("spearman")
OF = {
    "image": "image",
    "teacher1": "caption",
    "teacher2": "caption",
    "tokens1": "tokens",
    "caption": "caption",
    "object": "region",
}
FIELD = Path(__file__).resolve().parents[3] / "examples" / "field" / "src"
MINILM = "run:none[pooling=mean]/none/all-minilm-l6-v2/seed-0"
SMALL: dict[str, Any] = {
    "profile": "small",
    "setting": "wiki+flickr8k",
    "encoder": "all-minilm-l6-v2",
}
TINY: dict[str, Any] = {"profile": "tiny", "setting": "toy", "encoder": "toy-bert"}
GROUNDING: dict[str, Any] = {"profile": "grounding", "setting": "flickr8k", "encoder": "text-bert"}
PAPER: dict[str, Any] = {
    "profile": "paper",
    "setting": "wiki+flickr",
    "encoder": "bert-base-uncased",
}
ALIKE, BEHIND, AHEAD = [70.1, 71.0, 72.0], [20.0, 24.0, 22.5], [80.0, 83.0, 82.2]


def runs(
    variant: str, *values: float, teachers: dict[str, str] | None = None, **where: Any
) -> list[Result]:
    uses = {role: TeacherUse(teacher=name, of=OF[role]) for role, name in (teachers or {}).items()}
    return over_seeds(variant, values, teachers=uses, **where)


def untrained(*values: float, pooling: str = "mean", **where: Any) -> list[Result]:
    return runs(f"none[pooling={pooling}]", *values, **where | {"setting": "none"})


def rows_of(results: list[Result]) -> TableRows:
    return TableRows((row.label, row) for table in tables(results) for row in table.rows)


def wanted(
    variant: str, teachers: dict[str, str], where: dict[str, Any], *, needed: bool = True
) -> set[str]:
    """The variants of a row's controls; with the setting and the encoder where these differ from
    the row's.
    """
    (row,) = rows_of(runs(variant, 1.0, teachers=teachers, **where)).values()
    found = [one.label for one in list_controls(row) if one.needed is needed]
    own = where["encoder"]
    return {
        label.variant + ("" if label.encoder == own else f"/{label.encoder}") for label in found
    }


@pytest.mark.parametrize(
    ("variant", "teachers", "where", "controls"),
    [
        ("simcse", {}, PAPER, set()),
        ("simcse-sup", {}, PAPER, set()),
        ("mcse", {"image": "resnet"}, PAPER, {"mcse[images=shuffled]", "simcse"}),
        (
            "mcse[lambda=1]@official",
            {"image": "resnet"},
            PAPER,
            {"mcse[images=shuffled,lambda=1]@official", "simcse"},
        ),
        ("mcse[images=shuffled]", {"image": "shuffled"}, PAPER, {"simcse"}),
        ("mcse[images=clip]", {"image": "clip"}, PAPER, {"simcse"}),
        (
            "kdmcse",
            {"image": "clip", "caption": "clip"},
            PAPER,
            {"simcse", "none[pooling=mean,teacher=clip]"},
        ),
        (
            "kdmcse",
            {"image": "lit", "caption": "lit"},
            SMALL,
            {"simcse", "none[pooling=mean,teacher=lit]"},
        ),
        ("visualcse", {}, PAPER | {"setting": "wiki+imagenet"}, {"simcse"}),
        ("visualcse-sup", {}, PAPER | {"setting": "nli+imagenet"}, {"simcse-sup"}),
        (
            "dalr",
            {"image": "lit", "teacher1": MINILM},
            SMALL,
            {"simcse", "dalr[info_weight=0,lambda=0]"},
        ),
        (
            "dalr",
            {"image": "clip", "teacher1": "simcse", "tokens1": "simcse", "teacher2": "diffcse"},
            PAPER,
            {
                *("simcse", "dalr[info_weight=0,lambda=0]"),
                "none[pooling=cls]/princeton-nlp/unsup-simcse-bert-base-uncased",
                "none[pooling=cls]/voidism/diffcse-bert-base-uncased-sts",
            },
        ),
    ],
)
def test_controls_follow_from_what_a_run_records(
    variant: str, teachers: dict[str, str], where: dict[str, Any], controls: set[str]
) -> None:
    assert wanted(variant, teachers, where) == {
        *controls,
        "none[pooling=cls]",
        "none[pooling=mean]",
    }


def test_phrases_that_read_objects_have_controls_with_others(install: Install) -> None:
    """They count where they were run; the objects' teacher is no teacher of text."""
    install("mcseo", (FIELD / "mcseo.py").read_text(), {"methods": {"mcseo": "MCSEO"}})
    teachers = {"image": "toy-clip", "object": "toy-clip"}
    others = {"mcseo[objects=shuffled]", "mcseo[objects=permuted]"}
    assert others <= wanted("mcseo", teachers, TINY, needed=False)
    needed = wanted("mcseo", teachers, TINY)
    assert "mcseo[images=shuffled]" in needed
    assert not [variant for variant in needed if "teacher=" in variant]
    teachers["object"] = "shuffled"
    assert not others & wanted("mcseo[objects=shuffled]", teachers, TINY, needed=False)


def test_the_untrained_encoder_has_no_controls_and_what_cannot_be_shuffled_is_not_missed() -> None:
    (row,) = rows_of(untrained(1.0, encoder="toy-bert")).values()
    assert not [*list_controls(row)]
    assert "mcse[images=shuffled]" in wanted(
        "mcse[images=clip]", {"image": "clip"}, PAPER, needed=False
    )


def test_a_text_alone_that_was_trained_otherwise_is_a_control_where_it_was_run() -> None:
    image = {"image": "squeezenet"}
    tuned = "simcse[learning_rate=3e-05,steps=150]"
    rows = rows_of(
        runs("mcse", *BEHIND, teachers=image, **GROUNDING)
        + runs("simcse", 10.0, 11.0, 12.0, **GROUNDING)
        + runs(tuned, *ALIKE, **GROUNDING)
        + runs("simcse[temperature=0.1]", *AHEAD, **GROUNDING)
        + runs(tuned, *AHEAD, **{**GROUNDING, "encoder": "another"})
    )
    (mcse,) = (row for row in rows.values() if row.label.variant == "mcse")
    strongest, plain = find_rivals(mcse, rows, AVG, SPEARMAN)
    assert (strongest.row.label.variant, strongest.confounds) == (tuned, True)
    assert strongest.control.what == "text alone, trained with other values"
    assert (plain.row.label.variant, plain.confounds) == ("simcse", False)


def test_a_leader_leads_among_equals_and_better_rows_say_how_they_were_trained() -> None:
    image = {"image": "squeezenet"}
    tuned = "kdmcse[learning_rate=0.0003,steps=600]"

    def trained(variant: str, *values: float, **training: Any) -> list[Result]:
        given = {"method": {}, "training": {"learning_rate": 1e-4, **training}, "encoder": {}}
        return runs(variant, *values, teachers=image, hyperparameters=given, **GROUNDING)

    results = (
        trained("simcse", *BEHIND, steps=300)
        + trained("mcse", *ALIKE, steps=300)
        + trained(tuned, *AHEAD, steps=600, learning_rate=3e-4)
    )
    (table,) = tables(results)
    (forest,) = make_forests(table)
    first, *others = (sentence.text for sentence in make_headline(forest))
    assert first.startswith("MCSE leads on flickr8k")
    (said,) = (text for text in others if "no equals" in text)
    assert said.startswith(
        "KDMCSE, learning rate = 0.0003, steps = 600 has a better mean than MCSE"
    )
    assert "steps 600 against 300" in said


def test_what_a_teacher_was_fitted_on_is_that_of_its_record_or_of_its_profile() -> None:
    recorded = TeacherUse(teacher="lit", of="caption", fitted_on="projections of a and b")
    assert describe_teacher_fit("paper", recorded) == "projections of a and b"
    older = TeacherUse(teacher="lit", of="caption")
    assert describe_teacher_fit("small", older).startswith("projections of squeezenet and run:none")
    assert describe_teacher_fit("small", older).endswith("fitted on flickr8k")
    assert describe_teacher_fit("small", TeacherUse(teacher="squeezenet", of="image")) == ""


def test_twice_the_text_and_pictures_permuted_among_several_captions_are_controls() -> None:
    one, image = GROUNDING, {"image": "squeezenet"}
    several = {**one, "setting": "flickr8k[captions=all]"}
    assert "mcse[images=permuted]" in wanted("mcse", image, several) - wanted("mcse", image, one)
    assert "mcse[images=permuted]" in wanted("mcse", image, one, needed=False)
    assert "mcse[images=untrained]" in wanted("mcse", image, one), "its profile names the features"
    assert "mcse[images=untrained]" not in wanted("mcse", {"image": "resnet"}, PAPER)
    for training, longer in (
        ({"steps": 300, "epochs": 1}, "simcse[steps=600]"),
        ({"epochs": 3}, "simcse[epochs=6]"),
    ):
        given = {"method": {}, "training": training, "encoder": {}}
        rows = rows_of(
            runs("mcse", *AHEAD, hyperparameters=given, teachers=image, **one)
            + runs(longer, *ALIKE, hyperparameters=given, **one)
        )
        (rival,) = find_rivals(
            rows[Label(variant="mcse", overrides="", **one)], rows, AVG, SPEARMAN
        )
        assert (rival.control.what, rival.row.label.variant) == (
            "training on twice as much text",
            longer,
        )


@pytest.mark.parametrize("where", [SMALL, PAPER, GROUNDING], ids=["small", "paper", "grounding"])
def test_default_grids_have_the_controls_of_their_methods(where: dict[str, Any]) -> None:
    profile = load_profile(where["profile"])
    grid = {*profile.defaults.methods}
    for variant in grid:
        teachers = (
            {"image": "shuffled" if "shuffled" in variant else profile.images or ""}
            if "mcse" in variant
            else {}
        )
        if not variant.startswith("none"):
            assert wanted(variant, teachers, where) <= grid


@pytest.mark.parametrize(("control", "confounds"), [(ALIKE, True), (AHEAD, True), (BEHIND, False)])
def test_a_row_is_confounded_unless_it_beats_each_control(
    control: list[float], confounds: bool
) -> None:
    rows = rows_of(
        runs("mcse", 70.0, 71.2, 72.2, teachers={"image": "toy-clip"})
        + runs("mcse[images=shuffled]", *control, teachers={"image": "shuffled"})
        + runs("simcse", 30.0, 31.0, 32.0)
        + untrained(50.0, encoder="toy-bert")
    )
    (row,) = (row for row in rows.values() if row.label.variant == "mcse")
    first, *others = find_rivals(row, rows, AVG, SPEARMAN)
    assert first.confounds is confounds
    assert first.row.label.variant == (
        "mcse[images=shuffled]" if confounds else "none[pooling=mean]"
    )
    assert [rival.confounds for rival in others] == [False, False]
    assert find_rivals(row, rows, AVG, SPEARMAN, [*list_controls(row)]) == []


def test_too_few_seeds_confound_by_their_mean_alone() -> None:
    for score, confounds in ((69.0, False), (71.0, True)):
        rows = rows_of(runs("simcse", 70.0) + untrained(score, encoder="toy-bert"))
        (row,) = (row for row in rows.values() if row.is_trained)
        assert [rival.confounds for rival in find_rivals(row, rows, AVG, SPEARMAN)] == [confounds]


def test_a_trained_teacher_is_the_one_seed_that_taught() -> None:
    teacher = {"image": "toy-clip", "teacher1": "run:mcse/toy/toy-bert/seed-1"}
    rows = rows_of(
        runs("dalr", 70.0, 71.0, 72.0, teachers=teacher) + runs("mcse", 10.0, 90.0, 20.0)
    )
    (row,) = (row for row in rows.values() if row.label.variant == "dalr")
    (rival,) = find_rivals(row, rows, AVG, SPEARMAN)
    assert (rival.control.what, rival.cell.values, rival.confounds) == (
        "the text teacher alone",
        (90.0,),
        True,
    )


def test_records_that_no_command_made_have_what_controls_they_can() -> None:
    where = {"profile": "../mine.toml", "setting": "toy", "encoder": "toy-bert"}
    odd = runs(
        "dalr",
        70.0,
        teachers={"image": "x", "teacher1": "run:no/run"},
        overrides={"a": "x,[=,y"},
        **where,
    )
    rows = rows_of(odd)
    (row,) = rows.values()
    assert "the text teacher alone" not in {one.what for one in list_controls(row)}
    ((what, _),) = list_missing_controls(row, rows, AVG, Commands())
    assert what.startswith("the untrained encoder"), "its other controls need its values"


def dalr_and_its_teacher() -> list[Result]:
    """DALR ahead of SimCSE and MCSE, and behind its teacher."""
    dalr = runs("dalr", *AHEAD, teachers={"image": "lit", "teacher1": MINILM}, **SMALL)
    others = runs("simcse", *BEHIND, **SMALL) + runs(
        "kdmcse", *ALIKE, teachers={"image": "lit"}, **SMALL
    )
    return dalr + others + untrained(90.0, **SMALL)


def test_a_leader_whose_teacher_scores_more_does_not_lead() -> None:
    (forest,) = make_forests(tables(dalr_and_its_teacher())[0])
    lead, *others = [sentence.text for sentence in make_headline(forest)]
    assert lead.startswith("DALR has the best mean on wiki+flickr8k")
    assert lead.count("confounded: ") == 2, "by what neither KDMCSE nor SimCSE shares"
    assert (
        "confounded: the text teacher alone (untrained, mean) scores 90.00, 8.27 above DALR" in lead
    )
    assert sum(text.startswith("Control missing: ") for text in others) == 2


def claim(results: list[Result], better: str, worse: str) -> str:
    (one,) = (one for one in read_ablations() if (one.better, one.worse) == (better, worse))
    grid = make_claims_grid([one], tables(results), {})
    assert grid is not None
    return str(grid.sections[0].lines[0].cells[2])


def test_a_claim_is_confounded_by_what_the_other_side_does_not_share() -> None:
    runs_of_all = dalr_and_its_teacher()
    text = claim(runs_of_all, "dalr", "kdmcse")
    assert text.startswith("confounded (better, p ")
    assert "; confounded: the text teacher alone (untrained, mean) scores 90.00, 8.27 above" in text
    mcse = runs("mcse", 70.0, 71.2, 72.2, teachers={"image": "squeezenet"}, **SMALL)
    assert claim(runs_of_all + mcse, "mcse", "simcse").startswith("holds"), (
        "neither side beats the untrained encoder"
    )
    shuffled = runs("mcse[images=shuffled]", *ALIKE, teachers={"image": "shuffled"}, **SMALL)
    text = claim(runs_of_all + mcse + shuffled, "mcse", "simcse")
    assert text.startswith("confounded (better, p ")
    assert "; confounded: training on unmatched images" in text


@pytest.mark.parametrize(
    ("variant", "teachers", "where", "commands"),
    [
        (
            "mcse",
            {"image": "toy-clip"},
            {"profile": "tiny", "setting": "toy", "encoder": "toy-bert"},
            3,
        ),
        ("dalr", {"image": "clip", "teacher1": "simcse", "teacher2": "diffcse"}, PAPER, 4),
        ("dalr", {"image": "lit", "teacher1": MINILM}, SMALL | {"overrides": {"steps": 30}}, 3),
    ],
)
def test_missing_controls_are_named_with_commands_that_select_them(
    variant: str, teachers: dict[str, str], where: dict[str, Any], commands: int
) -> None:
    rows = rows_of(runs(variant, 70.0, 71.0, 72.0, teachers=teachers, **where))
    (row,) = rows.values()
    said = [*list_missing_controls(row, rows, AVG, Commands())]
    assert len(said) == commands
    made = set()
    for _, command in said:
        _, _, *words = shlex.split(command)
        options = dict(zip(words[::2], words[1::2], strict=True))
        sets = [value] if (value := options.pop("--set", "")) else ()
        request = make_request(
            Selection(**{name.strip("-"): value for name, value in options.items()}, set=sets)
        )
        assert dict(request.overrides) == ({} if "none[" in command else where.get("overrides", {}))
        made |= {
            (str(spec.variant), str(spec.setting), spec.encoder) for spec in request.suites_by_run
        }
    assert made == {tuple(one.label[1:4]) for one in list_controls(row) if one.needed}


def test_a_control_with_fewer_seeds_lies_as_far_off_as_the_pairs_that_are_tested() -> None:
    """The means of all seeds are 2.47 apart, those of the three seeds that both have 1.97."""
    rows = rows_of(runs("mcse", 50, 51, 52, 53, **SMALL) + runs("simcse", 48, 49, 50.1, **SMALL))
    by_method = {label.method: row for label, row in rows.items()}
    mcse = by_method["mcse"]
    simcse = by_method["simcse"]
    pairs = compare(mcse.cells[AVG], simcse.cells[AVG], SPEARMAN, paired=True)
    control = Control("the same text alone", simcse.label)
    rival = Rival(control, simcse, simcse.cells[AVG], pairs, confounds=False)
    assert "scores 49.03, 1.97 below MCSE on the same seeds (p " in describe_rival(
        rival, mcse, SPEARMAN
    )
