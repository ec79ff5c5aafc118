"""One pass with other dropout, places or embeddings: packed, by modules and padded alike."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from cases import mark_others_long
from test_packed import MODELS, PADS, made, rows
from torch import Tensor, nn

from harness.encoders.rows import Packed, TokenRows
from harness.encoders.student import Student
from harness.errors import UserError
from harness.training.stepper import Chunked


def students(name: str, hidden: float = 0.0, attention: float = 0.0) -> tuple[Student, Student]:
    """A student whose rows are packed, and one whose hooks send them by its modules."""
    packed = Student(made(name, hidden, attention), PADS)
    hooked = Student(made(name, hidden, attention), PADS)
    hooked.model.register_forward_hook(lambda module, inputs, output: None)
    hooked.look_again()
    assert packed.packing is not None
    assert hooked.packing is None
    return packed, hooked


def tokens_of(student: Student) -> TokenRows:
    return rows(student.model.config.pad_token_id)


def drawn(student: Student, **changes: Any) -> Tensor:
    torch.manual_seed(1)
    return student.encode(tokens_of(student), 2, **changes)


@pytest.mark.parametrize("name", mark_others_long(MODELS, ["toy"]))
def test_a_rate_of_one_pass_is_that_of_a_model_with_it(name: str) -> None:
    student, _ = students(name, 0.1, 0.1)
    other = Student(made(name, 0.3, 0.3), PADS)
    modes = [module.training for module in student.modules()]
    assert torch.equal(drawn(student, dropout=0.3), drawn(other))
    assert torch.equal(drawn(student, dropout=0), drawn(copy.deepcopy(student).eval()))
    assert not torch.equal(drawn(student), drawn(student, dropout=0))
    assert [module.training for module in student.modules()] == modes
    assert torch.equal(drawn(student), drawn(Student(made(name, 0.1, 0.1), PADS)))
    with pytest.raises(UserError, match="dropout= must be 0 or more and below 1, not 1"):
        student.encode(tokens_of(student), 1, dropout=1)


def turned(packed: Packed) -> Tensor:
    """The places of each row from its end."""
    lengths = packed.offsets.diff()[packed.row_numbers]
    return lengths - 1 - packed.columns


def halved(states: Tensor, packed: Packed) -> Tensor:
    """Every second feature cut off, and the first tokens of the second view's rows."""
    cut = states * (torch.arange(states.shape[1]) % 2)
    is_second_view = packed.row_numbers >= packed.rows // 2
    return cut * ~(is_second_view & (packed.columns == 0)).unsqueeze(1)


@contextmanager
def embeddings_of(model: Any, change: Any) -> Iterator[None]:
    """The oracle: a hook that changes one row without padding."""
    handle = model.embeddings.register_forward_hook(lambda module, given, output: change(output))
    yield
    handle.remove()


@pytest.mark.parametrize("name", MODELS)
def test_places_and_embeddings_are_those_of_each_row_alone(name: str) -> None:
    packed, hooked = students(name)
    tokens = tokens_of(packed)
    both = [
        student.encode(tokens, 2, places=turned, embedded=halved) for student in (packed, hooked)
    ]
    torch.testing.assert_close(both[0], both[1], rtol=0, atol=1e-12)
    plain = made(name).eval()
    first = packed.found.position
    for number, ids in enumerate(tokens.list_ids()):
        for view in (0, 1):

            def change(output: Tensor, view: int = view) -> Tensor:
                cut = output * (torch.arange(output.shape[-1]) % 2)
                cut[:, 0] *= 1 - view
                return cut

            places = torch.arange(len(ids)).flip(0) + first
            with embeddings_of(plain, change):
                alone = plain(torch.tensor([ids]), position_ids=places[None]).last_hidden_state
            torch.testing.assert_close(both[0][number, view], alone[0, 0], rtol=0, atol=1e-12)
    states = packed.states(tokens, 2, places=turned, embedded=halved)
    torch.testing.assert_close(states[:, :, 0], both[0], rtol=0, atol=1e-12)


def test_noise_has_a_gradient_and_pieces_compute_what_the_whole_batch_does() -> None:
    student, _ = students("bert")
    noise: list[Tensor] = []

    def noisy(states: Tensor, packed: Packed) -> Tensor:
        noise.append(torch.zeros_like(states, requires_grad=True))
        return states + noise[-1]

    vectors = drawn(student, embedded=noisy)
    (gradient,) = torch.autograd.grad(vectors.pow(2).sum(), noise)
    assert bool((gradient != 0).any(1).all()), "every token moves the vector of its row"

    def cut(states: Tensor, packed: Packed) -> Tensor:
        return states * (packed.columns % 2).unsqueeze(1)

    found = []
    for encode in (student, Chunked(student, 2)):
        student.zero_grad()
        computed = encode(tokens_of(student), 2, dropout=0, places=turned, embedded=cut)
        computed.pow(2).sum().backward()
        found.append([value.grad for value in student.parameters() if value.grad is not None])
    torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-12)


def test_a_pass_that_is_changed_is_not_compiled() -> None:
    student, _ = students("bert")

    def compiled(inputs: Any, views: int) -> Tensor:
        raise AssertionError("the compiled student")

    encode = Chunked(compiled, None, plain=student)
    assert encode(tokens_of(student), 1, dropout=0.0).shape == (5, 1, 32)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"places": lambda packed: packed.columns + 1}, "returned a place outside of its row"),
        ({"places": lambda packed: packed.offsets}, "returned .* places for 27 tokens"),
        ({"embedded": lambda states, packed: states[:-1]}, r"returned \(26, 32\) for embedded"),
    ],
)
def test_wrong_changes_are_refused(changes: dict[str, Any], why: str) -> None:
    for student in students("bert"):
        with pytest.raises(UserError, match=why):
            student.encode(tokens_of(student), 1, **changes)


def test_an_encoder_whose_rows_cannot_be_packed_is_refused() -> None:
    student, _ = students("bert")
    student.packing = None  # as its trial leaves it
    with pytest.raises(UserError, match="BertModel computes on padding, so places="):
        student.encode(tokens_of(student), 1, places=turned)
    student.attach("pixels", nn.Identity())
    with pytest.raises(UserError, match="images and recordings have none"):
        student.encode({"pixels": torch.zeros(1, 1, 3, 4, 4)}, 1, places=turned)
