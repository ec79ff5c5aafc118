"""Charts of the report as figures of a paper: by name, as files, and as a specification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from builders import over_seeds, result, sts
from click.testing import CliRunner

from harness.cli.main import cli
from harness.errors import UserError
from harness.reporting.charted import find_chart, list_charts
from harness.reporting.contents import Contents
from harness.store import Store

NAMES = ("simcse", "mcse", "mcse[lambda=1]", "mcse[lambda=2]", "mcse[lambda=3]")


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    store = Store(tmp_path / "results")
    for at, name in enumerate(NAMES):
        for seed in range(3):
            store.save(result(name, seed, sts(STS12=70.0 + at + seed, STS13=60.0 + at + seed / 2)))
    return Contents.of(store)


def test_every_kind_of_chart_is_a_figure_without_colours_of_a_page(contents: Contents) -> None:
    names = dict(list_charts(contents))
    kinds = {name.partition("-")[0] for name in names}
    assert kinds >= {"answer", "forest", "heat", "sweep"}
    for kind in sorted(kinds & {"answer", "forest", "heat", "sweep"}):
        name = next(name for name in names if name.startswith(kind))
        spec = find_chart(contents, name).spec
        assert "var(--" not in json.dumps(spec), name
        assert list(_find_empty_channels(spec)) == [], "Altair refuses a channel that is null"
    sweep = next(name for name in names if name.startswith("sweep"))
    assert "labelExpr" in json.dumps(find_chart(contents, sweep).spec), "variants are named"
    with pytest.raises(UserError, match="no figure 'forst'"):
        find_chart(contents, "forst")


def _find_empty_channels(spec: object) -> Iterator[str]:
    if isinstance(spec, list):
        for inner in spec:
            yield from _find_empty_channels(inner)
    if isinstance(spec, dict):
        for channel, value in spec.get("encoding", {}).items():
            if value is None:
                yield channel
        for inner in spec.values():
            yield from _find_empty_channels(inner)


def test_a_figure_is_written_as_four_files_with_its_data(
    contents: Contents, tmp_path: Path
) -> None:
    where = ["--results", str(contents.store.root)]
    listed = CliRunner().invoke(cli, ["figure", *where])
    name = listed.output.split()[0]
    assert name == "answer-tiny-toy-toy-bert"
    out = tmp_path / "figures"
    done = CliRunner().invoke(cli, ["figure", name, *where, "--out", str(out), "--width", "column"])
    assert done.exit_code == 0, done.output
    assert {path.name for path in out.iterdir()} == {
        f"{name}.{kind}" for kind in ("pdf", "svg", "png", "csv")
    }
    assert (out / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    rows = (out / f"{name}.csv").read_text().splitlines()
    assert any("MCSE" in row for row in rows)


def test_the_answer_in_a_column_has_the_means_alone(contents: Contents) -> None:
    name = list_charts(contents)[0][0]
    texts = [
        {layer.get("name", "") for layer in find_chart(contents, name, width).spec["layer"]}
        for width in ("column", "page")
    ]
    assert "narrow means" in texts[0]
    assert "narrow means" not in texts[1]
    assert {"wide scores", "wide ranks"} <= texts[1]


def test_one_run_alone_has_its_chart(tmp_path: Path) -> None:
    store = Store(tmp_path / "results")
    for run in over_seeds("mcse", [70.0]):
        store.save(run)
    assert list_charts(Contents.of(store))[0][0].startswith("answer-")
