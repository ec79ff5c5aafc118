"""Operations of encoders by formula, against torch's counter over both passes of the modules."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    AlbertConfig,
    AlbertModel,
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
)

from harness.encoders.flops import count_token_flops, count_training_flops
from harness.encoders.patches import ImagePatches
from harness.encoders.student import Student
from harness.toy import student_folder

SIZES = {
    "hidden_size": 16,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 48,
}
CONFIGS = {
    BertModel: BertConfig(vocab_size=500, **SIZES),
    # its two groups of layers are used twice
    AlbertModel: AlbertConfig(vocab_size=500, embedding_size=16, num_hidden_groups=2, **SIZES),
    DistilBertModel: DistilBertConfig(vocab_size=500, dim=16, n_layers=4, n_heads=2, hidden_dim=48),
}


def counted(student: Student, inputs: dict[str, torch.Tensor], views: int) -> int:
    """The operations of both passes that torch counts."""
    with FlopCounterMode(display=False) as counter:
        student.encode(inputs, views).sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_formula_counts_what_torch_counts(kind: type) -> None:
    tokenizer = Student.load(student_folder()).tokenizer
    model = kind(CONFIGS[kind])
    model.pooler = torch.nn.Identity()  # as a loaded student
    if kind is AlbertModel:
        model.encoder.embedding_hidden_mapping_in = (
            torch.nn.Identity()
        )  # once a token, not once a layer
    model.set_attn_implementation("eager")
    student = Student(model, tokenizer)
    student.packing = None  # the modules, which torch can count
    rows = torch.randint(5, 400, (3, 7))
    inputs = {"input_ids": rows, "attention_mask": torch.ones_like(rows)}
    flops = count_training_flops(student, count_token_flops(student), inputs, 2)
    assert flops == pytest.approx(counted(student, inputs, 2), rel=1e-9)


def test_rows_count_without_padding_and_images_by_patches() -> None:
    student = Student.load(student_folder())
    long, short = (
        student.tokenize(["a dog runs over the grass"], 32),
        student.tokenize(["a dog"], 32),
    )
    both = student.tokenize(["a dog runs over the grass", "a dog"], 32)
    apart = [
        count_training_flops(student, count_token_flops(student), rows, 1) for rows in (long, short)
    ]
    assert count_training_flops(student, count_token_flops(student), both, 1) == sum(apart)
    student.attach("pixels", ImagePatches.create(student.width, 32, 8))
    pixels = {"pixels": torch.randn(3, 2, 3, 32, 32)}
    student.packing = None
    student.model.set_attn_implementation("eager")
    found = count_training_flops(student, count_token_flops(student), pixels, 2)
    assert found == pytest.approx(counted(student, pixels, 2), rel=1e-9)
