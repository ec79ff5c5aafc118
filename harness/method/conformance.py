"""Checks of methods on random batches, for `harness check`, this project's tests and those of plug-ins."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import inspect
import pickle
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode

from harness.errors import UserError
from harness.files import expand
from harness.method.base import Method
from harness.method.declared import method_named
from harness.method.interface import (
    Batch,
    Dimensions,
    Encode,
    MediaBatch,
    PairBatch,
    SentenceBatch,
    TripletBatch,
    ValueOrigin,
)
from harness.registry import OWN, OWN_SIGNALS, names, target
from harness.spec import Stream, Variant
from harness.tomlfiles import toml_content

#: seeds of the heads, and of the random numbers of a loss
HEADS, LOSS = 1, 2
ROWS, WIDTH, LENGTH = 6, 8, 5


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
        what_is_missing = f"no class {name} derived from" if colon else "no class derived from"
        raise UserError(
            f"{module_name} has {what_is_missing} harness.method.Method; name the module that defines the method"
        )
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
    """A method with features and encoder of width 8."""
    hyperparameters = method.configure(reading, options or {})
    return method(hyperparameters, Dimensions(WIDTH, dict.fromkeys(method.features(hyperparameters), WIDTH)))


def random_batches(method: Method) -> list[Batch | MediaBatch]:
    """A random batch of each stream of a method, of six rows."""
    tokens = {"attention_mask": torch.tensor([[1] * LENGTH, [1, 1, 1, 0, 0]] * (ROWS // 2))}
    shapes = {"image": (ROWS, WIDTH), "caption": (ROWS, WIDTH), "tokens": (ROWS, LENGTH + 2, WIDTH)}
    wanted = method.features(method.hyperparameters)
    labels = torch.tensor([0, 0, 1, 2, 2, 2])
    batches: dict[Stream, Batch | MediaBatch] = {
        "sentences": SentenceBatch(tokens),
        "pairs": PairBatch(tokens, {role: torch.randn(shapes[feature.of]) for role, feature in wanted.items()}),
        "triplets": TripletBatch(tokens),
        "images": MediaBatch({"pixels": torch.randn(ROWS, 2, 3, 4, 4)}, labels),
        "audio": MediaBatch({"spectrograms": torch.randn(ROWS, 9, 4)}, labels),
    }
    return [batches[stream] for stream in method.streams]


def text_views(method: type[Method], hyperparameters: Any) -> int:
    """The most views of a sentence that a method asks its encoder for; 1 if it cannot be tried on random batches."""
    most = 1

    def encode(inputs: Mapping[str, Tensor], views: int) -> Tensor:
        nonlocal most
        most = max(most, views if "attention_mask" in inputs else 1)
        return torch.randn(ROWS, views, WIDTH)

    given: Encode = encode
    with torch.random.fork_rng(devices=[]), suppress(Exception):
        widths = dict.fromkeys(method.features(hyperparameters), WIDTH)
        built = method(hyperparameters, Dimensions(WIDTH, widths))
        for batch in random_batches(built):
            built.loss(batch, given)
    return most


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


def _answers(method: type[Method]) -> Iterator[str]:
    for reading in method.readings:
        values = method.configure(reading)
        if hasattr(method, "pooling"):
            yield "pooling() is never called; give the value 'pooling' of its Hyperparameters another default"
        if values.pooling not in names("pooling"):
            yield f"@{reading}: the pooling '{values.pooling}' is not registered"
        method.features(values)
        method.own_steps(values)
        if method.captions(values) not in ("setting", "all"):
            yield f"@{reading}: captions() is neither 'setting' nor 'all'"
        if pickle.loads(pickle.dumps(values)) != values:
            yield f"@{reading}: its hyperparameters differ after they were pickled"


def _gradients(method: type[Method]) -> Iterator[str]:
    """Check that every batch gives the encoder a gradient, and that every head parameter gets one from some batch."""
    for reading, built in _built(method):
        for batch in random_batches(built):
            vectors: list[Tensor] = []
            total, _ = _loss(built, batch, vectors)
            if total is None or not total.requires_grad:
                yield f"@{reading}: the loss of {type(batch).__name__} has no gradient"
                continue
            total.backward()  # type: ignore[no-untyped-call]
            if not any(vector.grad is not None and vector.grad.abs().sum() > 0 for vector in vectors):
                yield f"@{reading}: the loss of {type(batch).__name__} has no gradient for the encoder"
            if any(vector.grad is not None and not vector.grad.isfinite().all() for vector in vectors):
                yield f"@{reading}: the gradient of {type(batch).__name__} is not finite"
        unused = [
            name for name, parameter in built.named_parameters() if parameter.requires_grad and parameter.grad is None
        ]
        if unused:
            yield f"@{reading}: no loss term trains {', '.join(unused)}"


def _repeats(method: type[Method]) -> Iterator[str]:
    """Check that equal heads and random numbers give an equal loss, and that the batch is not modified."""
    for (reading, built), (_, again) in zip(_built(method), _built(method), strict=True):
        for batch in random_batches(built):
            before = copy.deepcopy(batch)
            (first, _), (second, _) = _loss(built, batch), _loss(again, batch)
            if first is not None and second is not None and not torch.equal(first, second):
                yield f"@{reading}: the loss of {type(batch).__name__} differs under the same seed"
            if not _same(before, batch):
                yield f"@{reading}: it changes the {type(batch).__name__} that it is given"


def _is_restored(method: type[Method]) -> Iterator[str]:
    """Check that a checkpoint taken after a step restores the method completely."""
    for reading, built in _built(method):
        for batch in random_batches(built):
            _loss(built, batch)
        again = build(method, reading)
        if misfits := built.misfits(again.state_dict()):
            yield from (f"@{reading}: {why}" for why in misfits)
            continue
        again.load_state_dict(copy.deepcopy(built.state_dict()))
        for batch in random_batches(built):
            (first, _), (second, _) = _loss(built, batch), _loss(again, batch)
            if first is not None and second is not None and not torch.equal(first, second):
                yield f"@{reading}: another loss after its weights were saved and loaded"


def _moves(method: type[Method]) -> Iterator[str]:
    """Check that a method stays on the device of its batch, by tensors that have a device but no values."""
    for reading in method.readings if method.trains else ():
        with FakeTensorMode():
            with torch.device("cuda"):
                there = build(method, reading)
            for batch in random_batches(there):
                try:
                    _loss(there, _moved(batch), device="cuda")
                except (DataDependentOutputException, DynamicOutputShapeException):
                    continue  # a shape that depends on values
                except RuntimeError as error:
                    yield f"@{reading}: {_raised(error)}"


#: name of a check -> the function that yields problems
CHECKS: Mapping[str, Callable[[type[Method]], Any]] = {
    "declarations and loss terms": check_method,
    "answers to a plan": _answers,
    "gradients": _gradients,
    "the same under the same seed": _repeats,
    "checkpoints": _is_restored,
    "devices": _moves,
}


def _built(method: type[Method]) -> Iterator[tuple[str, Method]]:
    for reading in method.readings if method.trains else ():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(HEADS)
            yield reading, build(method, reading)


def _loss(
    method: Method, batch: Batch | MediaBatch, vectors: list[Tensor] | None = None, device: str = "cpu"
) -> tuple[Tensor | None, dict[str, Tensor]]:
    """The loss of a batch under a fixed seed; the encoder's outputs are appended to `vectors`."""

    def encode(inputs: Mapping[str, Tensor], views: int) -> Tensor:
        drawn = torch.randn(ROWS, views, WIDTH, device=device, requires_grad=True)
        if vectors is not None:
            vectors.append(drawn)
        return drawn

    given: Encode = encode
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(LOSS)
        return method.loss(batch, given)


def _moved(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.to("cuda")
    if isinstance(value, Mapping):
        return {name: _moved(each) for name, each in value.items()}
    return replace(value, **{name: _moved(each) for name, each in vars(value).items()})


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, Tensor):
        return torch.equal(first, second)
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(_same(first[name], second[name]) for name in first)
    return all(_same(value, vars(second)[name]) for name, value in vars(first).items())
