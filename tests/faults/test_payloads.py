"""Payloads in data: each would touch a file, name a command or end the process; each is shown or
refused.

Model folders with code of their own are in tests/encoders/test_foreign_code.py, archives in
tests/fetching/test_extract.py.
"""

from __future__ import annotations

import base64
import csv
import io
import pickle
import re
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import result
from cli_words import Typed
from made_files import Payload

from harness.corpora.images import FeatureFile
from harness.errors import UserError
from harness.files import DamagedError
from harness.profiles import load_profile
from harness.reporting.build import write_report
from harness.store import Store
from harness.store.files import read_named_arrays
from harness.store.folder import read_submissions
from harness.training.folder import TrainingFolder, load_checkpoint
from harness.work.report import Report

DEEP = 10_000
NESTED = "[" * DEEP + "]" * DEEP
#: what a terminal obeys
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]")


def _pickled(path: Path, mark: Path) -> None:
    path.write_bytes(pickle.dumps(Payload(mark)))


#: names the first array of a result's file
INDEX = np.array([["task", "what", ""]])


def _array_of_objects(path: Path, mark: Path) -> None:
    values = np.empty(2, dtype=object)
    values[:] = [Payload(mark), Payload(mark)]
    if path.suffix == ".npz":
        np.savez(path, index=INDEX, **{"0": values})
    else:
        np.save(path, values, allow_pickle=True)


def _read_features(path: Path) -> object:
    return FeatureFile(path.name, "fetch it").read(path.parent)


#: what is read, the file it is in, and what puts the payload there
PICKLES: dict[str, tuple[Callable[[Path], object], str, Callable[[Path, Path], object]]] = {
    "a checkpoint": (
        lambda path: load_checkpoint(
            TrainingFolder(path).list_checkpoints()[0], torch.device("cpu")
        ),
        "run",
        lambda path, mark: TrainingFolder(path).save({"model": Payload(mark), "step": 3}),
    ),
    "features": (_read_features, "features.npy", _array_of_objects),
    "features that are a pickle": (_read_features, "features.npy", _pickled),
    "events of a job": (
        lambda path: Report(path).read(),
        "7.jsonl",
        lambda path, mark: path.write_bytes(base64.b64encode(pickle.dumps(Payload(mark))) + b"\n"),
    ),
    "the end of a job": (lambda path: Report(path).read(), "7.jsonl", _pickled),
    "arrays of a result": (
        lambda path: read_named_arrays(path, path.parent),
        "seed-0.figures.npz",
        _array_of_objects,
    ),
}


@pytest.mark.parametrize("name", PICKLES)
def test_no_pickle_is_executed(name: str, tmp_path: Path) -> None:
    read, file, put = PICKLES[name]
    mark, path = tmp_path / "executed", tmp_path / file
    put(path, mark)
    with suppress(UserError, DamagedError):  # or passed over
        read(path)
    assert not mark.exists()


@pytest.mark.parametrize(
    "content", [NESTED, '{"a":' * DEEP + "1" + "}" * DEEP], ids=["list", "table"]
)
def test_json_without_a_floor_is_damage(content: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    file = store.path(store.save(result()))
    others = (
        tmp_path / ".work" / ("a" * 32) / "submitted.json",
        tmp_path / "failed" / "0123456789abcdef.json",
    )
    for path in (file, *others):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    loaded, (problem,) = store.load()
    assert str(file) in problem
    assert (loaded, len(store.frames()), read_submissions(store), store.failures()) == (
        [],
        0,
        {},
        [],
    )


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (f"a = {NESTED}", "nested too deeply"),
        ("[" + "a." * 5_000 + "a]\nb = 1\n", "key 'a': there is no such key"),
        ("description = '\x00'\n", "not valid TOML"),
        (f"steps = {'9' * 5_000}\n", "not valid TOML: Exceeds the limit"),
        ("\ufeff\ufeffdescription = 'x'\n", "not valid TOML"),
    ],
    ids=["deep", "dotted", "NUL", "number", "mark"],
)
def test_toml_that_nobody_typed_is_one_line(content: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(content, encoding="utf-8")
    before = time.process_time()
    with pytest.raises(UserError, match=says):
        load_profile(str(path))
    assert time.process_time() - before < 1


#: names that a terminal, a browser, a spreadsheet, Markdown or TeX would obey
EVIL = {
    "escape": "\x1b]0;owned\x07\x1b[31m\x1b[2J\u202e",
    "html": "<script>document.title='owned'</script><img src=x onerror=alert(1)>",
    "formula": '=HYPERLINK("http://x.y","owned")',
    "markdown": "[owned](javascript:alert(1)) | ![x](http://x.y/z.png) `rm`\n# owned",
    "tex": r"\input{/etc/passwd}\write18{touch owned}$x$%",
    "jinja": "{{ 7 * 7 }}{% include 'x' %}",
    "path": "../../../owned",
    "long": "n" * 180,
}


#: those that can be a value in the name of a run
NAMES = ("html", "tex", "jinja", "path")
#: names of profiles: each has charts, which take seconds
PROFILES = (EVIL["escape"] + EVIL["html"], "..", "n" * 250)


class _Live(HTMLParser):
    """Collects what a browser would act on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            outside = name in ("href", "src") and re.match(
                r"(javascript|data|https?):", value or "", re.IGNORECASE
            )
            if (
                name.startswith("on")
                or (outside and "x.y" in str(value))
                or str(value).startswith("javascript:")
            ):
                self.found.append(f"{tag} {name}={value}")
        # a page shows figures of its own
        source = str(dict(attrs).get("src")).removeprefix("../")
        if tag == "img" and not source.startswith("figures/"):
            self.found.append("img")


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    """A report of results in which every name and message is a payload."""
    root = tmp_path_factory.mktemp("hostile")
    store = Store(root / "results")
    for number, profile in enumerate(PROFILES):
        store.save(_hostile(profile, number))
    return store, write_report(store, root / "out").page.parent


def _hostile(profile: str, number: int) -> Any:
    """A result whose texts are payloads, others in each; only the first has curves, which take
    seconds to draw.
    """
    device, code, task, inside = (
        list(EVIL.values())[(number + step) % len(EVIL)] for step in (0, 2, 4, 6)
    )
    variant, setting = (EVIL[NAMES[number + step]] for step in (0, 1))
    return result(
        f"simcse[x={variant}]",
        0,
        {"sts": {task: {"spearman": 50.0}, "Avg": {"spearman": 50.0}}},
        setting=f"toy[x={setting}]",
        profile=profile,
        overrides={"steps": task},
        packages={inside: task},
        warnings=[*EVIL.values()],
        hardware={"device": device, "processor": inside},
        revision=code,
        **({} if number == 0 else {"dev": (), "losses": {}}),
    )


def test_no_page_of_a_report_acts_on_a_name(reported: tuple[Store, Path]) -> None:
    pages = sorted(reported[1].rglob("*.html"))
    assert any("simcse" in page.name for page in pages)
    for page in pages:
        text, live = page.read_text("utf-8"), _Live()
        live.feed(text)
        assert live.found == [], page
        assert not STEERING.search(text), page
        assert "<script>document" not in text
        assert "49" not in re.findall(r"x=(.{0,4})", text)


def test_no_file_of_a_report_acts_on_a_name_or_is_elsewhere(reported: tuple[Store, Path]) -> None:
    store, out = reported
    assert len(store.files()) == len(PROFILES)
    assert {path.name for path in store.root.parent.iterdir()} == {"results", "out"}
    assert all(re.fullmatch(r"\.?[A-Za-z0-9][A-Za-z0-9.-]*", path.name) for path in out.rglob("*"))
    for name in ("report.md", "report.tex", "report.csv", "tables.csv"):
        assert not STEERING.search((out / name).read_text("utf-8")), name
    runs, rows = (
        list(csv.reader(io.StringIO((out / name).read_text("utf-8"))))
        for name in ("report.csv", "tables.csv")
    )
    assert not [cell for row in runs + rows for cell in row if cell.startswith(("=", "@", "\t"))]
    means = [row[rows[0].index("mean")] for row in rows[1:]]
    assert {float(mean) for mean in means if mean} == {50.0}
    tex = (out / "report.tex").read_text("utf-8")
    assert r"\input{" not in tex
    assert r"\write18" not in tex
    markdown = (out / "report.md").read_text("utf-8")
    assert not re.search(r"(?<!\\)\]\(", markdown)
    assert "\n# owned" not in markdown


@pytest.mark.parametrize(
    "words",
    [
        ("status", "--profile", "tiny", "--seeds", "1"),
        ("compare", "simcse", "mcse", "--metric", "sts.Avg"),
        ("logs", "owned"),
        ("report", "--profile", "tiny"),
        ("show",),
    ],
    ids=lambda words: words[0],
)
def test_no_command_sends_a_name_to_the_terminal(
    words: tuple[str, ...], reported: tuple[Store, Path], typed: Typed
) -> None:
    store, text = reported[0], ""
    for where in (
        ([str(file)] for file in store.files())
        if words == ("show",)
        else [["--results", str(store.root)]]
    ):
        _, out, err = typed(*words, *where)
        text += out + err
    assert text
    assert not STEERING.search(text), text


def test_an_archive_of_arrays_is_no_bomb(tmp_path: Path) -> None:
    """An array that says it has 8 TB, and one under a name that leaves the folder."""
    path, head = tmp_path / "seed-0.npz", io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    )
    np.savez(path, index=INDEX)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as packed:
        for name in ("0.npy", "../../owned.npy"):
            packed.writestr(name, head.getvalue() + b"0" * 10**6)
    with pytest.raises(UserError, match="cannot be read"):
        read_named_arrays(path, path.parent)
    assert not list(tmp_path.parent.glob("owned*"))
