"""Schemas of results over versions: no change without a new number, and files of a newer harness
beside sound ones.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import failure, result, rewrite
from click.testing import CliRunner
from pydantic import BaseModel

import harness
from harness.cli.main import cli
from harness.errors import UserError
from harness.sources import digest
from harness.store import Failure, Result, Store
from harness.store.index import INDEX_VERSION, SCHEMA
from harness.store.schema import SCHEMA_VERSION

#: schema -> digests of the records of that schema; a change of a record needs a new number, and a
#: line here
SCHEMAS = {
    3: {
        "Result": "c213bca192ad3258cc332063af076a19f7cba29539af0d963bb74846437d1f28",
        "Failure": "178dc112d5a57f914eb81ee86305654fd56b76c00c7159282f91515655d43a61",
    },
    4: {
        "Result": "0dfed90036dd7f5869e2e883a78b5b377ff6470a29ec6578a20d0d0e2c4190ad",
        "Failure": "014ae683c19fe9dc9a9395906148000cfd1e7c8d7b4cdec0e6b3c67715972c18",
    },
    5: {
        "Result": "b6f47cfabe70dfa8a5014d5e701160dafce210296588d28098fdd2f2ce04a0a2",
        "Failure": "a8aface55799aa779ac7ba5b3802ce5d32425a23b04d9c45b9625d8cad7e4978",
    },
    6: {
        "Result": "387fbff2e33230e57527f3dac6169ef448f58666a04d129aa168c5ea31a88ca1",
        "Failure": "872d3d1765a61f9cbad98bd731e2f1ec18dcc253e846d60a486bc787672379bd",
    },
    7: {
        "Result": "2b19bbfed30b1e0a119edc17b566b337ae37d3e9fd680e1c86f6854c9229cf39",
        "Failure": "6e1edc5ad305655409ae116f63725212faf20bd2353ca222bcd10c941da51df6",
    },
    8: {
        "Result": "e01b11513d5a59a58cdc75ffcc76ca8dbc2ef24b45c069f27f08357499bce995",
        "Failure": "13d6378e6698d806ab67768f462bdae4ecd30d626148fcecf4514448fc423ae8",
    },
}
#: version of the index -> digest of its columns
INDEXES = {
    3: "122a77831e7c1a82cb075bbc104b7fa2a50683d83705c678f8ccf6dc7dc4cd87",
    4: "dec6c772f6742d23068d6ffd695914e404fc0d7c440ec941d284117ca425becc",
    5: "9d776532003d4dc51bde931dcbba0edd65641e05a86ed8c7a5a6525e5adc19b0",
    6: "c96d2dfaf7283efc711bc22f8e6e09ef1004b1e44de536c742ec17ae07f0dc82",
}


def _form(record: type[BaseModel]) -> str:
    """The digest of a record's fields and types, those of nested records included, without
    descriptions.

    Whether more fields are refused is left out: versions of pydantic say it of different records.
    """

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            kept = {key: each for key, each in value.items() if key not in ("description", "title")}
            return {
                key: bare(each)
                for key, each in kept.items()
                if (key, each) != ("additionalProperties", False)
            }
        return [bare(each) for each in value] if isinstance(value, list) else value

    return digest(bare(record.model_json_schema(by_alias=True)))


def test_a_field_of_results_changes_only_with_a_new_schema_number() -> None:
    found = {record.__name__: _form(record) for record in (Result, Failure)}
    assert SCHEMAS.get(SCHEMA_VERSION) == found, (
        f"raise SCHEMA_VERSION, and add its line: {SCHEMA_VERSION + 1}: {found}"
    )


def test_a_column_of_the_index_changes_only_with_a_new_version() -> None:
    found = digest({field.name: str(field.type) for field in SCHEMA})
    assert INDEXES.get(INDEX_VERSION) == found, f"raise INDEX_VERSION, and add its digest {found}"


def test_a_nested_field_changes_the_digest() -> None:
    class Inner(BaseModel):
        value: int

    class Outer(BaseModel):
        inner: Inner

    class More(Inner):
        other: str = ""

    class Wider(BaseModel):
        inner: More

    assert _form(Outer) != _form(Wider)


def _extra_record(content: dict[str, Any]) -> None:
    content["novelty"] = {"packed": True}


def _extra_nested(content: dict[str, Any]) -> None:
    content["evaluations"][0]["protocol"]["prompt"] = "query: "


def _newer(content: dict[str, Any]) -> None:
    content |= {"schema_version": SCHEMA_VERSION + 1, "trial": {}, "spec": "another form"}


def _much_newer(content: dict[str, Any]) -> None:
    content.clear()
    content["schema_version"] = 99


@pytest.mark.parametrize("change", [_newer, _much_newer, _extra_record, _extra_nested])
def test_results_of_a_newer_harness_are_named_and_the_sound_ones_are_used(
    change: Callable[[dict[str, Any]], None], tmp_path: Path
) -> None:
    store = Store(tmp_path)
    sound, newer = store.save(result()), store.path(store.save(result(seed=1)))
    rewrite(newer, change)
    for results, problems in (store.load(), (store.frames(), store.frames().problems)):
        assert list(results) == [sound]
        (problem,) = problems
        assert str(newer) in problem
        assert problem.endswith("; update harness to use it")
        assert "restore" not in problem
    before = newer.read_bytes()
    with pytest.raises(UserError, match="update harness"):
        store.save(result(seed=1))
    assert newer.read_bytes() == before
    listed = CliRunner().invoke(cli, ["results", "list", "--results", str(tmp_path)])
    assert listed.exit_code == 0
    assert "update harness" in listed.output
    assert "simcse/toy/toy-bert" in listed.output


def test_a_plan_counts_the_results_of_a_newer_harness_apart_from_damaged_ones(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path)
    grid = ["--methods", "simcse", "--settings", "toy", "--seeds", "2", "--results", str(tmp_path)]
    runs = harness.plan("tiny", methods="simcse", settings="toy", seeds=2, results=tmp_path).runs
    newer, damaged = (
        store.path(store.save(result(seed=run.resolved.spec.seed, fingerprint=run.fingerprint)))
        for run in runs
    )
    rewrite(newer, schema_version=99)
    damaged.write_text("{}")
    said = CliRunner().invoke(cli, ["status", "--profile", "tiny", *grid]).output
    assert "2 runs, 0 done, 0 to do, 1 damaged, 1 written by a newer harness" in said
    assert (
        f"newer     the result {newer} has schema 99 and this harness reads up to {SCHEMA_VERSION}; "
        in said
    )
    assert f"damaged   the result {damaged} cannot be used" in said


def test_a_failure_of_a_newer_harness_hides_no_other(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, new = failure(result()), failure(result(seed=1))
    store.save_failure(old)
    path = store.save_failure(new)
    rewrite(path, schema_version=99, more=1)
    assert store.failures() == [old]


COMMANDS = [
    ["report", "--out", "{out}"],
    ["table", "sts"],
    ["compare", "simcse", "mcse", "--metric", "sts.Avg"],
    ["cite"],
    ["results", "list"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_where_every_result_is_damaged_their_files_are_named(
    words: list[str], tmp_path: Path
) -> None:
    store = Store(tmp_path / "results")
    paths = [store.path(store.save(result(seed=seed))) for seed in range(2)]
    for path in paths:
        path.write_text(path.read_text()[:-9])
    named = [word.format(out=tmp_path / "out") for word in words]
    done = CliRunner().invoke(cli, [*named, "--results", str(store.root)])
    assert all(str(path) in f"{done.output} {done.exception}" for path in paths)
    assert "harness run" not in str(done.exception)
