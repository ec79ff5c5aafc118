"""What tools/ and benchmarks/ make: numbers on pages, and results for other benchmarks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import grounding_curves
import grounding_kinds
import grounding_numbers
import grounding_read
import grounding_words
import numpy as np
import pytest
import reference_numbers
import reference_runs
from builders import result, sts
from cases import mark_others_long
from grounding_bootstrap import resample
from scripts import script

import harness
from harness.evaluation.sts import spearman
from harness.metrics import ArrayName
from harness.planning.missing import list_missing, make_fetch_list
from harness.spec import Variant
from harness.store import Result, Store, TeacherUse
from harness.store.files import NamedArrays
from harness.store.tunings import make_tuning, save_tuning

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reproduce.md").read_text()


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a machine has of the data is left out of no count."""
    monkeypatch.delenv("HARNESS_DATA", raising=False)


def test_the_runs_and_licences_to_reproduce_a_table_are_those_of_its_plan(tmp_path: Path) -> None:
    plan = harness.plan(table="dalr:T1", results=tmp_path)
    assert f"Table 1 of the DALR paper has {len(plan.runs)} runs" in PAGE
    fetched = make_fetch_list(list_missing(plan), None, ask=False)
    (accepted,) = re.findall(r"harness fetch --table dalr:T1 --accept-licences (\S+)", PAGE)
    assert accepted.split(",") == [item.name for item in fetched.items if item.terms]
    assert [item.what for item in fetched.by_hand] == ["flickr-images"]
    assert f"{fetched.size / 1e9:.0f} GB to download" in PAGE


def test_the_hours_are_those_of_the_count() -> None:
    """`python benchmarks/hours.py --write` makes them again."""
    made = script(ROOT / "benchmarks" / "hours.py")
    between = PAGE.partition(made.BEGIN)[2].partition(made.END)[0]
    assert between.strip() == made.make_tables().strip()


TEXTS = [page.read_text("utf-8") for page in (reference_numbers.PAGE, reference_numbers.GROUNDING)]
#: the lines of each block of the two pages, by its name
BLOCKS = {
    name: block for text in TEXTS for name, _, block in reference_numbers.MARKED.findall(text)
}
#: it resamples pairs and seeds for many seconds; its numbers on data that are made up are tested
#: below
LONG = "grounding-bootstrap"


def test_every_block_is_on_a_page() -> None:
    assert BLOCKS.keys() == reference_numbers.BLOCKS.keys()
    assert all("±" in BLOCKS[name] for name in ("tiny", "small"))


@pytest.mark.parametrize(
    "name",
    mark_others_long(BLOCKS, BLOCKS.keys() - {LONG}),
)
def test_the_reference_numbers_are_those_of_the_reference_runs(name: str) -> None:
    """`python tools/reference_numbers.py --write` writes them anew."""
    lines = reference_numbers.BLOCKS[name]()
    assert "".join(f"{line}\n" for line in lines) == BLOCKS[name]


def test_methods_of_the_field_have_a_block_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("simcse", "mcse", "esimcse", "diffcse[generator=toy-bert]")
    runs = [
        result(name, seed, sts(ToySTS=10.0 * at + seed), profile=profile, setting=setting)
        for profile, setting in (("tiny", "toy"), ("small", "wiki+flickr8k"))
        for at, name in enumerate(names)
        for seed in range(3)
    ]
    monkeypatch.setattr(reference_runs, "read_reference", lambda: runs)
    lines = "\n".join(reference_numbers.show_field())
    for setting in ("toy", "wiki+flickr8k"):
        assert (
            f"- `{setting}`: better than SimCSE: `diffcse[generator=toy-bert]`, `esimcse`." in lines
        )
    assert lines.count("| `esimcse` | 3 | 21.00 ± 1.00\\* | +20.00 (") == 2
    assert "`mcse`" not in lines
    assert "esimcse" not in "\n".join(reference_numbers.show_tiny())


COSINE = ArrayName("STS12", "cosine")
KINDS = [name for some in grounding_kinds.KINDS.values() for name in some]


def grounded(gain: float) -> list[Result]:
    """Made-up runs of the profile grounding: MCSE gains this over SimCSE and over shuffled
    pictures, half with less.
    """
    levels = {
        "simcse": 50.0,
        "mcse": 50.0 + gain,
        "mcse[images=shuffled]": 50.0,
        "mcse[lambda=0.1]": 50.0 + gain / 2,
    }
    runs = [made("none[pooling=mean]", 0, 40.0, setting="none")]
    student, other = "text-bert", "text-bert-seed-1"
    settings = {
        "flickr8k": (student, other),
        "flickr8k[shot=60]": (student,),
        "wiki+flickr8k": (student,),
    }
    for setting, encoder in (
        (setting, encoder) for setting, some in settings.items() for encoder in some
    ):
        runs += [
            made(
                variant,
                seed,
                level + 0.1 * ((7 * seed + len(variant)) % 5),
                setting=setting,
                encoder=encoder,
            )
            for seed in range(5)
            for variant, level in levels.items()
        ]
    return runs


def made(variant: str, seed: int, level: float, encoder: str = "text-bert", **where: Any) -> Result:
    values = {
        "method": {"lambda": 0.1 if "lambda" in variant else 1.0},
        "training": {"steps": 300},
        "encoder": {},
    }
    image = TeacherUse(teacher="shuffled" if "shuffled" in variant else "squeezenet", of="image")
    return result(
        variant,
        seed,
        {
            **sts(**dict.fromkeys(("STS12", "STS-B", "SICK-R"), level)),
            "cxc": {"Avg": {"sampled": level}},
        },
        parts={"sts": {"STS12": {name: {"spearman": level, "n": 99.0} for name in KINDS[:-2]}}},
        teachers={"image": image} if "mcse" in variant else {},
        hyperparameters=values,
        profile="grounding",
        encoder=encoder,
        **where,
    )


@pytest.mark.parametrize(
    ("gain", "said", "shuffled", "gained", "lost", "order"),
    [
        (
            3.0,
            "pictures help, beyond every control that was run, MCSE",
            "is beaten",
            7,
            0,
            "3 same, 1 not decided",
        ),
        pytest.param(
            0.0,
            "no gain by pictures is shown, MCSE",
            "is not beaten",
            0,
            0,
            "4 not decided",
            marks=pytest.mark.long,
        ),
        pytest.param(
            -3.0,
            "pictures hurt, MCSE",
            "is not beaten",
            0,
            7,
            "3 reversed, 1 not decided",
            marks=pytest.mark.long,
        ),
    ],
)
def test_the_page_of_grounding_says_what_its_numbers_say(
    gain: float,
    said: str,
    shuffled: str,
    gained: int,
    lost: int,
    order: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference_runs, "read_reference", lambda: grounded(gain))
    texts = {name: "\n".join(make()) for name, make in grounding_numbers.BLOCKS.items()}
    for setting in ("flickr8k", "wiki+flickr8k"):
        assert f"- `{setting}`: {said} less SimCSE is " in texts["grounding-answers"]
    assert f"controls, the strongest {shuffled}" in texts["grounding-answers"]
    assert "| pictures shuffled: `mcse[images=shuffled]` | 100 |" in texts["grounding-controls"]
    assert texts["grounding-elsewhere"].count("| 5 |") == 1, (
        "the other student has no untrained run"
    )
    assert f"- `flickr8k`: {said} less SimCSE is " in texts["grounding-student"]
    assert texts["grounding-student"].count("| flickr8k | 5 |") == 3, "its rows are its own"
    assert "not run: `none[pooling=cls]`, `mcse[images=random]`" in texts["grounding-answers"]
    for line, count in (("Gains over", gained), ("Losses to", lost)):
        (kinds,) = re.findall(rf"- {line} SimCSE.*: (.*)\.", texts["grounding-kinds"])
        assert kinds.count(";") + (kinds != "none") == count
    assert re.findall(r"^\| ([\d.,]+) \|", texts["grounding-lambda"], re.MULTILINE) == ["0.1", "1"]
    assert re.findall(r"^\| ([\d.,]+) \|", texts["grounding-pictures"], re.MULTILINE) == [
        "60",
        "6,000",
    ]
    drawn = dict(grounding_curves.draw_figures())
    assert [*drawn] == ["grounding-lambda.svg", "grounding-pictures.svg", "grounding-dev.svg"]
    for name, axis in (("grounding-lambda.svg", "lambda"), ("grounding-pictures.svg", "pictures")):
        assert f"({name})" in texts[f"grounding-{axis}"]
        assert all(f">{text}</text>" in drawn[name] for text in ("SimCSE", "MCSE", axis))
    assert texts["grounding-minutes"].startswith(
        "No results yet; `harness run --profile grounding --methods"
    )
    assert texts["grounding-orders"].endswith(
        f"- Of 9 distinct printed orders: {order}, 5 not run."
    )
    assert texts["grounding"].count("| `mcse` |") == 2, (
        "parts of the pictures and other weights are in their tables"
    )


def test_a_method_is_tested_at_the_configuration_with_the_best_dev_score_on_other_seeds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # each pair of trials by seed: the second is the best at one seed, the first on average
    devs = {100: (70.0, 60.0), 101: (64.0, 65.0)}
    trials = dict[str, list[Sequence[str]]]()
    for method, setting in (("mcse", "flickr8k"), ("visualcse", "wiki+cifar10")):
        texts = (
            "simcse:learning_rate=1e-5|1e-4",
            f"{method}:learning_rate=1e-5|1e-4,temperature=0.1",
        )
        tuning, store = make_tuning("grounding", {}, texts, 2), Store(tmp_path)
        save_tuning(store, tuning)
        trials[setting] = [method.trials for method in tuning.methods]
        for variant, at, seed in product(tuning.variants, range(2), devs):
            if variant in {method.trials[at] for method in tuning.methods}:
                store.save(made(variant, seed, 90.0, setting=setting, dev=(40.0, devs[seed][at])))
    ((simcse, other), (mcse, _)), (_, (visualcse, _)) = trials.values()
    shuffled = str(Variant.parse(f"{mcse[:-1]},images=shuffled]"))
    levels_of = {
        "flickr8k": {simcse: 50.0, mcse: 53.0, other: 80.0, shuffled: 52.0},
        "wiki+cifar10": {simcse: 40.0, visualcse: 41.0},
    }
    tested = [
        made(variant, seed, level + 0.1 * ((7 * seed + len(variant)) % 5), setting=setting)
        for setting, levels in levels_of.items()
        for variant, level in levels.items()
        for seed in range(5)
    ]
    monkeypatch.setattr(grounding_numbers, "TUNED", tmp_path)
    monkeypatch.setattr(reference_runs, "read_reference", lambda: [*grounded(3.0), *tested])
    lines = "\n".join(grounding_numbers.BLOCKS["grounding-budgets"]())
    assert f"| `{simcse}` | 67.00 | 64.75 | 5 | 50.20 ± 0.16 |  | -3.00 (-3." in lines
    assert re.search(
        rf"`{re.escape(mcse)}` \| 67.00 \| 64.75 \| 5 \| 53.20 ± 0.16 \| \+3.00 .*0001 \|  \|",
        lines,
    )
    assert f"| `{shuffled}` |  |  | 5 | 52.20 ± 0.16 | +2.00 (+1." in lines
    assert lines.count("\n") == 4, "what no trial chose is not tested"
    unpaired = "\n".join(grounding_numbers.BLOCKS["grounding-budgets-unpaired"]())
    assert re.search(
        rf"`{re.escape(visualcse)}` \| 67.00 \| 64.75 \| 5 \| 41.20 ± 0.16 \| \+1.00 .*0001 \|$",
        unpaired,
    )
    assert unpaired.count("\n") == 3, "the runs of another setting are in their table"
    for name in ("grounding", "grounding-lambda", "grounding-answers"):
        assert "learning_rate" not in "\n".join(grounding_numbers.BLOCKS[name]()), (
            "the trials stand in their table"
        )


def test_words_are_marked_by_captions_and_by_ratings() -> None:
    words = grounding_words.split_words("The Dogs' ball-park")
    assert words == ["the", "dogs", "ball", "park"]
    ratings = {"dog": 4.8, "ball": 5.0, "dogs": 1.0, "parks": 4.0}
    assert grounding_words.mark_words(words, {"ball", "dog"}, ratings) == (0.25, 3.0), (
        "'dogs' is rated, 'park' is not"
    )
    assert grounding_words.mark_words(["dogs", "zebras"], {"dogs"}, {"dog": 4.0}) == (0.5, 4.0), (
        "without its last s"
    )
    assert grounding_words.mark_words([], {"dog"}, ratings) == (0, None)


@pytest.mark.long
def test_the_marks_of_words_are_those_of_the_command(data_root: Path, tmp_path: Path) -> None:
    rated = tmp_path / "rated.csv"
    rated.write_text("Word,Brysbaert\ndog,4.9\n")
    marks = dict(grounding_words.mark_tasks(data_root, grounding_words.read_ratings(rated)))
    written = json.loads(json.dumps(marks))
    stored = json.loads(Path(grounding_words.__file__).with_suffix(".json").read_text("utf-8"))
    made = {(task, name): marks for task, some in written.items() for name, marks in some.items()}
    assert {at: marks["seen"] for at, marks in made.items()} == {
        (task, name): marks["seen"] for task, some in stored.items() for name, marks in some.items()
    }
    assert {value for marks in made.values() for value in marks["concrete"]} == {4.9, None}


@pytest.mark.long
def test_the_pairs_that_the_student_has_read_are_those_of_the_command(data_root: Path) -> None:
    stored = json.loads(Path(grounding_read.__file__).with_suffix(".json").read_text("utf-8"))
    counts = grounding_read.count_read(data_root)
    assert {task: list(count) for task, count in counts.items()} == stored


def test_pairs_and_seeds_are_resampled_together() -> None:
    numbers = np.random.default_rng(0)
    gold = numbers.normal(size=200)

    def arrays(noise: float, seed: int) -> NamedArrays:
        drawn = np.random.default_rng(seed).normal(size=200)
        return {
            ArrayName("STS12", "gold"): gold,
            ArrayName("STS12", "cosine"): gold + noise * drawn,
        }

    own = {seed: arrays(0.5, seed) for seed in range(3)}
    other = {seed: arrays(2.0, 10 + seed) for seed in range(3)}
    subsets = {"STS12": {"MSRvid": 120, "OnWN": 80}}
    whole, elsewhere = resample(own, other, subsets, ("MSRvid",))
    expected = np.mean(
        [
            100 * (spearman(own[s][COSINE], gold) - spearman(other[s][COSINE], gold))
            for s in range(3)
        ]
    )
    assert whole.size == pytest.approx(expected)
    assert whole.low < whole.size < whole.high
    assert elsewhere.over == "1 subsets that are no captions"
    assert elsewhere.high - elsewhere.low > whole.high - whole.low, "fewer pairs say less"
    assert list(resample(own, other, subsets, ("MSRvid",))) == [whole, elsewhere], "seeded"
    same, _ = resample(own, own, subsets, ("MSRvid",))
    assert (same.size, same.low, same.high) == (0.0, 0.0, 0.0)


def test_pairs_are_halved_by_their_words_within_each_subset() -> None:
    gold = np.array([1.0, 2, 3, 4, 1, 2, 3, 1, 2, 3, 4, 5])
    cosine = np.array([0.1, 0.2, 0.4, 0.3, 0.9, 0.8, 0.7, 0.5, 0.6, 0.3, 0.2, 0.1])
    arrays = {
        ArrayName("STS12", what): values
        for what, values in {"gold": gold, "cosine": cosine}.items()
    }
    marks = {
        "STS12": {
            "MSRpar": {"concrete": [5.0, 4.0, 1.0, 2.0]},
            "MSRvid": {"concrete": [1.0, 2.0, 3.0]},
            "OnWN": {"concrete": [5.0, 4.0, 1.0, 2.0, None]},
        }
    }
    found = np.array([*grounding_kinds._correlate_halves(arrays, marks, "concrete")])
    np.testing.assert_allclose(
        found, [[100, -100], [100, -100]], err_msg="no captions; None is in no half"
    )


def test_the_page_of_grounding_names_a_gain_that_is_significant_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    like = [made("kdmcse", seed, 50.0 + 0.1 * (seed % 3), setting="flickr8k") for seed in range(5)]
    monkeypatch.setattr(reference_runs, "read_reference", lambda: [*grounded(0.26), *like])
    first, *_ = grounding_numbers.BLOCKS["grounding-answers"]()
    assert first.startswith(
        "- `flickr8k`: a difference that is significant alone but not after Holm's correction, MCSE"
    )


def test_without_other_pictures_a_gain_is_not_put_down_to_pictures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        reference_runs,
        "read_reference",
        lambda: [run for run in grounded(3.0) if "shuf" not in str(run.spec)],
    )
    said = "\n".join(grounding_numbers.BLOCKS["grounding-answers"]())
    assert (
        "- `flickr8k`: a gain that no run with unmatched pictures is set against, MCSE less SimCSE is +3.00"
        in said
    )
    assert "pictures help" not in said


def test_a_page_of_grounding_without_runs_names_their_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reference_runs, "read_reference", list)
    for name, make in reference_numbers.BLOCKS.items():
        if name.startswith("grounding"):
            (line,) = make()
            assert [*grounding_curves.draw_figures()] == []
            assert re.match(
                r"No results yet; `harness run --profile grounding(-efficientnet)? --", line
            )


def test_made_up_results_are_those_of_a_store(tmp_path: Path) -> None:
    script(ROOT / "benchmarks" / "made_up.py").write_results(tmp_path, 30)
    results = Store(tmp_path).frames()
    assert (len(results), results.problems) == (30, [])
    assert str(results[0].spec.variant) == "simcse"
