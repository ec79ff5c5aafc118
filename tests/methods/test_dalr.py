"""DALR against the public code (tests/golden/dalr.json) and against its equations as loops in
float64.

Golden `dalr_total`, with A(x, y, soft; margin) as in test_kdmcse.py, KL(logits, soft) =
KL(softmax(soft / soft_tau) || softmax(logits / tau)), and two teachers weighted alpha and 1 - alpha
throughout: contrastive: cross-entropy of S = A(z1, z2; margin1) / temp. cross: consistency_weight *
consistency (cosine embedding loss of batch-normalised aligners of z1 and of the image, matched and
rolled by `shift`) + (KL(G^T, I I^T) + KL(G, T T^T)) / 2 with G = A(z1, I; margin1) / temp + the
image loss of KDMCSE over both views. intra: KL(S, T T^T) + gamma * list loss of S and cos(teacher
pass 1, teacher pass 2) / tau2 + the mean over both passes of the token term. total: contrastive +
cross_weight * cross + intra_weight * intra.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import Given, assert_golden, cosine, divergence, drawn, entries, put, tensors
from harness_methods.dalr import DALR, TeacherOutputs, after_text, text_teachers

from harness.losses.contrastive import info_nce
from harness.method import Dimensions, PairBatch, SentenceBatch, by_batches

WIDTH, ROWS, LENGTH = 8, 6, 5


def official(entry: dict[str, Any], inputs: dict[str, torch.Tensor]) -> DALR:
    """The method with an entry's settings and weights."""
    params, (width, hidden) = entry["params"], entry["shapes"]["text_head_weight"]
    named = {
        **{
            "temperature": "temp",
            "temperature_multimodal": "temp_vl",
            "temperature_ranking": "tau2",
        },
        **{
            "angular_margin_text": "margin1",
            "angular_margin_image": "margin2",
            "margin": "consistency_margin",
        },
        **{
            "student_temperature": "tau",
            "teacher_temperature": "soft_tau",
            "teacher_weight": "alpha",
        },
        **{
            "lambda": "cross_weight",
            "info_weight": "cross_weight",
            "mu": "intra_weight",
            "ranking": "distillation",
        },
        **{"gamma": "gamma", "consistency_weight": "consistency_weight", "shift": "shift"},
    }
    text = "simcse+diffcse" if params["two_teachers"] else "simcse"
    values = {option: params[name] for option, name in named.items()} | {
        "text": text,
        "projection_dim": width,
    }
    chosen = DALR.configure("official", values)
    method = DALR(chosen, Dimensions(hidden, dict.fromkeys(DALR.features(chosen), hidden))).double()
    put(method.grounding_head, inputs["text_head_weight"], inputs["text_head_bias"])
    put(method.image_head, inputs["image_head_weight"], inputs["image_head_bias"])
    for side in ("text", "image"):
        for layer, number in ((0, 1), (3, 2)):
            name = f"{side}_aligner_linear{number}"
            put(
                getattr(method, f"{side}_aligner"),
                inputs[f"{name}_weight"],
                inputs[f"{name}_bias"],
                layer,
            )
    method.text_head = Given(inputs["z"])
    return method


def passes(entry: dict[str, Any], inputs: dict[str, torch.Tensor], method: DALR) -> TeacherOutputs:
    """Both passes of an entry's teachers, which differ there."""
    numbers = (1, 2) if entry["params"]["two_teachers"] else (1,)
    vectors = [inputs[f"teacher{number}_emb"].detach().unbind(1) for number in numbers]
    tokens = [inputs[f"teacher{number}_tokens"].detach() for number in numbers]
    both = [method.mix_teachers([teacher[:, k] for teacher in tokens]) for k in range(2)]
    return TeacherOutputs(vectors, both, inputs["attention_mask"].detach()[:, 1:])


@pytest.mark.parametrize("entry", entries("dalr", "dalr_total"))
def test_the_public_code(entry: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = tensors(entry)
    method = official(entry, inputs)
    monkeypatch.setattr(method, "teacher_outputs", lambda batch: passes(entry, inputs, method))
    batch = PairBatch({}, {"image": inputs["image_feat"].detach()})
    total, terms = method.loss(batch, lambda tokens, views: inputs["cls"])
    assert set(terms) == {"text", "info", "cons", "cma", "rank", "ima", "g2l"}
    params = entry["params"]
    cross = params["consistency_weight"] * terms["cons"] + terms["cma"] + terms["info"]
    intra = terms["ima"] + params["gamma"] * terms["rank"] + terms["g2l"]
    for output, value in (
        ("contrastive", terms["text"]),
        ("cross", cross),
        ("intra", intra),
        ("total", total),
    ):
        assert_golden(entry, inputs, output, value)


def built(reading: str = "paper", **options: Any) -> DALR:
    torch.manual_seed(0)
    chosen = DALR.configure(reading, {"temperature": 0.2, "temperature_multimodal": 0.3, **options})
    widths = dict.fromkeys(DALR.features(chosen), WIDTH)
    return DALR(chosen, Dimensions(WIDTH, widths)).double()


def batch(method: DALR, rows: int = ROWS) -> PairBatch:
    """Captions of several lengths, with token features of a longer maximum."""
    mask = torch.tensor([[1] * LENGTH, [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]] * 2)[:rows]
    shapes = {"image": (rows, WIDTH), "caption": (rows, WIDTH), "tokens": (rows, LENGTH + 3, WIDTH)}
    wanted = method.features(method.hyperparameters)
    features = {role: drawn(*shapes[wanted[role].of], seed=n) for n, role in enumerate(wanted, 20)}
    return PairBatch({"attention_mask": mask}, features)


def vectors(rows: int = ROWS) -> torch.Tensor:
    return drawn(rows, 2, WIDTH, seed=7).requires_grad_()


def terms_of(method: DALR, given: PairBatch, h: torch.Tensor) -> dict[str, torch.Tensor]:
    return method.loss(given, lambda tokens, views: h)[1]


@pytest.mark.parametrize("targets", ["raw", "projected"])
@pytest.mark.parametrize("temperatures", [(1.0, 1.0), (0.45, 0.5)], ids=["paper's", "others"])
def test_the_papers_terms_written_out(temperatures: tuple[float, float], targets: str) -> None:
    """Means over the batch for the sums of Eq. 4, 8, 10 and 12; Eq. 5 as a mean over matched and
    mismatched pairs.
    """
    student, teacher = temperatures
    method = built(
        student_temperature=student, teacher_temperature=teacher, shift=2, targets=targets
    )
    given, h = batch(method), vectors()
    terms = terms_of(method, given, h)
    n = range(ROWS)
    with torch.no_grad():
        z = [method.text_head(h[:, k]) for k in range(2)]
        p, v = method.grounding_head(h[:, 0]), method.image_head(given.features["image"])
        raw = 0.33 * given.features["teacher1"] + (1 - 0.33) * given.features["teacher2"]
        t, u = (raw, given.features["image"]) if targets == "raw" else (method.teacher_head(raw), v)
    expected = dict.fromkeys(("info", "cons", "cma", "rank", "ima"), 0.0)
    for i in n:
        scores = [math.exp(cosine(p[i], v[j]) / 0.3) for j in n]  # Eq. 4
        expected["info"] -= math.log(scores[i] / sum(scores)) / ROWS
        expected["cons"] += (1 - cosine(p[i], v[i])) / (2 * ROWS)  # Eq. 5
        expected["cons"] += max(0.0, cosine(p[i], v[(i - 2) % ROWS]) - 0.2) / (2 * ROWS)
        texts = [cosine(t[i], t[j]) / teacher for j in n]  # Eq. 7
        images = [cosine(u[i], u[j]) / teacher for j in n]
        to_images = divergence(texts, [cosine(p[i], v[j]) / student for j in n])  # Eq. 6
        to_texts = divergence(images, [cosine(p[j], v[i]) / student for j in n])
        expected["cma"] += 1 / 2 * (to_images + to_texts) / ROWS  # Eq. 8
        order = sorted(n, key=lambda j: -cosine(raw[i], raw[j]))  # Eq. 10
        likely = [math.exp(cosine(z[0][i], z[1][j]) / 0.2) for j in order]
        expected["rank"] -= sum(math.log(likely[k] / sum(likely[k:])) for k in n) / ROWS
        expected["ima"] += (
            divergence(texts, [cosine(z[0][i], z[1][j]) / student for j in n]) / ROWS
        )  # Eq. 11 and 12
    assert set(terms) == set(expected)
    for name, value in expected.items():
        assert float(terms[name].detach()) == pytest.approx(value, rel=1e-10), name


def test_the_papers_total_is_eq_1_on_sentences_and_eq_14_on_pairs() -> None:
    method, h = built(), vectors()
    total, terms = method.loss(SentenceBatch({}), lambda tokens, views: h)
    assert set(terms) == {"text"}
    torch.testing.assert_close(
        total, info_nce(method.text_head(h[:, 0]), method.text_head(h[:, 1]), 0.2)
    )
    total, terms = method.loss(batch(method), lambda tokens, views: h)
    expected = (
        terms["info"] + 0.1 * (terms["cons"] + terms["cma"]) + 0.2 * (terms["rank"] + terms["ima"])
    )
    torch.testing.assert_close(total, expected)


def test_the_public_codes_two_margins_are_for_text_and_for_images() -> None:
    """The golden numbers have one value for both; with another one of either, only the terms that
    it is for change.
    """

    def changed(**margin: float) -> set[str]:
        terms = terms_of(built("official", **margin), given, h)
        return {name for name, value in terms.items() if not torch.equal(value, plain[name])}

    method, h = built("official"), vectors()
    given = batch(method)
    plain = terms_of(method, given, h)
    assert changed() == set()
    assert changed(angular_margin_text=0.3) == {"text", "cma", "rank", "ima"}
    assert changed(angular_margin_image=0.3) == {"info"}


@pytest.mark.parametrize("targets", ["raw", "projected"])
def test_targets_carry_no_gradient(targets: str) -> None:
    """Neither to the heads nor further; only projected ones have a head of the teacher, which is
    not trained.
    """
    method = built(targets=targets)
    given = batch(method).features
    raw, images = (
        method.mix_teachers([given["teacher1"], given["teacher2"]]),
        method.image_head(given["image"]),
    )
    similarities = method.similarities(
        given["image"].requires_grad_(), images, raw.requires_grad_()
    )
    frozen = [name for name, value in method.named_parameters() if not value.requires_grad]
    assert not any(value.requires_grad for value in similarities)
    assert frozen == (
        ["teacher_head.0.weight", "teacher_head.0.bias"] if targets == "projected" else []
    )


def test_the_public_codes_terms_in_training_use_one_pass_of_the_teachers() -> None:
    """Both passes of a teacher out of training mode are equal; the first position of tokens is left
    out.
    """
    method = built("official", text="simcse")
    given = batch(method)
    outputs = method.teacher_outputs(given)
    assert outputs.tokens[0].shape == (ROWS, LENGTH - 1, WIDTH)
    torch.testing.assert_close(outputs.tokens[0], given.features["tokens1"][:, 1:LENGTH])
    assert outputs.vectors[0][0] is outputs.vectors[0][1] is given.features["teacher1"]


@pytest.mark.parametrize("reading", ["paper", "official"])
@pytest.mark.parametrize("ranking", ["listmle", "listnet"])
def test_a_batch_of_one_row_is_finite(reading: str, ranking: str) -> None:
    """The last batch of a pass may be one; tests/losses/test_precision.py has other degenerate
    batches of each loss.
    """
    method, h = built(reading, ranking=ranking), vectors(1)
    total, terms = method.loss(batch(method, 1), lambda tokens, views: h)
    total.backward()
    assert all(value.isfinite() for value in terms.values())
    assert all(p.grad is None or p.grad.isfinite().all() for p in [h, *method.parameters()])
    own = method.hyperparameters.consistency_heads == "own"
    assert (float(terms["cons"].detach()) == 0) is own


def test_a_shift_that_gives_each_text_its_own_image_leaves_the_mismatched_pairs_out() -> None:
    h = vectors()
    near, far = built(shift=ROWS), built(shift=1)
    given = batch(near)
    with torch.no_grad():
        p, v = near.grounding_head(h[:, 0]), near.image_head(given.features["image"])
    expected = sum(1 - cosine(p[i], v[i]) for i in range(ROWS)) / ROWS
    assert float(terms_of(near, given, h)["cons"].detach()) == pytest.approx(expected, rel=1e-10)
    assert float(terms_of(far, given, h)["cons"].detach()) != pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("reading", "widths", "message"),
    [
        ("paper", {"teacher2": 16}, "8 and 16 wide and cannot be weighted"),
        (
            "official",
            {"image": 16},
            "compares image features, 16 wide, with the encoder's vectors, 8 wide",
        ),
        ("official", {"tokens1": 16}, "compares tokens1 features, 16 wide"),
    ],
)
def test_widths_that_do_not_fit_are_one_line(
    reading: str, widths: dict[str, int], message: str
) -> None:
    values = DALR.configure(reading)
    with pytest.raises(ValueError, match=message):
        DALR(values, Dimensions(WIDTH, {**dict.fromkeys(DALR.features(values), WIDTH), **widths}))
    any_width = Dimensions(WIDTH, {"image": 16, "teacher1": 12, "teacher2": 12})
    assert DALR(DALR.configure("paper"), any_width).image_head[0].in_features == 16


def test_the_readings_ask_for_their_features_and_batches() -> None:
    run = "run:simcse/wiki+flickr/bert/seed-0"
    paper, public = DALR.configure("paper"), DALR.configure("official", {"text": f"{run}+diffcse"})
    assert set(DALR.features(paper)) == {"image", "teacher1", "teacher2"}
    wanted = DALR.features(public)
    assert set(wanted) == {"image", "teacher1", "teacher2", "tokens1", "tokens2"}
    assert (wanted["tokens1"].teacher, wanted["tokens1"].of) == (run, "tokens")
    assert (DALR.mixing(paper), DALR.captions(paper)) == (after_text, "setting")
    assert (DALR.mixing(public), DALR.captions(public)) == (by_batches, "all")
    with pytest.raises(ValueError, match="names 3 text teachers; write one or two"):
        text_teachers("a+b+c")
