"""Results and models on the hub: the real client against the stand-in, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import result as record
from builders import sts
from standin import StandIn, client_variables, serving

from harness.metrics import ArrayName
from harness.store import Result, Store
from harness.store.labs import contributor, labs_of, repeated
from harness.toy import student_folder

TOKEN = "a-token-of-the-test"
REPOSITORY = "group/results"
COMMAND = "from harness.cli.main import main; main()"

Harness = Callable[..., "subprocess.CompletedProcess[str]"]


def made(seed: int, lab: str, *, more: bool = False, **given: Any) -> Result:
    scores = sts(ToySTS=70.0 + seed) | (
        {"geometry": {"ToySTS": {"alignment": 0.25}}} if more else {}
    )
    return record(
        "mcse[lambda=0.1]",
        seed,
        scores,
        started=f"2026 {lab}",
        hardware={"processor": lab},
        **given,
    )


def store_of(folder: Path, *results: Result) -> Store:
    store = Store(folder)
    for result in results:
        store.save_arrays(
            result,
            result.evaluations[0],
            {ArrayName("ToySTS", "cosines"): np.array([result.spec.seed])},
        )
        store.save(result)
    return store


@pytest.fixture
def standin() -> Iterator[StandIn]:
    with serving() as held:
        held.token = TOKEN
        yield held


@pytest.fixture
def harness(standin: StandIn, tmp_path: Path) -> Harness:
    """Run the command line with a hub client that uses the stand-in."""
    variables = client_variables(standin, tmp_path / "hf") | {"HF_TOKEN": TOKEN}

    def run(
        *words: str, code: int = 0, program: str = COMMAND, **env: str
    ) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-c", program, *words]
        environment = variables | {"HARNESS_CACHE": os.environ["HARNESS_CACHE"]} | env
        done = subprocess.run(
            line, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def test_two_labs_share_a_repository_and_nothing_is_overwritten(
    standin: StandIn, harness: Harness, tmp_path: Path
) -> None:
    first, second = (
        store_of(tmp_path / "a", made(0, "a"), made(1, "a")),
        store_of(tmp_path / "b", made(0, "b")),
    )
    done = harness("results", "push", REPOSITORY, "--contributor", "lab-a", "--results", "a")
    assert done.stdout.startswith("4 files added to group/results, commit ")
    assert standin.private == {f"datasets/{REPOSITORY}"}
    harness("results", "push", REPOSITORY, "--contributor", "lab-b", "--results", "b")
    held = standin.inside(f"datasets/{REPOSITORY}", standin.heads[f"datasets/{REPOSITORY}"])
    for lab, store in (("lab-a", first), ("lab-b", second)):
        for path in store.root.rglob("seed-*"):
            assert (
                held[f"labs/{lab}/{path.relative_to(store.root).as_posix()}"] == path.read_bytes()
            )
    assert len(held) == 6

    pulled = harness("results", "pull", REPOSITORY, "--results", "c")
    assert "lab-a: 2 new results" in pulled.stdout
    assert "1 run with results of several labs" in pulled.stdout
    into = Store(tmp_path / "c")
    assert sorted(labs_of(into)) == ["lab-a", "lab-b"]
    assert {contributor(into, result) for result in into.load()[0]} == {"lab-a"}
    assert [
        [copy.hardware["processor"] for copy in copies.values()] for copies in repeated(into)
    ] == [["a", "b"]]
    assert all(into.arrays(result) for result in into.load()[0])
    again = harness("results", "push", REPOSITORY, "--contributor", "lab-c", "--results", "c")
    # what came from others keeps their names
    assert again.stdout == "nothing to push: group/results already has all of these results\n"

    # more evaluations are added; another training of one lab is a conflict, and what is there stays
    first.save(made(1, "a", more=True))
    more = harness("results", "push", REPOSITORY, "--contributor", "lab-a", "--results", "a")
    assert more.stdout.startswith("1 file ")
    newest = standin.inside(f"datasets/{REPOSITORY}", standin.heads[f"datasets/{REPOSITORY}"])
    store_of(tmp_path / "other", made(0, "a, again"))
    clash = harness(
        "results", "push", REPOSITORY, "--contributor", "lab-a", "--results", "other", code=1
    )
    assert clash.stderr.startswith(
        "conflict: lab-a has two results of mcse[lambda=0.1]/toy/toy-bert/seed-0"
    )
    assert (
        standin.inside(f"datasets/{REPOSITORY}", standin.heads[f"datasets/{REPOSITORY}"]) == newest
    )
    # an earlier commit is still there
    early = next(iter(standin.commits))
    assert (
        early
        in harness("results", "pull", REPOSITORY, "--revision", early, "--results", "d").stdout
    )
    assert sorted(labs_of(Store(tmp_path / "d"))) == ["lab-a"]
    kept = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and TOKEN.encode() in path.read_bytes()
    ]
    assert kept == [], "the token is nowhere"


def test_what_is_pulled_is_checked_as_what_is_merged(
    standin: StandIn, harness: Harness, tmp_path: Path
) -> None:
    store = store_of(tmp_path / "a", made(0, "a"), made(1, "a"))
    for number, path in enumerate(store.files()):
        name = f"labs/lab-a/{path.relative_to(store.root).as_posix()}"
        standin.hub_file(
            REPOSITORY,
            name,
            path.read_bytes().replace(b"70.0", b"99.0") if not number else path.read_bytes(),
        )
    evil = store.files()[1].read_bytes()
    standin.hub_file(REPOSITORY, "labs/.hidden/tiny/mcse/toy/toy-bert/seed-1-0.json", evil)
    done = harness("results", "pull", REPOSITORY, "--results", "c", code=1)
    assert "does not match its digest" in done.stderr
    assert "'.hidden' is not a valid contributor name" in done.stderr
    assert [result.spec.seed for result in Store(tmp_path / "c").load()[0]] == [1]
    # a damaged file of the repository is not written over either
    pushed = harness(
        "results", "push", REPOSITORY, "--contributor", "lab-a", "--results", "a", code=1
    )
    assert "does not match its digest" in pushed.stderr
    held = standin.inside(f"datasets/{REPOSITORY}", standin.heads[f"datasets/{REPOSITORY}"])
    (name,) = (name for name in held if name.endswith(".json") and "seed-0-" in name)
    assert b"99.0" in bytes(held[name])  # type: ignore[arg-type]


def test_a_lab_of_which_every_result_is_too_large_to_fetch_keeps_what_it_has(
    standin: StandIn, harness: Harness, tmp_path: Path
) -> None:
    store_of(tmp_path / "a", made(0, "a"))
    push = "results", "push", REPOSITORY, "--contributor", "lab-a", "--results", "a"
    harness(*push)
    held = standin.inside(f"datasets/{REPOSITORY}", standin.heads[f"datasets/{REPOSITORY}"])
    again = harness(
        *push, program=f"import harness.runs.hub as hub; hub.MOST_PACKED = 100; {COMMAND}", code=1
    )
    assert "has more than 0 MB; left out" in again.stderr
    assert standin.inside(f"datasets/{REPOSITORY}", standin.heads[f"datasets/{REPOSITORY}"]) == held


def test_mistakes_are_one_line(standin: StandIn, harness: Harness, tmp_path: Path) -> None:
    store_of(tmp_path / "a", made(0, "a"))

    def refused(*words: str, **env: str) -> str:
        return harness("results", *words, "--results", "a", code=2, **env).stderr

    push = ("push", REPOSITORY, "--contributor", "a")
    assert "the hub has no data set group/nothing that you may see" in refused(
        "pull", "group/nothing"
    )
    assert "is not the name of a repository" in refused("pull", "nothing")
    assert "is not a valid contributor name" in refused(
        "push", REPOSITORY, "--contributor", "../up"
    )
    assert "does not let you use group/results (403)" in refused(*push, HF_TOKEN="another")
    standin.heads["datasets/group/results"] = "0" * 40
    assert "group/results has no results in its folder labs" in refused("pull", REPOSITORY)
    standin.refuse[f"/api/datasets/{REPOSITORY}/commit/main"] = (412, "")
    assert "group/results was changed by someone else in the meantime" in refused(*push)
    assert "HF_HUB_OFFLINE" in refused("pull", REPOSITORY, HF_HUB_OFFLINE="1")


PUSH = """
import sys
from pathlib import Path
from harness.errors import UserError
from harness.runs.export import push_model

for _ in range(2):
    try:
        print(push_model(Path(sys.argv[1]), "me/a-model", "a run"))
    except UserError as error:
        print(error)
"""


def test_a_model_is_pushed_to_a_new_repository_and_never_over_another(
    standin: StandIn, harness: Harness, tmp_path: Path
) -> None:
    """What is pushed is what `export` writes; see test_export.py."""
    folder = tmp_path / "model"
    shutil.copytree(student_folder(), folder)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text("{}")
    (folder / "README.md").write_text("---\nlicense: unknown\n---\n\n# A model\n")
    done = harness(str(folder), program=PUSH)
    commit = standin.heads["me/a-model"]
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }
    assert (
        done.stdout
        == f"{commit}\nme/a-model has {len(files)} files already; give a new repository\n"
    )
    assert standin.inside("me/a-model", commit) == files
    assert standin.private == {"me/a-model"}
