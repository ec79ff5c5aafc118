"""`harness table`, and tables on a terminal of 100 columns: in parts where they are wider, with
whole numbers.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pytest
from builders import over_seeds, result, sts
from click.testing import CliRunner

import harness
from harness.cli import output
from harness.cli.main import cli
from harness.cli.output import print_table, print_wide_table, show_summaries
from harness.errors import UserError
from harness.store import Store
from harness.store.tunings import make_tuning, save_tuning

PLACE = {"profile": "paper", "setting": "wiki+flickr", "encoder": "bert-base-uncased"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = Store(tmp_path_factory.mktemp("table") / "results")
    runs = over_seeds("simcse", [20.0, 21.0, 22.0]) + over_seeds(
        "mcse[lambda=0.1]", [70.0, 71.0, 72.0]
    )
    for run in [*runs, *over_seeds("mcse", [75.0, 76.0], **PLACE)]:
        store.save(run)
    return store.root


def printed(results: Path, *words: str) -> str:
    done = CliRunner().invoke(cli, ["table", *words, "--results", str(results)])
    if done.exception:
        raise done.exception
    assert "warning: " not in done.output
    return done.output


def test_markdown_ends_its_last_line_and_has_escapes_only_where_a_program_reads_it(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(results, "sts", "--profile", "tiny")
    assert text.endswith("\n")
    assert r"\*" in text
    monkeypatch.setattr("harness.cli.report.is_terminal", lambda: True)
    assert "|" not in printed(results, "sts", "--profile", "tiny"), "a table for readers"
    as_markdown = ("--format", "markdown")
    assert "\\" not in printed(results, "sts", "--profile", "tiny", *as_markdown)
    text = printed(results, "mcse:t1", "--profile", "paper", *as_markdown)
    assert text.startswith("## MCSE Table 1: ")
    assert "measured, 2 seeds" in text


def test_rows_are_only_those_asked_for_in_their_order_and_new_ones_stand_in_a_papers_table(
    results: Path,
) -> None:
    def rows(*words: str) -> list[tuple[str, str]]:
        lines = csv.DictReader(io.StringIO(printed(results, *words, "--format", "csv")))
        return [(line["code"], line.get("setting", "")) for line in lines]

    whole = rows("sts", "--profile", "tiny")
    assert rows("sts", "--profile", "tiny", "--rows", "mcse[lambda=0.10],simcse") == whole[::-1]
    assert rows("mcse:T1", "--profile", "tiny", "--rows", "mcse[lambda=0.1],simcse") == [
        *(("simcse", "toy-text"), ("mcse[lambda=0.1]", "toy"), ("simcse", "toy"))
    ]
    assert {code for code, _ in rows("mcse:T1", "--profile", "paper", "--rows", "mcse")} == {"mcse"}
    with pytest.raises(
        UserError,
        match="no run of 'mcsee' in the results of profile 'tiny' has a score in 'sts'; did",
    ):
        printed(results, "sts", "--profile", "tiny", "--rows", "mcsee")


@pytest.mark.long
def test_tuned_rows_are_rows_in_every_format_with_their_own_tests(tmp_path: Path) -> None:
    store, names = Store(tmp_path / "results"), ("simcse:temperature=1|2", "mcse:lambda=1|2")
    tuning = make_tuning("tiny", {}, names, 2)
    save_tuning(store, tuning)
    # the first trial is best on dev and worse in tests
    for trial, variant in enumerate(tuning.variants):
        for seed in range(3):
            score, dev = (30.0, 60.0, 90.0, 99.0)[trial] + seed, (0.0, 50.0 - trial)
            store.save(result(variant, seed, sts(ToySTS=score), dev=dev))
    for run in over_seeds("simcse", [80.0, 81.0, 82.0]):
        store.save(run)
    base, tuned = (method.format_code() for method in tuning.methods)
    asked = ("sts", "--rows", f"{tuned},simcse,{base}", "--format")
    plain, first, second = csv.DictReader(io.StringIO(printed(store.root, *asked, "csv")))
    where = f"toy / toy-bert, tuned, 2 trials each ({tuning.key})"
    assert [line["where"] for line in (plain, first, second)] == ["toy / toy-bert", where, where]
    assert [line["code"] for line in (plain, first, second)] == ["simcse", tuned, base]
    assert [line["ToySTS"] for line in (plain, first, second)] == ["81.00", "91.00", "31.00"]
    assert [line["ToySTS mark"] for line in (plain, first, second)] == ["", "*", ""], (
        "against tuned SimCSE"
    )
    assert r"MCSE, tuned (2 trials) & 3 (stale) & \textbf{91.00}" in printed(
        store.root, *asked, "latex"
    )
    text = printed(store.root, *asked, "markdown")
    assert "| MCSE, tuned (2 trials) | 3 (stale) | **91.00 ± 1.00" in text
    assert (
        f"({tuning.key}): tested among themselves, by seed where marked 'paired', against SimCSE, tuned (2"
        in text
    )
    assert list(harness.results(store.root).table("sts")["variant"])[-2:] == [base, tuned]
    # of another suite, and of another number of trials
    store.save(result("simcse", 7, {"retrieval": {"T": {"i2t_R@1": 4.0}, "Avg": {"i2t_R@1": 4.0}}}))
    assert "MCSE, tuned" in printed(store.root, *asked, "markdown"), (
        "another suite has none of these rows"
    )
    for suite, row in (("retrieval", tuned), ("sts", "mcse[tuned=3]")):
        with pytest.raises(
            UserError, match=rf"no run of '{re.escape(row)}' in .* has a score in '{suite}'; "
        ):
            printed(store.root, suite, "--rows", row)


def test_columns_and_tasks_are_only_those_asked_for_in_their_order(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for run in (result("simcse", seed, scores(60.0 + seed)) for seed in range(2)):
        store.save(run)

    def heads(*words: str) -> list[str]:
        (line, *_) = csv.reader(io.StringIO(printed(store.root, *words, "--format", "csv")))
        return [name for name in line[4:] if not name.endswith("deviation")]

    assert heads("sts", "--columns", "sick-r, STS12") == ["SICK-R", "STS12"]
    assert heads("sts", "--tasks", "STS-B,STS12") == ["STS-B", "STS12"]
    ways = ("image to text", "text to image")
    assert heads("retrieval", "--tasks", "COCO", "--columns", "R@10,R@1") == [
        f"COCO, {way}: R@{k}" for k in (10, 1) for way in ways
    ]
    text = printed(store.root, "retrieval", "--columns", "R@1", "--format", "latex")
    assert text.count("multicolumn{2}{c}{R@1}") == 6
    for option in ("--columns", "--tasks"):
        with pytest.raises(
            UserError, match="no column 'STS1' in the table tiny-sts; did you mean STS1"
        ):
            printed(store.root, "sts", option, "STS1")


def test_overrides_of_all_rows_are_named_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for variant in ("simcse", "mcse"):
        for run in over_seeds(variant, [60.0, 61.0], overrides={"steps": 9, "precision": "bf16"}):
            store.save(run)
    text = printed(store.root, "sts")
    assert "profile tiny, all rows: precision = bf16, steps = 9\n" in text
    assert [line.split(" | ")[1:3] for line in text.splitlines() if line.startswith("| toy")] == [
        ["SimCSE", "2 (stale)"],
        ["MCSE", "2 (stale)"],
    ]
    store.save(result("simcse", 0))
    assert "all rows" not in (text := printed(store.root, "sts"))
    assert "| MCSE (precision = bf16, steps = 9) | 2" in text


def test_latex_is_ready_for_a_paper_and_csv_has_codes_and_numbers_in_columns(results: Path) -> None:
    text = printed(results, "sts", "--format", "latex", "--profile", "tiny")
    assert text.startswith("\\begin{table}")
    assert text.count("\n\\end{table}\n") == 1
    assert "harness" not in text
    assert (
        r"MCSE, $\lambda = 0.1$ & 3 (stale) & \textbf{71.00} & $\pm$1.00{*} \tabularnewline" in text
    )
    assert "harness run" not in text, "a paper names no command of ours"
    _, row = csv.DictReader(
        io.StringIO(printed(results, "STS", "--format", "csv", "--profile", "tiny"))
    )
    assert (row["code"], row["variant"]) == ("mcse[lambda=0.1]", "MCSE, λ = 0.1")
    assert (row["ToySTS"], row["ToySTS deviation"], row["ToySTS mark"]) == ("71.00", "1.00", "*")


def test_what_is_wrong_is_said_in_one_line(results: Path) -> None:
    with pytest.raises(
        UserError, match=r"no table 'stss' in the results of profile 'tiny'; did you mean sts?"
    ):
        printed(results, "stss", "--profile", "tiny")
    with pytest.raises(
        UserError, match=r"results of the profiles paper, tiny; choose one \(--profile NAME"
    ):
        printed(results, "sts")


def test_every_command_names_a_damaged_result(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for run in over_seeds("simcse", [20.0, 21.0, 22.0]) + over_seeds("mcse", [70.0, 71.0, 72.0]):
        store.save(run)
    damaged = store.files()[0]
    damaged.write_text(damaged.read_text().replace("seed", "sead", 1))
    for words in ("table sts --profile tiny", "cite", "compare mcse simcse --metric sts.Avg"):
        done = CliRunner().invoke(
            cli, [*words.split(), "--results", str(store.root)], catch_exceptions=False
        )
        assert done.output.count(f"warning: the result {damaged} cannot be used") == 1


WIDTH = 100
LONG = "dalr[text=run:simcse/toy/toy-bert/seed-0+run:simcse/toy/toy-bert/seed-2]"


def scores(value: float) -> dict[str, dict[str, dict[str, float]]]:
    """Scores in suites with few and many columns."""
    ways = {f"{way}_R@{k}": value + k for way in ("i2t", "t2i") for k in (1, 5, 10)}
    tasks = ("STS12", "STS13", "STS14", "STS15", "STS16", "STS-B", "SICK-R", "Avg")
    return {
        "sts": {task: {"spearman": value} for task in tasks},
        "retrieval": {"Flickr30k": ways, "COCO": ways, "Avg": ways},
    }


@pytest.mark.parametrize("names", [("simcse", "mcse"), ("simcse", LONG)])
@pytest.mark.parametrize("places", [("toy",), ("wiki", "nli+a-long-setting[shot=100]")])
def test_wide_tables_are_split_and_numbers_stay_whole(
    names: tuple[str, ...],
    places: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(output, "WIDTH", WIDTH)
    runs = [
        result(
            name, seed, scores(61.234 + seed + 7 * at), setting=setting, encoder="bert-base-uncased"
        )
        for setting in places
        for at, name in enumerate(names)
        for seed in range(3)
    ]
    show_summaries(runs)
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if not line.startswith("  ") or "─" in line]
    assert all(len(line.rstrip()) <= WIDTH for line in lines)
    assert "…" not in printed
    # seven tasks (their equal average is not repeated), each with its mean and deviation in one
    # piece
    for number in ("62.23 ± 1.00", "69.23 ± 1.00*"):
        assert printed.count(f" {number}") == 8 * len(places), (
            number,
            "seven tasks and their average",
        )
    assert {line for line in printed.splitlines() if "Flickr30k, text to image" in line}, (
        "the group is in the title"
    )
    print_table(("name", "value", "what"), [("a" * 90, "12345.678", "word " * 40)])
    lines = capsys.readouterr().out.splitlines()
    assert any("12345.678" in line for line in lines), "a short column is not folded"
    assert all(len(line) <= WIDTH for line in lines)
    for over in (0, 1):
        columns = ["a" * 20, "b" * (WIDTH - 32 + over)]
        print_wide_table(["name"], columns, [(["row"], ["1", "2"])], "title")
        assert capsys.readouterr().out.count("row") == 1 + over, "what just fits is not split"
    code = "dalr[text=all-minilm-l6-v2,lambda=0.5]"
    print_wide_table(["variant"], ["n" * (WIDTH - 30)], [([code], ["1"])], "title")
    lines = capsys.readouterr().out.splitlines()
    parts = [line.split()[0] for line in lines if line.split() and line.split()[0] in code]
    assert parts == ["dalr[text=", "all-minilm-l6-v2,", "lambda=0.5]"], "no part is broken"


def test_decimals_seeds_and_deviations_are_left_out_where_that_is_asked_for(results: Path) -> None:
    asked = ("sts", "--profile", "tiny", "--digits", "1", "--no-seeds", "--no-std")
    (base, better) = csv.DictReader(io.StringIO(printed(results, *asked, "--format", "csv")))
    assert base["ToySTS"] == "21.0"
    assert better["ToySTS"] == "71.0"
    assert "seeds" not in base
    assert "ToySTS deviation" not in base
    text = printed(results, *asked, "--format", "latex")
    assert r"MCSE, $\lambda = 0.1$ & \textbf{71.0} & {*} \tabularnewline" in text
    assert r"\caption{STS: Spearman correlation $\times$ 100. Mean over 3 seeds.}" in text
    for option, words in {"--digits=1": "has the decimals", "--no-seeds": "has no column"}.items():
        with pytest.raises(UserError, match=f"the table .* {words} of"):
            printed(results, "mcse:T1", "--profile", "paper", option)
