"""examples/field: methods of the field against their public code and loops over their equations; killed, they end the
same."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from math import exp, log, sqrt
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from cases import mark_others_long
from faults_tools import outcome, short_run
from golden_tools import assert_golden, drawn, entries, put, tensors
from plugin_packages import Install
from safetensors import safe_open
from toy_trainers import loaded, stopped_and_resumed, trainer

import harness
from harness.encoders.heads import WordHead
from harness.encoders.rows import Packed, TokenRows
from harness.encoders.student import Student
from harness.errors import UserError
from harness.losses import contrastive as losses
from harness.method import UNMASKED, Dimensions, PairBatch, SentenceBatch, Vocabulary, method_named
from harness.method.conformance import check_all
from harness.method.lookup import find_variants
from harness.method.samples import build, random_batches, small_student
from harness.runs.inputs import find_teacher_folders, load_training_inputs
from harness.runs.train import make_trainer
from harness.store import Store
from harness.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("small_toy_tests")

FIELD = Path(__file__).resolve().parents[2] / "examples" / "field" / "src"
METHODS = {
    "moco-simcse": ("moco_simcse", "MoCoSimCSE"),
    "esimcse": ("esimcse", "ESimCSE"),
    "promptbert": ("promptbert", "PromptBERT"),
    "diffcse": ("diffcse", "DiffCSE"),
    "rankcse": ("rankcse", "RankCSE"),
    "consert": ("consert", "ConSERT"),
    "cards": ("cards", "CARDS"),
    "simcse-plus-plus": ("simcse_plus_plus", "SimCSEPlusPlus"),
    "mcseo": ("mcseo", "MCSEO"),
}
#: those of at most 120 lines, which change a pass of the encoder or the texts
CHANGED_PASSES = ("consert", "cards", "simcse-plus-plus")
SHORT = (*CHANGED_PASSES, "mcseo")
MOMENTUM = ("moco-simcse", "esimcse")
#: values with which they train on the toy world
DIFFCSE = "diffcse[generator=toy-bert,generator_head=tied]"
TRAINED = [
    *MOMENTUM,
    "promptbert@official",
    DIFFCSE,
    "rankcse[teachers=toy-bert+run:simcse/toy/toy-bert/seed-0]",
    *SHORT,
    "cards[every=2,among=4,negatives=2]",
]
#: whose checks `make test` carries out: all but those with a second model, whose training is resumed
CHECKED = METHODS.keys() - {"diffcse", "rankcse"}
#: of these, one for each kind of state: a queue, a second model, pictures, neighbours
RESUMED = ("moco-simcse", DIFFCSE, "mcseo", "cards")
CPU = torch.device("cpu")


#: a method that reads texts, a frozen model, token vectors and a temperature that cools
GUIDED = '''
from dataclasses import dataclass
from harness.losses.contrastive import info_nce
from harness.method import Feature, Hyperparameters, Method, hyper

@dataclass(frozen=True)
class GuidedHyperparameters(Hyperparameters):
    guide: str = hyper("toy-bert", source="a test", teacher=True)

class Guided(Method):
    """text: from states at the second token to the model's vectors of the texts."""
    name, paper, terms, reads_texts = "guided", "a test", ("text",), True
    Hyperparameters = GuidedHyperparameters

    @classmethod
    def features(cls, hyperparameters):
        return {"guide": Feature(hyperparameters.guide, "model")}

    def prepare(self, student, vocabulary, models):
        self.guide, self.mask = (models["guide"],), vocabulary.mask

    def scheduled(self, share):
        return {"heat": 0.1 - 0.05 * share}

    def loss_terms(self, batch, encode):
        assert vocabulary_agrees(batch)
        (guide,) = self.guide
        vectors = guide.views(batch.texts, 1)[:, 0].detach()
        return {"text": info_nce(encode.states(batch.tokens)[:, 0, 1], vectors, self.now["heat"])}

def vocabulary_agrees(batch):
    return len(batch.texts) == len(batch.tokens["input_ids"]) and all(batch.texts)
'''


def test_a_method_reads_texts_a_frozen_model_token_vectors_and_a_value_that_changes(
    install: Install, tmp_path: Path
) -> None:
    install("guided", GUIDED, {"methods": {"guided": "Guided"}})
    assert [checked for checked in check_all(method_named("guided")) if checked.problems] == []
    values = {"steps": 4, "eval_every": 2, "batch_size": 8}
    variants = "guided,guided[guide=run:simcse/toy/toy-bert/seed-0]"
    done = harness.run("tiny", methods=variants, settings="toy", seeds=1, suites="sts", set=values)
    assert not done.failures, done.failures
    runs = [run for run in done.runs if run.spec.variant.name == "guided"]
    assert len({run.fingerprint for run in runs}) == 2
    for run in runs:
        assert run.losses.terms["heat"] == pytest.approx(
            [0.1 - 0.05 * step / 4 for step in range(4)]
        )
        assert run.identity["features"]["guide"][-1] == run.teachers["guide"].of == "model"
    assert [run.teachers["guide"].teacher for run in runs] == [
        "toy-bert",
        "run:simcse/toy/toy-bert/seed-0",
    ]
    for name, why in {"gpt": "no teacher 'gpt'", "toy-clip": "is no encoder of text"}.items():
        with pytest.raises(UserError, match=why):
            harness.run(
                "tiny",
                methods=f"guided[guide={name}]",
                settings="toy",
                seeds=1,
                suites="sts",
                set=values,
            )


@pytest.fixture(autouse=True)
def _installed(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name, (module, kind) in METHODS.items():
        poolings = {"poolings": {"prompt": "PromptPooling"}} if name == "promptbert" else {}
        install(module, (FIELD / f"{module}.py").read_text(), {"methods": {name: kind}, **poolings})
    yield
    loaded.cache_clear()


VARIANTS = (
    "promptbert[denoise=false,templates=one]",
    f"{DIFFCSE}@official",
    "rankcse[ranking=listmle,teachers=clip]",
    "consert[first=token-cutoff,second=dropout]",
    "cards[negatives=0]",
)


@pytest.mark.parametrize("variant", mark_others_long([*METHODS, *VARIANTS], CHECKED))
def test_they_are_short_and_pass_the_checks(variant: str) -> None:
    name = variant.partition("[")[0]
    module, _ = METHODS[name]
    most = 120 if name in SHORT else 150
    assert len((FIELD / f"{module}.py").read_text().splitlines()) <= most
    assert [
        checked
        for method in find_variants(variant)
        for checked in check_all(method)
        if checked.problems
    ] == []


def cosine(first: list[float], second: list[float]) -> float:
    dot = sum(a * b for a, b in zip(first, second, strict=True))
    return dot / sqrt(sum(a * a for a in first)) / sqrt(sum(b * b for b in second))


def test_the_loss_is_that_of_the_equation() -> None:
    """-log of exp(sim(i, i+) / t) over its sum with the other positives and the filled part of the
    queue.
    """
    loss = import_module("moco_simcse").queued_info_nce
    rows, positives, queue = (
        torch.randn(16, 7, generator=torch.Generator().manual_seed(0)).double().split([4, 4, 8])
    )
    for filled in (0, 3, 8):
        expected = 0.0
        for row, own in zip(rows.tolist(), positives.tolist(), strict=True):
            others = [*positives.tolist(), *queue[:filled].tolist()]
            expected -= (
                log(
                    exp(cosine(row, own) / 0.05)
                    / sum(exp(cosine(row, each) / 0.05) for each in others)
                )
                / 4
            )
        assert float(loss(rows, positives, queue, torch.tensor(filled), 0.05)) == pytest.approx(
            expected, rel=1e-9
        )


def test_the_loss_is_that_of_the_public_code_of_esimcse() -> None:
    (entry,) = (case.values[0] for case in entries("field", "esimcse"))
    inputs, loss = tensors(entry), import_module("moco_simcse").queued_info_nce
    assert_golden(entry, inputs, "loss", loss(*inputs.values(), torch.tensor(7), **entry["params"]))


@pytest.mark.parametrize("name", MOMENTUM)
def test_encoder_head_and_queue_follow_the_equations(name: str) -> None:
    """MoCo Eq. 2 weight by weight, over two steps in float64; the newest rows of the queue come
    first.
    """
    _, student, _ = loaded("simcse@paper")
    student = student.second().double().eval()
    kind: Any = method_named(name)
    method = kind(
        kind.configure("paper", {"queue": 3, "momentum": 0.9}), Dimensions(student.width)
    ).double()
    method.encoder = student.second()
    tokens = student.tokenize(["a red circle", "the blue ring"], 32)
    batch, queue = SentenceBatch(tokens, changed={"repeated": tokens}), []
    slow = {key: value.clone() for key, value in student.state_dict().items()}
    for step in range(2):
        method.loss_terms(batch, student)
        with torch.no_grad():
            queue = [*method.head(method.encoder(tokens, 1)[:, 0]), *queue]
            for parameter in (*student.model.parameters(), *method.text_head.parameters()):
                parameter.add_(0.01)
            head = [value.clone() for value in method.head.parameters()]
            method.after_step(student, step)
        for key, value in student.state_dict().items():
            slow[key] = 0.9 * slow[key] + 0.1 * value if value.is_floating_point() else value
            torch.testing.assert_close(
                method.encoder.state_dict()[key], slow[key], rtol=1e-9, atol=1e-12
            )
        for value, was, new in zip(
            method.head.parameters(), head, method.text_head.parameters(), strict=True
        ):
            torch.testing.assert_close(
                value.detach(), 0.9 * was + 0.1 * new.detach(), rtol=1e-9, atol=1e-12
            )
        assert int(method.filled) == (2, 3)[step]
        torch.testing.assert_close(
            method.queue[: len(queue[:3])], torch.stack(queue[:3]), rtol=1e-9, atol=1e-12
        )


def test_repeated_rows_repeat_only_sub_words_and_as_many_as_drawn() -> None:
    repeated, special = import_module("esimcse").repeated, frozenset((2, 3))
    rng, row = np.random.default_rng(0), [2, *range(10, 20), 3]
    added = [repeated(row, special, 0.32, rng) for _ in range(200)]
    assert {len(each) - len(row) for each in added} == {0, 1, 2, 3}, (
        "from 0 to max(2, int(0.32 * 10))"
    )
    for each in added:
        assert sorted(set(each)) == sorted(row)
        assert each == [token for token in row for _ in range(each.count(token))]
        assert (each.count(2), each.count(3), max(map(each.count, row))) <= (1, 1, 2)
    assert repeated([2, 3], special, 0.32, rng) == [2, 3]


def softmax(scores: list[float]) -> list[float]:
    return [exp(score) / sum(map(exp, scores)) for score in scores]


def info_nce(first: list[list[float]], second: list[list[float]]) -> float:
    rows = [softmax([cosine(row, other) / 0.05 for other in second]) for row in first]
    return -sum(log(row[number]) for number, row in enumerate(rows)) / len(rows)


class Given:
    """An encoder or teacher that gives what it holds."""

    def __init__(self, vectors: torch.Tensor) -> None:
        self.vectors = vectors

    def __call__(self, *_: object) -> torch.Tensor:
        return self.vectors

    views = __call__


def made(name: str, width: int, **values: object) -> Any:
    kind: Any = method_named(name)
    return kind(kind.configure("paper", values), Dimensions(width)).double()


@pytest.mark.parametrize("ranking", ["listnet", "listmle"])
def test_rankings_follow_the_equations(ranking: str) -> None:
    """Jensen-Shannon of both views' rankings; ListNet without the sentence itself, ListMLE with it."""
    vectors, one, two = torch.randn(3, 5, 2, 6, generator=torch.Generator().manual_seed(0)).double()
    method = made("rankcse", 6, ranking=ranking, alpha=0.3)
    method.text_head, method.teachers = torch.nn.Identity(), (Given(one[:, :1]), Given(two[:, :1]))
    terms = method.loss_terms(SentenceBatch({}, texts=list("abcde")), Given(vectors))
    first, second, one, two = (each.tolist() for each in (*vectors.unbind(1), one[:, 0], two[:, 0]))
    consistency, net, mle, places = 0.0, 0.0, 0.0, range(5)
    for row in places:
        p = softmax([cosine(first[row], other) / 0.05 for other in second])
        q = softmax([cosine(second[row], other) / 0.05 for other in first])
        for a, b in zip(p, q, strict=True):
            consistency += (a * log(2 * a / (a + b)) + b * log(2 * b / (a + b))) / 2 / 5
        scores = [cosine(first[row], other) / 0.05 for other in second]
        wanted = [0.3 * cosine(one[row], one[k]) + 0.7 * cosine(two[row], two[k]) for k in places]
        others = [k for k in places if k != row]
        top, own = (
            softmax([each[k] for k in others]) for each in ([w / 0.025 for w in wanted], scores)
        )
        net -= sum(a * log(b) for a, b in zip(top, own, strict=True)) / 5
        order = sorted(places, key=lambda k: -wanted[k])
        mle -= sum(log(softmax([scores[k] for k in order[place:]])[0]) for place in places) / 5
    expected = {"text": info_nce(first, second), "consistency": consistency}
    expected["ranking"] = net if ranking == "listnet" else mle
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("entry", entries("field", "rankcse"))
def test_rankings_are_those_of_the_public_code(entry: Any) -> None:
    """Its ListMLE is a mean over the list, where the equation has a sum, and adds 1e-7 in its
    logarithm.
    """
    inputs, params = tensors(entry), entry["params"]
    method = made("rankcse", 6, ranking=entry["case"], **params)
    method.text_head, method.teachers = (
        torch.nn.Identity(),
        [Given(inputs[name][:, None]) for name in ("t1", "t2")],
    )
    vectors = torch.stack([inputs["z1"], inputs["z2"]], dim=1)
    ranking = method.loss_terms(SentenceBatch({}, texts=list("abcde")), Given(vectors))["ranking"]
    if entry["case"] == "listnet":
        assert_golden(entry, inputs, "ranking", ranking)
    else:
        assert ranking.item() / 5 == pytest.approx(entry["outputs"]["ranking"], rel=1e-6)


SENTENCES = ["a red circle", "the blue ring north of a small square", "we see"]


def double_student(variant: str) -> tuple[Any, Any]:
    """A student in float64 without dropout, and what a method knows of its tokens."""
    _, student, _ = loaded(variant)
    student = student.second().double().eval()
    return student, Vocabulary.of(student.tokenizer, 32)


def last_states(student: Any, words: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """The last layer of one unpadded row, from embeddings of words, (L, d), and their positions,
    (L,).
    """
    parts = student.model.embeddings
    states = words + parts.position_embeddings(positions) + parts.token_type_embeddings.weight[0]
    return student.model.encoder(parts.LayerNorm(states).unsqueeze(0)).last_hidden_state[0]


def test_the_generators_words_are_told_from_the_vector_of_the_sentence() -> None:
    """DiffCSE row by row: best words at hidden places, h for [CLS], binary cross-entropy over all
    tokens.
    """
    student, vocabulary = double_student("simcse@paper")
    method = made("diffcse", student.width, hidden=0.5, generator_head="tied")
    method.prepare(student, vocabulary, {"generator": student})
    words = student.model.get_input_embeddings()
    rows = student.tokenize(SENTENCES, 32).list_ids()
    changed = method.change_rows(rows, np.random.default_rng(0))
    batch = {name: TokenRows.from_lists(each, vocabulary.pad) for name, each in changed.items()}
    vectors = torch.randn(3, 2, student.width, generator=torch.Generator().manual_seed(0)).double()
    terms = method.loss_terms(SentenceBatch({}, changed=batch), Given(vectors))
    flat, head = vectors.transpose(0, 1).flatten(0, 1), method.text_head

    def normed(values: torch.Tensor) -> torch.Tensor:
        return (values - values.mean(0)) / (values.var(0, correction=0) + 1e-5).sqrt()

    inner = (normed(flat @ head[0].weight.T) * head[1].weight + head[1].bias).clamp(min=0)
    heads, total, tokens, differ = normed(inner @ head[3].weight.T), 0.0, 0, 0
    for row, masked, labels, vector in zip(
        rows * 2, changed["masked"], changed["words"], heads, strict=True
    ):
        states = last_states(student, words(torch.tensor(masked)), torch.arange(len(row)))
        best = (states @ words.weight.T).argmax(1).tolist()
        edited = [
            word if label != UNMASKED else own
            for word, label, own in zip(best, labels, row, strict=True)
        ]
        given = torch.cat([vector[None], words(torch.tensor(edited[1:]))])
        for state, own, word in zip(
            last_states(method.discriminator, given, torch.arange(len(row))),
            row,
            edited,
            strict=True,
        ):
            logit = float(method.judge(state).detach())
            total += log(1 + exp(-logit if own != word else logit))
            tokens, differ = tokens + 1, differ + (own != word)
    assert 0 < differ < tokens
    expected = {
        "text": info_nce(heads[:3].tolist(), heads[3:].tolist()),
        "difference": total / tokens,
    }
    assert {name: term.item() for name, term in terms.items()} == pytest.approx(expected, rel=1e-9)


def test_terms_and_edited_rows_are_those_of_the_public_code_of_diffcse() -> None:
    """On rows without padding, of which the public code's mean has the places too; its judge has
    two logits.
    """
    (entry,) = (case.values[0] for case in entries("field", "diffcse"))
    inputs, ids, masked, scores = (
        tensors(entry),
        *(torch.tensor(entry["params"][k]) for k in ("ids", "masked", "scores")),
    )
    method: Any = method_named("diffcse")
    method = method(method.configure("official"), Dimensions(6)).double()
    head, judge = method.text_head, torch.nn.functional.linear
    for layer, name, value in (
        (0, "weight", "w1"),
        (1, "weight", "gain"),
        (1, "bias", "shift"),
        (3, "weight", "w2"),
    ):
        delattr(head[layer], name)
        setattr(head[layer], name, inputs[value])
    first, second = head(inputs["vectors"].transpose(0, 1).flatten(0, 1)).chunk(2)
    assert_golden(
        entry, inputs, "text", losses.info_nce(first, second, entry["params"]["temperature"])
    )
    method.generator = (
        SimpleNamespace(states=lambda rows: scores[:, None].double()),
        torch.nn.Identity(),
    )
    rows, words = (
        {"input_ids": masked, "attention_mask": masked > 0},
        torch.where(masked == 4, ids, UNMASKED),
    )
    edited, replaced = method.edited(
        {**rows, "attention_mask": rows["attention_mask"].long()}, words
    )
    assert (edited.tolist(), replaced.long().tolist()) == (
        entry["outputs"]["edited"],
        entry["outputs"]["replaced"],
    )
    logits = (
        judge(inputs["states"], inputs["judge_weight"], inputs["judge_bias"])
        .diff(dim=-1)
        .squeeze(-1)
    )
    loss = import_module("diffcse").replaced_token_loss(logits, replaced, rows["attention_mask"])
    assert_golden(entry, inputs, "difference", loss)


def test_the_loss_is_that_of_the_public_code_of_promptbert() -> None:
    (entry,) = (case.values[0] for case in entries("field", "promptbert"))
    inputs, student, method = (
        tensors(entry),
        small_student().double().eval(),
        made("promptbert", 8, head="tanh"),
    )
    student.pooling = import_module("promptbert").PromptPooling()
    with torch.no_grad():
        for seed, (_, parameter) in enumerate(sorted(student.model.named_parameters())):
            parameter.copy_(drawn(*parameter.shape, seed=seed))
    put(method.text_head, *inputs.values())
    method.parts = entry["params"]["templates"]
    changed = method.change_rows(
        [[2, *row, 3] for row in entry["params"]["sentences"]], np.random.default_rng(0)
    )
    batch = SentenceBatch(
        {}, changed={name: TokenRows.from_lists(each, 0) for name, each in changed.items()}
    )
    assert_golden(entry, inputs, "text", method.loss_terms(batch, student)["text"])


def test_a_sentence_is_its_masks_vector_less_that_of_the_template_at_the_same_positions(
    tmp_path: Path,
) -> None:
    student, vocabulary = double_student("promptbert@paper")
    rows, method = student.tokenize(SENTENCES, 32).list_ids(), made("promptbert", student.width)
    method.prepare(student, vocabulary, {})
    changed = method.change_rows(rows, np.random.default_rng(0))
    batch = {name: TokenRows.from_lists(each, vocabulary.pad) for name, each in changed.items()}
    views, words = [], student.model.get_input_embeddings()
    for name, template in (
        ("first", 'This sentence of "{}" means'),
        ("second", 'This sentence : "{}" means'),
    ):
        before, after = map(vocabulary.ids, template.split("{}"))
        views.append([])
        for row, full in zip(rows, changed[name], strict=True):
            assert full == [
                vocabulary.cls,
                *before,
                *row[1:-1],
                *after,
                vocabulary.mask,
                *vocabulary.ids("."),
                3,
            ]
            places = [k for k in range(len(full)) if not 0 <= k - 1 - len(before) < len(row) - 2]
            ids, at = torch.tensor(full), torch.tensor(places)
            mask, alone = (
                last_states(student, words(ids), torch.arange(len(full))),
                last_states(student, words(ids[at]), at),
            )
            views[-1].append((mask[-3] - alone[-3]).tolist())
    loss = method.loss_terms(SentenceBatch({}, changed=batch), student)["text"]
    assert float(loss) == pytest.approx(info_nce(*views), rel=1e-9)
    assert student.tokenize(SENTENCES, 32).list_ids() == changed["first"], "the template of tests"
    student.float().save(tmp_path / "saved")
    again = Student.load(tmp_path / "saved", "prompt")
    assert (again.embed(SENTENCES) == student.embed(SENTENCES)).all()


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "DistilBert"])
def test_the_head_for_masked_words_is_that_of_the_folder(kind: str, tmp_path: Path) -> None:
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
    }
    config = getattr(transformers, f"{kind}Config")(vocab_size=32, **sizes)
    whole = getattr(transformers, f"{kind}ForMaskedLM")(config).eval()
    whole.save_pretrained(tmp_path / "whole")
    whole.base_model.save_pretrained(tmp_path / "encoder")
    with torch.no_grad():
        ids = torch.arange(5, 12).unsqueeze(0)
        states = whole.base_model(ids).last_hidden_state
        torch.testing.assert_close(WordHead(tmp_path / "whole")(states), whole(ids).logits)
    with pytest.raises(
        UserError, match=r"head for masked words in .*encoder cannot be read: it lacks"
    ):
        WordHead(tmp_path / "encoder")


def packed_rows(*lengths: int) -> Packed:
    return TokenRows.from_lists([list(range(length)) for length in lengths], 0).packed


def test_consert_shuffles_and_cuts_off_within_each_row() -> None:
    consert = import_module("consert")
    rows = packed_rows(1, 7, 4, 10)
    places = consert.shuffled(rows).split([1, 7, 4, 10])
    assert [sorted(of_row.tolist()) for of_row in places] == [[*range(n)] for n in (1, 7, 4, 10)]
    assert any(of_row.tolist() != sorted(of_row.tolist()) for of_row in places)
    states = torch.ones(22, 9)
    tokens = consert.without_tokens(states, rows, 0.3)
    assert set(tokens.sum(1).tolist()) == {0, 9}, "whole tokens"
    cut = [int((of_row[:, 0] == 0).sum()) for of_row in tokens.split([1, 7, 4, 10])]
    assert cut == [0, 2, 1, 3]
    features = consert.without_features(states, rows, 0.3).split([1, 7, 4, 10])
    for of_row in features:
        assert (of_row == of_row[0]).all(), "the same features of all tokens of a row"
        assert int((of_row[0] == 0).sum()) == 2
    assert len({tuple(of_row[0].tolist()) for of_row in features}) > 1, "drawn for each row"


def test_the_losses_of_simcse_plus_plus_follow_the_public_code() -> None:
    module = import_module("simcse_plus_plus")
    first, second, off = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0)).double()
    expected = 0.0
    for row in range(5):
        positive = 0.9 * cosine(first[row].tolist(), second[row].tolist()) / 0.05
        others = [cosine(off[row].tolist(), off[k].tolist()) / 0.05 for k in range(5) if k != row]
        expected += (log(exp(positive) + sum(map(exp, others))) - positive) / 5
    assert float(module.off_dropout_nce(first, second, off, 0.05, 0.9)) == pytest.approx(expected)

    def standardised(view: torch.Tensor) -> list[list[float]]:
        deviation = (view.var(0, correction=0) + 1e-5).sqrt()
        return ((view - view.mean(0)) / deviation).T.tolist()

    sides = [standardised(view) for view in (first, second)]
    total = 0.0
    for number, own in enumerate(sides[0]):
        alike = [sum(a * b for a, b in zip(own, other, strict=True)) / 5 / 5 for other in sides[1]]
        total -= log(softmax(alike)[number]) / 4
    assert float(module.dimension_nce(first, second, 5.0)) == pytest.approx(total)


def test_phrases_find_their_objects_beside_the_terms_of_mcse() -> None:
    """-log of exp(s(phrase, own) / t) over its sum with the objects of other regions, in loops."""
    student = small_student().double().eval()
    method = build(method_named("mcseo"), method_named("mcseo").configure("paper")).double()
    (pairs,) = [batch for batch in random_batches(method) if isinstance(batch, PairBatch)]
    features = {role: values.double() for role, values in pairs.features.items()}
    batch = replace(pairs, features=features)
    terms = method.loss_terms(batch, student)

    phrases = batch.phrases
    assert phrases is not None
    rows = zip(phrases.captions.tolist(), phrases.spans.tolist(), strict=True)
    states = student.states(batch.tokens)[:, 0]
    means = [
        sum(states[row, place] for place in range(*span)) / (span[1] - span[0])
        for row, span in rows
    ]
    vectors = [method.grounding_head(mean[None])[0].tolist() for mean in means]
    objects = method.object_head(features["object"]).tolist()
    regions = phrases.regions.tolist()
    assert len(set(regions)) < len(regions)
    expected = 0.0
    for own, vector in enumerate(vectors):
        scores = {
            other: cosine(vector, objects[other]) / 0.05
            for other in range(len(objects))
            if other == own or regions[other] != regions[own]
        }
        expected -= (scores[own] - log(sum(map(exp, scores.values())))) / len(vectors)
    assert terms.pop("objects").item() == pytest.approx(expected, rel=1e-9)

    mcse = build(method_named("mcse"), method_named("mcse").configure("paper")).double()
    mcse.load_state_dict(method.state_dict(), strict=False)
    same = mcse.loss_terms(batch, student)
    assert {name: term.item() for name, term in terms.items()} == {
        name: term.item() for name, term in same.items()
    }
    assert method.weights() == {"info": 0.01, "objects": 0.01}


def test_cards_switches_first_letters_by_a_chance() -> None:
    switched = import_module("cards").switched
    text = "Thebes held onto power until the 12th Dynasty"
    assert switched(text, 0.0, np.random.default_rng(0)) == text
    all_words = switched(text, 1.0, np.random.default_rng(0))
    assert all_words == "thebes Held Onto Power Until The 12th dynasty"
    drawn = [switched(text, 0.5, np.random.default_rng(seed)) for seed in range(20)]
    assert len(set(drawn)) > 10
    assert {words.lower() for words in drawn} == {text.lower()}


def test_the_loss_of_cards_has_the_retrieved_sentences_as_negatives_of_every_row() -> None:
    kind: Any = method_named("cards")
    method = kind(kind.configure("paper", {"negatives": 2, "among": 3}), Dimensions(7)).double()
    vectors = torch.randn(16, 1, 7, generator=torch.Generator().manual_seed(0)).double()
    places = {"tokens": slice(4), "switched": slice(4, 8), "retrieved": slice(8, 16)}
    batch = SentenceBatch({}, changed={"switched": {}, "retrieved": {}})
    given = {id(batch.tokens): places["tokens"]}
    given |= {id(rows): places[name] for name, rows in batch.changed.items()}
    encode: Any = lambda tokens, views: vectors[given[id(tokens)]]  # noqa: E731
    rows, positives, negatives = (
        method.text_head(vectors[places[name], 0]).tolist() for name in places
    )
    expected = 0.0
    for row, own in zip(rows, positives, strict=True):
        scores = [exp(cosine(row, other) / 0.05) for other in (*positives, *negatives)]
        expected -= log(exp(cosine(row, own) / 0.05) / sum(scores)) / 4
    assert float(method.loss_terms(batch, encode)["text"].detach()) == pytest.approx(
        expected, rel=1e-9
    )


def test_a_plan_says_the_memory_of_a_search_and_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.txt").write_text("".join(f"a {word} circle\n" for word in range(300)))
    (tmp_path / "mine.toml").write_text(
        'extends = "tiny"\n[corpora.mine]\nkind = "sentences-file"\nfile = "./mine.txt"\n'
        '[settings.mine]\ncorpora = ["mine"]\ndescription = "a test"\n'
    )

    def plan() -> Any:
        profile = str(tmp_path / "mine.toml")
        return harness.plan(profile, methods="cards", settings="mine", seeds=1, suites="sts")

    says = "the neighbours 'retrieved' are searched"
    (line,) = [line for line in plan().warnings if says in line]
    assert line.endswith(f"{says} exactly among 300 rows of sentences, whose vectors take 0.1 MB")

    monkeypatch.setattr("harness.method.interface.EXACT_ROWS", 10)
    monkeypatch.setattr("harness.method.interface.find_spec", lambda name: name)
    (line,) = [line for line in plan().warnings if says in line]
    assert "in an index of FAISS among 300 rows" in line
    monkeypatch.setattr("harness.method.interface.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"need FAISS.*pip install 'sentence-harness\[faiss\]'"):
        plan()


def made_trainer(variant: str, folder: Path) -> Trainer:
    asked, *_ = loaded(variant)
    inputs = load_training_inputs(asked, "cpu", find_teacher_folders(asked, Store(Path())))
    return make_trainer(asked, replace(inputs, dev=lambda embed: 0.0), folder)


@pytest.mark.parametrize("variant", mark_others_long(TRAINED, RESUMED))
def test_a_stopped_training_ends_the_same_bit_for_bit(variant: str, tmp_path: Path) -> None:
    whole = made_trainer(variant, tmp_path / "whole")
    started = {key: value.clone() for key, value in whole.method.state_dict().items()}
    whole.run()
    parts = stopped_and_resumed(lambda: made_trainer(variant, tmp_path / "parts"), 3)
    assert parts.record.losses == whole.record.losses
    for first, second in ((whole.student, parts.student), (whole.method, parts.method)):
        torch.testing.assert_close(first.state_dict(), second.state_dict(), rtol=0, atol=0)
    for part in {key.partition(".")[0] for key in started}:
        moved = (
            key
            for key, value in parts.method.state_dict().items()
            if not torch.equal(value, started[key])
        )
        assert part in {key.partition(".")[0] for key in moved}
    if variant in MOMENTUM:
        assert int(parts.method.filled) == 32
    heads = {"text_head"}
    if variant == "consert":
        heads = set()
    if variant == "mcseo":
        heads |= {"grounding_head", "image_head", "object_head"}
    with safe_open(tmp_path / "whole" / "best" / "heads.safetensors", "np") as kept:
        assert {key.partition(".")[0] for key in kept.keys()} == heads, "the rest is aside"  # noqa: SIM118
    if variant.partition("[")[0] in SHORT:
        parts.student.save(tmp_path / "saved")
        again = Student.load(tmp_path / "saved", parts.student.pooling.name)
        assert np.array_equal(again.embed(SENTENCES), parts.student.embed(SENTENCES))


#: a run whose process kills itself once it has saved its first checkpoint
KILLED = f"""
import os, signal, harness
from harness.training.folder import TrainingFolder
save = TrainingFolder.save
TrainingFolder.save = lambda *given: (save(*given), os.kill(os.getpid(), signal.SIGKILL))
values = {{"steps": 4, "eval_every": 2, "batch_size": 8}}
harness.run("tiny", methods="{DIFFCSE}", settings="toy-text", seeds=1, suites="sts", set=values, executor="serial")
"""


@pytest.mark.long
def test_a_run_that_was_killed_ends_the_same_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    killed = subprocess.run([sys.executable, "-c", KILLED], check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert next(Path("results").rglob("*checkpoint*"), None)
    ends = [outcome(short_run(DIFFCSE, Path(folder))) for folder in ("results", "whole")]
    assert ends[0] == ends[1]


def test_changed_rows_depend_on_seed_and_step_alone(tmp_path: Path) -> None:
    batches = [
        trainer("esimcse", "fp32", CPU, tmp_path / str(number)).batches for number in range(2)
    ]
    drawn = [[next(made.take(step))[1].changed["repeated"].list_ids() for step in order] for made, order in
             zip(batches, ((0, 1), (1, 0)), strict=True)]  # fmt: skip
    assert drawn[0] == drawn[1][::-1]
    assert drawn[0][0] != drawn[0][1]


def test_changed_texts_depend_on_seed_and_step_and_are_tokenised_like_the_corpus(
    tmp_path: Path,
) -> None:
    batches = trainer("cards", "fp32", CPU, tmp_path).batches

    def change(texts: list[str], random: np.random.Generator) -> dict[str, list[str]]:
        return {"same": texts, "drawn": random.permutation(texts).tolist()}

    batches.change_texts = change
    first, second, again = (next(batches.take(step))[1] for step in (0, 1, 0))
    assert first.changed["same"].list_ids() == first.tokens.list_ids()
    drawn = [batch.changed["drawn"].list_ids() for batch in (first, second, again)]
    assert drawn[0] == drawn[2] != drawn[1]


def test_a_row_that_grows_too_long_is_refused(tmp_path: Path) -> None:
    long = trainer("esimcse", "fp32", CPU, tmp_path)
    long.batches.change = lambda rows, random: {"repeated": [row * 40 for row in rows]}
    with pytest.raises(
        UserError,
        match=r"step 1: the changed rows 'repeated' have up to \d+ tokens.*lower max_length",
    ):
        long.run()
