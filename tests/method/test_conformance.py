"""`harness check`: every registered method passes, and each kind of mistake fails one check."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from plugin_packages import Install

from harness.cli.main import cli
from harness.errors import UserError
from harness.method import Batch, Encode, Method, MixingRule
from harness.method.conformance import check_all, check_method, methods_in, variants_in

GOOD = '''
"""A method in one file."""
from dataclasses import dataclass
import torch
from harness.losses.contrastive import info_nce
from harness.method import Hyperparameters, Method, hyper


@dataclass(frozen=True)
class Values(Hyperparameters):
    spare: int = hyper(3, source="a test")


def ROWS():
    return [[int(token)] for token in torch.randint(5, 30, (6,), generator=GENERATOR)]


GENERATOR = torch.Generator()


class Mine(Method):
    """text, halved."""

    name = "mine"
    paper = "a test"
    terms = ("text",)

    def __init__(self, hyperparameters, dimensions):
        super().__init__(hyperparameters, dimensions)
        self.head = torch.nn.Linear(dimensions.encoder, dimensions.encoder)

    def loss_terms(self, batch, encode):
        vectors = self.head(encode(batch.tokens, 2))
        return {"text": info_nce(vectors[:, 0], vectors[:, 1], 0.05)}
'''
LOSS = "info_nce(vectors[:, 0], vectors[:, 1], 0.05)"
#: a mistake -> the code that makes it, the check that fails and a part of what it says
MISTAKES = {
    "pooling": (
        (
            "    def loss_terms",
            "    pooling = classmethod(lambda cls, values: 'max')\n\n    def loss_terms",
        ),
        "answers to a plan",
        "pooling() is never called",
    ),
    "evaluation mode": (
        (
            "    def loss_terms",
            "    def after_step(self, student, step):\n        student.eval()\n\n    def loss_terms",
        ),
        "the encoder",
        "@paper: a step leaves the encoder in evaluation mode",
    ),
    "wrapped module": (
        (
            "    def loss_terms",
            "    def prepare(self, student, vocabulary, models):\n"
            "        part = student.model.encoder.layer[0].output\n"
            "        part.dense = torch.nn.Sequential(part.dense)\n\n    def loss_terms",
        ),
        "the encoder",
        "@paper: prepare() changes the encoder: encoder.layer.0.output.dense (Linear) is now Sequ",
    ),
    "unread": (
        ('    terms = ("text",)', '    terms = ("text",)\n    Hyperparameters = Values'),
        "values",
        "the value 'spare' is declared and never read",
    ),
    "flat": ((LOSS, f"(0 * {LOSS})"), "gradients", "the gradient of the term text is zero"),
    "unread heat": (
        (
            "    def loss_terms",
            "    def scheduled(self, share):\n        return {'heat': share}\n\n    def loss_terms",
        ),
        "values",
        "the scheduled value 'heat' is declared and never read",
    ),
    "unread rows": (
        (
            "    def loss_terms",
            "    def change_rows(self, rows, random):\n        return {'b': rows}\n\n    def loss_terms",
        ),
        "values",
        "the changed rows 'b' is declared and never read",
    ),
    "chance rows": (
        (
            *(
                "    def loss_terms",
                "    def change_rows(self, rows, random):\n        return {'b': ROWS()}\n\n    def loss_terms",
            ),
            *("encode(batch.tokens, 2)", "encode(batch.changed['b'], 2)"),
        ),
        "the same",
        "change_rows() gives other rows for the same random numbers",
    ),
    "aside": (
        ("    terms = ", "    aside = ('queue',)\n    terms = "),
        "values",
        "aside names queue, and it has no such module or buffer",
    ),
    "detached": (
        ("encode(batch.tokens, 2)", "encode(batch.tokens, 2).detach()"),
        "gradients",
        "for the encoder",
    ),
    "unused": (
        ("self.head(encode(batch.tokens, 2))", "encode(batch.tokens, 2)"),
        "gradients",
        "trains head.weight",
    ),
    "counts": (
        (
            LOSS,
            f"self.seen * {LOSS}",
            "vectors = ",
            "self.seen = getattr(self, 'seen', 0) + 1\n        vectors = ",
        ),
        "checkpoints",
        "another loss after its weights were saved and loaded",
    ),
    "chance": (
        (LOSS, f"__import__('random').random() * {LOSS}"),
        "the same",
        "differs under the same seed",
    ),
    "writes": (
        ("vectors = ", "batch.tokens['attention_mask'].zero_()\n        vectors = "),
        "the same",
        "it changes",
    ),
    "device": (
        (LOSS, f"{LOSS} + (torch.ones(6) + vectors[:, 0, 0]).sum()"),
        "devices",
        "(mine.py, line 34)",
    ),
    "grows": (
        (
            *(
                "        self.head =",
                "        self.register_buffer('past', torch.zeros(0))\n        self.head =",
            ),
            *(
                "vectors = ",
                "self.past = torch.cat([self.past, torch.ones(3)])\n        vectors = ",
            ),
        ),
        "checkpoints",
        "@paper: buffer 'past' changes its shape; give it its full size in __init__",
    ),
    "appears": (
        ("vectors = ", "self.register_buffer('late', torch.ones(3))\n        vectors = "),
        "checkpoints",
        "@paper: buffer 'late' is not there all the time; register it in __init__ or prepare",
    ),
    "raises": (
        ("vectors = ", "{}['foo']\n        vectors = "),
        "gradients",
        "KeyError: 'foo' (mine.py, line 33)",
    ),
}


def check(what: str | Path) -> Result:
    return CliRunner().invoke(cli, ["check", str(what)])


def test_this_projects_methods_pass() -> None:
    methods = methods_in("harness_methods")
    assert len(methods) >= 8
    assert [
        checked for method in methods for checked in check_all(method) if checked.problems
    ] == []


def test_a_good_file_passes_with_a_line_a_check(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    done = check(tmp_path / "mine.py")
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) == 8
    assert all(line.startswith("ok    mine: ") for line in done.output.splitlines())


def test_a_value_that_is_read_in_a_hook_is_read(tmp_path: Path) -> None:
    code = GOOD.replace(
        '    terms = ("text",)', '    terms = ("text",)\n    Hyperparameters = Values'
    )
    hook = """
    def prepare(self, student, vocabulary, models):
        student.model.embeddings.register_forward_hook(
            lambda module, inputs, states: states + self.hyperparameters.spare
        )

    def loss_terms"""
    (tmp_path / "mine.py").write_text(code.replace("\n    def loss_terms", hook))
    done = check(tmp_path / "mine.py")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_its_check(mistake: str, tmp_path: Path) -> None:
    edits, name, what = MISTAKES[mistake]
    code = GOOD
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1
        code = code.replace(old, new)
    (tmp_path / "mine.py").write_text(code)
    done = check(tmp_path / "mine.py")
    assert done.exit_code == 1
    assert f"fails mine: {name}" in done.output
    assert what in done.output


def test_a_package_is_checked_by_what_it_registers(install: Install) -> None:
    install("labs", GOOD, {"methods": {"mine": "Mine"}})
    assert [method.name for method in methods_in("labs")] == ["mine"]
    assert check("labs").exit_code == check("labs:Mine").exit_code == 0
    with pytest.raises(UserError, match="has no class Other"):
        methods_in("labs:Other")


def test_several_names_and_variants_with_values_are_checked() -> None:
    done = CliRunner().invoke(cli, ["check", "simcse", "mcse[lambda=0.3]@official"])
    assert done.exit_code == 0, done.output
    checked = {line.split(maxsplit=1)[1].rpartition(": ")[0] for line in done.output.splitlines()}
    assert checked == {"simcse", "mcse[lambda=0.3]@official"}
    (method,) = variants_in("mcse[lambda=0.3]")
    assert method.configure("official").lambda_ == 0.3
    for words, said in (
        ("mcse[lambda=x]", "'lambda' must be of type float"),
        ("mcse@offical", "offical"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            variants_in(words)


def test_a_folder_is_checked_before_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert CliRunner().invoke(cli, ["new", "method", "fresh_method"]).exit_code == 0
    for words in ("fresh_method", "./fresh_method", "fresh_method/src/fresh_method.py"):
        assert [method.name for method in methods_in(words)] == ["fresh_method"]
    monkeypatch.delitem(sys.modules, "fresh_method")
    project = tmp_path / "fresh_method" / "pyproject.toml"
    project.write_text(project.read_text().replace("harness.methods", "harness.method"))
    with pytest.raises(UserError, match="declares no method"):
        methods_in("fresh_method")


def test_an_import_that_raises_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise BaseException('boom')")
    with pytest.raises(UserError, match=r"cannot be imported: .*BaseException: boom"):
        methods_in(str(tmp_path / "mine.py"))


class Broken(Method):
    """A method with one problem of each kind."""

    name = "broken"
    paper = ""
    terms = ("text", "info", "extra")
    optional_terms = ("other",)
    reading_values = {"official": {}}
    decisions = {"reduction": ("a guess", "means over the batch")}

    @classmethod
    def mixing(cls, hyperparameters: object) -> MixingRule:
        return lambda rows, pairs, batches, paired: (1, 1)

    def weights(self) -> dict[str, float]:
        return {"image": 2.0}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, torch.Tensor]:
        vectors = encode(batch.tokens, 1)
        terms = {"text": vectors, "new": vectors.sum() * 0, "info": vectors.sum() / 0}
        return terms if self.left_out == {""} else {**terms, "text": vectors + 1}


def test_the_conformance_check_finds_each_kind_of_problem() -> None:
    assert check_method(Broken) == [
        "paper is missing",
        "reading_values has @official, which is not in readings",
        "unknown origin: the decision on reduction has 'a guess'",
        "the optional term 'other' is not in terms",
        "the term 'extra' appears in no reading",
        "the term 'new' is not declared",
        "@paper: weights() has terms that are not declared",
        "@paper: the mixing rule returns place 1 of a cycle of 1",
        "@paper: the term 'text' is no finite scalar",
        "@paper: the term 'info' is no finite scalar",
        "@paper: without=info changes the values of other terms",
        "@paper: without=extra changes the values of other terms",
    ]
