"""Paper files: the four against published.csv and the profile `paper`, and what is refused in one."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from harness import registry
from harness.errors import UserError
from harness.grid import resolve
from harness.papers.published import (
    Paper,
    PublishedKey,
    make_published_key,
    read_paper,
    read_papers,
    read_published,
)
from harness.papers.schema import list_pairs
from harness.profiles import load_profile
from harness.reporting.tables.filled import fill_paper_tables
from harness.spec import RunSpec

CSV = Path(__file__).parents[2] / "reports" / "published.csv"
SOURCE = Path(__file__).parents[3] / "shared" / "papers" / "results.csv"
PAPERS = {paper.name: paper for paper in read_papers()}


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def cells(paper: Paper) -> Counter[PublishedKey]:
    return Counter(
        make_published_key(paper.name, name, row, encoder, column)
        for name, table in paper.tables.items()
        for encoder in table.encoders
        for _, row in table.select_rows(encoder)
        for column in table.columns
    )


def all_runs(paper: Paper) -> set[tuple[str, str, str]]:
    runs = {
        (row.variant, row.setting, encoder)
        for table in paper.tables.values()
        for encoder in table.encoders
        for _, row in table.select_rows(encoder)
    }
    for entry in (*paper.figures.values(), *paper.neighbours.values()):
        runs |= {(*pair, encoder) for pair in list_pairs(entry) for encoder in entry.encoders}
    return runs


def test_every_printed_number_has_one_cell_or_a_reason_and_lines_of_figures_are_printed() -> None:
    keys = [PublishedKey(*(row[name] for name in PublishedKey._fields)) for row in rows(CSV)]
    claimed = {name: cells(paper) for name, paper in PAPERS.items()}
    counts: Counter[str] = Counter()
    for key in keys:
        paper, method = (
            PAPERS[key.paper],
            f"{key.method}:{key.variant}" if key.variant else key.method,
        )
        if key.table.startswith("F"):
            counts["figure"] += 1
        elif key.table in paper.configuration:
            counts["configuration"] += 1
        elif any(
            (left_out.published, left_out.benchmark) == (method, key.benchmark)
            for left_out in paper.tables[key.table].left_out
        ):
            counts["left out"] += 1
            assert key not in claimed[key.paper]
        else:
            assert claimed[key.paper][key] == 1, key
            counts["cell"] += 1
    assert counts == {"cell": 1140, "left out": 6, "configuration": 62, "figure": 40}
    assert sum(sum(counted.values()) for counted in claimed.values()) == counts["cell"]
    repeated = {key.task for key, count in Counter(keys).items() if count > 1}
    assert repeated == {"colour_bar_tick", "n_train_pairs", "margin_grid"}, (
        "only grids and axes repeat a key"
    )
    lines = {
        (p.name, name, task)
        for p in PAPERS.values()
        for name, f in p.figures.items()
        for task in f.printed
    }
    assert lines <= {(key.paper, key.table, key.task) for key in keys}
    assert lines


@pytest.mark.parametrize("name", PAPERS)
def test_rows_are_runs_of_our_grammar_that_the_profile_has(name: str) -> None:
    profile = load_profile("paper")
    for variant, setting, encoder in all_runs(PAPERS[name]):
        key = f"{variant}/{setting}/{encoder}/seed-0"
        spec = RunSpec.parse(key)
        assert str(spec) == key
        assert resolve(profile, spec, {}).spec == spec
        assert encoder in profile.encoders
        assert spec.setting.name in {*profile.settings, "none"}


def test_runs_of_dalr_table_7_train_as_it_prints() -> None:
    """Batch size and epochs of each row, by the printed columns and by what its runs resolve to."""
    printed, profile = read_published(), load_profile("paper")
    table = PAPERS["dalr"].tables["T7"]
    for row in table.rows:
        spec = RunSpec.parse(f"{row.variant}/{row.setting}/bert-base-uncased/seed-0")
        training = resolve(profile, spec, {}).training
        keys = {
            c.name: make_published_key("dalr", "T7", row, spec.encoder, c)
            for c in table.columns
            if c.published_only
        }
        assert {name: getattr(training, name) for name in keys} == {
            name: printed[key].value for name, key in keys.items()
        }
        assert set(keys) == {"batch_size", "epochs"}


def test_columns_read_what_the_suites_of_the_profile_write() -> None:
    profile = load_profile("paper")
    known = {name: {"Avg", *suite.tasks} for name, suite in profile.suites.items()}
    known["mteb"] = {f"Avg[{task.partition(':')[2]}]" for task in profile.suites["mteb"].tasks}
    for table in (table for paper in PAPERS.values() for table in paper.tables.values()):
        own = {row.task for row in table.rows if row.task}
        assert own <= set().union(*known.values())
        for column in table.columns:
            if column.published_only or column.suite not in table.suites:
                continue
            declared = {
                declaration.name: declaration.larger_is_better
                for declaration in registry.get("suite", column.suite).metrics
            }
            for metric in (
                column.metric,
                *(
                    declaration.metrics.get(column.name, column.metric)
                    for declaration in table.definitions
                ),
            ):
                assert declared.get(metric) == column.measure.larger_is_better, (
                    table.title,
                    column,
                    metric,
                )
            assert own or column.task in known[column.suite], (table.title, column.name)


def test_same_facts_as_the_papers_were_read() -> None:
    if not SOURCE.is_file():
        pytest.skip(f"NOT CHECKED: {SOURCE} is not there, published.csv is compared with nothing")
    ours, theirs = rows(CSV), rows(SOURCE)
    assert len(ours) == len(theirs) == 1248
    for line, (mine, other) in enumerate(zip(ours, theirs, strict=True), start=2):
        assert list(mine) == list(other)
        facts = {name: value for name, value in other.items() if name != "note"}
        if (other["paper"], other["table"]) == ("kdmcse", "T3"):
            facts["seeds"] = (
                ""  # neither the table nor its text states a number; the first row is that of T1
            )
        assert {name: value for name, value in mine.items() if name != "note"} == facts, (
            f"line {line}"
        )
        assert bool(mine["note"]) == bool(other["note"]), f"line {line}: a note is lost or made up"


GOOD = """
title = "A paper"
reference = "Somebody, 2022"
[tables.T1]
title = "A table"
suite = "sts"
metric = "spearman"
decimals = 1
seeds = 5
encoders = ["bert-base-uncased"]
columns = ["Avg"]
test = { kind = "independent-t", alpha = 0.05 }
definitions = [{ label = "one", metrics = { Avg = "pearson" } }, { label = "other" }]
[[tables.T1.rows]]
variant = "simcse"
setting = "wiki+flickr"
published = "simcse"
definition = "other"
[[tables.T1.rows]]
variant = "mcse"
setting = "wiki+flickr"
published = "mcse"
against = "simcse"
[figures.F1]
kind = "subset-gain"
title = "A figure"
suite = "sts"
metric = "spearman"
seeds = 5
encoders = ["bert-base-uncased"]
settings = ["wiki"]
variants = ["mcse"]
pairs = ["mcse/wiki"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mcse.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("decimals = 1", 'decimals = "one"', ("[tables.T1]", "'decimals'")),
        ("decimals = 1", "decimals = 1\ncolour = 3", ("[tables.T1]", "'colour'")),
        ('title = "A table"\n', "", ("[tables.T1]", "'title'")),
        (
            'variant = "mcse"',
            'variant = "mcse["',
            ("[tables.T1.rows.1]", "'variant'", "unbalanced"),
        ),
        ('variant = "mcse"', 'variant = "mcse[b=1,a=2]"', ("'variant'", "spelled 'mcse[a=2,b=1]'")),
        ('against = "simcse"', 'against = "kdmcse"', ("[tables]", "'T1'", "no row in wiki+flickr")),
        ('kind = "independent-t"', 'kind = "sign"', ("[tables.T1.test]", "'kind'")),
        (
            'definition = "other"',
            'definition = "third"',
            ("the row simcse has the definition 'third'",),
        ),
        ("{ Avg =", "{ STS12 =", ("the definition 'one' names the column 'STS12'",)),
        ('kind = "subset-gain"', 'kind = "pie"', ("[figures.F1]", "'kind'")),
        ('"mcse/wiki"', '"mcse/nli"', ("'mcse/nli' in 'pairs'",)),
        ('title = "A paper"', "title = ", ("not valid TOML",)),
    ],
)
def test_errors_name_file_table_and_key(
    tmp_path: Path, old: str, new: str, says: tuple[str, ...]
) -> None:
    assert old in GOOD
    assert [
        definition.label
        for definition in read_paper(write(tmp_path, GOOD)).tables["T1"].definitions
    ] == [
        "one",
        "other",
    ]
    with pytest.raises(UserError, match=r"mcse\.toml") as caught:
        read_paper(write(tmp_path, GOOD.replace(old, new)))
    assert all(word in str(caught.value) for word in says)


def test_a_row_without_a_printed_number_is_refused(tmp_path: Path) -> None:
    paper = read_paper(
        write(tmp_path, GOOD.replace('published = "mcse"', 'published = "mcse:clip"'))
    )
    with pytest.raises(
        UserError,
        match=r"mcse.toml, table \[tables.T1.rows.1\], key 'published'.*mcse,T1,mcse,clip,",
    ):
        fill_paper_tables(load_profile("paper"), [paper], [])


def test_a_bad_line_of_published_numbers_is_named(tmp_path: Path) -> None:
    path = tmp_path / "published.csv"
    head = "paper,table,method,variant,encoder,setting,benchmark,task,value,std,seeds,significant,source,note\n"
    path.write_text(
        head + "mcse,T1,mcse,,b,s,sts,Avg,77,8,5,1,own,\nmcse,T1,mcse,,b,s,sts,Avg,many,,,,own,\n"
    )
    with pytest.raises(UserError, match=r"published.csv, line 3: .*many"):
        read_published(path)
    with pytest.raises(UserError, match="cannot be read"):
        read_published(tmp_path / "none.csv")
