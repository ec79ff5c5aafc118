"""Gains by pictures on some kinds of sentences, and over pairs and seeds together: blocks of
docs/grounding.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean

import numpy as np
from grounding_bootstrap import resample
from grounding_runs import (
    LAST,
    METHOD,
    OTHER_IMAGES,
    OTHER_STUDENT,
    PROFILE,
    SHUFFLED,
    SPEARMAN,
    STUDENT,
    UNTRAINED_STUDENT,
    find_rows,
    format_mean,
    format_test,
    make_label,
)
from grounding_words import Marks
from reference_runs import REFERENCE, find_frames, format_table, select_runs

from harness.evaluation.sts import spearman
from harness.formatting import signed
from harness.metrics import ArrayName, Column
from harness.reporting.seeds.cells import Cell, Row, compare_rows
from harness.spec import BASELINE
from harness.stats import ALPHA, TTest, holm
from harness.store import Store, frames_of
from harness.store.files import NamedArrays

#: the subsets of captions
CAPTION_SUBSETS = ("MSRvid", "images")
#: tasks without subsets
WHOLE_TASKS = ("SICK-R", "STS-B")
#: kind of sentences -> subsets of STS12 to STS16, or tasks without subsets
KINDS = {
    "captions of pictures and videos": CAPTION_SUBSETS,
    "news": ("MSRpar", "surprise.SMTnews", "headlines", "deft-news", "tweet-news"),
    "forums": ("deft-forum", "answers-forums", "belief", "answer-answer", "question-question"),
    "definitions": ("surprise.OnWN", "OnWN", "FNWN"),
    "students, parliament, edits": ("answers-students", "SMTeuroparl", "plagiarism", "postediting"),
    "SICK, made from captions": ("SICK-R",),
    "the STS Benchmark, of all kinds": ("STS-B",),
}
#: the subsets of STS12 to STS16 that are no captions
ELSEWHERE = (
    *KINDS["news"],
    *KINDS["forums"],
    *KINDS["definitions"],
    *KINDS["students, parliament, edits"],
)
NO_CAPTIONS = "all subsets of STS12 to STS16 but those of captions"
#: the rows that are compared: MCSE, what it is set against, and the student before training
COMPARED = (METHOD, BASELINE, SHUFFLED, UNTRAINED_STUDENT)
#: the columns of a table of gains after the first: two means, then MCSE less each of the others
GAIN_COLUMNS = (
    "`simcse`",
    "`mcse`",
    "`mcse` less `simcse` (95 %)",
    "less shuffled pictures (95 %)",
    "less the untrained student (95 %)",
)
#: pairs by their words, marked by `grounding_words.py`: the mark, the pairs with more of it and
#: those with less
HALVES = {
    "seen": ("more words of the captions", "fewer words of the captions"),
    "concrete": ("more concrete words", "less concrete words"),
}
#: the column of a row's only cell
_KIND = Column("kind", SPEARMAN.name)
#: task -> subset -> the marks of its pairs
MarksByTask = Mapping[str, Mapping[str, Marks]]


def show_kinds() -> Iterator[str]:
    """Gains over SimCSE and over shuffled pictures by kind of sentences."""
    labels = [make_label(PROFILE, variant) for variant in COMPARED]
    rows = find_rows(find_frames(PROFILE), "sts", labels)
    if rows is None:
        return

    lines = []
    tests = dict[str, TTest]()
    for kind, names in (KINDS | {NO_CAPTIONS: ELSEWHERE}).items():
        mcse, *controls = (_average_parts(row, names) for row in rows)
        lines.append(_format_gains(kind, mcse, controls))
        test = compare_rows(mcse, controls[0], _KIND, SPEARMAN).test
        if test and kind in KINDS:
            tests[kind] = test
    yield from format_table(["sentences", *GAIN_COLUMNS], lines)

    ps = holm([test.p for test in tests.values()])
    sure = [kind for kind, p in zip(tests, ps, strict=True) if p < ALPHA]
    gained = [kind for kind in sure if tests[kind].difference > 0]
    lost = [kind for kind in sure if tests[kind].difference < 0]
    correction = "after Holm's correction over the kinds"
    yield ""
    yield f"- Gains over SimCSE, {correction}: {'; '.join(gained) or 'none'}."
    yield f"- Losses to SimCSE, {correction}: {'; '.join(lost) or 'none'}."


def _average_parts(row: Row, names: Sequence[str]) -> Row:
    """A row with one cell, the mean of some subsets of tasks and whole tasks by seed."""
    cells = []
    for (name, column), cell in row.parts.items():
        if name in names and column.metric == SPEARMAN.name:
            cells.append(cell)
    for column, cell in row.cells.items():
        is_whole = column.task in WHOLE_TASKS and column.metric == SPEARMAN.name
        if is_whole and column.task in names:
            cells.append(cell)

    by_seed = {}
    for seed in row.seeds:
        by_seed[seed] = mean(cell.by_seed[seed] for cell in cells)
    return replace(row, cells={_KIND: Cell.of(by_seed)}, parts={})


def _format_gains(title: str, mcse: Row, controls: Sequence[Row]) -> list[str]:
    """A line below GAIN_COLUMNS, from rows of one cell."""
    means = [format_mean(row.cells[_KIND]) for row in (controls[0], mcse)]
    return [title, *means, *_format_differences(mcse, controls)]


def _format_differences(mcse: Row, controls: Sequence[Row]) -> list[str]:
    return [format_test(compare_rows(mcse, control, _KIND, SPEARMAN).test) for control in controls]


def show_elsewhere() -> Iterator[str]:
    """The gain where no sentence is a caption, over SimCSE and over the student before training."""
    places = (
        (PROFILE, STUDENT, "the student, SqueezeNet's features"),
        (OTHER_IMAGES, STUDENT, "the student, EfficientNet's features"),
        (PROFILE, OTHER_STUDENT, "the second student, SqueezeNet's features"),
    )
    lines = []
    for profile, encoder, title in places:
        variants = (METHOD, BASELINE, UNTRAINED_STUDENT)
        labels = [make_label(profile, variant, encoder) for variant in variants]
        rows = find_rows(find_frames(profile), "sts", labels)
        if rows is None:
            continue

        cells = []
        for names in (ELSEWHERE, KINDS["forums"]):
            mcse, *controls = (_average_parts(row, names) for row in rows)
            cells += _format_differences(mcse, controls)
        lines.append([title, str(len(rows[0].seeds)), *cells])

    head = [
        "runs",
        "seeds",
        "less `simcse`",
        "less the untrained student",
        "forums, less `simcse`",
        "forums, less the untrained student",
    ]
    yield from format_table(head, lines)


def show_words() -> Iterator[str]:
    """Gains on pairs whose words are more or less those of pictures; no pair is a caption of a
    picture or a video.

    Each subset of STS12 to STS16 is halved at the median of a mark, so that both halves have
    sentences of all kinds.
    """
    labels = [make_label(OTHER_IMAGES, variant) for variant in COMPARED]
    rows = find_rows(find_frames(OTHER_IMAGES), "figures", labels)
    if rows is None:
        return

    marks = _read_marks()
    arrays = [_read_arrays(row) for row in rows]
    lines = []
    for mark, (more_words, fewer_words) in HALVES.items():
        cells_of_rows = [_halve(by_seed, marks, mark) for by_seed in arrays]
        for at, title in enumerate((more_words, fewer_words, "difference")):
            mcse, *controls = (
                replace(row, cells={_KIND: cells[at]})
                for row, cells in zip(rows, cells_of_rows, strict=True)
            )
            lines.append(_format_gains(title, mcse, controls))
    yield from format_table(["pairs with", *GAIN_COLUMNS], lines)


def _read_marks() -> MarksByTask:
    """What `grounding_words.py` wrote."""
    text = Path(__file__).with_name("grounding_words.json").read_text("utf-8")
    marks: MarksByTask = json.loads(text)
    return marks


def _read_arrays(row: Row) -> dict[int, NamedArrays]:
    """The stored cosines and scores of each seed of a row."""
    assert row.frames
    store = Store(REFERENCE)
    arrays = {}
    for seed, run in zip(row.seeds, row.runs, strict=True):
        arrays[seed] = store.arrays(row.frames.result(run))
    return arrays


def _halve(by_seed: Mapping[int, NamedArrays], marks: MarksByTask, mark: str) -> list[Cell]:
    """The cells of pairs with more of a mark and with less, means over the halves of subsets, and
    their difference.
    """
    upper_by_seed = {}
    lower_by_seed = {}
    difference_by_seed = {}
    for seed, arrays in by_seed.items():
        correlations = list(_correlate_halves(arrays, marks, mark))
        upper = mean(upper for upper, _ in correlations)
        lower = mean(lower for _, lower in correlations)
        upper_by_seed[seed] = upper
        lower_by_seed[seed] = lower
        difference_by_seed[seed] = upper - lower
    return [Cell.of(upper_by_seed), Cell.of(lower_by_seed), Cell.of(difference_by_seed)]


def _correlate_halves(
    arrays: NamedArrays, marks: MarksByTask, mark: str
) -> Iterator[tuple[float, float]]:
    """Spearman's correlation x 100 on the upper and the lower half of each subset; pairs without a
    mark are in none.
    """
    for task, subsets in marks.items():
        gold = arrays[ArrayName(task, "gold")]
        cosine = arrays[ArrayName(task, "cosine")]
        start = 0
        for subset, marks_of_pairs in subsets.items():
            values = np.array(marks_of_pairs[mark], float)
            pairs = slice(start, start + len(values))
            start = pairs.stop
            if subset in CAPTION_SUBSETS:
                continue
            median = np.nanmedian(values)
            upper = _correlate(cosine[pairs], gold[pairs], values > median)
            lower = _correlate(cosine[pairs], gold[pairs], values <= median)
            yield upper, lower


def _correlate(cosine: np.ndarray, gold: np.ndarray, half: np.ndarray) -> float:
    return 100 * (spearman(cosine[half], gold[half]) or 0.0)


def show_bootstrap() -> Iterator[str]:
    """MCSE's gain with pairs and seeds resampled together, where cosines of each pair are stored."""
    places = (
        (PROFILE, LAST, "SqueezeNet's features, last weights"),
        (OTHER_IMAGES, "", "EfficientNet's features, best weights"),
    )
    sizes: dict[str, dict[str, int]] = {}
    for task, subsets in _read_marks().items():
        sizes[task] = {name: len(marks["seen"]) for name, marks in subsets.items()}

    lines = []
    for profile, overrides, title in places:
        variants = (METHOD, BASELINE)
        labels = [make_label(profile, variant, overrides=overrides) for variant in variants]
        rows = find_rows(frames_of(select_runs(profile)), "figures", labels)
        if rows is None:
            continue

        mcse, simcse = map(_read_arrays, rows)
        for resampled in resample(mcse, simcse, sizes, CAPTION_SUBSETS):
            low = signed(resampled.low, 2)
            high = signed(resampled.high, 2)
            gain = f"{signed(resampled.size, 2)} ({low} to {high})"
            lines.append([title, resampled.over, str(resampled.seeds), gain])
    yield from format_table(["runs", "mean over", "seeds", "`mcse` less `simcse` (95 %)"], lines)


def show_read_pairs() -> Iterator[str]:
    """The test pairs of which the stored student has read a sentence."""
    text = Path(__file__).with_name("grounding_read.json").read_text("utf-8")
    lines = []
    for task, (read_pairs, pairs) in json.loads(text).items():
        lines.append([task, f"{read_pairs:,}", f"{pairs:,}"])
    head = ["task", "pairs of which the student has read a sentence", "pairs"]
    yield from format_table(head, lines)
