"""Checks of methods on random batches, for `harness check`, this project's tests and those of plug-ins."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import logging
import pickle
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from harness.errors import UserError
from harness.files import expand
from harness.method.base import Method
from harness.method.declared import method_named
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
from harness.registry import OWN, OWN_SIGNALS, names, target
from harness.spec import Stream, Variant
from harness.tomlfiles import toml_content

if TYPE_CHECKING:
    from harness.encoders.student import Student

#: seeds of the heads, and of the random numbers of a loss
HEADS, LOSS = 1, 2
ROWS, WIDTH, LENGTH, WORDS = 6, 8, 5, 32


@dataclass(frozen=True)
class Checked:
    """One check of a method; it passes if there are no problems."""

    method: str
    check: str
    problems: tuple[str, ...]


def methods_in(what: str) -> list[type[Method]]:
    """The methods of a package, its folder, a module, a MODULE:CLASS or a Python file; a folder need not be installed.

    The registered methods, else those defined there. Raises UserError if there are none or an import fails.
    """
    module_name, colon, name = what.partition(":")
    registered = [
        each for each in names("method") if target("method", each).partition(":")[0].split(".")[0] == module_name
    ]
    if registered and not colon:
        return [method_named(each) for each in registered]
    folder = expand(module_name)
    if not colon and (folder / "pyproject.toml").is_file():
        return [method for each in _declared(folder) for method in methods_in(each)]
    module = _imported(module_name)
    methods = [value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, Method)]
    if colon:
        methods = [method for method in methods if method.__name__ == name]
    else:
        methods = [
            method
            for method in methods
            if method.__module__.partition(".")[0] not in OWN and not inspect.isabstract(method)
        ]
    if not methods:
        lacking = (
            f"class {name} derived from harness.method.Method" if colon else "class derived from harness.method.Method"
        )
        raise UserError(f"{module_name} has no {lacking}; name the module that defines the method")
    return list(dict.fromkeys(methods))


def variants_in(what: str) -> list[type[Method]]:
    """The methods of a name or of `methods_in`, with values as in `mcse[lambda=1]`. Raises UserError."""
    given = re.fullmatch(r"([^\[@]+)((?:\[.*\])?(?:@\w+)?)", what)
    name, added = (what, "") if given is None or Path(what).expanduser().exists() else given.groups()
    methods = [method_named(name)] if name in names("method") else methods_in(name)
    variant = Variant.parse(f"x{added}")
    return [_with(method, replace(variant, name=method.name)) for method in methods] if added else methods


def _with(method: type[Method], variant: Variant) -> type[Method]:
    """A method with the values of a variant in place of its defaults, which may leave out terms. Raises UserError."""
    values = dict(variant.options)
    method.configure(variant.reading, values)
    configure = classmethod(lambda cls, reading, *layers: method.configure(reading, values, *layers))
    own = {"configure": configure, "optional_terms": method.terms, "__doc__": method.__doc__, "name": str(variant)}
    return type(method.__name__, (method,), own)


def check_all(method: type[Method]) -> Iterator[Checked]:
    """Run each check in turn; a check that raises has failed, and its problem names file and line."""
    name = getattr(method, "name", method.__name__)
    for check, problems in CHECKS.items():
        try:
            reported = tuple(dict.fromkeys(problems(method)))
        except OWN_SIGNALS:
            raise
        except BaseException as error:
            reported = (_raised(error),)
        yield Checked(name, check, reported)


def _declared(folder: Path) -> list[str]:
    """The MODULE:CLASS of each method that a package's folder declares, made importable. Raises UserError for none."""
    project = toml_content(folder / "pyproject.toml", "project").get("project", {})
    declared = project.get("entry-points", {}).get("harness.methods", {}) if isinstance(project, dict) else {}
    if (
        not isinstance(declared, dict)
        or not declared
        or not all(isinstance(object_path, str) for object_path in declared.values())
    ):
        where = '[project.entry-points."harness.methods"]'
        raise UserError(f"{folder}/pyproject.toml declares no method; add the table {where}")
    sys.path[:0] = [str(path.resolve()) for path in (folder / "src", folder) if path.is_dir()]
    return list(declared.values())


def _imported(name: str) -> ModuleType:
    path = expand(name)
    try:
        return _module(name, path)
    except (UserError, *OWN_SIGNALS):
        raise
    except BaseException as error:
        raise UserError(f"{name} cannot be imported: {_raised(error)}; {_help(name, error)}") from error


def _help(name: str, error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
        return "give its folder or file, or install it: `pip install -e FOLDER`"
    return "fix it, or give another name"


def _module(name: str, path: Path) -> ModuleType:
    if path.suffix != ".py":
        return importlib.import_module(name)
    if not path.is_file():
        raise UserError(f"there is no file {name}; give a Python file, a package or MODULE:CLASS")
    spec = importlib.util.spec_from_file_location(path.stem, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    return module


def _raised(error: BaseException) -> str:
    """Describe an error with the last line outside this project and its libraries in its traceback."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    own = Path(__file__).resolve().parents[1]
    outside = [frame for frame in frames if not Path(frame.filename).is_relative_to(own)]
    lines = [f" ({Path(frame.filename).name}, line {frame.lineno})" for frame in (*outside, *frames[-1:])]
    last = lines[len(outside) - 1 if outside else 0] if lines else ""
    return " ".join(f"{type(error).__name__}: {error}".split()) + last


def check_method(method: type[Method]) -> list[str]:
    """Check every reading of a method and return the problems found, one line each.

    Documentation and sources, loss terms as declared and finite, weighted sums, terms left out, a valid mixing rule. A
    method with optional terms is checked without them.
    """
    problems = [f"{name} is missing" for name in ("__doc__", "name", "paper") if not getattr(method, name, "")]
    unknown = set(method.reading_values) - set(method.readings)
    problems += [f"reading_values has @{name}, which is not in readings" for name in sorted(unknown)]
    if "paper" not in method.readings:
        problems.append("readings has no 'paper'")
    options = method.Hyperparameters.options()
    problems += [f"the option '{name}' has no source" for name, item in options.items() if not item.metadata["source"]]
    origins = {f"the option '{name}'": item.metadata["origin"] for name, item in options.items()}
    origins |= {f"the decision on {name}": origin for name, (origin, _) in method.decisions.items()}
    problems += [
        f"{what} has an unknown origin '{origin}'"
        for what, origin in origins.items()
        if origin not in (None, *get_args(ValueOrigin))
    ]
    terms: set[str] = set()
    for reading in method.readings:
        seen, more = _checked(method, reading)
        terms |= seen
        problems += [f"@{reading}: {problem}" for problem in more]
    declared, optional = set(method.terms), set(method.optional_terms)
    problems += [f"the optional term '{name}' is not in terms" for name in sorted(optional - declared)]
    problems += [f"the term '{name}' appears in no reading" for name in sorted(declared - optional - terms)]
    problems += [f"the term '{name}' is not declared" for name in sorted(terms - declared)]
    return problems


def build(method: type[Method], reading: str = "paper", options: Mapping[str, Any] | None = None) -> Method:
    """A method with features and encoder of width 8, prepared with a small student where it asks for one."""
    return _built_of(method, method.configure(reading, options or {}))


def _built_of(method: type[Method], hyperparameters: Any) -> Method:
    wanted = method.features(hyperparameters)
    built = method(hyperparameters, Dimensions(WIDTH, dict.fromkeys(wanted, WIDTH)))
    if method.prepare is not Method.prepare:
        models = {role: small_student() for role, feature in wanted.items() if feature.of == "model"}
        student = small_student()
        built.prepare(student, Vocabulary.of(student.tokenizer, LENGTH), models)
    built.now = built.scheduled(0.5)
    return built


def small_student() -> Student:
    """A student with random weights, always the same, of one layer, width 8 and 32 tokens."""
    from tokenizers import Tokenizer, models
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    from harness.encoders.student import Student
    from harness.encoders.trial import TrialFindings

    marks = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    words = models.WordLevel({word: number for number, word in enumerate((*marks, *map(str, range(27))))}, "[UNK]")
    named = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), marks, strict=True))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **named)
    sizes = {"vocab_size": WORDS, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64}
    logging.disable(logging.WARNING)  # that its rows are padded
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(HEADS)
            model = BertModel(BertConfig(hidden_size=WIDTH, intermediate_size=WIDTH, **sizes), add_pooling_layer=False)
            return Student(model, tokenizer, found=TrialFindings())
    finally:
        logging.disable(logging.NOTSET)


def random_batches(method: Method) -> list[Batch | MediaBatch]:
    """A random batch of each stream of a method, of six rows."""
    rows = [[2, *range(5 + row, 5 + row + (1 if row % 2 else LENGTH - 2)), 3] for row in range(ROWS)]
    tokens = _padded(rows)
    changed = method.change_rows(rows, np.random.default_rng(LOSS))
    more: dict[str, Any] = {"changed": Recorded({name: _padded(each) for name, each in changed.items()})}
    more |= {"texts": tuple(map(str, range(ROWS)))} if method.reads_texts else {}
    shapes = {"image": (ROWS, WIDTH), "caption": (ROWS, WIDTH), "tokens": (ROWS, LENGTH + 2, WIDTH)}
    asked = method.features(method.hyperparameters).items()
    features = {role: torch.randn(shapes[feature.of]) for role, feature in asked if feature.of != "model"}
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    batches: dict[Stream, Batch | MediaBatch] = {
        "sentences": SentenceBatch(tokens, **more),
        "pairs": PairBatch(tokens, features, **more),
        "triplets": TripletBatch(tokens, **more),
        "images": MediaBatch({"pixels": torch.randn(ROWS, 2, 3, 4, 4)}, labels),
        "audio": MediaBatch({"spectrograms": torch.randn(ROWS, 9, 4)}, labels),
    }
    return [batches[stream] for stream in method.streams]


def _padded(rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    longest = max(map(len, rows))
    ids = [[*row, *[0] * (longest - len(row))] for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


class Recorded(dict[str, Any]):
    """A dict that knows which of its names were `read`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class Drawn:
    """An `Encode` that draws random vectors; `vectors` has them, `views` the most views of a sentence asked for."""

    def __init__(self, device: str = "cpu") -> None:
        self.device, self.views = device, 1
        self.vectors: list[Tensor] = []

    def __call__(self, inputs: Mapping[str, Tensor], views: int) -> Tensor:
        self.views = max(self.views, views if "attention_mask" in inputs else 1)
        return self._drawn(len(next(iter(inputs.values()))), views, WIDTH)

    def states(self, inputs: Mapping[str, Tensor], views: int = 1) -> Tensor:
        rows, length = inputs["attention_mask"].shape
        return self._drawn(rows, views, length, WIDTH)

    def _drawn(self, *shape: int) -> Tensor:
        self.vectors.append(torch.randn(shape, device=self.device, requires_grad=True))
        return self.vectors[-1]


def text_views(method: type[Method], hyperparameters: Any) -> int:
    """The most views of a sentence that a method asks its encoder for; 1 if it cannot be tried on random batches."""
    encode = Drawn()
    with torch.random.fork_rng(devices=[]), suppress(Exception):
        built = _built_of(method, hyperparameters)
        for batch in random_batches(built):
            built.loss(batch, encode)
    return encode.views


def _checked(method: type[Method], reading: str) -> tuple[set[str], list[str]]:
    built = build(method, reading)
    seen: set[str] = set()
    problems = []
    if set(built.weights()) - set(method.terms):
        problems.append("weights() has terms that are not declared")
    cycle, pairs_at = built.mixing(built.hyperparameters)(1000, 100, 50, 5)
    if not 0 <= pairs_at < cycle:
        problems.append(f"the mixing rule returns place {pairs_at} of a cycle of {cycle}")
    for batch in random_batches(built) if method.trains else ():
        total, terms = _loss(built, batch)
        seen |= set(terms)
        if total is None:
            problems.append(f"{type(batch).__name__} has no loss term")
            continue
        problems += [f"the term '{name}' is no finite scalar" for name, value in terms.items() if not _scalar(value)]
        weighted = sum(built.weights().get(name, 1.0) * value for name, value in terms.items())
        if not torch.allclose(total, torch.as_tensor(weighted)):
            problems.append(f"the loss of {type(batch).__name__} is not the weighted sum of its terms")
    for name in method.terms if len(method.terms) > 1 else ():
        problems += _without(build(method, reading), reading, name)
    return seen, problems


def _without(whole: Method, reading: str, term: str) -> list[str]:
    less = build(type(whole), reading, {"without": term})
    less.load_state_dict(whole.state_dict())
    for batch in random_batches(whole):
        total, rest = _loss(less, batch)
        terms = {name: value for name, value in _loss(whole, batch)[1].items() if name != term}
        if set(rest) != set(terms) or (total is None) != (not rest):
            return [f"without={term} changes which terms {type(batch).__name__} has"]
        if any(not torch.allclose(value, terms[name]) for name, value in rest.items()):
            return [f"without={term} changes the values of other terms"]
    return []


def _scalar(value: Tensor) -> bool:
    return value.ndim == 0 and bool(torch.isfinite(value))


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
    """Check that each batch gives the encoder a gradient, and each parameter and term has one that is not zero."""
    built, moving = _built(method, reading), dict[str, bool]()
    parameters = {name: each for name, each in built.named_parameters() if each.requires_grad}
    for batch in random_batches(built):
        encode, what = Drawn(), type(batch).__name__
        total, terms = _loss(built, batch, encode)
        for name, term in terms.items():
            wanted = [*encode.vectors, *parameters.values()] if term.requires_grad else []
            found = torch.autograd.grad(term, wanted, retain_graph=True, allow_unused=True) if wanted else ()
            moving[name] = moving.get(name, False) or any(each is not None and bool(each.any()) for each in found)
        if total is None or not total.requires_grad:
            yield f"the loss of {what} has no gradient"
            continue
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
    """Check that equal heads and random numbers give an equal loss, and that the batch is not modified."""
    built, again = _built(method, reading), _built(method, reading)
    for batch in random_batches(built):
        before = copy.deepcopy(batch)
        if _differ(built, again, batch):
            yield f"the loss of {type(batch).__name__} differs under the same seed"
        if not _same(before, batch):
            yield f"it changes the {type(batch).__name__} that it is given"
    rows = [[2, row + 5, 3] for row in range(ROWS)]
    changes = [built.change_rows(copy.deepcopy(rows), np.random.default_rng(LOSS)) for _ in range(2)]
    if changes[0] != changes[1]:
        yield "change_rows() gives other rows for the same random numbers; draw from `random` alone"


def _values_are_read(method: type[Method]) -> Iterator[str]:
    """Check that every value that is declared is read, by some reading and under some choice of the others."""
    common = {item.name for item in Hyperparameters.options().values()}
    own = {item.name for item in method.Hyperparameters.options().values()} - common
    read, seen = set[str](), dict.fromkeys((("value", name) for name in own if method.trains), False)
    for values in _choices(method) if method.trains else ():
        with suppress(ValueError, UserError), torch.random.fork_rng(devices=[]):
            asked = _recording(values, read)
            for answer in (method.features, method.own_steps, method.mixing, method.captions):
                answer(asked)
            built = _built_of(method, asked)
            built.now = now = Recorded(built.now)
            batches = random_batches(built)
            _step(built, 0, batches)
            for what, names in (("scheduled value", now), *(("changed rows", _changed(batch)) for batch in batches)):
                for name in names:
                    seen[what, name] = seen.get((what, name), False) or name in names.read
    for (what, name), was_read in seen.items():
        if not (was_read or (what == "value" and name in read)):
            yield f"the {what} '{name.rstrip('_')}' is declared and never read"
        if what == "scheduled value" and name in method.terms:
            yield f"the {what} '{name}' has the name of a term"


def _changed(batch: Batch | MediaBatch) -> Recorded:
    changed = getattr(batch, "changed", {})
    return changed if isinstance(changed, Recorded) else Recorded(changed)


def _choices(method: type[Method]) -> Iterator[Any]:
    """The values of each reading, and the same with each option changed in turn."""
    for reading in method.readings:
        values = method.configure(reading)
        yield values
        for item in method.Hyperparameters.options().values():
            own = getattr(values, item.name)
            others = [each for each in item.metadata["choices"] if each != own]
            others += [not own] if isinstance(own, bool) else []
            others += [type(own)(1)] if own == 0 and not isinstance(own, bool) else []
            yield from (replace(values, **{item.name: other}) for other in others)


def _recording(values: Any, read: set[str]) -> Any:
    """The same values in an instance that notes the names of those that are read."""

    def noted(self: object, name: str) -> Any:
        read.add(name)
        return object.__getattribute__(self, name)

    kind = type(values)
    recording: Any = object.__new__(type(kind.__name__, (kind,), {"__getattribute__": noted}))
    for name, value in vars(values).items():
        object.__setattr__(recording, name, value)
    return recording


def _is_restored(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a checkpoint taken after a step restores the method completely."""
    built, again = _built(method, reading), build(method, reading)
    _step(built, 0)
    if gone := [name for name in built.aside if built.kept().keys() == built.state_dict().keys()]:
        yield f"aside names {', '.join(gone)}, and it has no such module or buffer"
    if misfits := built.misfits(again.state_dict()):
        yield from misfits
        return
    again.load_state_dict(copy.deepcopy(built.state_dict()))
    for step in (1, 2):
        if any(_differ(built, again, batch) for batch in random_batches(built)):
            yield "another loss after its weights were saved and loaded"
        _step(built, step)
        _step(again, step)


def _differ(built: Method, again: Method, batch: Batch | MediaBatch) -> bool:
    """Whether two methods have different losses on a batch, under the same seed."""
    (first, _), (second, _) = _loss(built, batch), _loss(again, batch)
    return first is not None and second is not None and not torch.equal(first, second)


def _step(built: Method, step: int, batches: Sequence[Batch | MediaBatch] = ()) -> None:
    """The losses of a step, and what follows an update."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(LOSS + step)
        for batch in batches or random_batches(built):
            _loss(built, batch)
    if type(built).after_step is not Method.after_step:
        with torch.no_grad():
            built.after_step(small_student(), step)


def _moves(method: type[Method], reading: str) -> Iterator[str]:
    """Check that a method stays on the device of its batch, by tensors that have a device but no values."""
    there = build(method, reading)
    with FakeTensorMode(allow_non_fake_inputs=True):
        held = (each for value in vars(there).values() if isinstance(value, tuple) for each in value)
        for module in (there, *(each for each in held if isinstance(each, nn.Module))):
            module.to("cuda")
        for batch in random_batches(there):
            try:
                _loss(there, _moved(batch), Drawn("cuda"))
            except (DataDependentOutputException, DynamicOutputShapeException):
                continue  # a shape that depends on values
            except RuntimeError as error:
                yield _raised(error)


def _in_each_reading(check: Callable[[type[Method], str], Iterator[str]]) -> Callable[[type[Method]], Iterator[str]]:
    def checked(method: type[Method]) -> Iterator[str]:
        for reading in method.readings if method.trains else ():
            yield from (f"@{reading}: {problem}" for problem in check(method, reading))

    return checked


#: name of a check -> the function that yields problems
CHECKS: Mapping[str, Callable[[type[Method]], Any]] = {
    "declarations and loss terms": check_method,
    "answers to a plan": _in_each_reading(_answers),
    "gradients": _in_each_reading(_gradients),
    "values": _values_are_read,
    "the same under the same seed": _in_each_reading(_repeats),
    "checkpoints": _in_each_reading(_is_restored),
    "devices": _in_each_reading(_moves),
}


def _built(method: type[Method], reading: str) -> Method:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(HEADS)
        return build(method, reading)


def _loss(
    method: Method, batch: Batch | MediaBatch, encode: Encode | None = None
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The loss of a batch under a fixed seed."""
    given = encode or Drawn()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(LOSS)
        return method.loss(batch, given)


def _moved(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to("cuda")
    if isinstance(value, tuple):
        return value
    if isinstance(value, Mapping):
        return {name: _moved(each) for name, each in value.items()}
    return replace(value, **{name: _moved(each) for name, each in vars(value).items()})


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(_same(each, second[name]) for name, each in first.items())
    if isinstance(first, tuple):
        return bool(first == second)
    return all(_same(value, vars(second)[name]) for name, value in vars(first).items())
