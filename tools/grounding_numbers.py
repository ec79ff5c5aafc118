"""Numbers in docs/grounding.md from the runs of the profile `grounding` in results/reference.

`python tools/reference_numbers.py --write` writes them. What a sentence says follows from the
numbers, whichever way they go; a block without runs names the command for them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import numpy as np
from grounding_bootstrap import resample
from grounding_words import Marks
from reference_runs import (
    REFERENCE,
    TUNED,
    difference,
    frames_of_profile,
    interval,
    of,
    of_runs,
    runs_of,
    score,
    table,
)
from scipy.stats import linregress

from harness.evaluation.sts import spearman
from harness.formatting import fixed, p_value, signed
from harness.metrics import AVERAGE, ArrayName, Column, Metric, Significance
from harness.papers.needed import StandIns
from harness.papers.published import Paper, make_published_key, read_papers, read_published
from harness.profiles import load_profile
from harness.reporting import look
from harness.reporting.results import Results
from harness.reporting.seeds.cells import Cell, Label, Row, compare_rows, correct_family
from harness.reporting.seeds.choose import group_rows
from harness.reporting.seeds.controls import (
    UNMATCHED,
    TableRows,
    describe_rival,
    find_rivals,
    list_controls,
)
from harness.reporting.seeds.summary import Block, SummaryTable
from harness.reporting.seeds.tuned import TunedLine
from harness.reporting.tables.grids import format_summary
from harness.spec import BASELINE, UNTRAINED, Variant, parse_setting
from harness.stats import ALPHA, TTest, holm, one_sample_t_test
from harness.store import Result, Store, frames_of
from harness.store.files import NamedArrays

PROFILE = "grounding"
OTHER_IMAGES = "grounding-efficientnet"
STUDENT = "text-bert"
OTHER_STUDENT = "text-bert-seed-1"
CAPTIONS = "flickr8k"
UNPAIRED = "wiki+cifar10"
METHOD = "mcse"
SHUFFLED = "mcse[images=shuffled]"
#: the pictures of the setting, and parts of them: 1, 3, 10 and 30 %
PICTURES = 6000
SHOTS = ",".join(f"{CAPTIONS}[shot={number}]" for number in (60, 180, 600, 1800))
#: minutes of pretraining, by student
MINUTES = {f"{STUDENT}-0": 0, f"{STUDENT}-10": 10, STUDENT: 40}
#: half the width of the interval of the main question that is asked for, in points
BAR = 0.5
UNTRAINED_STUDENT = "none[pooling=mean]"
LESS_UNTRAINED = "less the untrained student (95 %)"
LESS = ("`mcse` less `simcse` (95 %)", "less shuffled pictures (95 %)")
SPEARMAN = Metric("spearman", unit="points of Spearman")
#: the papers' tables whose orders stand beside measured ones, and their encoder
ORDERS = {"mcse": "T2", "kdmcse": "T1", "dalr": "T1"}
BERT = "bert-base-uncased"
#: the subsets of captions
PICTURES_TOLD = ("MSRvid", "images")
#: kind of sentences -> subsets of STS12 to STS16, or tasks without subsets
KINDS = {
    "captions of pictures and videos": PICTURES_TOLD,
    "news": ("MSRpar", "surprise.SMTnews", "headlines", "deft-news", "tweet-news"),
    "forums": ("deft-forum", "answers-forums", "belief", "answer-answer", "question-question"),
    "definitions": ("surprise.OnWN", "OnWN", "FNWN"),
    "students, parliament, edits": ("answers-students", "SMTeuroparl", "plagiarism", "postediting"),
    "SICK, made from captions": ("SICK-R",),
    "the STS Benchmark, of all kinds": ("STS-B",),
}


#: the subsets of STS12 to STS16 that are no captions
ELSEWHERE = tuple(
    name
    for kind, sets in KINDS.items()
    for name in sets
    if sets is not PICTURES_TOLD and name not in ("SICK-R", "STS-B")
)
NO_CAPTIONS = "all subsets of STS12 to STS16 but those of captions"


def main_runs(profile: str = PROFILE, student: str = STUDENT) -> list[Result]:
    """The runs on all images with a student, without those of other weights."""
    plain = (
        one for one in untuned_runs(profile) if one.spec.encoder == student and not one.overrides
    )
    return [
        one
        for one in plain
        if "shot" not in dict(one.spec.setting.options)
        and "lambda" not in dict(one.spec.variant.options)
    ]


def main_pair_runs() -> list[Result]:
    """The runs of the main question: SimCSE and MCSE on captions only, of one caption a picture."""
    return [
        run
        for run in main_runs()
        if str(run.spec.setting) == CAPTIONS and str(run.spec.variant) in (BASELINE, METHOD)
    ]


def untuned_runs(profile: str = PROFILE) -> list[Result]:
    """The runs at the profile's rate, without those of the configurations that a tuning chose."""
    return [
        one for one in runs_of(profile) if "learning_rate" not in dict(one.spec.variant.options)
    ]


def whole(profile: str = PROFILE) -> SummaryTable:
    """The table of all runs of a profile on similarity, whose families all blocks share."""
    return of(profile, "sts")


def variants(student: str = STUDENT) -> Iterator[str]:
    """Every variant in every setting with a student; families are those of all runs."""
    runs = main_runs(student=student)
    one = whole()
    rated = _rated(runs)
    average = _column(one, AVERAGE)
    rows = []
    seen = set[Label]()
    wanted = {(str(run.spec.variant), str(run.spec.setting)) for run in runs}
    for block in one.blocks:
        for row in (row for row in block.rows if row.label not in seen):
            label = row.label
            is_main = (label.variant, label.setting) in wanted and not label.overrides
            if label.encoder != student or not is_main:
                continue
            seen.add(label)
            compared = row.is_trained and not block.is_baseline(row)
            rows.append(
                [
                    f"`{row.label.variant}`",
                    row.label.setting if row.is_trained else "–",
                    str(len(row.seeds)),
                    score(one, row, average),
                    rated.get(row.label, ""),
                    difference(one, row, average) if compared else "",
                ]
            )

    less = "Avg less `simcse` (95 %), Holm's p"
    yield from table(["variant", "setting", "seeds", "Avg of 7 STS", "CxC", less], rows)


def _rated(runs: Sequence[Result]) -> Mapping[Label, str]:
    """The scores on Crisscrossed Captions, where there are any."""
    if not any(one.suite == "cxc" for run in runs for one in run.evaluations):
        return {}
    ratings = of_runs(runs, "cxc")
    return {row.label: score(ratings, row, _column(ratings, AVERAGE)) for row in ratings.rows}


def answers(profile: str = PROFILE, student: str = STUDENT) -> Iterator[str]:
    """What the runs in each setting say of pictures."""
    one = whole(profile)
    column = _column(one, AVERAGE)
    for block in one.blocks:
        row = _row(block, METHOD)
        if block.encoder != student or "shot" in block.setting:
            continue
        if row and row.cells[column].test:
            yield from _answer(block, row, column, one.metric(column))


def other_student() -> Iterator[str]:
    """The main question's answer with the student of another pretraining seed, and its scores."""
    yield from answers(student=OTHER_STUDENT)
    yield ""
    yield from variants(OTHER_STUDENT)


def _answer(block: Block, row: Row, column: Column, metric: Metric) -> Iterator[str]:
    """Whether a row gains by its pictures, each control that it beats or does not, and how sure
    that is.
    """
    cell = row.cells[column]
    rivals = find_rivals(row, TableRows(block.by_label), column, metric)
    assert cell.test
    size = f"MCSE less SimCSE is {interval(cell.test, metric.digits)}"
    if cell.is_alone:
        said = f"a difference that is significant alone but not after Holm's correction, {size}"
    elif not cell.holds:
        most = fixed(max(cell.test.high, 0.0), metric.digits)
        said = (
            f"no gain by pictures is shown, {size}; gains above {most} points are excluded (95 %)"
        )
    elif cell.verdict is Significance.WORSE:
        said = f"pictures hurt, {size}"
    elif any(rival.confounds for rival in rivals):
        said = f"a gain that pictures are not shown to cause, {size}"
    elif not any(UNMATCHED in rival.control.what for rival in rivals):
        said = f"a gain that no run with unmatched pictures is set against, {size}"
    else:
        said = f"pictures help, beyond every control that was run, {size}"
    width = (cell.test.high - cell.test.low) / 2
    within = "within" if width <= BAR else "wider than"
    yield f"- `{block.setting}`: {said}. The interval, ±{fixed(width, metric.digits)}, is {within} the bar of ±{BAR}."
    for rival in rivals[:1]:
        beaten = "is not beaten" if rival.confounds else "is beaten, as the others are"
        yield f"    - Of {len(rivals)} controls, the strongest {beaten}: {describe_rival(rival, row, metric)}."
    others = (
        control.label for control in list_controls(row) if control.label not in block.by_label
    )
    # with one caption an image, to permute is to shuffle
    needless = ("avg-first-last", *["permuted"] * ("captions=all" not in block.setting))
    if left := dict.fromkeys(
        f"`{one.variant}`" for one in others if not any(map(one.variant.count, needless))
    ):
        yield f"    - Controls not run: {', '.join(left)}."


def kinds() -> Iterator[str]:
    """Gains over SimCSE and over shuffled pictures by kind of sentences."""
    frames = frames_of_profile(PROFILE)
    found = group_rows(frames, frames.scores, frames.parts)
    names = [
        Label(PROFILE, variant, CAPTIONS, STUDENT, "") for variant in (METHOD, BASELINE, SHUFFLED)
    ]
    names.append(Label(PROFILE, UNTRAINED_STUDENT, UNTRAINED, STUDENT, ""))
    rows = [found[name]["sts"] for name in names if "sts" in found.get(name, {})]
    if len(rows) < 4:
        return
    lines = []
    gains = dict[str, TTest]()
    for kind, sets in (KINDS | {NO_CAPTIONS: ELSEWHERE}).items():
        own, *others = (_of_kind(row, sets) for row in rows)
        plain = others[0]
        tests = [compare_rows(own, other, _KIND, SPEARMAN).test for other in others]
        gains |= {kind: tests[0]} if tests[0] and kind in KINDS else {}
        means = [
            str(format_summary(row.cells[_KIND].summary, SPEARMAN.digits)) for row in (plain, own)
        ]
        lines.append(
            [kind, *means, *(interval(test, SPEARMAN.digits) if test else "" for test in tests)]
        )
    yield from table(["sentences", "`simcse`", "`mcse`", *LESS, LESS_UNTRAINED], lines)
    yield ""
    sure = {
        kind
        for kind, p in zip(gains, holm([test.p for test in gains.values()]), strict=True)
        if p < ALPHA
    }
    for said, sign in (("Gains over", 1), ("Losses to", -1)):
        found_in = [kind for kind in gains if kind in sure and sign * gains[kind].difference > 0]
        yield f"- {said} SimCSE, after Holm's correction over the kinds: {'; '.join(found_in) or 'none'}."


#: the runs of the main question: a profile, an encoder, and how they are called
PLACES = (
    (PROFILE, STUDENT, "the student, SqueezeNet's features"),
    (OTHER_IMAGES, STUDENT, "the student, EfficientNet's features"),
    (PROFILE, OTHER_STUDENT, "the second student, SqueezeNet's features"),
)


def elsewhere() -> Iterator[str]:
    """The gain where no sentence is a caption, over SimCSE and over the student before training."""
    lines = []
    for profile, encoder, said in PLACES:
        frames = frames_of_profile(profile)
        found = group_rows(frames, frames.scores, frames.parts)
        label = Label(profile, METHOD, CAPTIONS, encoder, "")
        untrained = label._replace(variant=UNTRAINED_STUDENT, setting=UNTRAINED)
        names = (label, label._replace(variant=BASELINE), untrained)
        rows = [found[name]["sts"] for name in names if "sts" in found.get(name, {})]
        if len(rows) < 3:
            continue
        cells = []
        for sets in (ELSEWHERE, KINDS["forums"]):
            own, *others = (_of_kind(row, sets) for row in rows)
            tests = [compare_rows(own, other, _KIND, SPEARMAN).test for other in others]
            cells += [interval(test, SPEARMAN.digits) if test else "" for test in tests]
        lines.append([said, str(len(rows[0].seeds)), *cells])
    head = ["runs", "seeds", "less `simcse`", "less the untrained student"]
    yield from table([*head, "forums, less `simcse`", "forums, less the untrained student"], lines)


_KIND = Column("kind", SPEARMAN.name)


def _of_kind(row: Row, sets: Sequence[str]) -> Row:
    """A row with one cell, the mean of some subsets of tasks and whole tasks by seed."""
    whole = {
        (column.task, column): cell
        for column, cell in row.cells.items()
        if column.task in ("SICK-R", "STS-B")
    }
    cells = {**row.parts, **whole}.items()
    mine = [
        cell.by_seed
        for (name, column), cell in cells
        if name in sets and column.metric == SPEARMAN.name
    ]
    by_seed = {seed: mean(values[seed] for values in mine) for seed in row.seeds}
    return replace(row, cells={_KIND: Cell.of(by_seed)}, parts={})


#: pairs by their words, marked by `grounding_words.py`: the mark, the pairs with more of it and
#: those with less
HALVES = {
    "seen": ("more words of the captions", "fewer words of the captions"),
    "concrete": ("more concrete words", "less concrete words"),
}


def words() -> Iterator[str]:
    """Gains on pairs whose words are more or less those of pictures; no pair is a caption of a
    picture or a video.

    Each subset of STS12 to STS16 is halved at the median of a mark, so that both halves have
    sentences of all kinds.
    """
    marks = json.loads(Path(__file__).with_name("grounding_words.json").read_text("utf-8"))
    frames = frames_of_profile(OTHER_IMAGES)
    found = group_rows(frames, frames.scores)
    names = [
        Label(OTHER_IMAGES, variant, CAPTIONS, STUDENT, "")
        for variant in (METHOD, BASELINE, SHUFFLED)
    ]
    names.append(Label(OTHER_IMAGES, UNTRAINED_STUDENT, UNTRAINED, STUDENT, ""))
    rows = [found[name]["figures"] for name in names if "figures" in found.get(name, {})]
    if len(rows) < 4:
        return
    lines = []
    stored = [_arrays(row) for row in rows]
    for mark, (more, less) in HALVES.items():
        by_half = [_halved(arrays, marks, mark) for arrays in stored]
        for at, said in enumerate((more, less, "difference")):
            own, *others = (
                replace(row, cells={_KIND: half[at]})
                for row, half in zip(rows, by_half, strict=True)
            )
            plain = others[0]
            tests = [compare_rows(own, other, _KIND, SPEARMAN).test for other in others]
            means = [
                str(format_summary(row.cells[_KIND].summary, SPEARMAN.digits))
                for row in (plain, own)
            ]
            lines.append(
                [said, *means, *(interval(test, SPEARMAN.digits) if test else "" for test in tests)]
            )
    yield from table(["pairs with", "`simcse`", "`mcse`", *LESS, LESS_UNTRAINED], lines)


def _arrays(row: Row) -> dict[int, NamedArrays]:
    """The stored cosines and scores of each seed of a row."""
    assert row.frames
    store = Store(REFERENCE)
    return {
        seed: store.arrays(row.frames.result(run))
        for seed, run in zip(row.seeds, row.runs, strict=True)
    }


def _halved(
    by_seed: Mapping[int, NamedArrays], marks: Mapping[str, Mapping[str, Marks]], mark: str
) -> list[Cell]:
    """The cells of pairs with more of a mark and with less, means over the halves of subsets, and
    their difference.
    """
    means = {}
    for seed, arrays in by_seed.items():
        upper, lower = (
            mean(some) for some in zip(*_correlations(arrays, marks, mark), strict=True)
        )
        means[seed] = (upper, lower, upper - lower)
    return [Cell.of({seed: values[at] for seed, values in means.items()}) for at in range(3)]


def _correlations(
    arrays: NamedArrays, marks: Mapping[str, Mapping[str, Marks]], mark: str
) -> Iterator[Sequence[float]]:
    """Spearman's correlation x 100 on the upper and the lower half of each subset; pairs without a
    mark are in none.
    """
    for task, subsets in marks.items():
        gold, cosine = (arrays[ArrayName(task, what)] for what in ("gold", "cosine"))
        ends = np.cumsum([len(of_pairs[mark]) for of_pairs in subsets.values()])[:-1]
        for (subset, of_pairs), own, rated in zip(
            subsets.items(), np.split(cosine, ends), np.split(gold, ends), strict=True
        ):
            given = np.array(of_pairs[mark], float)
            middle = np.nanmedian(given)
            if subset not in PICTURES_TOLD:
                yield [
                    100 * (spearman(own[half], rated[half]) or 0.0)
                    for half in (given > middle, given <= middle)
                ]


#: the controls of the answer's table: what each is, its variant, and the setting where it is not
#: the main one
CONTROLS_SHOWN = (
    ("the student before training", UNTRAINED_STUDENT, ""),
    ("the same text alone", BASELINE, ""),
    (
        "... with the rate and steps that a tuning chose",
        "simcse[learning_rate=3e-05,steps=150]",
        "",
    ),
    ("twice as much text", "simcse[steps=600]", ""),
    ("pictures through an untrained network", "mcse[images=untrained]", ""),
    ("pictures shuffled", SHUFFLED, ""),
    ("pictures drawn at random", "mcse[images=random]", ""),
    ("noise as pictures", "mcse[images=noise]", ""),
    ("pictures permuted, five captions each", "mcse[images=permuted]", f"{CAPTIONS}[captions=all]"),
)
LAST = "checkpoint=last"
_LAST_DEV = Column("last dev", SPEARMAN.name)


def controls_table() -> Iterator[str]:
    """MCSE less each of its controls: by the weights of the best dev score, by those of the last
    step, and on the dev set at the last step, where all seeds have a score.
    """
    one = whole()
    column = _column(one, AVERAGE)
    rows = {row.label: row for row in one.rows}
    lines = []
    for what, variant, setting in CONTROLS_SHOWN:
        trained = Label(PROFILE, variant, setting or CAPTIONS, STUDENT, "")
        label = trained if variant != UNTRAINED_STUDENT else trained._replace(setting=UNTRAINED)
        own = rows.get(trained._replace(variant=METHOD))
        control = rows.get(label)
        last = label if label.setting == UNTRAINED else label._replace(overrides=LAST)
        own_last = rows.get(trained._replace(variant=METHOD, overrides=LAST))
        shown = control or rows.get(last)
        if shown is None:
            continue
        lines.append(
            [
                f"{what}: `{variant}`",
                _kept_of(shown),
                str(format_summary(shown.cells[column].summary, SPEARMAN.digits)),
                _less_of(own, control, column),
                _less_of(own_last, rows.get(last), column),
                _less_of(_last_dev(own), _last_dev(control), _LAST_DEV),
            ]
        )
    head = [
        "control",
        "scored at step",
        "its Avg",
        "`mcse` less it: best weights",
        "last weights",
        "dev set of STS-B at the last step",
    ]
    yield from table(head, lines)
    several = Label(PROFILE, "", f"{CAPTIONS}[captions=all]", STUDENT, "")
    permuted, shuffled = (
        _last_dev(rows.get(several._replace(variant=f"mcse[images={control}]")))
        for control in ("permuted", "shuffled")
    )
    if permuted and shuffled:
        size = _less_of(permuted, shuffled, _LAST_DEV)
        yield from [
            "",
            f"- Permuted less shuffled pictures, five captions each, on the dev set at the last step: {size}.",
        ]


def _kept_of(row: Row) -> str:
    """The median step of the weights that are scored, of the steps that were trained."""
    return row.spent.texts().get("steps", "–") if row.is_trained else "–"


def _less_of(row: Row | None, other: Row | None, column: Column) -> str:
    """The difference of two rows with its interval, p-value and seeds; empty where one was not
    run.
    """
    if row is None or other is None or column not in row.cells or column not in other.cells:
        return ""
    cell = compare_rows(row, other, column, SPEARMAN)
    seeds = f"{cell.summary.n} and {other.cells[column].summary.n} seeds"
    if cell.test is None:
        size = cell.summary.mean - other.cells[column].summary.mean
        return f"{signed(size, SPEARMAN.digits)}, {seeds}"
    return f"{interval(cell.test, SPEARMAN.digits)}, {p_value(cell.test.p)}, {seeds}"


def _last_dev(row: Row | None) -> Row | None:
    """A row with one cell: the dev score at the last step, by seed."""
    if row is None or not row.is_trained or row.frames is None:
        return None
    by_seed = {
        seed: row.frames.result(run).dev.scores[-1]
        for seed, run in zip(row.seeds, row.runs, strict=True)
    }
    return replace(row, cells={_LAST_DEV: Cell.of(by_seed)})


def bootstrap() -> Iterator[str]:
    """MCSE's gain with pairs and seeds resampled together, where cosines of each pair are stored."""
    places = (
        (PROFILE, LAST, "SqueezeNet's features, last weights"),
        (OTHER_IMAGES, "", "EfficientNet's features, best weights"),
    )
    marks = json.loads(Path(__file__).with_name("grounding_words.json").read_text("utf-8"))
    subsets = {
        task: {name: len(of_pairs["seen"]) for name, of_pairs in some.items()}
        for task, some in marks.items()
    }
    lines = []
    for profile, overrides, said in places:
        frames = frames_of(runs_of(profile))
        found = group_rows(frames, frames.scores)
        label = Label(profile, METHOD, CAPTIONS, STUDENT, overrides)
        names = (label, label._replace(variant=BASELINE))
        rows = [found[name]["figures"] for name in names if "figures" in found.get(name, {})]
        if len(rows) < 2:
            continue
        own, other = map(_arrays, rows)
        for row in resample(own, other, subsets, PICTURES_TOLD):
            size = f"{signed(row.size, 2)} ({signed(row.low, 2)} to {signed(row.high, 2)})"
            lines.append([said, row.over, str(row.seeds), size])
    yield from table(["runs", "mean over", "seeds", "`mcse` less `simcse` (95 %)"], lines)


def read_pairs() -> Iterator[str]:
    """The test pairs of which the stored student has read a sentence."""
    counts = json.loads(Path(__file__).with_name("grounding_read.json").read_text("utf-8"))
    yield from table(
        ["task", "pairs of which the student has read a sentence", "pairs"],
        ([task, f"{some:,}", f"{pairs:,}"] for task, (some, pairs) in counts.items()),
    )


#: the file of the dev curves, and the variants on it
DEV_FILE = "grounding-dev.svg"
DEV_SHOWN = (METHOD, BASELINE, SHUFFLED, "mcse[images=untrained]", "mcse[images=noise]")


def dev_curves() -> dict[str, Row]:
    """The variants whose dev scores are drawn, by name: those of the best weights, which have the
    most seeds, else those of the last ones, whose curves are the same.
    """
    rows = {row.label: row for row in whole().rows}
    curves = {}
    for variant in DEV_SHOWN:
        label = Label(PROFILE, variant, CAPTIONS, STUDENT, "")
        row = rows.get(label) or rows.get(label._replace(overrides=LAST))
        if row and row.frames:
            curves[row.label._replace(overrides="").name.text] = row
    return curves


def draw_dev_curves(curves: Mapping[str, Row]) -> str:
    """The mean dev score of each variant at each step, with 95 % intervals."""
    values = []
    steps = list[int]()
    for name, row in curves.items():
        assert row.frames
        dev = [row.frames.result(run).dev for run in row.runs]
        steps = dev[0].steps
        values += [
            _mean(name, at, Cell.of(dict(enumerate(curve.scores[at] for curve in dev))))
            for at in range(len(steps))
        ]
    labels = json.dumps([f"{step:,}" for step in steps])
    axis = {"values": [*range(len(steps))], "labelExpr": f"{labels}[datum.value]", "grid": False}
    x = look.encode_axis("x", "step", axis=axis)
    y = look.encode_axis("y", "dev score (STS-B)")
    shown = look.encode_series(look.choose_looks(curves))
    return look.draw_picture(
        "Dev scores by step", look.join_panels([{"layer": [look.draw_curves(values, x, y, shown)]}])
    ).svg


#: a place on the axis of a curve, and the rows of SimCSE and of MCSE there
Point = tuple[float, Block, Row]


def weights(one: SummaryTable) -> Iterable[Point]:
    """Values of lambda."""
    used = {str(run.spec.variant): run.hyperparameters["method"] for run in untuned_runs()}
    for block in (
        block for block in one.blocks if (block.setting, block.encoder) == (CAPTIONS, STUDENT)
    ):
        plain = (
            row for row in block.trained if "@" not in row.label.variant and not row.label.overrides
        )
        for row in plain:
            if row.label.method == METHOD and _has_only(row.label.parsed, "lambda"):
                yield float(str(used[row.label.variant]["lambda"])), block, row


def pictures(one: SummaryTable) -> Iterable[Point]:
    """Numbers of pictures."""
    for block in (block for block in one.blocks if block.encoder == STUDENT and block.trained):
        setting = parse_setting(block.setting)
        row = _row(block, METHOD)
        if row and setting.name == CAPTIONS and _has_only(setting, "shot"):
            yield int(dict(setting.options).get("shot", PICTURES)), block, row


def reading(one: SummaryTable) -> Iterable[Point]:
    """Minutes of the student's pretraining."""
    for block in (
        block for block in one.blocks if block.setting == CAPTIONS and block.encoder in MINUTES
    ):
        if row := _row(block, METHOD):
            yield MINUTES[block.encoder], block, row


def _has_only(name: Variant | None, option: str) -> bool:
    """Whether a variant or a setting has no option but this one."""
    return name is not None and {key for key, _ in name.options} <= {option}


#: what is on the axis of a curve -> its points
CURVES = {"lambda": weights, "pictures": pictures, "minutes": reading}
#: the words of the command for them
COMMANDS = {
    "lambda": "--methods 'mcse[lambda=0.01|0.03|0.1|0.3|3]' --encoders text-bert=FOLDER",
    "pictures": f"--methods simcse,mcse --settings '{SHOTS}' --encoders text-bert=FOLDER",
    "minutes": "--methods 'none[pooling=mean],simcse,mcse' --encoders text-bert-10=FOLDER",
}


def _points(one: SummaryTable, axis: str) -> list[Point]:
    """The points of a curve in their order; none of a single one."""
    points = sorted(CURVES[axis](one), key=lambda point: point[0])
    return points if len(points) > 1 else []


def _curve(axis: str) -> Iterator[str]:
    """A figure and its table: the untrained student, SimCSE and MCSE at each point, and MCSE's
    gain.
    """
    one = whole()
    column = _column(one, AVERAGE)
    points = _points(one, axis)
    if not points:
        return
    yield from [
        f"![SimCSE and MCSE against {axis}; bars are 95 % intervals of the means]({_file(axis)})",
        "",
    ]
    differences = [difference(one, row, column) for _, _, row in points]
    family = "Holm's p"

    # points in places of their own are in as many families of the tables: here they are one
    places = {(block.setting, block.encoder) for _, block, _ in points}
    if len(places) > 1:
        differences = [*_differences_over_points(axis, column, points)]
        family = f"Holm's p over the {len(points)} points"

    lines = []
    for (place, block, row), size in zip(points, differences, strict=True):
        rows = (_row(block, UNTRAINED_STUDENT), _row(block, BASELINE), row)
        lines.append([f"{place:,g}", *(_unmarked(other, column) for other in rows), size])

    head = [axis, "untrained", "`simcse`", "`mcse`", f"`mcse` less `simcse` (95 %), {family}"]
    yield from table(head, lines)
    yield from ["", *_trend(axis, column, points)]


def _differences_over_points(axis: str, column: Column, points: Sequence[Point]) -> Iterator[str]:
    """The difference at each point, corrected over all of them."""
    tests = [row.cells[column].test for _, _, row in points]
    ps = [test.p for test in tests if test]
    corrected = iter(correct_family(f"points against {axis}", ps))
    for test in tests:
        if test is None:
            yield "–"
        else:
            yield f"{interval(test, SPEARMAN.digits)}, {p_value(next(corrected).p)}"


def _unmarked(row: Row | None, column: Column) -> str:
    """Mean and deviation of a row without the star of its table."""
    if row is None:
        return ""
    return str(format_summary(row.cells[column].summary, SPEARMAN.digits))


def _trend(axis: str, column: Column, points: Sequence[Point]) -> Iterator[str]:
    """What the gains over SimCSE, by seed, say over all points: a trend, and the first point's share
    of the gain at the profile's own.
    """
    gains = []
    for _, block, row in points:
        baseline = _row(block, BASELINE)
        pairs = row.cells[column].pairs(baseline.cells[column]) if baseline else ([], [])
        gains.append([own - other for own, other in zip(*pairs, strict=True)])
    places = [float(number) for number, some in enumerate(gains) for _ in some]
    values = [gain for some in gains for gain in some]
    if len(values) > len(points):
        slope = linregress(places, values)
        yield (
            f"- Trend of the gain over all {len(points)} points and {len(values)} pairs of seeds: "
            f"{signed(slope.slope, 2)} from one point to the next, {p_value(slope.pvalue)}."
        )
    _, block, first = points[0]
    baseline = _row(block, BASELINE)
    whole = mean(gains[[place for place, *_ in points].index(1)]) if axis == "lambda" else 0.0
    test = compare_rows(first, baseline, column, SPEARMAN).test if baseline else None
    if test and whole > 0:
        low, middle, high = (
            fixed(100 * size / whole, 0) for size in (test.low, test.difference, test.high)
        )
        yield (
            f"- The gain at the smallest weight is {middle} % of that at weight 1; its 95 % interval reaches from "
            f"{low} to {high} %."
        )


def _file(axis: str) -> str:
    return f"grounding-{axis}.svg"


def figures() -> Iterator[tuple[str, str]]:
    """The name and the SVG of each curve with runs."""
    if not main_runs():
        return
    one = whole()
    for axis in CURVES:
        if points := _points(one, axis):
            yield _file(axis), _drawn(axis, _column(one, AVERAGE), points)
    if curves := dev_curves():
        yield DEV_FILE, draw_dev_curves(curves)


def _drawn(axis: str, column: Column, points: Sequence[Point]) -> str:
    both: Mapping[str, Sequence[Row | None]] = {
        "SimCSE": [_row(block, BASELINE) for _, block, _ in points],
        "MCSE": [row for *_, row in points],
    }
    values = [
        _mean(name, at, row.cells[column])
        for name, rows in both.items()
        for at, row in enumerate(rows)
        if row
    ]
    places = json.dumps([f"{place:,g}" for place, *_ in points])
    labels = {"values": [*range(len(points))], "labelExpr": f"{places}[datum.value]", "grid": False}
    x = look.encode_axis("x", axis, axis=labels)
    y = look.encode_axis("y", "Avg of 7 STS, Spearman x 100")
    shown = look.encode_series(look.choose_looks(both))
    return look.draw_picture(
        f"SimCSE and MCSE against {axis}",
        look.join_panels([{"layer": [look.draw_curves(values, x, y, shown)]}]),
    ).svg


def _mean(series: str, at: int, cell: Cell) -> Mapping[str, object]:
    """A mean as a row of `look.draw_curves`, with its 95 % interval where there are several seeds."""
    test = one_sample_t_test(cell.values, 0.0)
    low, high = (test.low, test.high) if test else (cell.summary.mean,) * 2
    return {"series": series, "x": at, "y": cell.summary.mean, "lo": low, "hi": high}


def orders() -> Iterator[str]:
    """The orders of the papers' rows by BERT-base, and those of the student."""
    one = whole()
    lines = []
    counts = Counter[str]()
    column = _column(one, AVERAGE)
    rows = {row.label: row for row in one.rows}
    papers = {paper.name: paper for paper in read_papers()}
    said_already = set[tuple[Label, Label]]()
    for paper in map(papers.__getitem__, ORDERS):
        for better, worse in _printed_orders(paper):
            # KDMCSE's and DALR's tables quote rows of one another
            if (better.label, worse.label) in said_already:
                continue
            said_already.add((better.label, worse.label))
            high = rows.get(better.label)
            low = rows.get(worse.label)
            cell = compare_rows(high, low, column, one.metric(column)) if high and low else None
            size = interval(cell.test, one.metric(column).digits) if cell and cell.test else ""
            counts[verdict := _agreement(cell)] += 1
            said = f"{paper.heading} {ORDERS[paper.name]}, {better.setting}: `{better.variant}` over `{worse.variant}`"
            lines.append([said, signed(better.printed - worse.printed, 1), size, verdict])
    yield from table(
        ["order as printed (BERT-base)", "printed", "measured (95 %)", "order of the student"],
        lines,
    )
    yield from [
        "",
        f"- Of {len(lines)} distinct printed orders: {', '.join(f'{n} {said}' for said, n in counts.items())}.",
    ]


class Printed(NamedTuple):
    """A row of a paper with its printed average, and the label of the runs that stand for it."""

    variant: str
    setting: str
    printed: float
    label: Label


def _printed_orders(paper: Paper) -> Iterator[tuple[Printed, Printed]]:
    """Each two rows of a setting with a stand-in, the one with the higher printed average first."""
    name = ORDERS[paper.name]
    names = StandIns.of(load_profile(PROFILE))
    published = read_published()
    average = next(column for column in paper.tables[name].columns if column.name == AVERAGE)
    rows = []
    for _, row in paper.tables[name].select_rows(BERT):
        place = names.place(row.variant, row.setting, BERT)
        if place and row.setting != UNTRAINED and not row.published_only:
            value = published[make_published_key(paper.name, name, row, BERT, average)].value
            rows.append(Printed(row.variant, row.setting, value, Label(PROFILE, *place, "")))
    rows.sort(key=lambda row: -row.printed)
    return (
        (first, second)
        for first, second in combinations(rows, 2)
        if first.setting == second.setting
    )


def _agreement(cell: Cell | None) -> str:
    """What a measured difference says of a printed order."""
    if cell is None or cell.verdict is None:
        return "not run"
    return {Significance.BETTER: "same", Significance.WORSE: "reversed"}.get(
        cell.verdict, "not decided"
    )


def budgets(setting: str) -> Iterator[str]:
    """The configuration of each method that its trials in a setting chose, and its scores on other
    seeds.

    Shuffled pictures are tested at a configuration of their own and at MCSE's.
    """
    tuned = (line for report in Results.read(Store(TUNED)).tuned for line in report.lines)
    lines = {_chosen(line): line for line in tuned if line.setting == setting and line.scores}
    own = (Variant.parse(name) for name, line in lines.items() if line.method.base == METHOD)
    names = [
        *lines,
        *(str(Variant.make(METHOD, {**dict(one.options), "images": "shuffled"})) for one in own),
    ]
    runs = [
        one
        for one in runs_of(PROFILE)
        if str(one.spec.variant) in names and str(one.spec.setting) == setting
    ]
    if not runs:
        return
    one = of_runs(runs, "sts")
    column = _column(one, AVERAGE)
    found = {row.label.variant: row for row in one.rows}
    rows = [found[name] for name in names if name in found]
    against = {
        base: less
        for base in (BASELINE, METHOD)
        if (less := _less(rows, base, column, one.metric(column)))
    }
    said = []
    for row in rows:
        name = row.label.variant
        digits = one.metric(column).digits
        devs = [*_devs(lines[name]).values()] if name in lines else []
        said.append([
            f"`{name}`", *([fixed(max(devs), digits), fixed(mean(devs), digits)] if devs else ["", ""]),
            str(len(row.seeds)), score(one, row, column), *(less.get(name, "") for less in against.values()),
        ])  # fmt: skip
    head = [
        "configuration",
        "its dev score",
        "mean of its method's trials",
        "seeds",
        "Avg of 7 STS",
    ]
    yield from table([*head, *(f"less `{base}` (95 %), Holm's p" for base in against)], said)


def _less(rows: Sequence[Row], base: str, column: Column, metric: Metric) -> Mapping[str, str]:
    """The difference of each variant from the first row of a method, corrected over these rows."""
    first = next((row for row in rows if row.label.method == base), None)
    cells = {
        row.label.variant: compare_rows(row, first, column, metric)
        for row in rows
        if first and row is not first
    }
    tests = {name: cell.test for name, cell in cells.items() if cell.test}
    ps = holm([test.p for test in tests.values()])
    return {
        name: f"{interval(tests[name], metric.digits)}, {p_value(p)}"
        for name, p in zip(tests, ps, strict=True)
    }


def _devs(line: TunedLine) -> Mapping[str, float]:
    """The mean dev score of each trial over the seeds that have all."""
    return {trial: mean(dev[trial] for dev in line.scores.values()) for trial in line.method.trials}


def _chosen(line: TunedLine) -> str:
    """The trial with the best mean dev score; of equal ones, the first drawn."""
    devs = _devs(line)
    return max(devs, key=devs.__getitem__)


def _column(one: SummaryTable, task: str) -> Column:
    return next(column for column in one.columns if column.task == task)


def _row(block: Block, variant: str) -> Row | None:
    return next(
        (row for row in block.rows if row.label.variant == variant and not row.label.overrides),
        None,
    )


def or_command(
    make: Callable[[], Iterable[str]],
    words: str = "--encoders text-bert=FOLDER",
    profile: str = PROFILE,
    student: str = STUDENT,
) -> Iterator[str]:
    """The lines of a block, or one with the command for its runs."""
    yield from ([*make()] if main_runs(profile, student) else []) or [
        f"No results yet; `harness run --profile {profile} {words} --data-root DATA --results results/reference` "
        "computes them."
    ]


#: options of the command for the runs of chosen configurations
CHOSEN = "--methods 'VARIANT,...' --encoders text-bert=FOLDER"
BLOCKS: dict[str, Callable[[], Iterator[str]]] = {
    "grounding": partial(or_command, variants),
    "grounding-controls": partial(or_command, controls_table),
    "grounding-bootstrap": partial(or_command, bootstrap),
    "grounding-read": partial(or_command, read_pairs),
    "grounding-elsewhere": partial(or_command, elsewhere),
    "grounding-answers": partial(or_command, answers),
    "grounding-kinds": partial(or_command, kinds),
    **{
        f"grounding-{axis}": partial(or_command, partial(_curve, axis), COMMANDS[axis])
        for axis in CURVES
    },
    "grounding-orders": partial(or_command, orders),
    "grounding-encoder": partial(or_command, partial(answers, OTHER_IMAGES), profile=OTHER_IMAGES),
    "grounding-student": partial(
        or_command,
        other_student,
        f"--suites sts,cxc --encoders {OTHER_STUDENT}=FOLDER",
        student=OTHER_STUDENT,
    ),
    "grounding-budgets": partial(or_command, partial(budgets, CAPTIONS), CHOSEN),
    "grounding-budgets-unpaired": partial(or_command, partial(budgets, UNPAIRED), CHOSEN),
    "grounding-words": partial(
        or_command, words, "--suites sts,figures --encoders text-bert=FOLDER", profile=OTHER_IMAGES
    ),
}
