"""Checks of methods on random batches, for `harness check`, this project's tests and those of
plug-ins.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import logging
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)

from harness.encoders.changes import changed_part, layout_of
from harness.encoders.embedded import ChangeEmbedded, EmbeddingChange, PlaceTokens
from harness.encoders.poolings import pooling_named
from harness.encoders.rows import Packed, TokenRows
from harness.errors import UserError
from harness.files import expand
from harness.method.base import Method
from harness.method.interface import (
    Batch,
    Dimensions,
    Encode,
    Hyperparameters,
    MediaBatch,
    PairBatch,
    SentenceBatch,
    TripletBatch,
    ValueOrigin,
    Vocabulary,
)
from harness.registry import OWN, OWN_SIGNALS, get_class, names, raised_at, target
from harness.spec import Stream, Variant
from harness.tomlfiles import read_content

if TYPE_CHECKING:
    from harness.encoders.student import Student

#: seeds of the heads, and of the random numbers of a loss
HEADS = 1
LOSS = 2
ROWS = 6
WIDTH = 8
LENGTH = 5
STEPS = 4
WORDS = 32
SCHEDULED = "scheduled value"
#: the texts of a random batch, of words that the small student knows
TEXTS = tuple(f"{row} {row + 1} {row + 2}" for row in range(ROWS))


@dataclass(frozen=True)
class Checked:
    """One check of a method; it passes if there are no problems."""

    method: str
    check: str
    problems: tuple[str, ...]


def methods_in(what: str) -> list[type[Method]]:
    """The methods of a package, its folder, a module, a MODULE:CLASS or a Python file; a folder
    need not be installed.

    The registered methods, else those defined there. Raises UserError if there are none or an
    import fails.
    """
    place, colon, name = what.partition(":")
    registered = [
        each
        for each in names("method")
        if _package(target("method", each).partition(":")[0]) == place
    ]
    if registered and not colon:
        return [get_class("method", each, Method) for each in registered]
    if not colon and (expand(place) / "pyproject.toml").is_file():
        return [method for each in _declared(expand(place)) for method in methods_in(each)]
    there = [
        each
        for each in vars(_imported(place)).values()
        if inspect.isclass(each) and issubclass(each, Method)
    ]
    own = (
        each
        for each in there
        if _package(each.__module__) not in OWN and not inspect.isabstract(each)
    )
    methods = [each for each in there if each.__name__ == name] if colon else [*own]
    if not methods:
        lacking = f"class {name} derived" if colon else "class derived"
        raise UserError(
            f"{place} has no {lacking} from harness.method.Method; name the module that defines the method"
        )
    return list(dict.fromkeys(methods))


def variants_in(what: str) -> list[type[Method]]:
    """The methods of a name or of `methods_in`, with values as in `mcse[lambda=1]`. Raises
    UserError.
    """
    given = re.fullmatch(r"([^\[@]+)((?:\[.*\])?(?:@\w+)?)", what)
    name, added = (
        (what, "") if given is None or Path(what).expanduser().exists() else given.groups()
    )
    methods = [get_class("method", name, Method)] if name in names("method") else methods_in(name)
    variant = Variant.parse(f"x{added}")
    return (
        [_with(method, replace(variant, name=method.name)) for method in methods]
        if added
        else methods
    )


def _with(method: type[Method], variant: Variant) -> type[Method]:
    """A method with the values of a variant in place of its defaults, which may leave out terms.
    Raises UserError.
    """
    values = dict(variant.options)
    method.configure(variant.reading, values)
    configure = classmethod(
        lambda cls, reading, *layers: method.configure(reading, values, *layers)
    )
    own = {"configure": configure, "optional_terms": method.terms, "name": str(variant)}
    return type(
        method.__name__,
        (method,),
        {**own, "__doc__": method.__doc__, "__module__": method.__module__},
    )


def check_all(method: type[Method]) -> Iterator[Checked]:
    """Run each check in turn; a check that raises has failed, and its problem names file and line."""
    for check, problems in CHECKS.items():
        try:
            reported = tuple(dict.fromkeys(problems(method)))
        except OWN_SIGNALS:
            raise
        except BaseException as error:
            reported = (_raised(error, method.__module__),)
        yield Checked(getattr(method, "name", method.__name__), check, reported)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _declared(folder: Path) -> list[str]:
    """The MODULE:CLASS of each method that a package's folder declares, made importable. Raises
    UserError for none.
    """
    try:
        content: Any = read_content(folder / "pyproject.toml", "project")
        declared = [*content["project"]["entry-points"]["harness.methods"].values()]
        if not "".join(declared):
            raise KeyError
    except (KeyError, TypeError, AttributeError):
        where = '[project.entry-points."harness.methods"]'
        raise UserError(
            f"{folder}/pyproject.toml declares no method; add the table {where}"
        ) from None
    sys.path[:0] = [str(path.resolve()) for path in (folder / "src", folder) if path.is_dir()]
    return declared


def _imported(name: str) -> ModuleType:
    """A module by its name, or a Python file, whose folder becomes importable. Raises UserError."""
    path = expand(name)
    if is_file := path.suffix == ".py":
        if not path.is_file():
            raise UserError(
                f"there is no file {name}; give a Python file, a package or MODULE:CLASS"
            )
        sys.path.insert(0, str(path.resolve().parent))
        sys.modules.pop(path.stem, None)
        importlib.invalidate_caches()
    module = path.stem if is_file else name
    try:
        return importlib.import_module(module)
    except (UserError, *OWN_SIGNALS):
        raise
    except BaseException as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == _package(module)
        advice = (
            "give its folder or file, or install it: `pip install -e FOLDER`"
            if absent
            else "fix it"
        )
        raise UserError(f"{name} cannot be imported: {_raised(error, module)}; {advice}") from error


def _raised(error: BaseException, module: str) -> str:
    """An error in a line, with the last line of a module's package in its traceback."""
    where = raised_at(error, {_package(module)})
    return " ".join(f"{type(error).__name__}: {error}".split()) + (f" ({where})" if where else "")


def check_method(method: type[Method]) -> list[str]:
    """Check every reading of a method and return the problems found, one line each.

    Documentation and sources, loss terms as declared and finite, weighted sums, terms left out, a
    valid mixing rule. A method with optional terms is checked without them.
    """
    options = {
        f"the option '{name}'": item.metadata
        for name, item in method.Hyperparameters.options().items()
    }
    origins = {what: metadata["origin"] for what, metadata in options.items()}
    origins |= {f"the decision on {name}": origin for name, (origin, _) in method.decisions.items()}
    known = (None, *get_args(ValueOrigin))
    seen = set[str]()
    in_readings = [
        f"@{reading}: {line}"
        for reading in method.readings
        for line in _checked(method, reading, seen)
    ]
    declared = {*method.terms}
    optional = {*method.optional_terms}
    told: dict[str, Iterable[str]] = {
        "{} is missing": [
            name for name in ("__doc__", "name", "paper") if not getattr(method, name, "")
        ],
        "reading_values has @{}, which is not in readings": method.reading_values.keys()
        - method.readings.keys(),
        "readings has no '{}'": {"paper"} - method.readings.keys(),
        "{} has no source": [what for what, metadata in options.items() if not metadata["source"]],
        "unknown origin: {}": [
            f"{what} has '{each}'" for what, each in origins.items() if each not in known
        ],
        "the optional term '{}' is not in terms": optional - declared,
        "the term '{}' appears in no reading": declared - optional - seen,
        "the term '{}' is not declared": seen - declared,
    }
    return [
        problem.format(name) for problem, having in told.items() for name in sorted(having)
    ] + in_readings


def build(method: type[Method], hyperparameters: Any, seed: int = HEADS) -> Method:
    """A method with features and encoder of width 8, prepared with a small student where it asks
    for one.
    """
    return build_with(None, method, hyperparameters, seed)


def build_with(
    student: Student | None, method: type[Method], hyperparameters: Any, seed: int = HEADS
) -> Method:
    """The same, prepared with a student that is given."""
    wanted = method.features(hyperparameters)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        built = method(hyperparameters, Dimensions(WIDTH, dict.fromkeys(wanted, WIDTH)))
        if method.prepare is not Method.prepare:
            models = {
                role: small_student() for role, feature in wanted.items() if feature.of == "model"
            }
            student = student or small_student()
            built.prepare(student, Vocabulary.of(student.tokenizer, LENGTH), models)
    built.now = built.scheduled(0.5)
    return built


def small_student() -> Student:
    """A student with random weights, always the same, of one layer, width 8 and 32 tokens."""
    from transformers import BertConfig, BertModel, BertTokenizer

    from harness.encoders.student import Student
    from harness.encoders.trial import TrialFindings

    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    tokenizer = BertTokenizer(
        vocab={word: number for number, word in enumerate((*marks, *map(str, range(27))))}
    )
    sizes = {
        "vocab_size": WORDS,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "max_position_embeddings": 64,
    }
    logging.disable(logging.WARNING)  # that its rows are padded
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(HEADS)
            model = BertModel(
                BertConfig(hidden_size=WIDTH, intermediate_size=WIDTH, **sizes),
                add_pooling_layer=False,
            )
            student = Student(model, tokenizer, found=TrialFindings())
            # padded rows can be computed without values, for which a packed pass has to look
            student.unpacked = "it is a student of checks"
            return student
    finally:
        logging.disable(logging.NOTSET)


def random_batches(method: Method) -> list[Batch | MediaBatch]:
    """A random batch of each stream of a method, of six rows."""
    rows = [
        [2, *range(5 + row, 5 + row + (1 if row % 2 else LENGTH - 2)), 3] for row in range(ROWS)
    ]
    changed_rows = method.change_rows(rows, np.random.default_rng(LOSS))
    more: dict[str, Any] = {"texts": TEXTS} if method.uses_texts() else {}
    changed = {name: dict(TokenRows.listed(each, 0)) for name, each in changed_rows.items()}
    if changed_texts := method.change_texts(list(TEXTS), np.random.default_rng(LOSS)):
        student = small_student()
        changed |= {
            name: dict(student.tokenize(sentences, LENGTH))
            for name, sentences in changed_texts.items()
        }
    more["changed"] = Recorded(changed)
    shapes = {"image": (ROWS, WIDTH), "caption": (ROWS, WIDTH), "tokens": (ROWS, LENGTH + 2, WIDTH)}
    asked = method.features(method.hyperparameters).items()
    features = {
        role: torch.randn(shapes[feature.of]) for role, feature in asked if feature.of != "model"
    }
    tokens = dict(TokenRows.listed(rows, 0))
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    batches: dict[Stream, Batch | MediaBatch] = {
        "sentences": SentenceBatch(tokens, **more),
        "pairs": PairBatch(tokens, features, **more),
        "triplets": TripletBatch(tokens, **more),
        "images": MediaBatch({"pixels": torch.randn(ROWS, 2, 3, 4, 4)}, labels),
        "audio": MediaBatch({"spectrograms": torch.randn(ROWS, 9, 4)}, labels),
    }
    return [batches[stream] for stream in method.streams]


class Recorded(dict[str, Any]):
    """A dict that knows which of its names were `read`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class Drawn:
    """An `Encode` that draws random vectors; `vectors` has them, `views` the most views of a
    sentence asked for.
    """

    def __init__(self, device: str = "cpu") -> None:
        self.device = device
        self.views = 1
        self.vectors: list[Tensor] = []

    def __call__(
        self,
        inputs: Mapping[str, Tensor],
        views: int,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        self.views = max(self.views, views if "attention_mask" in inputs else 1)
        vectors = self._drawn(len(next(iter(inputs.values()))), views, WIDTH)
        if places or embedded:
            vectors = vectors + self._changed(inputs, views, places, embedded).mean(2)
        return vectors

    def states(
        self,
        inputs: Mapping[str, Tensor],
        views: int = 1,
        *,
        dropout: float | None = None,
        places: PlaceTokens | None = None,
        embedded: ChangeEmbedded | None = None,
    ) -> Tensor:
        rows, length = inputs["attention_mask"].shape
        states = self._drawn(rows, views, length, WIDTH)
        if places or embedded:
            states = states + self._changed(inputs, views, places, embedded)
        return states

    def _changed(
        self,
        inputs: Mapping[str, Tensor],
        views: int,
        places: PlaceTokens | None,
        embedded: ChangeEmbedded | None,
    ) -> Tensor:
        """Random embeddings, changed: (B, views, L, d). Padding counts as tokens, so that nothing
        depends on values.
        """
        rows, length = inputs["attention_mask"].shape
        count = views * rows * length
        everything = torch.arange(count, device=self.device)
        starts = torch.arange(0, count + 1, length, device=self.device)
        packed = Packed(
            inputs["input_ids"].flatten().repeat(views),
            everything % length,
            everything,
            starts.to(torch.int32),
            length,
            length,
        )
        change = EmbeddingChange(places, embedded)
        change.positions(packed.columns, packed)
        states = change.states(torch.randn(count, WIDTH, device=self.device), packed)
        return states.view(views, rows, length, WIDTH).transpose(0, 1)

    def _drawn(self, *shape: int) -> Tensor:
        self.vectors.append(torch.randn(shape, device=self.device, requires_grad=True))
        return self.vectors[-1]


def text_views(method: type[Method], hyperparameters: Any) -> int:
    """The most views of a sentence that a method asks its encoder for; 1 if it cannot be tried on
    random batches.
    """
    encode = Drawn()
    with torch.random.fork_rng(devices=[]), suppress(Exception):
        built = build(method, hyperparameters)
        for batch in random_batches(built):
            built.loss(batch, encode)
    return encode.views


def _checked(method: type[Method], reading: str, seen: set[str]) -> Iterator[str]:
    """Check the terms of a reading, whose names become `seen`, with its weights and its mixing
    rule.
    """
    built = build(method, method.configure(reading))
    if set(built.weights()) - set(method.terms):
        yield "weights() has terms that are not declared"
    cycle, pairs_at = built.mixing(built.hyperparameters)(1000, 100, 50, 5)
    if not 0 <= pairs_at < cycle:
        yield f"the mixing rule returns place {pairs_at} of a cycle of {cycle}"
    for batch in random_batches(built) if method.trains else ():
        total, terms = loss_of(built, batch)
        seen |= set(terms)
        if total is None:
            yield f"{type(batch).__name__} has no loss term"
            continue
        odd = (name for name, value in terms.items() if value.ndim or not value.isfinite())
        yield from (f"the term '{name}' is no finite scalar" for name in odd)
        weighted = sum(built.weights().get(name, 1.0) * value for name, value in terms.items())
        if not torch.allclose(total, torch.as_tensor(weighted)):
            yield f"the loss of {type(batch).__name__} is not the weighted sum of its terms"
    for name in method.terms if len(method.terms) > 1 else ():
        yield from _without(
            built, build(method, method.configure(reading, {"without": name})), name
        )


def _without(whole: Method, less: Method, term: str) -> Iterator[str]:
    less.load_state_dict(whole.state_dict())
    for batch in random_batches(whole):
        total, rest = loss_of(less, batch)
        terms = {name: value for name, value in loss_of(whole, batch)[1].items() if name != term}
        if set(rest) != set(terms) or (total is None) != (not rest):
            yield f"without={term} changes which terms {type(batch).__name__} has"
        elif any(not torch.allclose(value, terms[name]) for name, value in rest.items()):
            yield f"without={term} changes the values of other terms"


def _answers(method: type[Method], reading: str) -> Iterator[str]:
    values = method.configure(reading)
    if hasattr(method, "pooling"):
        yield "pooling() is never called; give the value 'pooling' of its Hyperparameters another default"
    if values.pooling not in names("pooling"):
        yield f"the pooling '{values.pooling}' is not registered"
    method.features(values)
    method.own_steps(values)
    if method.captions(values) not in ("setting", "all"):
        yield "captions() is neither 'setting' nor 'all'"
    if pickle.loads(pickle.dumps(values)) != values:
        yield "its hyperparameters differ after they were pickled"


def _gradients(method: type[Method], reading: str) -> Iterator[str]:
    """Check that each batch gives the encoder a gradient, and each parameter and term has one that
    is not zero.
    """
    built = build(method, method.configure(reading))
    moving = dict[str, bool]()
    parameters = {name: each for name, each in built.named_parameters() if each.requires_grad}
    for batch in random_batches(built):
        encode = Drawn()
        what = type(batch).__name__
        total, terms = loss_of(built, batch, encode)
        for name, term in terms.items():
            wanted = [*encode.vectors, *parameters.values()] if term.requires_grad else []
            found = (
                torch.autograd.grad(term, wanted, retain_graph=True, allow_unused=True)
                if wanted
                else ()
            )
            moving[name] = moving.get(name, False) or any(
                each is not None and bool(each.any()) for each in found
            )
        if total is not None and total.requires_grad:
            total.backward()  # type: ignore[no-untyped-call]
        gradients = [vector.grad for vector in encode.vectors if vector.grad is not None]
        if not any(bool(each.any()) for each in gradients):
            yield f"the loss of {what} has no gradient for the encoder"
        if not all(bool(each.isfinite().all()) for each in gradients):
            yield f"the gradient of {what} is not finite"
    if stuck := [name for name, moves in moving.items() if not moves]:
        yield f"the gradient of the term {', '.join(stuck)} is zero, so nothing learns from it"
    if unused := [name for name, parameter in parameters.items() if parameter.grad is None]:
        yield f"no loss term trains {', '.join(unused)}"


def _repeats(method: type[Method], reading: str) -> Iterator[str]:
    """Check that equal heads and random numbers give an equal loss, and that the batch is not
    modified.
    """
    built, again = (build(method, method.configure(reading)) for _ in range(2))
    for batch in random_batches(built):
        before = _tensors(copy.deepcopy(batch))
        if _differ(built, again, batch):
            yield f"the loss of {type(batch).__name__} differs under the same seed"
        after = _tensors(batch)
        if len(before) != len(after) or not all(map(torch.equal, before, after)):
            yield f"it changes the {type(batch).__name__} that it is given"
    rows = [[2, row + 5, 3] for row in range(ROWS)]
    changes = [
        built.change_rows(copy.deepcopy(rows), np.random.default_rng(LOSS)) for _ in range(2)
    ]
    if changes[0] != changes[1]:
        yield "change_rows() gives other rows for the same random numbers; draw from `random` alone"
    texts = [built.change_texts(list(TEXTS), np.random.default_rng(LOSS)) for _ in range(2)]
    if texts[0] != texts[1]:
        yield (
            "change_texts() gives other texts for the same random numbers; draw from `random` alone"
        )


def _tensors(value: Any) -> list[Tensor]:
    """The tensors of a batch, in order."""
    parts = value if isinstance(value, Mapping) else getattr(value, "__dict__", {})
    return (
        [value]
        if isinstance(value, Tensor)
        else [one for each in parts.values() for one in _tensors(each)]
    )


def _values_are_read(method: type[Method]) -> Iterator[str]:
    """Check that what is declared is read or there, in some reading and under some choice of the
    values.
    """
    items = method.Hyperparameters.options().values()
    common = Hyperparameters.options().values()
    declared = {("value", item.name) for item in items} - {("value", item.name) for item in common}
    read = set[tuple[str, str]]()
    held = set[str]()
    for values in _choices(method):
        with suppress(ValueError, UserError), torch.random.fork_rng(devices=[]):
            asked = _recording(values, read)
            for answer in (method.features, method.own_steps, method.mixing, method.captions):
                answer(asked)
            student = small_student().train()
            built = build_with(student, method, asked)
            built.now = now = Recorded(built.now)
            batches = random_batches(built)
            _step(built, 0, batches, student)  # values may be read in hooks on its modules
            changed = (
                given
                for batch in batches
                if isinstance(given := getattr(batch, "changed", None), Recorded)
            )
            for what, given in ((SCHEDULED, now), *(("changed rows", each) for each in changed)):
                declared |= {(what, name) for name in given}
                read |= {(what, name) for name in given.read}
            held |= {name.partition(".")[0] for name in built.state_dict()}
    twice = {name for what, name in declared if what == SCHEDULED} & {*method.terms}
    yield from (
        f"the {what} '{name.rstrip('_')}' is declared and never read"
        for what, name in sorted(declared - read)
    )
    yield from (f"the {SCHEDULED} '{name}' has the name of a term" for name in twice)
    yield from (
        f"aside names {name}, and it has no such module or buffer"
        for name in method.aside
        if name not in held
    )


def _choices(method: type[Method]) -> Iterator[Any]:
    """The values of each reading, and the same with each option changed in turn."""
    for reading in method.readings:
        values = method.configure(reading)
        yield values
        for item in method.Hyperparameters.options().values():
            own = getattr(values, item.name)
            others = [each for each in item.metadata["choices"] if each != own]
            others += [not own] if isinstance(own, bool) else [type(own)(1)] if own == 0 else []
            for other in others:
                try:
                    changed = replace(values, **{item.name: other})
                except (ValueError, UserError):  # a value that is not allowed
                    continue
                yield changed


def _recording(values: Any, read: set[tuple[str, str]]) -> Any:
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


def _is_restored(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a checkpoint taken after a step restores the method completely."""
    built, again = (build(method, method.configure(reading), seed) for seed in (HEADS, HEADS + 1))
    _step(built, 0, random_batches(built))
    if misfits := built.misfits(again.state_dict()):
        yield from misfits
        return
    again.load_state_dict(copy.deepcopy(built.state_dict()))
    for step in (1, 2):
        if any(_differ(built, again, batch) for batch in random_batches(built)):
            yield "another loss after its weights were saved and loaded"
        for each in (built, again):
            _step(each, step, random_batches(each))


def _differ(built: Method, again: Method, batch: Batch | MediaBatch) -> bool:
    """Whether two methods have different losses on a batch, under the same seed."""
    first, _ = loss_of(built, batch)
    second, _ = loss_of(again, batch)
    return first is not None and second is not None and not torch.equal(first, second)


def _step(
    built: Method,
    step: int,
    batches: Iterable[Batch | MediaBatch],
    student: Student | None = None,
) -> None:
    """The losses of a step, and what follows an update; texts are encoded by the student, or are
    random vectors without one.
    """
    for batch in batches:
        encode = None if isinstance(batch, MediaBatch) else student
        loss_of(built, batch, encode, seed=LOSS + step)
    if type(built).after_step is not Method.after_step:
        with torch.no_grad():
            built.after_step(student or small_student(), step)


def _keeps_the_encoder(method: type[Method], reading: str) -> Iterator[str]:
    """Check that the encoder stays in training mode, and has the modules of its architecture."""
    student = small_student().train()
    layout = layout_of(student.model)
    built = build_with(student, method, method.configure(reading))
    if part := changed_part(layout, student.model):
        yield f"prepare() changes the encoder: {part}; keep modules of your own in the method"
        return
    student.train()
    for step in range(3):
        _step(built, step, random_batches(built), student)
    if not all(module.training for module in student.modules()):
        yield (
            "a step leaves the encoder in evaluation mode, without dropout; call student.train() "
            "after student.eval()"
        )
    if part := changed_part(layout, student.model):
        yield f"a step changes the encoder: {part}; keep modules of your own in the method"


class _ShortTraining:
    """A training of the small student, with dropout, on random batches; media have random vectors."""

    def __init__(self, method: type[Method], values: Any, seed: int) -> None:
        self.student = small_student().train()
        self.student.pooling = pooling_named(values.pooling)
        self.method = build_with(self.student, method, values, seed).train()
        if self.student.pooling.head:
            self.student.read_through(self.method.test_head())
        self._modules = nn.ModuleList([self.student, self.method])
        moving = [each for each in self._modules.parameters() if each.requires_grad]
        self._optimizer = torch.optim.AdamW(moving, lr=1e-3)

    def run(self, first: int, end: int) -> Iterator[str]:
        """Train, and yield which parameters a loss needs that no optimizer moves."""
        for step in range(first, end):
            self.method.now = self.method.scheduled(step / STEPS)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(LOSS + step)
                batches = random_batches(self.method)
            for batch in batches:
                encode = None if isinstance(batch, MediaBatch) else self.student
                total, _ = loss_of(self.method, batch, encode, seed=LOSS + step)
                if total is not None and total.requires_grad:
                    yield from self._outside(total)
                    self._optimizer.zero_grad()
                    total.backward()  # type: ignore[no-untyped-call]
                    self._optimizer.step()
            with torch.no_grad():
                self.method.after_step(self.student, step)

    def _outside(self, total: Tensor) -> Iterator[str]:
        known = {id(parameter) for parameter in self._modules.parameters()}
        for leaf in _leaves(total):
            if isinstance(leaf, nn.Parameter) and id(leaf) not in known:
                yield (
                    f"a loss needs a parameter of shape {tuple(leaf.shape)} that no update reaches: "
                    "its module is no attribute of the method; set it as one in __init__ or prepare"
                )

    def state(self) -> dict[str, Any]:
        """What a checkpoint has."""
        state = {
            "modules": self._modules.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }
        return copy.deepcopy(state)

    def load(self, state: dict[str, Any]) -> None:
        self._modules.load_state_dict(state["modules"])
        self._optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))


def _leaves(total: Tensor) -> Iterator[Tensor]:
    """The tensors whose gradients a loss has."""
    pending = [total.grad_fn]
    seen = set(pending)
    while pending:
        node = pending.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
        for before, _ in node.next_functions if node is not None else ():
            if before is not None and before not in seen:
                seen.add(before)
                pending.append(before)


def _trains(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a training that is stopped in its middle ends like another, and that its model has
    the same vectors after it was saved and loaded.
    """
    values = method.configure(reading)
    whole = _ShortTraining(method, values, HEADS)
    stopped = _ShortTraining(method, values, HEADS)
    again = _ShortTraining(method, values, HEADS + 1)
    yield from whole.run(0, STEPS)
    yield from stopped.run(0, STEPS // 2)
    if stopped.method.misfits(again.method.state_dict()):
        return  # which the check of checkpoints says

    again.load(stopped.state())
    yield from again.run(STEPS // 2, STEPS)
    ends = whole.state()["modules"]
    resumed = again.state()["modules"]
    differing = [name for name, value in ends.items() if not torch.equal(value, resumed[name])]
    if differing:
        yield (
            f"a training that was stopped and resumed ends otherwise, such as in "
            f"{differing[-1].partition('.')[2]}; keep what a step changes in buffers, and draw "
            "random numbers from torch or `random` alone"
        )
    # others have no hold of the encoder
    if method.prepare is not Method.prepare or method.after_step is not Method.after_step:
        yield from _is_exported(whole.student)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings, such as that a small student's rows are padded, and without progress bars."""
    from transformers.utils.logging import disable_progress_bar, enable_progress_bar

    logging.disable(logging.WARNING)
    disable_progress_bar()
    try:
        yield
    finally:
        enable_progress_bar()
        logging.disable(logging.NOTSET)


def _is_exported(student: Student) -> Iterator[str]:
    from harness.encoders.student import Student

    with TemporaryDirectory() as folder, _quiet():
        student.save(Path(folder))
        loaded = Student.load(Path(folder), student.pooling.name, found=student.found)
        if not np.allclose(loaded.embed(TEXTS), student.embed(TEXTS), atol=1e-5):
            yield (
                "the saved model has other vectors than the trained one: what prepare() or a step "
                "adds to the encoder acts at test too; let hooks act in training only"
            )


def _moves(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a method stays on the device of its batch, by tensors that have a device but no
    values.
    """
    there = build(method, method.configure(reading))
    with FakeTensorMode(allow_non_fake_inputs=True):
        held = (
            each for value in vars(there).values() if isinstance(value, tuple) for each in value
        )
        for module in (there, *(each for each in held if isinstance(each, nn.Module))):
            module.to("cuda")
        for batch in random_batches(there):
            moved = copy.deepcopy(batch, {id(each): each.to("cuda") for each in _tensors(batch)})
            try:
                loss_of(there, moved, Drawn("cuda"))
            except (DataDependentOutputException, DynamicOutputShapeException):
                continue  # a shape that depends on values
            except RuntimeError as error:
                # a gradient within a loss asks for a real device
                if "hasPrimaryContext" not in str(error):
                    yield _raised(error, method.__module__)


def loss_of(
    method: Method, batch: Batch | MediaBatch, encode: Encode | None = None, seed: int = LOSS
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The loss of a batch under a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return method.loss(batch, encode or Drawn())


def _in_each_reading(
    check: Callable[[type[Method], str], Iterator[str]],
) -> Callable[[type[Method]], Iterator[str]]:
    def checked(method: type[Method]) -> Iterator[str]:
        for reading in method.readings if method.trains else ():
            yield from (f"@{reading}: {problem}" for problem in check(method, reading))

    return checked


#: name of a check -> the function that yields problems
CHECKS: Mapping[str, Callable[[type[Method]], Iterable[str]]] = {
    "declarations and loss terms": check_method,
    "answers to a plan": _in_each_reading(_answers),
    "gradients": _in_each_reading(_gradients),
    "values": lambda method: _values_are_read(method) if method.trains else (),
    "the same under the same seed": _in_each_reading(_repeats),
    "checkpoints": _in_each_reading(_is_restored),
    "devices": _in_each_reading(_moves),
    "the encoder": _in_each_reading(_keeps_the_encoder),
    "a short training": _in_each_reading(_trains),
}
