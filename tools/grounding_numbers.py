"""Numbers in docs/grounding.md from the runs of the profile `grounding` in results/reference.

`python tools/reference_numbers.py --write` writes them. What a sentence says follows from the
numbers, whichever way they go; a block without runs names the command for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from statistics import mean
from typing import NamedTuple

from grounding_curves import COMMANDS, CURVES, show_curve
from grounding_kinds import (
    show_bootstrap,
    show_elsewhere,
    show_kinds,
    show_read_pairs,
    show_words,
)
from grounding_runs import (
    CAPTIONS,
    LAST,
    METHOD,
    OTHER_IMAGES,
    OTHER_STUDENT,
    PROFILE,
    SHUFFLED,
    SPEARMAN,
    STUDENT,
    UNPAIRED,
    UNTRAINED_STUDENT,
    find_row,
    format_mean_of,
    format_test,
    make_label,
    select_main_runs,
)
from reference_runs import (
    TUNED,
    find_column,
    find_table,
    format_gain,
    format_interval,
    format_score,
    format_table,
    list_rows_once,
    make_table,
    select_runs,
)

from harness.formatting import fixed, p_value, signed
from harness.metrics import AVERAGE, Column, Metric, Significance
from harness.papers.needed import StandIns
from harness.papers.published import Paper, make_published_key, read_papers, read_published
from harness.profiles import load_profile
from harness.reporting.results import Results
from harness.reporting.seeds.cells import Cell, Label, Row, compare_rows
from harness.reporting.seeds.controls import (
    UNMATCHED,
    Rival,
    TableRows,
    describe_rival,
    find_rivals,
    list_controls,
)
from harness.reporting.seeds.summary import Block
from harness.reporting.seeds.tuned import TunedLine
from harness.spec import BASELINE, UNTRAINED, Variant
from harness.stats import holm
from harness.store import Result, Store

#: half the width of the interval of the main question that is asked for, in points
BAR = 0.5
#: the papers' tables whose orders stand beside measured ones, and their encoder
ORDERS = {"mcse": "T2", "kdmcse": "T1", "dalr": "T1"}
BERT = "bert-base-uncased"
#: the controls of the answer's table: what each is, its variant, and its setting
CONTROLS = (
    ("the student before training", UNTRAINED_STUDENT, UNTRAINED),
    ("the same text alone", BASELINE, CAPTIONS),
    (
        "... with the rate and steps that a tuning chose",
        "simcse[learning_rate=3e-05,steps=150]",
        CAPTIONS,
    ),
    ("twice as much text", "simcse[steps=600]", CAPTIONS),
    ("pictures through an untrained network", "mcse[images=untrained]", CAPTIONS),
    ("pictures shuffled", SHUFFLED, CAPTIONS),
    ("pictures drawn at random", "mcse[images=random]", CAPTIONS),
    ("noise as pictures", "mcse[images=noise]", CAPTIONS),
    ("pictures permuted, five captions each", "mcse[images=permuted]", f"{CAPTIONS}[captions=all]"),
)
_LAST_DEV = Column("last dev", SPEARMAN.name)


def show_variants(student: str = STUDENT) -> Iterator[str]:
    """Every variant in every setting with a student; families are those of all runs."""
    runs = select_main_runs(student=student)
    table = find_table(PROFILE, "sts")
    average = find_column(table, AVERAGE)
    ratings = _format_ratings(runs)
    places = {(str(run.spec.variant), str(run.spec.setting)) for run in runs}

    def is_main(row: Row) -> bool:
        label = row.label
        is_there = (label.variant, label.setting) in places
        return is_there and label.encoder == student and not label.overrides

    lines = []
    for block, row in list_rows_once(table, is_main):
        lines.append(
            [
                f"`{row.label.variant}`",
                row.label.setting if row.is_trained else "–",
                str(len(row.seeds)),
                format_score(table, row, average),
                ratings.get(row.label, ""),
                format_gain(table, block, row, average),
            ]
        )

    less = "Avg less `simcse` (95 %), Holm's p"
    yield from format_table(["variant", "setting", "seeds", "Avg of 7 STS", "CxC", less], lines)


def _format_ratings(runs: Sequence[Result]) -> Mapping[Label, str]:
    """The scores on Crisscrossed Captions, where there are any."""
    suites = set[str]()
    for run in runs:
        suites.update(evaluation.suite for evaluation in run.evaluations)
    if "cxc" not in suites:
        return {}

    table = make_table(runs, "cxc")
    average = find_column(table, AVERAGE)
    return {row.label: format_score(table, row, average) for row in table.rows}


def show_answers(profile: str = PROFILE, student: str = STUDENT) -> Iterator[str]:
    """What the runs in each setting say of pictures."""
    table = find_table(profile, "sts")
    column = find_column(table, AVERAGE)
    for block in table.blocks:
        row = find_row(block, METHOD)
        if block.encoder != student or "shot" in block.setting:
            continue
        if row and row.cells[column].test:
            yield from _show_answer(block, row, column, table.metric(column))


def show_other_student() -> Iterator[str]:
    """The main question's answer with the student of another pretraining seed, and its scores."""
    yield from show_answers(student=OTHER_STUDENT)
    yield ""
    yield from show_variants(OTHER_STUDENT)


def _show_answer(block: Block, row: Row, column: Column, metric: Metric) -> Iterator[str]:
    """Whether a row gains by its pictures, each control that it beats or does not, and how sure
    that is.
    """
    cell = row.cells[column]
    assert cell.test
    rivals = find_rivals(row, TableRows(block.by_label), column, metric)
    answer = _describe_gain(cell, rivals, metric)
    half_width = (cell.test.high - cell.test.low) / 2
    within = "within" if half_width <= BAR else "wider than"
    interval = f"The interval, ±{fixed(half_width, metric.digits)}, is {within} the bar of ±{BAR}."
    yield f"- `{block.setting}`: {answer}. {interval}"

    if rivals:
        strongest = rivals[0]
        beaten = "is not beaten" if strongest.confounds else "is beaten, as the others are"
        words = describe_rival(strongest, row, metric)
        yield f"    - Of {len(rivals)} controls, the strongest {beaten}: {words}."
    missing = _list_missing_controls(block, row)
    if missing:
        yield f"    - Controls not run: {', '.join(missing)}."


def _describe_gain(cell: Cell, rivals: Sequence[Rival], metric: Metric) -> str:
    """The answer in words, with the size of the gain."""
    assert cell.test
    size = f"MCSE less SimCSE is {format_interval(cell.test, metric.digits)}"
    if cell.is_alone:
        return f"a difference that is significant alone but not after Holm's correction, {size}"
    if not cell.holds:
        excluded = fixed(max(cell.test.high, 0.0), metric.digits)
        return (
            f"no gain by pictures is shown, {size}; "
            f"gains above {excluded} points are excluded (95 %)"
        )
    if cell.verdict is Significance.WORSE:
        return f"pictures hurt, {size}"
    if any(rival.confounds for rival in rivals):
        return f"a gain that pictures are not shown to cause, {size}"
    if not any(UNMATCHED in rival.control.what for rival in rivals):
        return f"a gain that no run with unmatched pictures is set against, {size}"
    return f"pictures help, beyond every control that was run, {size}"


def _list_missing_controls(block: Block, row: Row) -> list[str]:
    """The controls of a row that were not run, each once."""
    needless = ["avg-first-last"]
    if "captions=all" not in block.setting:
        needless.append("permuted")  # with one caption an image, to permute is to shuffle

    missing = []
    for control in list_controls(row):
        variant = control.label.variant
        is_needless = any(option in variant for option in needless)
        if control.label not in block.by_label and not is_needless:
            missing.append(f"`{variant}`")
    return list(dict.fromkeys(missing))


def show_controls() -> Iterator[str]:
    """MCSE less each of its controls: by the weights of the best dev score, by those of the last
    step, and on the dev set at the last step, where all seeds have a score.
    """
    table = find_table(PROFILE, "sts")
    column = find_column(table, AVERAGE)
    rows = {row.label: row for row in table.rows}
    lines = []
    for title, variant, setting in CONTROLS:
        label = Label(PROFILE, variant, setting, STUDENT, "")
        # the student before training has one row, whichever weights are scored
        last_label = label if setting == UNTRAINED else label._replace(overrides=LAST)
        control = rows.get(label)
        last_control = rows.get(last_label)
        scored = control or last_control
        if scored is None:
            continue

        mcse_setting = CAPTIONS if setting == UNTRAINED else setting
        mcse = rows.get(Label(PROFILE, METHOD, mcse_setting, STUDENT, ""))
        last_mcse = rows.get(Label(PROFILE, METHOD, mcse_setting, STUDENT, LAST))
        lines.append(
            [
                f"{title}: `{variant}`",
                _format_scored_step(scored),
                format_mean_of(scored, column),
                _compare(mcse, control, column),
                _compare(last_mcse, last_control, column),
                _compare(_select_last_dev(mcse), _select_last_dev(control), _LAST_DEV),
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
    yield from format_table(head, lines)
    yield from _compare_permuted(rows)


def _compare_permuted(rows: Mapping[Label, Row]) -> Iterator[str]:
    """Permuted pictures beside shuffled ones, which keep no caption of a picture together."""
    setting = f"{CAPTIONS}[captions=all]"
    permuted_label = make_label(PROFILE, "mcse[images=permuted]", setting=setting)
    shuffled_label = make_label(PROFILE, SHUFFLED, setting=setting)
    permuted = _select_last_dev(rows.get(permuted_label))
    shuffled = _select_last_dev(rows.get(shuffled_label))
    if permuted and shuffled:
        size = _compare(permuted, shuffled, _LAST_DEV)
        runs = "Permuted less shuffled pictures, five captions each"
        yield ""
        yield f"- {runs}, on the dev set at the last step: {size}."


def _format_scored_step(row: Row) -> str:
    """The median step of the weights that are scored, of the steps that were trained."""
    return row.spent.texts().get("steps", "–") if row.is_trained else "–"


def _compare(row: Row | None, other: Row | None, column: Column) -> str:
    """The difference of two rows with its interval, p-value and seeds; empty where one was not
    run.
    """
    if row is None or other is None or column not in row.cells or column not in other.cells:
        return ""

    cell = compare_rows(row, other, column, SPEARMAN)
    other_summary = other.cells[column].summary
    seeds = f"{cell.summary.n} and {other_summary.n} seeds"
    if cell.test is None:
        return f"{signed(cell.summary.mean - other_summary.mean, SPEARMAN.digits)}, {seeds}"
    return f"{format_test(cell.test)}, {p_value(cell.test.p)}, {seeds}"


def _select_last_dev(row: Row | None) -> Row | None:
    """A row with one cell: the dev score at the last step, by seed."""
    if row is None or not row.is_trained or row.frames is None:
        return None
    scores = {}
    for seed, run in zip(row.seeds, row.runs, strict=True):
        scores[seed] = row.frames.result(run).dev.scores[-1]
    return replace(row, cells={_LAST_DEV: Cell.of(scores)})


def show_orders() -> Iterator[str]:
    """The orders of the papers' rows by BERT-base, and those of the student."""
    table = find_table(PROFILE, "sts")
    column = find_column(table, AVERAGE)
    metric = table.metric(column)
    rows = {row.label: row for row in table.rows}
    papers = {paper.name: paper for paper in read_papers()}
    lines = []
    counts = Counter[str]()
    listed = set[tuple[Label, Label]]()
    for name, table_name in ORDERS.items():
        paper = papers[name]
        for better, worse in _list_printed_orders(paper):
            # KDMCSE's and DALR's tables quote rows of one another
            if (better.label, worse.label) in listed:
                continue
            listed.add((better.label, worse.label))

            high = rows.get(better.label)
            low = rows.get(worse.label)
            cell = compare_rows(high, low, column, metric) if high and low else None
            agreement = _describe_agreement(cell)
            counts[agreement] += 1
            place = f"{paper.heading} {table_name}, {better.setting}"
            lines.append(
                [
                    f"{place}: `{better.variant}` over `{worse.variant}`",
                    signed(better.printed - worse.printed, 1),
                    format_interval(cell.test, metric.digits) if cell and cell.test else "",
                    agreement,
                ]
            )

    head = ["order as printed (BERT-base)", "printed", "measured (95 %)", "order of the student"]
    yield from format_table(head, lines)
    counted = [f"{count} {agreement}" for agreement, count in counts.items()]
    yield ""
    yield f"- Of {len(lines)} distinct printed orders: {', '.join(counted)}."


class PrintedRow(NamedTuple):
    """A row of a paper with its printed average, and the label of the runs that stand for it."""

    variant: str
    setting: str
    printed: float
    label: Label


def _list_printed_orders(paper: Paper) -> Iterator[tuple[PrintedRow, PrintedRow]]:
    """Each two rows of a setting with a stand-in, the one with the higher printed average first."""
    name = ORDERS[paper.name]
    table = paper.tables[name]
    average = next(column for column in table.columns if column.name == AVERAGE)
    stand_ins = StandIns.of(load_profile(PROFILE))
    published = read_published()
    rows = []
    for _, row in table.select_rows(BERT):
        place = stand_ins.place(row.variant, row.setting, BERT)
        if not place or row.setting == UNTRAINED or row.published_only:
            continue
        value = published[make_published_key(paper.name, name, row, BERT, average)].value
        rows.append(PrintedRow(row.variant, row.setting, value, Label(PROFILE, *place, "")))

    rows.sort(key=lambda row: -row.printed)
    for better, worse in combinations(rows, 2):
        if better.setting == worse.setting:
            yield better, worse


def _describe_agreement(cell: Cell | None) -> str:
    """What a measured difference says of a printed order."""
    if cell is None or cell.verdict is None:
        return "not run"
    if cell.verdict is Significance.BETTER:
        return "same"
    if cell.verdict is Significance.WORSE:
        return "reversed"
    return "not decided"


def show_budgets(setting: str) -> Iterator[str]:
    """The configuration of each method that its trials in a setting chose, and its scores on other
    seeds.

    Shuffled pictures are tested at a configuration of their own and at MCSE's.
    """
    lines = _find_chosen_lines(setting)
    names = [*lines, *_list_shuffled(lines)]
    runs = [
        run
        for run in select_runs(PROFILE)
        if str(run.spec.variant) in names and str(run.spec.setting) == setting
    ]
    if not runs:
        return

    table = make_table(runs, "sts")
    column = find_column(table, AVERAGE)
    metric = table.metric(column)
    rows_by_variant = {row.label.variant: row for row in table.rows}
    rows = [rows_by_variant[name] for name in names if name in rows_by_variant]
    differences = {}
    for method in (BASELINE, METHOD):
        texts = _compare_with_first(rows, method, column, metric)
        if texts:
            differences[method] = texts

    cells = []
    for row in rows:
        name = row.label.variant
        best = ""
        average = ""
        if name in lines:
            scores = _average_dev_scores(lines[name]).values()
            best = fixed(max(scores), metric.digits)
            average = fixed(mean(scores), metric.digits)
        score = format_score(table, row, column)
        less = [texts.get(name, "") for texts in differences.values()]
        cells.append([f"`{name}`", best, average, str(len(row.seeds)), score, *less])

    head = [
        "configuration",
        "its dev score",
        "mean of its method's trials",
        "seeds",
        "Avg of 7 STS",
        *(f"less `{method}` (95 %), Holm's p" for method in differences),
    ]
    yield from format_table(head, cells)


def _find_chosen_lines(setting: str) -> dict[str, TunedLine]:
    """Each method of the tunings in a setting, by the trial that it chose."""
    lines = {}
    for report in Results.read(Store(TUNED)).tuned:
        for line in report.lines:
            if line.setting == setting and line.scores:
                lines[_choose_trial(line)] = line
    return lines


def _list_shuffled(lines: Mapping[str, TunedLine]) -> Iterator[str]:
    """MCSE's configurations with shuffled pictures."""
    for name, line in lines.items():
        if line.method.base == METHOD:
            options = {**dict(Variant.parse(name).options), "images": "shuffled"}
            yield str(Variant.make(METHOD, options))


def _compare_with_first(
    rows: Sequence[Row], method: str, column: Column, metric: Metric
) -> Mapping[str, str]:
    """The difference of each variant from the first row of a method, corrected over these rows."""
    first = next((row for row in rows if row.label.method == method), None)
    if first is None:
        return {}

    tests = {}
    for row in rows:
        if row is not first:
            test = compare_rows(row, first, column, metric).test
            if test:
                tests[row.label.variant] = test

    texts = {}
    ps = holm([test.p for test in tests.values()])
    for (name, test), p in zip(tests.items(), ps, strict=True):
        texts[name] = f"{format_interval(test, metric.digits)}, {p_value(p)}"
    return texts


def _average_dev_scores(line: TunedLine) -> Mapping[str, float]:
    """The mean dev score of each trial over the seeds that have all."""
    means = {}
    for trial in line.method.trials:
        means[trial] = mean(scores[trial] for scores in line.scores.values())
    return means


def _choose_trial(line: TunedLine) -> str:
    """The trial with the best mean dev score; of equal ones, the first drawn."""
    means = _average_dev_scores(line)
    return max(means, key=means.__getitem__)


def show_or_name_command(
    show: Callable[[], Iterable[str]],
    words: str = "--encoders text-bert=FOLDER",
    profile: str = PROFILE,
    student: str = STUDENT,
) -> Iterator[str]:
    """The lines of a block, or one with the command for its runs."""
    lines = list(show()) if select_main_runs(profile, student) else []
    if lines:
        yield from lines
        return
    command = f"harness run --profile {profile} {words} --data-root DATA"
    yield f"No results yet; `{command} --results results/reference` computes them."


def _make_blocks() -> dict[str, Callable[[], Iterator[str]]]:
    """What makes each block, by its name."""
    chosen_words = "--methods 'VARIANT,...' --encoders text-bert=FOLDER"
    figures_words = "--suites sts,figures --encoders text-bert=FOLDER"
    other_student_words = f"--suites sts,cxc --encoders {OTHER_STUDENT}=FOLDER"
    block = partial(partial, show_or_name_command)

    blocks: dict[str, Callable[[], Iterator[str]]] = {
        "grounding": block(show_variants),
        "grounding-controls": block(show_controls),
        "grounding-bootstrap": block(show_bootstrap),
        "grounding-read": block(show_read_pairs),
        "grounding-elsewhere": block(show_elsewhere),
        "grounding-answers": block(show_answers),
        "grounding-kinds": block(show_kinds),
    }
    for axis in CURVES:
        blocks[f"grounding-{axis}"] = block(partial(show_curve, axis), COMMANDS[axis])
    blocks |= {
        "grounding-orders": block(show_orders),
        "grounding-encoder": block(partial(show_answers, OTHER_IMAGES), profile=OTHER_IMAGES),
        "grounding-student": block(show_other_student, other_student_words, student=OTHER_STUDENT),
        "grounding-budgets": block(partial(show_budgets, CAPTIONS), chosen_words),
        "grounding-budgets-unpaired": block(partial(show_budgets, UNPAIRED), chosen_words),
        "grounding-words": block(show_words, figures_words, profile=OTHER_IMAGES),
    }
    return blocks


BLOCKS = _make_blocks()
