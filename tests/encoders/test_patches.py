"""Images and spectrograms as sequences for a text encoder's layers."""

from __future__ import annotations

from pathlib import Path

import open_clip
import pytest
import torch
from transformers import T5Config, T5Model, ViTConfig, ViTModel

from harness.encoders.patches import AudioPatches, ImagePatches, forward_media
from harness.encoders.student import Student
from harness.errors import UserError
from harness.spec import find_fresh_size
from harness.toy import clip_folder, student_folder


def test_it_is_the_embedding_layer_of_a_vit_of_transformers(tmp_path: Path) -> None:
    sizes = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "image_size": 32,
        "patch_size": 8,
    }
    model = ViTModel(ViTConfig(num_hidden_layers=1, **sizes)).eval()
    model.embeddings.position_embeddings.data.normal_()
    model.save_pretrained(tmp_path)
    pixels = torch.randn(3, 3, 32, 32)
    torch.testing.assert_close(
        ImagePatches.load(tmp_path, 64)(pixels), model.embeddings(pixels), atol=1e-6, rtol=0
    )


def test_it_is_the_embedding_of_the_toy_clip() -> None:
    model, *_ = open_clip.create_model_and_transforms(f"local-dir:{clip_folder()}")
    pixels = torch.randn(2, 3, 32, 32)
    tower = model.visual
    patches = tower.conv1(pixels).flatten(2).transpose(1, 2)
    token = tower.class_embedding.expand(2, 1, -1)
    expected = torch.cat([token, patches], 1) + tower.positional_embedding
    torch.testing.assert_close(
        ImagePatches.load(clip_folder(), 64)(pixels), expected, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize(
    ("folder", "width", "message"),
    [
        (clip_folder(), 96, "is 64 wide and the encoder 96; .*patches=NAME"),
        (student_folder(), 64, "no ViT patch"),
    ],
)
def test_no_matching_embedding_is_one_line(folder: Path, width: int, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ImagePatches.load(folder, width)


def test_images_of_another_size_are_refused_with_the_right_one() -> None:
    patches = ImagePatches.load(clip_folder(), 64)
    for height, width in ((64, 64), (35, 35), (16, 64), (32, 35)):
        with pytest.raises(
            UserError,
            match=f"images of {height} x {width} pixels .* made for 32 x 32; give the corpus size = 32",
        ):
            patches(torch.randn(1, 3, height, width))


def test_an_utterance_is_the_papers_211_vectors() -> None:
    """NonLing section 3.4: 1,024 frames of 128 bins; 42 x 5 patches of 24 and a class token."""
    for positions, extra in ((True, 211 * 768), (False, 0)):
        patches = AudioPatches(768, 1024, 128, 24, positions=positions)
        assert patches(torch.randn(1, 1024, 128)).shape == (1, 211, 768)
        assert sum(p.numel() for p in patches.parameters()) == 768 * 24 * 24 + 2 * 768 + extra
    with pytest.raises(UserError, match="give a smaller patch_size"):
        AudioPatches(8, 48, 16, 24, positions=True)


def test_positions_are_added() -> None:
    patches, spectrogram = AudioPatches(8, 6, 4, 2, positions=True), torch.randn(1, 6, 4)
    placed, positions = patches(spectrogram), patches.positions
    patches.positions = None
    torch.testing.assert_close(placed, patches(spectrogram) + positions)


def test_a_patch_is_the_convolution_of_its_own_frames_and_bins() -> None:
    patches = AudioPatches(8, 6, 4, 2, positions=False)
    spectrogram = torch.randn(1, 6, 4)
    embedded = patches(spectrogram)[0, 1:].view(2, 3, 8)
    for bins in range(2):
        for frames in range(3):
            cut = spectrogram[0, 2 * frames : 2 * frames + 2, 2 * bins : 2 * bins + 2].T
            expected = (patches.projection.weight[:, 0] * cut).sum((1, 2)) + patches.projection.bias
            torch.testing.assert_close(embedded[bins, frames], expected)


def test_the_layers_read_a_sequence_as_they_read_text() -> None:
    """The text's own embeddings, fed to the layers, give what the text gives."""
    student = Student.load(student_folder()).eval()
    tokens = student.tokenize(["the plain red circle at the left by noon"], 32)
    embedded = student.model.embeddings(tokens["input_ids"])
    expected = student.model(**tokens).last_hidden_state[:, 0]
    for layers in ((), student.packing.layers):
        torch.testing.assert_close(
            forward_media(student.model, embedded, layers), expected, atol=1e-5, rtol=0
        )


def test_two_views_of_a_recording_differ_by_dropout_alone() -> None:
    student = Student.load(student_folder())
    student.attach("spectrograms", AudioPatches(64, 8, 8, 4, positions=True))
    inputs = {"spectrograms": torch.randn(2, 8, 8)}
    for training in (True, False):
        views = student.train(training).encode(inputs, 2)
        assert torch.allclose(views[:, 0], views[:, 1], atol=1e-5) is not training


def test_an_encoder_without_such_layers_is_refused() -> None:
    t5 = T5Model(T5Config(vocab_size=9, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2))
    for model in (torch.nn.Linear(8, 8), t5):
        with pytest.raises(UserError, match="use a BERT or RoBERTa encoder"):
            forward_media(model, torch.zeros(1, 2, 8))


def test_a_fresh_embedding_tiles_the_images_and_depends_on_the_seed_alone() -> None:
    assert [
        find_fresh_size(name) for name in ("fresh-4", "fresh-", "fresh", "vit-base", "fresh-b16")
    ] == [4, *[None] * 4]
    made = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        made.append(ImagePatches.create(12, 32, 8))
    assert made[0](torch.zeros(2, 3, 32, 32)).shape == (2, 1 + 16, 12)
    states = [torch.cat([value.flatten() for value in each.state_dict().values()]) for each in made]
    assert torch.equal(states[0], states[1])
    assert not torch.equal(states[0], states[2])
    assert made[0].projection.weight.std().item() == pytest.approx(0.02, rel=0.2)
    with pytest.raises(UserError, match="patches of 5 x 5 do not tile images of 32 x 32"):
        ImagePatches.create(12, 32, 5)
