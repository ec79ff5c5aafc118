"""The training loop: what it refuses, resuming, the best model, loss curves and dev scores."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cases import mark_others_long
from faults_tools import KilledError, flip
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode
from toy_trainers import stopped_and_resumed

from harness.corpora.tokens import Tokens, get_tokens
from harness.encoders.patches import ImagePatches
from harness.encoders.student import Student
from harness.events import Event, listen_in
from harness.files import CHECKSUMS, DamagedError, seal_folder
from harness.method import Dimensions, Method
from harness.profiles import Training
from harness.registry import get
from harness.runs.train import find_unreturned_terms
from harness.toy import clip_folder, student_folder
from harness.toy.corpora import ToyImages, ToySentences
from harness.training import trainer as trainer_module
from harness.training.folder import TrainingFolder
from harness.training.record import LossWindow, TrainingError, TrainingRecord
from harness.training.streams import Batches, TrainingData
from harness.training.trainer import Trainer
from harness.work.failures import describe_error

IMAGES = {"images": ToyImages(size=30).load(None)}
TRAINING = Training(steps=6, eval_every=3, batch_size=8, learning_rate=1e-3)


def sentences(student: Student) -> dict[str, Tokens]:
    source = ToySentences(size=40)
    file = get_tokens(
        source.fingerprint(None), lambda: source.texts(None), student.tokenizer, TRAINING.max_length
    )
    return {"sentences": Tokens([file], student.tokenizer.pad_token_id)}


def stopped_at(step: int, training: Trainer) -> None:
    """Run a training up to a step."""

    def stop(event: Event) -> None:
        if event.progress and event.progress.step >= step:
            raise KilledError

    with listen_in("", stop), pytest.raises(KilledError):
        training.run()


def trainer(folder: Path, **options: object) -> Trainer:
    """A trainer on sentences and images."""
    method = get("method", "visualcse")
    values = {"image_batch_size": 8, "image_learning_rate": 1e-3, **options}
    return trainer_of(folder, method, method.configure("paper", values))


def text_trainer(folder: Path, **options: object) -> Trainer:
    """A trainer on sentences alone, which is quicker."""
    method = get("method", "simcse")
    return trainer_of(folder, method, method.configure("paper", options))


def trainer_of(folder: Path, method_class: type[Method], values: Any) -> Trainer:
    rates = values.dropout, values.attention_dropout
    student = Student.load(student_folder(), values.pooling, own_head=False, rates=rates)
    torch.manual_seed(0)
    method = method_class(values, Dimensions(student.width, {"image": 4, "caption": 4}))
    media = IMAGES if method.own_steps(values) else {}
    if media:
        student.attach("pixels", ImagePatches.load(clip_folder(), student.width))

    def dev(embed: Callable[[Sequence[str]], np.ndarray]) -> float:
        return float(embed(["the plain red circle at the left by noon"]).sum())

    data = TrainingData(sentences(student), media=media)
    return Trainer(student, method, data, TRAINING, seed=0, setting="toy", dev=dev, folder=folder)


def scores_by_step(training: Trainer, score: Callable[[int], float]) -> None:
    """Give a training its dev scores by their number, and its saved model the one that is kept."""

    def dev(embed: object) -> float:
        record = training.record
        if record.dev_steps and record.dev_steps[-1] == TRAINING.steps:
            assert record.kept_score is not None
            return record.kept_score
        return score(len(record.dev_steps) + 1)

    training.dev = dev


def weights(training: Trainer) -> dict[str, torch.Tensor]:
    return {**training.student.state_dict(), **training.method.state_dict()}


def assert_same(training: Trainer, other: Trainer) -> None:
    """Two trainings ended with the same weights by the same curves, bit for bit."""
    torch.testing.assert_close(weights(training), weights(other), rtol=0, atol=0)
    assert (training.record.losses, training.record.dev_scores) == (
        other.record.losses,
        other.record.dev_scores,
    )


@pytest.mark.parametrize("after", mark_others_long([2, 3, 6], [2, 6]))
def test_a_training_that_is_asked_to_stop_saves_its_step_and_ends_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Between two points of the loss curve and two dev scores, at one, and after the last step."""
    monkeypatch.setattr(trainer_module, "CURVE_POINTS", 2)
    whole = trainer(tmp_path / "whole")
    whole.run()
    assert_same(stopped_and_resumed(lambda: trainer(tmp_path / "parts"), after), whole)


def test_the_weights_of_the_last_step_are_scored_where_these_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dev score falls from the first, so that the best weights are others; also after a stop."""
    monkeypatch.setitem(globals(), "TRAINING", TRAINING.model_copy(update={"checkpoint": "last"}))
    last: list[dict[str, torch.Tensor]] = []

    def falling(folder: str) -> Trainer:
        training = text_trainer(tmp_path / folder)

        def score(step: int) -> float:
            last.append({name: value.clone() for name, value in weights(training).items()})
            return -float(step)

        scores_by_step(training, score)
        return training

    whole = falling("whole")
    record = whole.run()
    assert (record.kept_step, record.kept_score) == (TRAINING.steps, record.dev_scores[-1])
    assert record.kept_score < record.dev_scores[0]
    torch.testing.assert_close(weights(whole), last[-1], rtol=0, atol=0)
    assert_same(stopped_and_resumed(lambda: falling("parts"), 4), whole)


@pytest.mark.long  # compiling takes a minute
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_a_compiled_training_computes_the_same_and_resumes_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dropout: float
) -> None:
    values = {"pooling": "mean", "dropout": dropout, "attention_dropout": dropout}
    plain = text_trainer(tmp_path / "plain", **values)
    plain.run()
    monkeypatch.setitem(globals(), "TRAINING", TRAINING.model_copy(update={"compile": True}))
    whole = text_trainer(tmp_path / "whole", **values)
    whole.run()
    if dropout == 0:  # compiled dropout draws other numbers
        assert whole.record.losses["text"] == pytest.approx(plain.record.losses["text"], rel=1e-4)
        # these scores are near 0
        assert whole.record.dev_scores == pytest.approx(plain.record.dev_scores, abs=1e-4)
    assert whole.record.losses != plain.record.losses, "not compiled"
    assert_same(stopped_and_resumed(lambda: text_trainer(tmp_path / "parts", **values), 4), whole)


def test_a_resumed_training_is_compiled_as_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a machine that would choose otherwise."""
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda student, dynamic: compiled.append(1) or student)
    monkeypatch.setattr("harness.training.trainer.choose_compiled", lambda *given: True)
    first = text_trainer(tmp_path)
    assert compiled
    first.folder.save(first.state.state_dict(0))

    monkeypatch.setattr("harness.training.trainer.choose_compiled", lambda *given: False)
    second = text_trainer(tmp_path)
    assert not second.record.compiled
    compiled.clear()
    second.run()
    assert compiled
    assert second.record.compiled


@pytest.mark.parametrize(
    "pooling", mark_others_long(["mean", "last", "avg-first-last"], ["avg-first-last"])
)
def test_any_pooling_and_dropout_is_trained_and_resumed_bit_for_bit(
    tmp_path: Path, pooling: str
) -> None:
    values = {"pooling": pooling, "dropout": 0.2, "attention_dropout": 0.0}
    whole = text_trainer(tmp_path / "whole", **values)
    assert {layer.chances for layer in whole.student.packing.layers} == {(0.0, 0.2, 0.2)}
    whole.run()
    assert_same(stopped_and_resumed(lambda: text_trainer(tmp_path / "parts", **values), 4), whole)
    other = text_trainer(tmp_path / "cls")
    other.run()
    assert other.record.losses != whole.record.losses


@pytest.mark.parametrize(("left_out", "moved"), [("", True), ("visual", False)])
def test_the_image_loss_moves_the_patches_and_without_it_they_stay(
    tmp_path: Path, left_out: str, moved: bool
) -> None:
    before = ImagePatches.load(clip_folder(), 64).projection.weight
    training = trainer(tmp_path, without=left_out)
    training.run()
    assert torch.equal(training.student.patches["pixels"].projection.weight, before) is not moved
    assert ("visual" in training.record.losses) is moved


def test_a_training_without_a_loss_term_or_with_a_weight_of_an_undeclared_one_is_refused(
    tmp_path: Path,
) -> None:
    """KDMCSE's other terms need an option or pairs: on sentences alone nothing is left."""
    method = get("method", "kdmcse")
    empty = trainer_of(tmp_path, method, method.configure("paper", {"without": "text"}))
    with pytest.raises(TrainingError, match="'without' leaves out too much"):
        empty.run()
    undeclared = text_trainer(tmp_path)
    undeclared.method.weights = lambda: {"txt": 0.1}
    with pytest.raises(
        TrainingError, match=r"'simcse' .* weighs the term 'txt', which it does not declare"
    ):
        undeclared.run()


@pytest.mark.parametrize(
    ("terms", "at", "said"),
    [
        ({"text": 1.0}, 1, "at step 1; no update came before it, so the rate is not the cause"),
        (
            {"text": 1.0, "mlm": 1.0},
            3,
            "the term 'text' is finite there, so the rate is not the cause",
        ),
        ({"text": 1.0}, 3, "at step 3; lower the learning rate, or look for a root"),
    ],
)
def test_a_term_that_is_not_finite_is_named_with_its_cause(
    tmp_path: Path, terms: dict[str, float], at: int, said: str
) -> None:
    training = text_trainer(tmp_path)
    loss, broken, steps = training.method.loss, list(terms)[-1], iter(range(1, 1000))

    def spoilt(*given: Any) -> Any:
        total, named = loss(*given)
        bad = float("nan") if next(steps) == at else 1.0
        named = {**dict.fromkeys(terms, named["text"]), broken: named["text"] * bad}
        return total * bad, named

    training.method.loss = spoilt  # type: ignore[method-assign]
    with pytest.raises(TrainingError, match=said):
        training.run()


def test_an_error_of_a_method_has_its_step_and_a_term_never_returned_is_a_warning(
    tmp_path: Path,
) -> None:
    training = text_trainer(tmp_path)
    method, batches = training.method, training.batches
    assert [*find_unreturned_terms(method, batches, TrainingRecord(losses={"text": []}))] == []
    (line,) = find_unreturned_terms(method, batches, TrainingRecord(losses={"mlm": []}))
    assert re.match(
        r"no batch had the term 'text', which the method 'simcse' \(simcse.py, line \d+\) declares",
        line,
    )
    method.after_step = lambda student, step: {}["queue"]
    with pytest.raises(KeyError) as raised:
        training.run()
    assert describe_error(raised.value).startswith(
        "KeyError: 'queue', at step 1 of the method 'simcse' ("
    )


def test_a_buffer_that_grows_is_refused_before_anything_is_saved(tmp_path: Path) -> None:
    """No later process could load its checkpoint."""
    growing = text_trainer(tmp_path)
    loss = growing.method.loss

    def grow(*given: Any) -> Any:
        past = getattr(growing.method, "past", torch.zeros(0))
        growing.method.register_buffer("past", torch.cat([past, torch.ones(3)]))
        return loss(*given)

    growing.method.loss = grow  # type: ignore[method-assign]
    with pytest.raises(
        TrainingError, match="cannot be saved and loaded: buffer 'past' is not there all the time"
    ):
        growing.run()
    assert not growing.folder.list_checkpoints()


def test_a_best_model_that_does_not_fit_is_refused_and_a_pooler_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is loaded of a file with one wrong weight."""
    training, folder = text_trainer(tmp_path), TrainingFolder(tmp_path)
    training.run()
    file = folder.best / "model.safetensors"

    def put(weights: dict[str, torch.Tensor]) -> None:
        save_file(weights, str(file))
        (folder.best / CHECKSUMS).unlink()
        seal_folder(folder.best)

    weights = {
        name: weight.clone() for name, weight in load_file(str(file)).items()
    }  # not mapped: it is rewritten
    put({**weights, "pooler.dense.weight": torch.zeros(2, 2)})
    folder.load_best(training.student, training.method)
    name = "encoder.layer.0.output.dense.weight"
    others = {key: value for key, value in weights.items() if key != name}
    monkeypatch.setattr(
        torch.nn.Module, "load_state_dict", lambda *args, **kwargs: pytest.fail("loaded")
    )
    for changed, problem in (
        (others, "no weight"),
        ({**weights, "extra": torch.zeros(1)}, "an unexpected weight extra"),
        ({**others, name: weights[name][:3]}, rf"weight {name} has the shape \(3,"),
    ):
        put(changed)
        with pytest.raises(DamagedError, match=problem):
            folder.load_best(training.student, training.method)


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Score and save a checkpoint after each step."""
    monkeypatch.setattr(trainer_module, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(
        sys.modules[__name__], "TRAINING", TRAINING.model_copy(update={"eval_every": 1})
    )


def shorten(path: Path) -> None:
    """Drop a row of the first weight of a checkpoint, which is named as a whole one is."""
    state = torch.load(path, weights_only=True)
    name = next(iter(state["student"]))
    state["student"][name] = state["student"][name][:-1]
    path.unlink()
    TrainingFolder(path.parent).save(state)


@pytest.mark.parametrize(
    ("steps", "best", "spoilt", "starts", "words"),
    [
        pytest.param(4, 4, [0], 3, ["using the previous checkpoint"], id="current"),
        pytest.param(
            4, 4, [0, 1], 0, ["using the previous checkpoint", "training starts again"], id="both"
        ),
        pytest.param(4, 4, ["best"], 4, ["saved again"], id="best-of-this-step"),
        pytest.param(
            *(4, 3, ["best"], 3, ["using the previous checkpoint"]),
            id="best-of-the-step-before",
            marks=pytest.mark.long,
        ),
        pytest.param(
            5, 3, ["best"], 0, ["using the previous checkpoint"], id="best-of-an-earlier-step"
        ),
        pytest.param(
            *(4, 4, ["shape"], 3, ["using the previous checkpoint"]),
            id="another-shape",
            marks=pytest.mark.long,
        ),
    ],
)
@pytest.mark.usefixtures("every_step")
def test_a_training_goes_on_from_what_is_whole_and_ends_the_same(
    tmp_path: Path,
    caplog,
    steps: int,
    best: int,
    spoilt: list[int | str],
    starts: int,
    words: list[str],
) -> None:
    """A checkpoint after each step, of which `best` has the best model, and a process that ends
    after `steps`.
    """

    def of_step(folder: Path) -> Trainer:
        training = text_trainer(folder)
        scores_by_step(training, lambda step: -abs(step - best))
        return training

    whole = of_step(tmp_path / "whole")
    whole.run()
    folder = tmp_path / "parts"
    stopped_at(steps, of_step(folder))
    kept = TrainingFolder(folder).list_checkpoints()
    for what in spoilt:
        if what == "shape":
            shorten(kept[0])
        else:
            flip(folder / "best" / "model.safetensors" if what == "best" else kept[int(what)], 0.5)
    again = of_step(folder)
    again.run()
    assert again.first == starts
    assert all(word in line for word, line in zip(words, caplog.messages, strict=True)), caplog.text
    assert len(list(folder.glob("*.damaged"))) == len(spoilt)
    assert_same(again, whole)


@pytest.mark.usefixtures("every_step")
def test_steps_that_go_another_way_after_a_damaged_checkpoint_keep_the_best_before_it(
    tmp_path: Path,
) -> None:
    """As on a GPU, where a repeated step differs in its last bits: step 4 was the best, and is not
    when repeated.
    """
    second: list[dict[str, torch.Tensor]] = []

    def scored(scores: dict[int, float]) -> Trainer:
        training = text_trainer(tmp_path)

        def score(step: int) -> float:
            if step == 2:
                second.append({name: value.clone() for name, value in weights(training).items()})
            return scores[step]

        scores_by_step(training, score)
        return training

    stopped_at(4, scored({1: 0.0, 2: 2.0, 3: 1.0, 4: 3.0}))
    flip(TrainingFolder(tmp_path).list_checkpoints()[0], 0.5)
    again = scored({4: 1.0, 5: 1.0, 6: 1.0})
    record = again.run()
    assert (again.first, record.kept_score, record.kept_step) == (3, 2.0, 2)
    torch.testing.assert_close(weights(again), second[0], rtol=0, atol=0)
    assert TrainingFolder(tmp_path).has_ended
    assert {path.name for path in tmp_path.iterdir() if path.suffix != ".damaged"} == {
        "best",
        "trained.json",
    }


def test_checkpoints_are_saved_with_a_better_model_after_a_while_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved: list[int] = []
    monkeypatch.setattr(TrainingFolder, "save", lambda folder, state: saved.append(state["step"]))
    monkeypatch.setattr(
        sys.modules[__name__], "TRAINING", TRAINING.model_copy(update={"eval_every": 1, "steps": 8})
    )
    now = [0.0]
    monkeypatch.setattr(trainer_module.time, "monotonic", lambda: now[0])
    training = text_trainer(tmp_path)

    def score(step: int) -> float:
        now[0] += 61.0 if step == 5 else 1.0
        return -abs(step - 2)

    scores_by_step(training, score)
    training.run()
    assert saved == [1, 2, 5, 8], "better at 1 and 2, a minute later at 5, the end at 8"


def test_the_share_of_time_waited_for_images_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training, seen = trainer(tmp_path), list[Event]()
    monkeypatch.setattr(Batches, "waited", property(lambda batches: training.record.seconds / 4))
    with listen_in("", seen.append):
        training.run()
    assert [event.progress.waited for event in seen if event.progress] == pytest.approx(
        [0.25] * len(seen)
    )


def test_a_window_averages_each_term_over_the_batches_that_had_it_and_is_read_in_one_piece() -> (
    None
):
    """Each number that is read by itself would wait for an accelerator once more."""
    window = LossWindow()
    window.add(
        {
            "text": torch.tensor(1.0, requires_grad=True),
            "info": torch.tensor(4.0, dtype=torch.bfloat16),
        }
    )
    window.add({"text": torch.tensor(2.0)})
    with Reads() as reads:
        assert window.close() == {"text": 1.5, "info": 4.0}
    assert reads.count == 0
    assert window.close() == {}


class Reads(TorchDispatchMode):
    """Counts the single numbers that are read of tensors."""

    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is torch.ops.aten._local_scalar_dense.default
        return func(*args, **(kwargs or {}))


def test_a_term_that_appears_later_or_not_again_leaves_gaps_and_the_best_step_is_the_first_of_its_score() -> (
    None
):
    record = TrainingRecord()
    record.add_losses(10, {"text": 1.0})
    record.add_losses(20, {"text": 0.5, "info": 3.0})
    record.add_losses(30, {"info": 2.0})
    assert record.loss_steps == [10, 20, 30]
    assert record.losses == {"text": [1.0, 0.5, None], "info": [None, 3.0, 2.0]}
    assert (record.kept_score, record.kept_step) == (None, None)
    for step, score in ((5, 1.0), (10, 3.0), (15, 3.0), (20, 2.0)):
        record.add_dev(step, score)
    assert (record.kept_score, record.kept_step) == (3.0, 10)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_training(value: float) -> None:
    with pytest.raises(
        TrainingError,
        match=r"the loss term .info. is (nan|inf) by step 20; lower the learning rate",
    ):
        TrainingRecord().add_losses(20, {"info": value})
