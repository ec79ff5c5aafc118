"""Checks of methods on random batches, for `harness check`, this project's tests and those of
plug-ins.

`CHECKS` at the end names each of them.
"""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from harness.encoders.changes import describe_layout, find_changed_part
from harness.errors import UserError
from harness.method.base import Method
from harness.method.interface import Batch, Hyperparameters, MediaBatch, ValueOrigin
from harness.method.lookup import describe_error
from harness.method.samples import (
    HEADS,
    LOSS,
    ROWS,
    TEXTS,
    RandomEncoder,
    RecordedNames,
    batches_without_phrases,
    build,
    build_with,
    compute_loss,
    list_tensors,
    random_batches,
    small_student,
    try_step,
)
from harness.method.short_training import STEPS, ShortTraining
from harness.registry import OWN_SIGNALS, list_registered

if TYPE_CHECKING:
    from harness.encoders.student import Student

SCHEDULED = "scheduled value"


@dataclass(frozen=True)
class CheckResult:
    """One check of a method; it passes if there are no problems."""

    method: str
    check: str
    problems: tuple[str, ...]


def check_all(method: type[Method]) -> Iterator[CheckResult]:
    """Run each check in turn; a check that raises has failed, and its problem names file and line."""
    for name, check in CHECKS.items():
        try:
            problems = tuple(dict.fromkeys(check(method)))
        except OWN_SIGNALS:
            raise
        except BaseException as error:
            problems = (describe_error(error, method.__module__),)
        yield CheckResult(getattr(method, "name", method.__name__), name, problems)


def check_method(method: type[Method]) -> list[str]:
    """Check every reading of a method and return the problems found, one line each.

    Documentation and sources, loss terms as declared and finite, weighted sums, terms left out, a
    valid mixing rule. A method with optional terms is checked without them.
    """
    seen_terms = set[str]()
    of_readings = []
    for reading in method.readings:
        problems = _check_reading(method, reading, seen_terms)
        of_readings += [f"@{reading}: {problem}" for problem in problems]
    return [*_check_declarations(method), *_check_term_names(method, seen_terms), *of_readings]


def _check_declarations(method: type[Method]) -> Iterator[str]:
    """Check a method's documentation, its readings, and the sources of its values."""
    for attribute in ("__doc__", "name", "paper"):
        if not getattr(method, attribute, ""):
            yield f"{attribute} is missing"

    for reading in sorted(method.reading_values.keys() - method.readings.keys()):
        yield f"reading_values has @{reading}, which is not in readings"
    if "paper" not in method.readings:
        yield "readings has no 'paper'"

    origins = {f"the decision on {name}": origin for name, (origin, _) in method.decisions.items()}
    for name, option in sorted(method.Hyperparameters.options().items()):
        if not option.metadata["source"]:
            yield f"the option '{name}' has no source"
        origins[f"the option '{name}'"] = option.metadata["origin"]

    known_origins = (None, *get_args(ValueOrigin))
    for subject, origin in sorted(origins.items()):
        if origin not in known_origins:
            yield f"unknown origin: {subject} has '{origin}'"


def _check_term_names(method: type[Method], seen_terms: set[str]) -> Iterator[str]:
    """Compare the terms that a method declares with those that its losses returned."""
    declared = {*method.terms}
    optional = {*method.optional_terms}
    for name in sorted(optional - declared):
        yield f"the optional term '{name}' is not in terms"
    for name in sorted(declared - optional - seen_terms):
        yield f"the term '{name}' appears in no reading"
    for name in sorted(seen_terms - declared):
        yield f"the term '{name}' is not declared"


def _check_reading(method: type[Method], reading: str, seen_terms: set[str]) -> Iterator[str]:
    """Check the terms of a reading, which are added to `seen_terms`, with its weights and its
    mixing rule.
    """
    built = build(method, method.configure(reading))
    if set(built.weights()) - set(method.terms):
        yield "weights() has terms that are not declared"
    cycle, place = built.mixing(built.hyperparameters)(1000, 100, 50, 5)
    if not 0 <= place < cycle:
        yield f"the mixing rule returns place {place} of a cycle of {cycle}"

    if method.trains:
        for batch in random_batches(built):
            yield from _check_batch(built, batch, seen_terms)
        for batch in batches_without_phrases(built):
            for problem in _check_batch(built, batch, seen_terms):
                yield f"captions without phrases: {problem}"

    if len(method.terms) > 1:
        for term in method.terms:
            without = build(method, method.configure(reading, {"without": term}))
            yield from _check_left_out(built, without, term)


def _check_batch(method: Method, batch: Batch | MediaBatch, seen_terms: set[str]) -> Iterator[str]:
    """Check that a batch has finite terms, and that its loss is their weighted sum."""
    kind = type(batch).__name__
    total, terms = compute_loss(method, batch)
    seen_terms |= set(terms)
    if total is None:
        yield f"{kind} has no loss term"
        return

    for name, value in terms.items():
        if value.ndim or not value.isfinite():
            yield f"the term '{name}' is no finite scalar"

    weights = method.weights()
    weighted = sum(weights.get(name, 1.0) * value for name, value in terms.items())
    if not torch.allclose(total, torch.as_tensor(weighted)):
        yield f"the loss of {kind} is not the weighted sum of its terms"


def _check_left_out(whole: Method, without: Method, term: str) -> Iterator[str]:
    """Check that a term that is left out changes no other term."""
    without.load_state_dict(whole.state_dict())
    for batch in random_batches(whole):
        total, terms = compute_loss(without, batch)
        _, expected = compute_loss(whole, batch)
        expected = {name: value for name, value in expected.items() if name != term}

        if set(terms) != set(expected) or (total is None) != (not terms):
            yield f"without={term} changes which terms {type(batch).__name__} has"
        elif any(not torch.allclose(value, expected[name]) for name, value in terms.items()):
            yield f"without={term} changes the values of other terms"


def _check_answers(method: type[Method], reading: str) -> Iterator[str]:
    """Check what a plan asks a method for."""
    values = method.configure(reading)
    if hasattr(method, "pooling"):
        yield "pooling() is never called; give the value 'pooling' of its Hyperparameters another default"
    if values.pooling not in list_registered("pooling"):
        yield f"the pooling '{values.pooling}' is not registered"
    models = [role for role, feature in method.features(values).items() if feature.of == "model"]
    for name, search in method.neighbours(values).items():
        if search.by not in ("student", *models):
            yield (
                f"the neighbours '{name}' are found by '{search.by}', which is neither 'student' nor "
                "the role of a 'model' in features()"
            )
    method.own_steps(values)
    if method.captions(values) not in ("setting", "all"):
        yield "captions() is neither 'setting' nor 'all'"
    if pickle.loads(pickle.dumps(values)) != values:
        yield "its hyperparameters differ after they were pickled"


def _check_gradients(method: type[Method], reading: str) -> Iterator[str]:
    """Check that each batch gives the encoder a gradient, and each parameter and term has one that
    is not zero.
    """
    built = build(method, method.configure(reading))
    parameters = {
        name: parameter for name, parameter in built.named_parameters() if parameter.requires_grad
    }
    learns = dict[str, bool]()
    for batch in random_batches(built):
        kind = type(batch).__name__
        encode = RandomEncoder()
        total, terms = compute_loss(built, batch, encode)
        for name, term in terms.items():
            has_gradient = _has_gradient(term, [*encode.vectors, *parameters.values()])
            learns[name] = learns.get(name, False) or has_gradient

        if total is not None and total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]
        gradients = [vectors.grad for vectors in encode.vectors if vectors.grad is not None]
        if not any(bool(gradient.any()) for gradient in gradients):
            yield f"the loss of {kind} has no gradient for the encoder"
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            yield f"the gradient of {kind} is not finite"

    stuck = [name for name, does_learn in learns.items() if not does_learn]
    if stuck:
        yield f"the gradient of the term {', '.join(stuck)} is zero, so nothing learns from it"
    unused = [name for name, parameter in parameters.items() if parameter.grad is None]
    if unused:
        yield f"no loss term trains {', '.join(unused)}"


def _has_gradient(term: Tensor, inputs: list[Tensor]) -> bool:
    """Whether a term's gradient at one of the inputs is not zero."""
    if not (term.requires_grad and inputs):
        return False
    gradients = torch.autograd.grad(term, inputs, retain_graph=True, allow_unused=True)
    return any(gradient is not None and bool(gradient.any()) for gradient in gradients)


def _check_repeats(method: type[Method], reading: str) -> Iterator[str]:
    """Check that equal heads and random numbers give an equal loss, and that the batch is not
    modified.
    """
    first = build(method, method.configure(reading))
    second = build(method, method.configure(reading))
    for batch in random_batches(first):
        kind = type(batch).__name__
        before = list_tensors(copy.deepcopy(batch))
        if _differ(first, second, batch):
            yield f"the loss of {kind} differs under the same seed"
        after = list_tensors(batch)
        if len(before) != len(after) or not all(map(torch.equal, before, after)):
            yield f"it changes the {kind} that it is given"

    rows = [[2, row + 5, 3] for row in range(ROWS)]
    changes = [
        first.change_rows(copy.deepcopy(rows), np.random.default_rng(LOSS)) for _ in range(2)
    ]
    if changes[0] != changes[1]:
        yield "change_rows() gives other rows for the same random numbers; draw from `random` alone"

    texts = [first.change_texts(list(TEXTS), np.random.default_rng(LOSS)) for _ in range(2)]
    if texts[0] != texts[1]:
        yield (
            "change_texts() gives other texts for the same random numbers; draw from `random` alone"
        )


def _check_values(method: type[Method]) -> Iterator[str]:
    """Check that what is declared is read or there, in some reading and under some choice of the
    values.
    """
    if not method.trains:
        return

    declared = set[tuple[str, str]]()
    for name, option in method.Hyperparameters.options().items():
        if name not in Hyperparameters.options():
            declared.add(("value", option.name))
    read = set[tuple[str, str]]()
    held = set[str]()
    for values in _list_choices(method):
        with suppress(ValueError, UserError), torch.random.fork_rng(devices=[]):
            built, recorded = _step_with_records(method, _record_reads(values, read))
            for kind, record in recorded:
                declared |= {(kind, name) for name in record}
                read |= {(kind, name) for name in record.read}
            held |= {name.partition(".")[0] for name in built.state_dict()}

    for kind, name in sorted(declared - read):
        yield f"the {kind} '{name.rstrip('_')}' is declared and never read"
    for kind, name in sorted(declared):
        if kind == SCHEDULED and name in method.terms:
            yield f"the {SCHEDULED} '{name}' has the name of a term"
    for name in method.aside:
        if name not in held:
            yield f"aside names {name}, and it has no such module or buffer"


def _step_with_records(
    method: type[Method], values: Any
) -> tuple[Method, list[tuple[str, RecordedNames]]]:
    """Ask a method all that a plan asks, and do a step; return it with what it was handed, by
    kind.
    """
    for ask in (method.features, method.own_steps, method.mixing, method.captions):
        ask(values)
    student = small_student().train()
    built = build_with(student, method, values)
    scheduled = RecordedNames(built.now)
    built.now = scheduled
    batches = random_batches(built)
    try_step(built, 0, batches, student)  # values may be read in hooks on its modules

    recorded = [(SCHEDULED, scheduled)]
    for batch in batches:
        changed = getattr(batch, "changed", None)
        if isinstance(changed, RecordedNames):
            recorded.append(("changed rows", changed))
    return built, recorded


def _list_choices(method: type[Method]) -> Iterator[Any]:
    """The values of each reading, and the same with each option changed in turn."""
    for reading in method.readings:
        values = method.configure(reading)
        yield values
        for name, option in method.Hyperparameters.options().items():
            if name in Hyperparameters.options():  # which the harness reads
                continue
            for alternative in _other_values(
                getattr(values, option.name), option.metadata["choices"]
            ):
                try:
                    changed = replace(values, **{option.name: alternative})
                except (ValueError, UserError):  # a value that is not allowed
                    continue
                yield changed


def _other_values(value: Any, choices: Iterable[Any]) -> list[Any]:
    """Values to try in place of an option's."""
    alternatives = [choice for choice in choices if choice != value]
    if isinstance(value, bool):
        alternatives.append(not value)
    elif value == 0:
        alternatives.append(type(value)(1))
    return alternatives


def _record_reads(values: Any, read: set[tuple[str, str]]) -> Any:
    """The same values in an instance that notes the names of those that are read."""

    def noted(self: object, name: str) -> Any:
        read.add(("value", name))
        return object.__getattribute__(self, name)

    kind = type(values)
    recording = copy.copy(values)
    object.__setattr__(
        recording, "__class__", type(kind.__name__, (kind,), {"__getattribute__": noted})
    )
    return recording


def _check_restored(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a checkpoint taken after a step restores the method completely."""
    saved = build(method, method.configure(reading), HEADS)
    loaded = build(method, method.configure(reading), HEADS + 1)
    try_step(saved, 0, random_batches(saved))
    misfits = saved.misfits(loaded.state_dict())
    if misfits:
        yield from misfits
        return

    loaded.load_state_dict(copy.deepcopy(saved.state_dict()))
    for step in (1, 2):
        if any(_differ(saved, loaded, batch) for batch in random_batches(saved)):
            yield "another loss after its weights were saved and loaded"
        try_step(saved, step, random_batches(saved))
        try_step(loaded, step, random_batches(loaded))


def _differ(one: Method, other: Method, batch: Batch | MediaBatch) -> bool:
    """Whether two methods have different losses on a batch, under the same seed."""
    first, _ = compute_loss(one, batch)
    second, _ = compute_loss(other, batch)
    return first is not None and second is not None and not torch.equal(first, second)


def _check_encoder(method: type[Method], reading: str) -> Iterator[str]:
    """Check that the encoder stays in training mode, and has the modules of its architecture."""
    student = small_student().train()
    layout = describe_layout(student.model)
    built = build_with(student, method, method.configure(reading))
    if part := find_changed_part(layout, student.model):
        yield f"prepare() changes the encoder: {part}; keep modules of your own in the method"
        return
    student.train()
    for step in range(3):
        try_step(built, step, random_batches(built), student)
    if not all(module.training for module in student.modules()):
        yield (
            "a step leaves the encoder in evaluation mode, without dropout; call student.train() "
            "after student.eval()"
        )
    if part := find_changed_part(layout, student.model):
        yield f"a step changes the encoder: {part}; keep modules of your own in the method"


def _check_training(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a training that is stopped in its middle ends like another, and that its model has
    the same vectors after it was saved and loaded.
    """
    values = method.configure(reading)
    training = ShortTraining(method, values, HEADS)
    stopped = ShortTraining(method, values, HEADS)
    again = ShortTraining(method, values, HEADS + 1)
    yield from training.run(0, STEPS)
    yield from stopped.run(0, STEPS // 2)
    if stopped.method.misfits(again.method.state_dict()):
        return  # which the check of checkpoints says

    again.load_state_dict(stopped.state_dict())
    yield from again.run(STEPS // 2, STEPS)
    ends = training.state_dict()["modules"]
    resumed = again.state_dict()["modules"]
    differing = [name for name, value in ends.items() if not torch.equal(value, resumed[name])]
    if differing:
        yield (
            f"a training that was stopped and resumed ends otherwise, such as in "
            f"{differing[-1].partition('.')[2]}; keep what a step changes in buffers, and draw "
            "random numbers from torch or `random` alone"
        )
    # others have no hold of the encoder
    if method.prepare is not Method.prepare or method.after_step is not Method.after_step:
        yield from _check_exported(training.student)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Without warnings, such as that a small student's rows are padded, and without progress bars."""
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar

    logging.disable(logging.WARNING)
    disable_progress_bar()
    try:
        yield
    finally:
        enable_progress_bar()
        logging.disable(logging.NOTSET)


def _check_exported(student: Student) -> Iterator[str]:
    from harness.encoders.student import Student

    with TemporaryDirectory() as folder, _without_warnings():
        student.save(Path(folder))
        loaded = Student.load(Path(folder), student.pooling.name, found=student.found)
        if not np.allclose(loaded.embed(TEXTS), student.embed(TEXTS), atol=1e-5):
            yield (
                "the saved model has other vectors than the trained one: what prepare() or a step "
                "adds to the encoder acts at test too; let hooks act in training only"
            )


def _check_device(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a method stays on the device of its batch, by tensors that have a device but no
    values.
    """
    built = build(method, method.configure(reading))
    with FakeTensorMode(allow_non_fake_inputs=True):
        for module in (built, *_modules_in_tuples(built)):
            module.to("cuda")

        for batch in random_batches(built):
            on_device = {id(tensor): tensor.to("cuda") for tensor in list_tensors(batch)}
            try:
                compute_loss(built, copy.deepcopy(batch, on_device), RandomEncoder("cuda"))
            except (DataDependentOutputException, DynamicOutputShapeException):
                continue  # a shape that depends on values
            except RuntimeError as error:
                # a gradient within a loss asks for a real device
                if "hasPrimaryContext" not in str(error):
                    yield describe_error(error, method.__module__)


def _modules_in_tuples(method: Method) -> Iterator[nn.Module]:
    """Modules that a method holds aside, where its own `to` does not reach them."""
    for value in vars(method).values():
        if isinstance(value, tuple):
            yield from (item for item in value if isinstance(item, nn.Module))


def _in_each_reading(
    check: Callable[[type[Method], str], Iterator[str]],
) -> Callable[[type[Method]], Iterator[str]]:
    def check_readings(method: type[Method]) -> Iterator[str]:
        if not method.trains:
            return
        for reading in method.readings:
            for problem in check(method, reading):
                yield f"@{reading}: {problem}"

    return check_readings


#: name of a check -> the function that yields problems
CHECKS: Mapping[str, Callable[[type[Method]], Iterable[str]]] = {
    "declarations and loss terms": check_method,
    "answers to a plan": _in_each_reading(_check_answers),
    "gradients": _in_each_reading(_check_gradients),
    "values": _check_values,
    "the same under the same seed": _in_each_reading(_check_repeats),
    "checkpoints": _in_each_reading(_check_restored),
    "devices": _in_each_reading(_check_device),
    "the encoder": _in_each_reading(_check_encoder),
    "a short training": _in_each_reading(_check_training),
}
