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
from harness.method import Batch, Encode, Feature, Method, MixingRule, PairBatch
from harness.method.conformance import check_all, check_method
from harness.method.lookup import find_methods, find_variants

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
    "out of reach": (
        (
            *("self.head = torch", "self.heads = [torch"),
            *("dimensions.encoder)\n\n", "dimensions.encoder)]\n\n"),
            *("self.head(encode", "self.heads[0](encode"),
        ),
        "a short training",
        "@paper: a loss needs a parameter of shape (8, 8) that no update reaches",
    ),
    "acts at test": (
        (
            "    def loss_terms",
            "    def prepare(self, student, vocabulary, models):\n"
            "        student.model.embeddings.register_forward_hook(lambda module, given, out: 2 * out)"
            "\n\n    def loss_terms",
        ),
        "a short training",
        "@paper: the saved model has other vectors than the trained one",
    ),
    "forgets its epoch": (
        (
            "    def loss_terms",
            "    past = 1.0\n\n    def after_step(self, student, step):\n"
            "        self.past = 0.9 * self.past\n\n    def loss_terms",
            LOSS,
            f"self.past * {LOSS}",
        ),
        "a short training",
        "@paper: a training that was stopped and resumed ends otherwise",
    ),
    "chance texts": (
        (
            *(
                "    def loss_terms",
                "    def change_texts(self, texts, random):\n"
                "        return {'b': [str(ROWS()) for _ in texts]}\n\n    def loss_terms",
            ),
            *("encode(batch.tokens, 2)", "encode(batch.changed['b'], 2)"),
        ),
        "the same",
        "change_texts() gives other texts for the same random numbers",
    ),
    "unread neighbours": (
        (
            "    def loss_terms",
            "    @classmethod\n    def neighbours(cls, hyperparameters):\n"
            "        from harness.method import Neighbours\n"
            "        return {'near': Neighbours()}\n\n    def loss_terms",
        ),
        "values",
        "the changed rows 'near' is declared and never read",
    ),
    "neighbours of nobody": (
        (
            *(
                "    def loss_terms",
                "    @classmethod\n    def neighbours(cls, hyperparameters):\n"
                "        from harness.method import Neighbours\n"
                "        return {'near': Neighbours(by='guide')}\n\n    def loss_terms",
            ),
            *("encode(batch.tokens, 2)", "encode(batch.changed['near'], 2)"),
        ),
        "answers to a plan",
        "the neighbours 'near' are found by 'guide', which is neither 'student' nor",
    ),
    "raises": (
        ("vectors = ", "{}['foo']\n        vectors = "),
        "gradients",
        "KeyError: 'foo' (mine.py, line 33)",
    ),
}


BEFORE_LOSS = "    def loss_terms"
ENCODED = "encode(batch.tokens, 2)"
#: what is no mistake -> the code that does it
RIGHT = {
    "a value in a hook": (
        *('    terms = ("text",)', '    terms = ("text",)\n    Hyperparameters = Values'),
        BEFORE_LOSS,
        "    def prepare(self, student, vocabulary, models):\n"
        "        student.model.embeddings.register_forward_hook(\n"
        "            lambda module, inputs, states:"
        " states + self.hyperparameters.spare * module.training)\n\n" + BEFORE_LOSS,
    ),
    "evaluation mode undone": (
        BEFORE_LOSS,
        "    def after_step(self, student, step):\n        student.eval()\n"
        "        student.train()\n\n" + BEFORE_LOSS,
    ),
    "a value of 0 that cannot be 1": (
        *("spare: int = hyper(3, source", "spare: float = hyper(0.0, source"),
        '    terms = ("text",)',
        '    terms = ("text",)\n    Hyperparameters = Values',
        ENCODED,
        f"{ENCODED} * (1 + self.hyperparameters.spare)",
        "\n\ndef ROWS",
        "    def __post_init__(self):\n        if self.spare >= 1:\n"
        "            raise ValueError('spare')\n\n\ndef ROWS",
    ),
    "no dropout in a view": (ENCODED, f"{ENCODED} + encode(batch.tokens, 1, dropout=0)"),
    "another dropout": (ENCODED, "encode(batch.tokens, 2, dropout=0.3)"),
    "shuffled places": (
        *(ENCODED, "encode(batch.tokens, 2, places=turned)"),
        "\n\nclass Mine",
        "\n\ndef turned(rows):\n"
        "    return rows.offsets.diff()[rows.row_numbers] - 1 - rows.columns\n\n\nclass Mine",
    ),
    "learned noise": (
        *(
            "        self.head =",
            "        self.noise = torch.nn.Parameter(torch.ones(8))\n        self.head =",
        ),
        *(ENCODED, "encode(batch.tokens, 2, embedded=lambda states, rows: states + self.noise)"),
    ),
    "an adversarial step": (
        "        vectors = self.head(encode(batch.tokens, 2))\n",
        "        noise = []\n"
        "        def noisy(states, rows):\n"
        "            noise.append(torch.zeros_like(states, requires_grad=True))\n"
        "            return states + noise[-1]\n"
        "        clean = self.head(encode(batch.tokens, 2, embedded=noisy))\n"
        "        far = info_nce(clean[:, 0], clean[:, 1], 0.05)\n"
        "        (step,) = torch.autograd.grad(far, noise, retain_graph=True)\n"
        "        vectors = self.head(encode(batch.tokens, 2,"
        " embedded=lambda states, rows: states + 0.01 * step.sign()))\n",
    ),
    "changed texts": (
        BEFORE_LOSS,
        "    def change_texts(self, texts, random):\n"
        "        return {'turned': [text[::-1] for text in texts]}\n\n" + BEFORE_LOSS,
        ENCODED,
        "encode(batch.changed['turned'], 2)",
    ),
    "a momentum encoder": (
        BEFORE_LOSS,
        "    aside = ('slow',)\n\n    def prepare(self, student, vocabulary, models):\n"
        "        self.slow = student.second()\n\n"
        "    def after_step(self, student, step):\n"
        "        self.slow.follow(student, 0.9)\n\n" + BEFORE_LOSS,
        ENCODED,
        f"{ENCODED} + self.slow(batch.tokens, 1).detach()",
    ),
    "a queue": (
        "        self.head =",
        "        self.register_buffer('queue', torch.zeros(6, dimensions.encoder))\n"
        "        self.head =",
        "        return",
        "        self.fresh = vectors[:, 0].detach()\n        return",
        *(ENCODED, f"{ENCODED} + self.queue.unsqueeze(1)"),
        BEFORE_LOSS,
        "    def after_step(self, student, step):\n"
        "        self.queue.copy_(self.fresh)\n\n" + BEFORE_LOSS,
    ),
    "a frozen head": (
        "        self.head =",
        "        self.frozen = torch.nn.Linear(8, 8).requires_grad_(False)\n        self.head =",
        ENCODED,
        f"self.frozen({ENCODED})",
    ),
    "batch normalisation": (
        "        self.head =",
        "        self.norm = torch.nn.BatchNorm1d(dimensions.encoder)\n        self.head =",
        ENCODED,
        f"self.norm({ENCODED}.flatten(0, 1)).view(-1, 2, 8)",
    ),
    "neighbours": (
        BEFORE_LOSS,
        "    @classmethod\n    def neighbours(cls, hyperparameters):\n"
        "        from harness.method import Neighbours\n"
        "        return {'near': Neighbours(count=2, among=9, every=4)}\n\n" + BEFORE_LOSS,
        ENCODED,
        f"{ENCODED} + encode(batch.changed['near'], 1).view(2, 6, 8).transpose(0, 1)",
    ),
    "random numbers of torch": (ENCODED, f"{ENCODED} * torch.rand((), device='cpu').item()"),
}


def edited(edits: tuple[str, ...]) -> str:
    code = GOOD
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert code.count(old) == 1
        code = code.replace(old, new)
    return code


def check(what: str | Path) -> Result:
    return CliRunner().invoke(cli, ["check", str(what)])


@pytest.mark.parametrize(
    "checked_names",
    [("dalr",), pytest.param((), marks=pytest.mark.long, id="all")],
)
def test_this_projects_methods_pass(checked_names: tuple[str, ...]) -> None:
    methods = find_methods("harness_methods")
    assert len(methods) >= 8
    if checked_names:
        methods = [method for method in methods if method.name in checked_names]
        assert len(methods) == len(checked_names)
    assert [
        checked for method in methods for checked in check_all(method) if checked.problems
    ] == []


def test_a_good_file_passes_with_a_line_a_check(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(GOOD)
    done = check(tmp_path / "mine.py")
    assert done.exit_code == 0, done.output
    assert len(done.output.splitlines()) == 9
    assert all(line.startswith("ok    mine: ") for line in done.output.splitlines())


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_no_mistake_passes(name: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(edited(RIGHT[name]))
    (method,) = find_methods(str(tmp_path / "mine.py"))
    assert [checked for checked in check_all(method) if checked.problems] == []


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_fails_its_check(mistake: str, tmp_path: Path) -> None:
    edits, name, what = MISTAKES[mistake]
    (tmp_path / "mine.py").write_text(edited(edits))
    done = check(tmp_path / "mine.py")
    assert done.exit_code == 1
    assert f"fails mine: {name}" in done.output
    assert what in done.output


def test_a_package_is_checked_by_what_it_registers(install: Install) -> None:
    install("labs", GOOD, {"methods": {"mine": "Mine"}})
    assert [method.name for method in find_methods("labs")] == ["mine"]
    assert check("labs").exit_code == check("labs:Mine").exit_code == 0
    with pytest.raises(UserError, match="has no class Other"):
        find_methods("labs:Other")


def test_several_names_and_variants_with_values_are_checked() -> None:
    done = CliRunner().invoke(cli, ["check", "simcse", "mcse[lambda=0.3]@official"])
    assert done.exit_code == 0, done.output
    checked = {line.split(maxsplit=1)[1].rpartition(": ")[0] for line in done.output.splitlines()}
    assert checked == {"simcse", "mcse[lambda=0.3]@official"}
    (method,) = find_variants("mcse[lambda=0.3]")
    assert method.configure("official").lambda_ == 0.3
    for words, said in (
        ("mcse[lambda=x]", "'lambda' must be of type float"),
        ("mcse@offical", "offical"),
    ):
        with pytest.raises(UserError, match=re.escape(said)):
            find_variants(words)


def test_a_folder_is_checked_before_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert CliRunner().invoke(cli, ["new", "method", "fresh_method"]).exit_code == 0
    for words in ("fresh_method", "./fresh_method", "fresh_method/src/fresh_method.py"):
        assert [method.name for method in find_methods(words)] == ["fresh_method"]
    monkeypatch.delitem(sys.modules, "fresh_method")
    project = tmp_path / "fresh_method" / "pyproject.toml"
    project.write_text(project.read_text().replace("harness.methods", "harness.method"))
    with pytest.raises(UserError, match="declares no method"):
        find_methods("fresh_method")


def test_an_import_that_raises_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("raise BaseException('boom')")
    with pytest.raises(UserError, match=r"cannot be imported: .*BaseException: boom"):
        find_methods(str(tmp_path / "mine.py"))


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


class NeedsPhrases(Method):
    """text: a mean over phrases, which a batch may not have."""

    name = "needs-phrases"
    paper = "a test"
    streams = ("pairs",)
    terms = ("text",)

    @classmethod
    def features(cls, hyperparameters: object) -> dict[str, Feature]:
        return {"object": Feature("default", "region")}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, torch.Tensor]:
        assert isinstance(batch, PairBatch)
        assert batch.phrases is not None
        return {"text": batch.phrases.vectors(encode.states(batch.tokens)).mean()}


def test_a_loss_that_is_not_finite_without_phrases_is_found() -> None:
    first, *_ = check_method(NeedsPhrases)
    assert first == "@paper: captions without phrases: the term 'text' is no finite scalar"


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
