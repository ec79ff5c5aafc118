"""What holds in every store: points of figures are cells of tables, advice has an effect, and
nothing is left out.

`make long` looks at a thousand stores.
"""

from __future__ import annotations

import csv
import io
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean
from typing import NamedTuple

import pytest
from random_stores import RandomStore, planned_store, random_store, save_planned

import harness
from harness.metrics import AVERAGE, SEEN, Column
from harness.planning.plan import Plan
from harness.planning.present import Present
from harness.registry import get_instance
from harness.reporting.contents import Contents
from harness.reporting.figures.drawn import Material
from harness.reporting.figures.kinds import Drawing, FigureKind
from harness.reporting.look import make_data_table
from harness.reporting.sections.leaderboard import LeaderboardSection
from harness.reporting.sections.seen import SeenSection
from harness.reporting.seeds.cells import Label
from harness.reporting.trust import find_controls_to_run, list_runs_to_start
from harness.store import Result, Store

FEW, MANY = range(3), range(1000)
#: kinds of figures whose points are numbers of tables, not arrays
OF_SCORES = ("data-scale", "margin-sweep", "subset-gain", "alignment-uniformity")
#: columns that say where a point stands
PLACE = ("panel", "series", "line", "x", "at", "place", "part", "task")
DataRow = Mapping[str, str]


class FigureTable(NamedTuple):
    """The data of a figure: its rows, and the titles of its panels."""

    key: str
    kind: str
    rows: list[DataRow]
    panels: list[str]


def contents_of(store: RandomStore) -> Contents:
    return Contents(Store(Path("nowhere")), store.results, tunings=store.tunings)


def figure_tables(contents: Contents) -> Iterator[FigureTable]:
    """The data of every figure of scores."""
    for profile in contents.profiles:
        material = Material(profile, contents)
        for paper in contents.papers:
            for name, spec in paper.figures.items():
                data = material.collect_data(paper, name) if spec.kind in OF_SCORES else None
                if data is None or not data.runs:
                    continue
                drawing = get_instance("figure kind", spec.kind, FigureKind).draw(data)
                if isinstance(drawing, Drawing):
                    rows = list(csv.DictReader(io.StringIO(make_data_table(drawing.spec))))
                    panels = [panel["title"] for panel in drawing.spec.get("concat", ())]
                    yield FigureTable(f"{paper.name}-{name}-{profile}", spec.kind, rows, panels)


def label_of(row: DataRow) -> Label:
    return Label(*(row[name] for name in Label._fields))


def table_mean(contents: Contents, row: DataRow, suite: str, column: Column) -> float:
    """The mean over seeds in a column of the row of a table that a row of data names."""
    label = label_of(row)
    for table in contents.tables:
        if (table.profile, table.suite) == (label.profile, suite):
            for table_row in table.rows:
                if table_row.label == label:
                    return table_row.cells[column].summary.mean
    raise AssertionError(f"no table has the row {label}")


def scores_of_part(store: RandomStore, row: DataRow, variant: str) -> dict[int, float]:
    """The scores by seed of a part of a task, from the results themselves."""
    label = label_of(row)._replace(variant=variant)
    scores = {}
    for run in store.results:
        spec = run.spec
        own = (run.profile, str(spec.variant), str(spec.setting), spec.encoder)
        if own == label[:4] and not run.overrides:
            (evaluation,) = (each for each in run.evaluations if each.suite == row["suite"])
            scores[spec.seed] = evaluation.parts[row["task"]][row["part"]][row["metric"]]
    return scores


def expected_numbers(
    store: RandomStore, contents: Contents, kind: str, row: DataRow
) -> dict[str, float]:
    """The numbers of a row of data by its columns, as the tables have them."""
    if kind == "alignment-uniformity":
        losses = {"x": "uniformity", "y": "alignment"}
        numbers = {
            axis: table_mean(contents, row, row["suite"], Column(row["task"], metric))
            for axis, metric in losses.items()
        }
        if row["score"]:
            average = Column(AVERAGE, "spearman")
            numbers["score"] = table_mean(contents, row, "sts", average)
        return numbers
    if kind == "subset-gain":
        better = scores_of_part(store, row, row["variant"])
        worse = scores_of_part(store, row, row["against"])
        common = better.keys() & worse.keys()
        return {"y": mean(better[seed] - worse[seed] for seed in common)}
    column = Column(row["task"], row["metric"])
    return {"y" if row["y"] else "at": table_mean(contents, row, row["suite"], column)}


def check_points(store: RandomStore) -> None:
    """Every drawn point is the cell that its data name, and no two stand in one place."""
    contents = contents_of(store)
    for figure in figure_tables(contents):
        assert len({*figure.panels}) == len(figure.panels), f"{figure.key}: panels of one title"
        measured = [row for row in figure.rows if row["variant"]]
        places = [tuple(row.get(name, "") for name in PLACE) for row in measured]
        assert len({*places}) == len(places), f"{figure.key}: two points in one place"
        for row in measured:
            for axis, expected in expected_numbers(store, contents, figure.kind, row).items():
                assert float(row[axis]) == pytest.approx(expected), (figure.key, row)


@pytest.mark.parametrize("seed", FEW)
def test_points_of_figures_are_the_cells_that_their_data_name(seed: int) -> None:
    check_points(random_store(seed))


def check_choices(store: RandomStore) -> None:
    """Every place with an average has a leaderboard that a reader can choose."""
    boards = LeaderboardSection("leaderboard", contents_of(store))
    choices = {
        (choice["profile"], choice["setting"], choice["encoder"]) for choice in boards.choices
    }
    for run in store.results:
        has_average = any(evaluation.suite == "sts" for evaluation in run.evaluations)
        if has_average and str(run.spec.setting) != "none":
            assert (run.profile, str(run.spec.setting), run.spec.encoder) in choices
    ids = [choice["id"] for choice in boards.choices]
    assert len({*ids}) == len(ids)


@pytest.mark.parametrize("seed", FEW)
def test_every_leaderboard_can_be_chosen(seed: int) -> None:
    check_choices(random_store(seed))


def seen_pairs(run: Result) -> float:
    """The number of pairs of STS of which a run has read a sentence."""
    parts = [evaluation.parts for evaluation in run.evaluations if evaluation.suite == "sts"]
    return sum(by_part.get(SEEN, {}).get("n", 0.0) for tasks in parts for by_part in tasks.values())


def check_notes(store: RandomStore) -> None:
    """A place of which training is said to have read no test pair has no seen pair in any run."""
    notes = SeenSection("seen", contents_of(store)).notes
    unread = {
        place
        for note in notes
        for place in note.rstrip(".").partition("test pair in ")[2].split("; ")
    }
    for run in store.results:
        if seen_pairs(run) and not run.overrides:
            place = f"{run.spec.setting} / {run.spec.encoder} (profile {run.profile})"
            assert place not in unread


@pytest.mark.parametrize("seed", FEW)
def test_what_training_has_not_read_was_not_read(seed: int) -> None:
    check_notes(random_store(seed))


def advice(store: Store) -> list[str]:
    """The commands of "what to run next"; none for a store without results."""
    if not store.root.is_dir():
        return []
    contents = Contents.of(store, judge=Present(store.root))
    return [command for _, command in list_runs_to_start(contents, find_controls_to_run(contents))]


def plan_of(command: str) -> Plan:
    """The plan of a `harness run` command."""
    words = shlex.split(command)[2:]
    options = dict(zip(words[::2], words[1::2], strict=True))
    named = {name.removeprefix("--").replace("-", "_"): value for name, value in options.items()}
    return harness.plan(**named)


def check_advice(seed: int, folder: Path) -> None:
    """Each command that is advised has something to do, and is advised no more once it is done."""
    store = planned_store(seed, folder / "before")
    for number, command in enumerate(advice(store)):
        plan = plan_of(command)
        assert plan.todo, f"nothing to do: {command}"

        after = folder / f"after-{number}"
        shutil.copytree(store.root, after)
        done = Store(after)
        for run in plan.todo:
            save_planned(plan, run, run.todo, done)
        again = command.replace(str(store.root), str(after))
        assert again not in advice(done), f"advised once more: {command}"


@pytest.mark.parametrize("seed", FEW[1:2])
def test_advice_has_something_to_do_and_its_result_is_used(seed: int, tmp_path: Path) -> None:
    check_advice(seed, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", MANY)
def test_a_thousand_stores(seed: int, tmp_path: Path) -> None:
    store = random_store(seed)
    check_points(store)
    check_choices(store)
    check_notes(store)
    check_advice(seed, tmp_path)
