"""A wrong file of a user is an error of the runs that need it; a skip is for what a method cannot
use.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_words import Typed

import harness
from harness.errors import UserError

pytestmark = pytest.mark.usefixtures("small_toy_tests")

OTHER = """
    [corpora.other]
    kind = "captions-file"
    file = "./other.tsv"
    images = "./pictures"

    [settings.other]
    corpora = ["other"]

    [settings.text]
    corpora = ["my-text"]
"""


@pytest.fixture
def lab(world: Path) -> Path:
    """A profile with a second caption file, which has a line without a caption, and a setting of
    text.
    """
    world.write_text("\n".join([world.read_text(), *(line.strip() for line in OTHER.splitlines())]))
    lines = world.with_name("captions.tsv").read_text().splitlines()
    world.with_name("other.tsv").write_text(
        "\n".join([*lines[:3], lines[3].partition("\t")[0] + "\t", *lines[4:]])
    )
    return world


def grid(lab: Path, settings: str, methods: str = "mcse", suites: str = "sts") -> list[str]:
    words = [
        "--profile",
        str(lab),
        "--methods",
        methods,
        "--settings",
        settings,
        "--encoders",
        "toy-bert",
    ]
    return [*words, "--seeds", "2", "--suites", suites]


def test_one_wrong_file_of_two_is_an_error_and_the_other_setting_goes_on(
    lab: Path, typed: Typed
) -> None:
    code, out, err = typed("run", *grid(lab, "mine,other,text"), "--dry-run")
    assert code == 2
    assert "2 runs, 0 done, 2 to do" in out
    assert err.startswith("error: ")
    assert "other.tsv, line 4" in err
    assert err.endswith("(needed by mcse/other/toy-bert)\n")
    assert typed("status", *grid(lab, "mine,other"))[0] == 2
    code, out, err = typed(
        "run", *grid(lab, "mine,other,text"), "--executor", "serial", "--device", "cpu"
    )
    assert code == 2
    skipped = "skipping  mcse/text: mcse needs image-caption pairs, the setting text has none"
    table = out.index("results are in")
    assert (out[:table].count(skipped), out[table:].count(skipped)) == (1, 1)
    assert "other.tsv, line 4" in out[:table]
    assert err.splitlines()[-1].startswith("error: ")
    assert "other.tsv, line 4" in err.splitlines()[-1]
    (lab.with_name("other.tsv")).write_text(lab.with_name("captions.tsv").read_text())
    assert typed("run", *grid(lab, "mine,other"), "--dry-run")[0] == 0


@pytest.mark.parametrize(
    ("settings", "methods", "said"),
    [
        ("other", "mcse", "other.tsv, line 4"),
        ("other,text", "mcse", "other.tsv, line 4"),
        (
            "text",
            "mcse",
            "every run is skipped, nothing can be trained: mcse/text: mcse needs image-caption pairs",
        ),
    ],
)
def test_a_plan_without_runs_is_one_line_in_a_dry_run_too(
    lab: Path, typed: Typed, settings: str, methods: str, said: str
) -> None:
    code, out, err = typed("run", *grid(lab, settings, methods), "--dry-run")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_a_notebook_gets_the_other_runs_and_the_line(lab: Path, tmp_path: Path) -> None:
    asked = {
        "methods": "mcse",
        "settings": "mine,other",
        "encoders": "toy-bert",
        "seeds": 1,
        "suites": "sts",
    }
    finished = harness.run(
        str(lab), **asked, results=tmp_path / "r", executor="serial", device="cpu"
    )
    assert len(finished) == 1
    (line,) = finished.problems
    assert "other.tsv, line 4" in line
    assert line.endswith("(needed by mcse/other/toy-bert)")


def test_a_typed_option_that_a_file_cannot_serve_is_an_error_and_noise_does_not_hide_a_wrong_file(
    lab: Path,
) -> None:
    lab.with_name("lone.txt").write_text("one caption\nanother caption\n")
    lab.write_text(
        lab.read_text().replace(
            'file = "./other.tsv"\nimages = "./pictures"', 'file = "./lone.txt"'
        )
    )
    plan = harness.plan(
        str(lab),
        methods="simcse",
        settings="mine,other[captions=all]",
        encoders="toy-bert",
        seeds=1,
        suites="sts",
    )
    assert (len(plan.runs), plan.skipped) == (1, ())
    assert list(plan.refused) == ["simcse/other[captions=all]/toy-bert"]
    assert "captions = all, but" in plan.errors[0]
    lab.with_name("pairs.csv").write_text("first,second\nonly,two\n")
    with pytest.raises(UserError, match=r"pairs\.csv"):
        harness.plan(
            str(lab),
            methods="simcse-sup",
            settings="mine[deletion=0.4]",
            encoders="toy-bert",
            suites="sts",
        )


def test_a_wrong_path_of_a_task_is_an_error_and_data_that_is_not_fetched_is_not(lab: Path) -> None:
    asked = {"methods": "simcse", "encoders": "toy-bert", "settings": "mine", "seeds": 1}
    lab.write_text(lab.read_text().replace('train = "./train.jsonl"', 'train = "./trian.jsonl"'))
    plan = harness.plan(str(lab), **asked, suites="sts,transfer")
    assert plan.runs[0].todo == ("sts",)
    assert list(plan.refused) == ["suite transfer"]
    assert plan.errors[0].startswith(
        f"cannot find {lab.with_name('trian.jsonl')}; correct its path in the profile"
    )
    assert not harness.plan("paper", methods="simcse", seeds=1).errors
