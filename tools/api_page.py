"""The page docs/api.md, made from signatures and docstrings: `python tools/api_page.py >
docs/api.md`.

Examples of `harness` stand in its docstrings (tests/test_api.py); those of other objects are below,
and tests/docs/test_made_pages.py executes them in their order.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import click
from schema_words import format_keys

import harness
import harness.stats
from harness import method
from harness.encoders import heads
from harness.losses import alignment, contrastive
from harness.method.conformance import check_method
from harness.reporting.seeds.comparison import Comparison

_HEAD = """# The Python API

<!-- made by `python tools/api_page.py > docs/api.md` from the code; edit docstrings, or tools/api_page.py -->

For notebooks and scripts. Every command calls a function of the package `harness`:

```python
import harness

finished = harness.run("tiny", methods=["simcse", "mcse"], seeds=3)
print(finished.table("sts"))
print(finished.compare("mcse", "simcse", "sts.Avg").conclusion())

model = harness.load_model("mcse/toy/toy-bert/seed-0")
print(model.encode(["a red circle", "a crimson disc"]).shape)
```

They print nothing unless `progress=True`. A mistake that a user can correct raises `harness.UserError`, in one line.
`help(NAME)` has all of a function or class, each argument too.
"""
#: the functions of harness.stats, and the class that they take
_STATISTICS = sorted(
    name
    for name, value in vars(harness.stats).items()
    if inspect.isfunction(value) or name == "Summary"
)
#: heading -> a line below it, and the package of its objects with their names
SECTIONS: dict[str, tuple[str, Any, Sequence[str]]] = {
    "Run": ("", harness, ("plan", "run", "execute")),
    "Read results": ("", harness, ("results", "Results", "compare", "table", "figure", "report")),
    "Use a model": ("", harness, ("load_model", "SentenceModel", "evaluate", "plan_model")),
    "Data": ("", harness, ("to_fetch", "fetch", "overlaps", "UserError")),
    "Write a method": (
        "[Your method](your-method.md) starts with a complete one.",
        method,
        (
            "Method",
            "Hyperparameters",
            "hyper",
            "Dimensions",
            "Feature",
            "Neighbours",
            "Encode",
            "Packed",
            "Vocabulary",
            "SentenceBatch",
            "PairBatch",
            "PhraseRows",
            "TripletBatch",
            "MediaBatch",
            "OwnSteps",
            "Patches",
            "by_batches",
        ),
    ),
    "Statistics": (
        "[Statistics](statistics.md) says which test answers which question. Deviations divide by n - 1, tests are "
        "two-sided, and no result is NaN.",
        harness.stats,
        _STATISTICS,
    ),
}
#: objects of other modules -> the section in which they stand
_MORE: dict[str, Sequence[Any]] = {
    "Read results": (Comparison,),
    "Write a method": (
        check_method,
        heads.TanhHead,
        heads.by_view,
        contrastive.info_nce,
        contrastive.info_nce_hard,
        contrastive.cosine_matrix,
        alignment.list_net,
        alignment.list_mle,
    ),
}
#: members of classes that are on the page; of other classes, all public ones
_MEMBERS = {
    "Results": ("frame", "table", "text", "compare"),
    "SentenceModel": ("encode", "similarity"),
    "Comparison": ("values", "deciding", "warnings", "conclusion", "rows"),
    "Method": (
        "features",
        "own_steps",
        "mixing",
        "captions",
        "shared_space",
        "test_head",
        "prepare",
        "change_rows",
        "scheduled",
        "after_step",
        "weights",
        "loss_terms",
        "media_terms",
    ),
}
#: classes whose objects a user is given
_GIVEN = ("Results", "Comparison", "SentenceModel", "Method", "Encode")
#: function -> those whose arguments it has
_SAME_ARGUMENTS = {"run": ("plan", "execute")}
#: objects that stand in one line: what must be given, and the first paragraph of their docstrings
SHORTENED = (
    "results",
    "compare",
    "table",
    "figure",
    "report",
    "plan_model",
    "to_fetch",
    "fetch",
    "overlaps",
    "UserError",
    "Packed",
    "Feature",
    "Vocabulary",
    "Neighbours",
    "Dimensions",
    "SentenceBatch",
    "PairBatch",
    "PhraseRows",
    "TripletBatch",
    "MediaBatch",
    "OwnSteps",
    "Patches",
    "by_batches",
    "check_method",
    "TanhHead",
    "by_view",
    "info_nce",
    "info_nce_hard",
    "cosine_matrix",
    "list_net",
    "list_mle",
    *_STATISTICS,
)
#: object -> its example; the first group shares a folder of results
EXAMPLES = {
    "execute": """
>>> import harness
>>> plan = harness.plan("tiny", methods="simcse,mcse", seeds=3, suites="sts", set={"steps": 2, "eval_every": 2})
>>> finished = harness.execute(plan, executor="serial")
>>> len(finished)
6
""",
    "Results": """
>>> finished.frame["variant"].unique().tolist()
['simcse', 'mcse']
>>> finished.table("sts", rows="mcse,simcse")["variant"].tolist()
['mcse (eval_every=2,steps=2)', 'simcse (eval_every=2,steps=2)']
>>> print(finished.text("sts", "csv").partition(",")[0])
where
""",
    "Comparison": """
>>> comparison = finished.compare("mcse", "simcse", "sts.Avg")
>>> "simcse" in comparison.conclusion()
True
""",
    "SentenceModel": """
>>> model = harness.load_model("mcse/toy/toy-bert/seed-0")
>>> model(["a red circle"]).shape
(1, 64)
""",
    "Method": """
>>> from harness.method import Dimensions, method_named
>>> simcse = method_named("simcse")
>>> built = simcse(simcse.configure("paper", {"temperature": 0.1}), Dimensions(encoder=8))
>>> built.terms, built.hyperparameters.temperature, built.weights()["mlm"]
(('text', 'mlm'), 0.1, 0.0)
""",
    "Hyperparameters": """
>>> from dataclasses import dataclass
>>> from harness.method import Hyperparameters, hyper
>>> @dataclass(frozen=True)
... class Values(Hyperparameters):
...     margin: float = hyper(0.2, at_least=0, source="chosen")
>>> Values.read("mine", {"margin": "0.3"}).margin
0.3
""",
    "hyper": """
>>> sorted(set(Values.options()) - set(Hyperparameters.options()))
['margin']
""",
    "Encode": """
>>> import torch
>>> from harness.method.samples import small_student
>>> tokens = {"input_ids": torch.tensor([[2, 7, 3]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
>>> encode = small_student().eval()
>>> encode(tokens, 2).shape, encode.states(tokens).shape
(torch.Size([1, 2, 8]), torch.Size([1, 1, 3, 8]))
""",
}


def list_objects(title: str) -> list[Any]:
    """The functions and classes of a section."""
    _, package, names = SECTIONS[title]
    return [*(getattr(package, name) for name in names), *_MORE.get(title, ())]


def make_page() -> str:
    """The text of docs/api.md."""
    parts = [_HEAD]
    for title, (line, *_) in SECTIONS.items():
        parts.append(f"## {title}\n")
        if line:
            parts.append(f"{line}\n")

        lines = []
        for entry in list_objects(title):
            if entry.__name__ in SHORTENED:
                lines.append(_make_line(entry))
            else:
                parts += _make_entry(entry)

        if lines:
            parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _make_entry(entry: Any) -> Iterator[str]:
    """The heading, signature, docstring, values, members and example of a function or class."""
    name = entry.__name__
    yield f"### `{name}`\n"
    if name not in _GIVEN:
        yield f"```text\n{_format_signature(entry, _find_path(entry))}\n```\n"
    yield f"{_format_docstring(entry)}\n"

    if inspect.isclass(entry):
        variables = list(_list_variables(entry))
        if variables:
            yield format_keys(variables)
        for member_name, member in _list_members(entry):
            yield _make_member(member_name, member)

    example = EXAMPLES.get(name, "").strip()
    if example:
        yield f"```pycon\n{example}\n```\n"


def _make_member(name: str, member: Any) -> str:
    """The heading and docstring of a member of a class."""
    heading = name
    if hasattr(member, "func"):  # a cached property
        function = member.func
    elif isinstance(member, property):
        function = member.fget
    else:
        function = getattr(member, "__func__", member)
        heading = _format_signature(function, name, short=True)

    text = textwrap.indent(_format_docstring(function), "  ").removeprefix("  ")
    return f"{_format_code(heading)}\n: {text}\n"


def _make_line(entry: Any) -> str:
    """A shortened entry: the arguments that must be given, and the docstring's first clause."""
    paragraph = inspect.cleandoc(entry.__doc__ or "").partition("\n\n")[0]
    clause = " ".join(paragraph.split()).partition("; ")[0].removesuffix(".")
    signature = _format_signature(entry, entry.__name__, short=True)
    return f"- {_format_code(signature)}: {clause}."


def _format_code(text: str) -> str:
    return f"`{' '.join(text.split())}`"


def _find_path(entry: Any) -> str:
    """The name by which a user imports an object."""
    name = entry.__name__
    if getattr(harness, name, None) is entry:
        return f"harness.{name}"

    module: str = entry.__module__
    if "conformance" not in module:
        # these two give all that their modules have
        for package in ("harness.method", "harness.stats"):
            if module.startswith(package):
                return f"{package}.{name}"
    return f"{module}.{name}"


def _format_signature(entry: Any, name: str, *, short: bool = False) -> str:
    """A signature, each argument on a line of its own where all are too long for one; a short one
    has only the names of what must be given.
    """
    if entry.__name__ in _SAME_ARGUMENTS:
        return f"{name}(profile: str = 'paper', *, ...) -> Results"

    is_class = inspect.isclass(entry)
    if is_class:
        has_arguments = dataclasses.is_dataclass(entry) or "__init__" in vars(entry)
        if issubclass(entry, BaseException) or not has_arguments:
            return name

    signature = inspect.signature(entry)
    parameters = []
    for parameter in signature.parameters.values():
        is_self = parameter.annotation is parameter.empty and parameter.name in ("self", "cls")
        if not is_self:
            parameters.append(parameter)
    if short:
        required = [item.name for item in parameters if item.default is item.empty]
        return f"{name}({', '.join(required)})"

    arguments = [_format_argument(parameter) for parameter in parameters]
    kinds = [parameter.kind for parameter in parameters]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        arguments.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")

    # that a class returns its object need not be said
    result = ""
    if not is_class and signature.return_annotation is not inspect.Signature.empty:
        result = f" -> {_format_annotation(signature.return_annotation)}"
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {argument}," for argument in arguments), f"){result}"])


def _format_argument(parameter: inspect.Parameter) -> str:
    text = parameter.name
    if parameter.annotation is not parameter.empty:
        text = f"{text}: {_format_annotation(parameter.annotation)}"
    if parameter.default is parameter.empty:
        return text

    default = repr(parameter.default)
    # what is made anew at each call prints an address or a class, which tell a reader nothing
    if "factory" in default or "mappingproxy" in default:
        default = "..."
    return f"{text} = {default}"


def _format_annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _format_docstring(entry: Any) -> str:
    """A docstring without the meaning of each argument, with its example in a block."""
    docstring = inspect.cleandoc(entry.__doc__ or "")
    text = re.sub(r"^- `.*\n?", "", docstring, flags=re.MULTILINE).strip()

    functions = _SAME_ARGUMENTS.get(entry.__name__)
    if functions:
        links = " and ".join(f"[`{name}`](#{name})" for name in functions)
        text = f"{text}\n\nIts arguments are those of {links}."

    return re.sub(
        r"(^>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.MULTILINE | re.DOTALL
    )


def _list_variables(entry: type) -> Iterator[tuple[str, str]]:
    """The values of a class that its source explains."""
    explained = re.findall(
        r"((?: {4}#: .*\n| {6,}#.*\n)+)^    (\w+): ClassVar\[.*\](?: =.*)?$",
        inspect.getsource(entry),
        re.MULTILINE,
    )
    for comment, name in explained:
        lines = [re.sub(r"^\s*#:? ?", "", line) for line in comment.splitlines()]
        yield name, " ".join(lines).strip()


def _list_members(entry: type) -> Iterator[tuple[str, Any]]:
    """The members of a class that are on the page."""
    names = _MEMBERS.get(entry.__name__)
    for name, member in vars(entry).items():
        is_shown = name in names if names else _is_documented(entry, name, member)
        if is_shown:
            yield name, member


def _is_documented(entry: type, name: str, member: Any) -> bool:
    """Whether a member is a public function or property with a docstring of its class's own."""
    if name in ("count", "index") or not member.__doc__:
        return False
    is_public = not name.startswith("_") or (entry.__name__, name) == ("Encode", "__call__")
    is_property = isinstance(member, property) or hasattr(member, "func")
    return is_public and (inspect.isroutine(member) or is_property)


@click.command(help=__doc__)
def main() -> None:
    """Print the page."""
    click.echo(make_page(), nl=False)


if __name__ == "__main__":
    main()
