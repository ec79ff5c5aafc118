"""Frozen teachers: what each gives, by its definition, whatever the batch; what it refuses; and the
fitted one.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoModel, AutoTokenizer

from harness.corpora.base import Pairs
from harness.encoders import teacher_kinds
from harness.encoders.student import Student
from harness.encoders.teacher_kinds import fit
from harness.encoders.teachers import Teacher, check_vocabulary, open_teacher
from harness.errors import UserError
from harness.registry import list_registered
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyPairs

SENTENCES = ["a", "the big red circle", "a small blue square on the left", "", "the big red circle"]
#: preprocessing of timm/resnet50.tv_in1k in its config.json, which is that of MCSE's extraction
#: script
IMAGENET = {
    **{
        "input_size": [3, 224, 224],
        "crop_pct": 0.875,
        "interpolation": "bilinear",
        "crop_mode": "center",
    },
    **{
        "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225],
        "num_classes": 7,
        "first_conv": "conv1.0",
    },
    "classifier": "fc",
}


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    return ToyPairs(size=200, split="test").load(None)


@pytest.fixture(scope="module")
def clip() -> Teacher:
    return open_teacher("open-clip", clip_folder())


@pytest.fixture(scope="module")
def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return timm.create_model("test_resnet", num_classes=7).eval()


@pytest.fixture(scope="module")
def timm_folder(network: torch.nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as timm's are on the hub, with a classifier of seven classes."""
    folder = tmp_path_factory.mktemp("timm")
    described = {"architecture": "test_resnet", "num_classes": 7, "pretrained_cfg": IMAGENET}
    (folder / "config.json").write_text(json.dumps(described))
    save_file(network.state_dict(), folder / "model.safetensors")
    return folder


def test_clip_captions_find_their_pictures_among_pictures_it_was_not_trained_on(
    clip: Teacher, pairs: Pairs
) -> None:
    images, captions = clip.images(pairs.images), clip.captions(pairs.texts)
    assert images.shape == captions.shape == (200, 64)
    assert images.dtype == captions.dtype == np.float32
    norms = np.linalg.norm(images, axis=1)
    assert norms.std() > 0.1, "the features are not normalised"
    nearest = (captions @ (images.T / norms)).argmax(1) == np.arange(200)
    assert nearest.mean() > 0.9, "chance is 0.005"


def test_clip_takes_images_of_any_size(clip: Teacher, pairs: Pairs) -> None:
    wide = [np.asarray(Image.fromarray(image).resize((96, 64))) for image in pairs.images[:2]]
    features = clip.images([*wide, pairs.images[2]])
    assert features.shape == (3, 64)
    np.testing.assert_allclose(features[2], clip.images(pairs.images[2:3])[0], atol=1e-5)


@pytest.mark.parametrize("pooling", sorted({*list_registered("pooling")} - {"modules"}))
def test_sentence_vectors_are_those_of_a_student(pooling: str) -> None:
    vectors = open_teacher("text", student_folder(), pooling=pooling).captions(SENTENCES)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(
        vectors, Student.load(student_folder(), pooling).embed(SENTENCES), atol=2e-6
    )


def test_sentences_are_cut_at_the_length_given_and_by_clip_at_its_own(clip: Teacher) -> None:
    text = open_teacher("text", student_folder(), max_length=5)
    short = text.captions(["a big red circle on the left", "a big red"])
    np.testing.assert_allclose(short[0], short[1], atol=1e-6)
    longer, longest = clip.captions([" ".join(["red"] * count) for count in (30, 60)])
    np.testing.assert_allclose(longer, longest, atol=1e-6)


def test_tokens_are_the_last_layer_at_all_positions_with_padding() -> None:
    tokenizer, model = (
        AutoTokenizer.from_pretrained(student_folder()),
        AutoModel.from_pretrained(student_folder()),
    )
    vectors = open_teacher("text", student_folder()).tokens(SENTENCES, 6)
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, 6, model.config.hidden_size)
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        ids = tokenizer(sentence)["input_ids"]
        ids = ids if len(ids) <= 6 else [*ids[:5], tokenizer.sep_token_id]
        padded = torch.tensor([ids + [tokenizer.pad_token_id] * (6 - len(ids))])
        mask = torch.arange(6)[None] < len(ids)
        with torch.inference_mode():
            expected = model.eval()(input_ids=padded, attention_mask=mask.long()).last_hidden_state[
                0
            ]
        np.testing.assert_allclose(vector, expected.numpy(), atol=2e-6)


def test_timm_images_go_the_way_of_the_public_code(
    network: torch.nn.Module, timm_folder: Path
) -> None:
    """Shorter side to 256, central 224 x 224, ImageNet moments, the mean over places before the
    classifier.
    """
    random = np.random.default_rng(0)
    images = [
        random.integers(0, 256, (*size, 3), dtype=np.uint8)
        for size in ((300, 400), (280, 260), (224, 224))
    ]
    features = open_teacher("timm", timm_folder).images(images)
    assert features.dtype == np.float32
    mean, std = np.float32(IMAGENET["mean"]), np.float32(IMAGENET["std"])
    for image, feature in zip(images, features, strict=True):
        height, width = image.shape[:2]
        scale = 256 / min(height, width)
        resized = Image.fromarray(image).resize(
            (int(width * scale), int(height * scale)), Image.Resampling.BILINEAR
        )
        left, top = (round((side - 224) / 2) for side in resized.size)
        cropped = (
            np.asarray(resized.crop((left, top, left + 224, top + 224)), dtype=np.float32) / 255
        )
        with torch.inference_mode():
            maps = network.forward_features(
                torch.from_numpy((cropped - mean) / std).permute(2, 0, 1)[None]
            )
        np.testing.assert_allclose(feature, maps[0].mean(dim=(1, 2)).numpy(), atol=1e-5)


def test_features_do_not_depend_on_the_batch(
    clip: Teacher, pairs: Pairs, timm_folder: Path, monkeypatch
) -> None:
    text, images = (
        open_teacher("text", student_folder(), pooling="mean"),
        open_teacher("timm", timm_folder),
    )
    sentences = [*SENTENCES, *pairs.texts[:20]]

    def looked_at() -> list[np.ndarray]:
        return [
            *(
                clip.images(pairs.images[:25]),
                clip.captions(sentences),
                images.images(pairs.images[:5]),
            ),
            *(text.captions(sentences), text.tokens(sentences, 12)),
        ]

    whole = looked_at()
    for size in (1, 3):
        for batch in ("BATCH", "TEXT_BATCH"):
            monkeypatch.setattr(teacher_kinds, batch, size)
        for values, expected in zip(looked_at(), whole, strict=True):
            np.testing.assert_allclose(values, expected, atol=1e-5)


def test_unknown_kinds_and_poolings_and_what_a_kind_has_not_are_refused(
    clip: Teacher, timm_folder: Path
) -> None:
    timm, text, image = (
        open_teacher("timm", timm_folder),
        student_folder(),
        np.zeros((4, 4, 3), np.uint8),
    )
    for ask, message in (
        (lambda: timm.captions(["a"]), "TimmTeacher computes image features, not caption features"),
        (
            lambda: open_teacher("text", text).images([image]),
            "caption and tokens features, not image features",
        ),
        (
            lambda: clip.tokens(["a"], 4),
            "ClipTeacher computes image and caption features, not tokens features",
        ),
        (
            lambda: open_teacher("resnet", text),
            "unknown teacher kind 'resnet'; known: open-clip, text, timm",
        ),
        (
            lambda: open_teacher("text", text, pooling="max"),
            "unknown pooling 'max'; did you mean mean",
        ),
    ):
        with pytest.raises(UserError, match=message):
            ask()


def rewritten(pattern: str, changed: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda folder: [
        path.write_bytes(changed(path.read_bytes())) for path in folder.glob(pattern)
    ]


HARMS = {
    "no weights": lambda folder: next(folder.glob("*.safetensors")).unlink(),
    "cut": rewritten("*.safetensors", lambda content: content[:-100]),
    "unparsable": rewritten("*config.json", lambda content: b"{"),
    "gone": shutil.rmtree,
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", ["open-clip", "timm", "text"])
def test_a_folder_that_cannot_be_read_is_one_line(
    kind: str, harm: str, timm_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "teacher"
    shutil.copytree(
        {"open-clip": clip_folder(), "timm": timm_folder, "text": student_folder()}[kind], folder
    )
    open_teacher(kind, folder)
    HARMS[harm](folder)
    with pytest.raises(
        UserError, match=f"{folder}.* (cannot be read: .*; it needs|is not a valid file)"
    ):
        open_teacher(kind, folder)


def test_one_vocabulary_passes_and_another_names_the_teacher(tmp_path: Path) -> None:
    check_vocabulary(student_folder(), student_folder(), "same")
    other = shutil.copytree(student_folder(), tmp_path / "other")
    described = json.loads((other / "tokenizer.json").read_text())
    words = described["model"]["vocab"]
    first, second = (next(word for word in words if word.startswith(letter)) for letter in "ab")
    words[first], words[second] = words[second], words[first]
    (other / "tokenizer.json").write_text(json.dumps(described))
    with pytest.raises(UserError, match="the student's vocabulary, and other has another"):
        check_vocabulary(student_folder(), other, "other")


def views_of(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two linear views of 6 hidden numbers, beside stronger numbers that the two do not share."""
    random = np.random.default_rng(seed)
    mixing = np.random.default_rng(1)
    hidden = random.normal(size=(count, 6))
    sides = []
    for wide, scale in ((20, 50.0), (30, 0.01)):
        own = 2 * random.normal(size=(count, 4))
        values = np.concatenate([hidden, own], axis=1) @ mixing.normal(size=(10, wide))
        sides.append((scale * (values + mixing.normal(size=wide))).astype(np.float32))
    return sides[0], sides[1]


def test_what_two_views_share_is_found() -> None:
    """A linear map that keeps the hidden numbers alone exists, so nearly all pairs can be
    distinguished.
    """
    of_images, of_captions = fit(
        *views_of(2000), steps=300, batch_size=256, learning_rate=0.01, width=16, dropout=0.0
    )
    images, captions = views_of(400, seed=2)
    first, second = of_images(images), of_captions(captions)
    assert first.shape == second.shape == (400, 16)
    scores = first @ second.T
    for nearest in (scores.argmax(1), scores.argmax(0)):
        assert (nearest == np.arange(400)).mean() > 0.95


def test_a_fit_is_a_function_of_its_seed_and_its_vectors_are_of_length_one() -> None:
    data, state = views_of(200), torch.random.get_rng_state()
    first, again, other = (fit(*data, steps=10, width=8, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(first[0].weight, again[0].weight)
    assert not np.allclose(first[0].weight, other[0].weight)
    for side, features in zip(first, data, strict=True):
        vectors = side(features)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(side(features[3:4]), vectors[3:4], atol=1e-6)


def test_the_loss_is_the_mean_of_both_directions() -> None:
    random = np.random.default_rng(0)
    first, second = (
        v / np.linalg.norm(v, axis=1, keepdims=True) for v in random.normal(size=(2, 5, 3))
    )
    expected = 0.0
    for queries, two in ((first, second), (second, first)):
        for row in range(5):
            scores = [float(np.dot(queries[row], key)) / 0.05 for key in two]
            expected += (np.log(sum(np.exp(score) for score in scores)) - scores[row]) / 10
    loss = teacher_kinds._compute_loss(
        torch.tensor(first), torch.tensor(second), torch.tensor(np.log(20.0))
    )
    assert float(loss) == pytest.approx(expected, rel=1e-9)


def test_moments_are_those_of_all_rows_and_constants_have_deviation_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(teacher_kinds, "CHUNK", 7)
    values = np.random.default_rng(0).normal(5, 3, size=(50, 4)).astype(np.float32)
    values[:, 1], values[:, 2] = 0.1, 0
    values[:, 3] += 1000  # squares of 1e6, of which float32 keeps 0.06
    tower, _ = fit(values, values, steps=1, width=2)
    np.testing.assert_allclose(tower.mean, values.astype(np.float64).mean(0), rtol=1e-6)
    np.testing.assert_allclose(
        tower.spread[[0, 3]], values[:, [0, 3]].astype(np.float64).std(0), rtol=1e-6
    )
    np.testing.assert_array_equal(tower.spread[[1, 2]], 1)


def test_a_fit_needs_pairs() -> None:
    with pytest.raises(UserError, match="at least two pairs"):
        fit(np.ones((1, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match="3 images for 2 captions"):
        fit(np.ones((3, 3)), np.ones((2, 3)))
