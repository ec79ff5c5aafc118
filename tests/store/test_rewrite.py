"""`harness results upgrade`: the same results in new files, whenever it is killed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from builders import result
from click.testing import CliRunner

from harness.checksums import unsealed
from harness.cli.main import cli
from harness.execution.plan import make_plan
from harness.execution.request import Selection, make_request
from harness.store import Result, Spec, Store
from harness.store.rewrite import Rewritten, rewrite_old_results
from harness.store.upgrade import has_old_name

DATA = Path(__file__).parent / "data"


class KilledError(Exception):
    """Stands for kill -9."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    shutil.copytree(DATA, tmp_path / "results")
    return Store(tmp_path / "results")


def unchanged(result: Result) -> Result:
    """Confirm nothing."""
    return result


def content(store: Store) -> list[tuple[Result, dict[str, object], str]]:
    """All that the store holds: results, arrays and logs."""
    return [
        (one, {str(name): values.tolist() for name, values in store.arrays(one).items()}, store.log(one))
        for one in sorted(store.load()[0], key=lambda one: one.fingerprint)
    ]


def test_files_get_new_names_and_nothing_else_changes(store: Store) -> None:
    before = content(store)
    assert any(arrays for _, arrays, _ in before)
    assert rewrite_old_results(store, unchanged) == Rewritten(2, 0, ())
    assert content(store) == before
    names = {path.name for path in store.root.rglob("seed-*")}
    assert {path.name for path in store.files()} == {f"seed-0-{one.fingerprint[:16]}.json" for one, _, _ in before}
    assert len(names) == 4, "two results, one with arrays and a log"
    assert not any(has_old_name(path) for path in store.root.rglob("seed-*"))
    assert rewrite_old_results(store, unchanged) == Rewritten(0, 0, ())
    assert content(store) == before


def test_the_command_confirms_what_a_shipped_profile_scores_untrained_and_no_earlier_training(store: Store) -> None:
    """A training of an earlier backend cannot be compared with one of this backend."""
    request = make_request(Selection("tiny", "none"))
    (run,) = make_plan(request, store).runs
    (trained,) = store.root.glob("tiny/*/*/*/seed-*.json")
    old = json.loads(trained.read_bytes())
    old["spec"] = Spec.of(run.resolved.spec).model_dump()
    old |= {"overrides": {}, "training_fingerprint": run.fingerprint}
    (trained.parent / "seed-0-0123456789ab.json").write_text(json.dumps(old))
    words = ["results", "upgrade", "--results", str(store.root)]
    done = CliRunner().invoke(cli, words, env={"HARNESS_DATA": ""})
    assert (done.exit_code, done.output) == (0, "3 results upgraded\n")
    origins = {(one.profile, one.spec.method): one.profile_origin for one in store.load()[0]}
    assert origins == {("tiny", "none"): "package", ("tiny", "mcse"): "unknown", ("small", "none"): "unknown"}
    (planned,) = make_plan(request, store).runs
    assert planned.result is not None
    assert planned.result.group == planned.group
    assert CliRunner().invoke(cli, words, env={"HARNESS_DATA": ""}).output == "0 results upgraded\n"


@pytest.mark.parametrize("last", range(1, 9))
def test_a_kill_after_any_write_or_removal_loses_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    before, calls = content(store), []

    def limited(owner: type[Path], name: str) -> None:
        real = getattr(owner, name)

        def step(*args: object, **options: object) -> object:
            calls.append(name)
            if len(calls) > last:
                raise KilledError
            return real(*args, **options)

        monkeypatch.setattr(owner, name, step)

    with monkeypatch.context():
        limited(Path, "replace")
        limited(Path, "unlink")
        with pytest.raises(KilledError):
            rewrite_old_results(store, unchanged)
        monkeypatch.undo()
    assert content(store) == before
    rewrite_old_results(store, unchanged)
    assert content(store) == before
    assert not any(has_old_name(path) for path in store.root.rglob("seed-*"))


def test_a_run_in_use_and_a_damaged_file_are_left_as_they_are(store: Store) -> None:
    (held,) = (one for one in store.load()[0] if one.profile == "tiny")
    (damaged,) = store.root.glob("small/*/*/*/seed-*.json")
    damaged.write_text("{}")
    files = {path: path.read_bytes() for path in store.root.rglob("seed-*")}
    with store.lock(held.fingerprint):
        done = rewrite_old_results(store, unchanged)
    assert (done.results, done.in_use) == (0, 1)
    assert [str(damaged) in line for line in done.problems] == [True]
    assert {path: path.read_bytes() for path in store.root.rglob("seed-*")} == files


def test_arrays_stand_beside_the_evaluation_that_they_belong_to(store: Store) -> None:
    rewrite_old_results(store, unchanged)
    (run,) = (one for one in store.load()[0] if one.profile == "tiny")
    figures = run.latest("figures")
    assert figures is not None
    (file,) = store.root.rglob("*.npz")
    assert file.name == f"seed-0-{run.fingerprint[:16]}.figures-{figures.protocol.key}.npz"
    with np.load(file) as stored:
        assert stored["index"].shape[1] == 3


def test_results_of_schema_2_get_their_digest_and_keep_every_number(tmp_path: Path) -> None:
    store = Store(tmp_path)
    kept = store.save(result("mcse"))
    path = store.path(kept)
    of_before = json.loads(unsealed(path.read_bytes()) or b"") | {"schema_version": 2}
    path.write_text(json.dumps(of_before))
    assert store.load() == ([kept], [])
    assert rewrite_old_results(store, unchanged) == Rewritten(1, 0, ())
    assert json.loads(unsealed(path.read_bytes()) or b"") == of_before | {"schema_version": 3}
    assert store.load() == ([kept], [])
    assert rewrite_old_results(store, unchanged) == Rewritten(0, 0, ())
