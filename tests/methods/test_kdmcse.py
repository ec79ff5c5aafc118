"""KDMCSE against the public code (tests/golden/kdmcse.json) and against its equations as loops in
float64.

Golden `kdmcse`: A(x, y, soft; margin) takes margin * (1 - soft) off the angle of each negative with
an angle above the margin, margin alone without soft labels. `intra` is the cross-entropy of A(z1,
z2) over temp; `inter` adds, for the images and for the captions, half the sum over both views of
the cross-entropy of A(p_k, head(feature)) over temp_vl, soft labels being the cosines of the
features among themselves. With a threshold, negatives are left out whose inner product caption_i .
image_j (towards images) or image_i . caption_j (towards captions) exceeds it. `total = intra + lbd
* inter`.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from golden_tools import Given, assert_golden, cosine, divergence, drawn, entries, put, tensors
from harness_methods.kdmcse import KDMCSE, every_ceil
from harness_methods.simcse import SimCSE

from harness.method import Dimensions, PairBatch, SentenceBatch, by_batches

WIDTH, FEATURE = 8, 5


@pytest.mark.parametrize("entry", entries("kdmcse", "kdmcse"))
def test_the_public_code(entry: dict[str, Any]) -> None:
    inputs, params = tensors(entry), entry["params"]
    width, hidden = entry["shapes"]["text_head_weight"]
    named = {
        **{
            "temperature": "temp",
            "temperature_multimodal": "temp_vl",
            "margin_text": "margin1",
            "margin": "margin2",
        },
        **{"threshold": "score_base", "filter": "using_threshold", "lambda": "lbd"},
    }
    values = {option: params[name] for option, name in named.items()} | {"projection_dim": width}
    feature = entry["shapes"]["image_feat"][1]
    dimensions = Dimensions(hidden, {"image": feature, "caption": feature})
    method = KDMCSE(KDMCSE.configure("official", values), dimensions).double()
    for head, name in (("grounding", "text"), ("image", "image"), ("caption", "caption")):
        put(
            getattr(method, f"{head}_head"),
            inputs[f"{name}_head_weight"],
            inputs[f"{name}_head_bias"],
        )
    method.text_head = Given(inputs["z"])
    batch = PairBatch({}, {"image": inputs["image_feat"], "caption": inputs["caption_feat"]})
    total, terms = method.loss(batch, lambda tokens, views: inputs["cls"])
    assert set(terms) == {"text", "visual", "textual"}
    assert_golden(entry, inputs, "intra", terms["text"])
    assert_golden(entry, inputs, "inter", terms["visual"] + terms["textual"])
    assert_golden(entry, inputs, "total", total)


def features(seed: int = 3, rows: int = 6) -> dict[str, torch.Tensor]:
    """Features of images and captions that are alike in part, as CLIP's are."""
    generator = torch.Generator().manual_seed(seed)
    draw = [torch.randn(rows, FEATURE, dtype=torch.float64, generator=generator) for _ in range(3)]
    return {"image": draw[0] + draw[2], "caption": draw[1] + draw[2]}


def vectors(seed: int = 5, rows: int = 6) -> torch.Tensor:
    return drawn(rows, 2, WIDTH, seed=seed).requires_grad_()


def built(reading: str = "paper", seed: int = 0, **options: Any) -> KDMCSE:
    torch.manual_seed(seed)
    options = {"temperature_multimodal": 0.2, "temperature": 0.2, **options}
    method = KDMCSE(
        KDMCSE.configure(reading, options),
        Dimensions(WIDTH, {"image": FEATURE, "caption": FEATURE}),
    )
    return method.double()


def terms_of(
    method: KDMCSE, given: dict[str, torch.Tensor], h: torch.Tensor
) -> dict[str, torch.Tensor]:
    return method.loss(PairBatch({}, given), lambda tokens, views: h)[1]


def branch(views: list[Any], targets: Any, alpha: Any, margin: float, threshold: float) -> float:
    """Eq. 13, mean over both views and over the batch, temperature 0.2; Eq. 8 with its cases
    swapped.
    """
    total, count = 0.0, len(targets)
    for view in views:
        for i in range(count):
            positive = math.exp(cosine(view[i], targets[i]) / 0.2)
            denominator = positive
            for j in range(count):
                similarity = alpha(i, j)
                if j == i or similarity > threshold:
                    continue
                angle = math.acos(cosine(view[i], targets[j])) - abs(1 - similarity) * margin
                denominator += math.exp(math.cos(max(angle, 0.0)) / 0.2)
            total -= math.log(positive / denominator) / (len(views) * count)
    return total


@pytest.mark.parametrize(
    ("options", "margin", "threshold"),
    [
        ({"margin": 0.4, "threshold": 0.3}, 0.4, 0.3),
        ({"margin": 1.4, "threshold": 0.9}, 1.4, 0.9),
        ({"margin": 0.4, "threshold": 0.3, "without": "margin"}, 0.0, 0.3),
        ({"margin": 0.4, "threshold": 0.3, "without": "filter"}, 0.4, 9.0),
    ],
)
def test_the_papers_branches_written_out(
    options: dict[str, Any], margin: float, threshold: float
) -> None:
    method, given, h = built(**options), features(), vectors()
    terms = terms_of(method, given, h)
    assert set(terms) == {"visual", "textual"}
    with torch.no_grad():
        views = [method.grounding_head(h[:, k]) for k in range(2)]
        images, captions = method.image_head(given["image"]), method.caption_head(given["caption"])
    raw_images, raw_captions = given["image"], given["caption"]
    expected = {
        "visual": branch(
            views, images, lambda i, j: cosine(raw_captions[i], raw_images[j]), margin, threshold
        ),
        "textual": branch(
            views,
            captions,
            lambda i, j: cosine(raw_captions[i], raw_captions[j]),
            margin,
            threshold,
        ),
    }
    for name, value in expected.items():
        assert float(terms[name].detach()) == pytest.approx(value, rel=1e-10), name


@pytest.mark.parametrize("labels", ["images", "captions"])
@pytest.mark.parametrize("scores", ["cosine", "inner"])
def test_negatives_are_filtered_by_the_scores_and_labels_asked_for(
    scores: str, labels: str
) -> None:
    given = features()
    image, caption = given["image"] * torch.arange(1, 7).unsqueeze(1), given["caption"] * 0.5
    by = cosine if scores == "cosine" else lambda first, second: float(first @ second)
    filtered = built(
        threshold=0.1, filter_scores=scores, filter_labels=labels
    ).find_false_negatives(image, caption)
    second = caption if labels == "captions" else image
    for drop, rows, others in ((filtered[0], caption, image), (filtered[1], second, caption)):
        alike = [[i != j and by(rows[i], others[j]) > 0.1 for j in range(6)] for i in range(6)]
        assert drop.tolist() == alike


def test_algorithm_1_has_text_on_sentences_and_the_mean_of_the_branches_on_pairs() -> None:
    method, given, h = built(), features(), vectors()
    total, sentences = method.loss(SentenceBatch({}), lambda tokens, views: h)
    assert set(sentences) == {"text"}
    simcse = SimCSE(SimCSE.configure("paper", {"temperature": 0.2}), Dimensions(WIDTH)).double()
    simcse.text_head = method.text_head
    torch.testing.assert_close(total, simcse.loss(SentenceBatch({}), lambda tokens, views: h)[0])
    total, terms = method.loss(PairBatch({}, given), lambda tokens, views: h)
    torch.testing.assert_close(total, (terms["visual"] + terms["textual"]) / 2)
    both = terms_of(built(text_on_pairs=True), given, h)
    torch.testing.assert_close(both, {"text": sentences["text"], **terms})


def test_parts_of_dalr_are_added_on_kdmcses_projections() -> None:
    given, h = features(), vectors()
    plain, more = built(), built(**{"with": "cml+iml"})
    assert {name for name, _ in plain.named_parameters()} == {
        name for name, _ in more.named_parameters()
    }
    before, terms = terms_of(plain, given, h), terms_of(more, given, h)
    assert set(terms) - set(before) == {"cons", "cma", "rank", "ima"}
    torch.testing.assert_close(terms["visual"], before["visual"])
    with torch.no_grad():
        p, v = more.grounding_head(h[:, 0]), more.image_head(given["image"])
        t = more.caption_head(given["caption"])
        z = [more.text_head(h[:, k]) for k in range(2)]
    n = range(6)
    cons = sum(1 - cosine(p[i], v[i]) + max(0.0, cosine(p[i], v[i - 5]) - 0.2) for i in n) / 12
    cma = sum(
        divergence([cosine(t[i], t[j]) for j in n], [cosine(p[i], v[j]) for j in n]) / 2
        + divergence([cosine(v[i], v[j]) for j in n], [cosine(v[i], p[j]) for j in n]) / 2
        for i in n
    )
    ima = sum(
        divergence([cosine(t[i], t[j]) for j in n], [cosine(z[0][i], z[1][j]) for j in n])
        for i in n
    )
    rank = 0.0
    for i in n:
        order = sorted(n, key=lambda j: -cosine(given["caption"][i], given["caption"][j]))
        scores = [math.exp(cosine(z[0][i], z[1][j]) / 0.2) for j in order]
        rank -= sum(math.log(scores[k] / sum(scores[k:])) for k in n)
    for name, value in {"cons": cons, "cma": cma / 6, "rank": rank / 6, "ima": ima / 6}.items():
        assert float(terms[name].detach()) == pytest.approx(value, rel=1e-10), name
    assert [more.weights()[name] for name in ("cons", "cma", "rank", "ima")] == [0.1, 0.1, 0.2, 0.2]
    assert set(terms_of(built(**{"with": "iml"}), given, h)) == {"visual", "textual", "rank", "ima"}


def test_teachers_of_two_widths_are_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="512 wide and the image teacher's 2048; use one teacher"):
        KDMCSE(KDMCSE.configure("paper"), Dimensions(WIDTH, {"image": 2048, "caption": 512}))
    KDMCSE(KDMCSE.configure("official"), Dimensions(WIDTH, {"image": 2048, "caption": 512}))


@pytest.mark.parametrize(
    ("options", "teachers"),
    [
        ({}, ("default", "default")),
        ({"images": "clip"}, ("clip", "clip")),
        ({"images": "clip", "text": "simcse"}, ("clip", "simcse")),
        ({"images": "shuffled"}, ("shuffled", "default")),
    ],
)
def test_the_text_teacher_is_the_images_own_unless_named(
    options: dict[str, str], teachers: tuple[str, str]
) -> None:
    wanted = KDMCSE.features(KDMCSE.configure("paper", options))
    assert (wanted["image"].teacher, wanted["caption"].teacher) == teachers
    assert (wanted["image"].of, wanted["caption"].of) == ("image", "caption")


def test_the_readings_read_their_batches_differently() -> None:
    readings = {reading: KDMCSE.configure(reading) for reading in ("paper", "official")}
    read = {
        name: (KDMCSE.mixing(values), KDMCSE.captions(values)) for name, values in readings.items()
    }
    assert read == {"paper": (every_ceil, "setting"), "official": (by_batches, "all")}


@pytest.mark.parametrize(("rows", "pairs"), [(100, 30), (64, 64), (1000, 33), (7, 2)])
def test_algorithm_1_pairs_when_p_divides_the_step(rows: int, pairs: int) -> None:
    """Steps count from 1 there and from 0 here."""
    p = math.ceil(rows / pairs)
    wanted = [t for t in range(1, 200) if t % p == 0]
    cycle, offset = every_ceil(rows, pairs, 0, 0)
    assert [k + 1 for k in range(199) if k % cycle == offset] == wanted
