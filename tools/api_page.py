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
from schema_words import key_list

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
            *(
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
            ),
            *(
                "PairBatch",
                "PhraseRows",
                "TripletBatch",
                "MediaBatch",
                "OwnSteps",
                "Patches",
                "by_batches",
            ),
        ),
    ),
    "Statistics": (
        "[Statistics](statistics.md) says which test answers which question. Deviations divide by n - 1, tests are "
        "two-sided, and no result is NaN.",
        harness.stats,
        sorted(
            name
            for name, it in vars(harness.stats).items()
            if f"{it}".startswith("<function") or name == "Summary"
        ),
    ),
}
#: objects of other modules -> the section in which they stand
_MORE: dict[str, Sequence[Any]] = {
    "Read results": (Comparison,),
    "Write a method": (
        *(
            check_method,
            heads.TanhHead,
            heads.by_view,
            contrastive.info_nce,
            contrastive.info_nce_hard,
        ),
        *(contrastive.cosine_matrix, alignment.list_net, alignment.list_mle),
    ),
}
#: members of classes that are on the page; of other classes, all public ones
_MEMBERS = {
    "Results": ("frame", "table", "text", "compare"),
    "SentenceModel": ("encode", "similarity"),
    "Comparison": ("values", "deciding", "warnings", "conclusion", "rows"),
    "Method": (
        *("features", "own_steps", "mixing", "captions", "shared_space", "test_head", "prepare"),
        *("change_rows", "scheduled", "after_step", "weights", "loss_terms", "media_terms"),
    ),
}
#: classes whose objects a user is given
_GIVEN = ("Results", "Comparison", "SentenceModel", "Method", "Encode")
#: function -> those whose arguments it has
_SAME_ARGUMENTS = {"run": ("plan", "execute")}
#: objects that stand in one line: what must be given, and the first paragraph of their docstrings
SHORTENED = (
    *("results", "compare", "table", "figure", "report", "plan_model"),
    *("to_fetch", "fetch", "overlaps", "UserError", "Packed", "Feature", "Vocabulary"),
    "Neighbours",
    *("Dimensions", "SentenceBatch", "PairBatch", "PhraseRows", "TripletBatch", "MediaBatch"),
    "OwnSteps",
    *("Patches", "by_batches", "check_method", "TanhHead", "by_view", "info_nce"),
    *("info_nce_hard", "cosine_matrix", "list_net", "list_mle"),
    *(name for name in vars(harness.stats) if name in SECTIONS["Statistics"][2]),
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


def objects(title: str) -> list[Any]:
    """The functions and classes of a section."""
    _, package, names = SECTIONS[title]
    return [*(getattr(package, name) for name in names), *_MORE.get(title, ())]


def page() -> str:
    """The text of docs/api.md."""
    parts = [_HEAD]
    for title, (line, *_) in SECTIONS.items():
        parts.append(f"## {title}\n")
        if line:
            parts.append(f"{line}\n")
        shortened = [what for what in objects(title) if what.__name__ in SHORTENED]
        for what in objects(title):
            if what not in shortened:
                parts += _entry(what)
        if shortened:
            parts.append("\n".join(map(_line, shortened)) + "\n")
    return "\n".join(parts)


def _entry(what: Any) -> Iterator[str]:
    """The heading, signature, docstring, values, members and example of a function or class."""
    yield f"### `{what.__name__}`\n"
    if what.__name__ not in _GIVEN:
        yield f"```text\n{_signature(what, _path(what))}\n```\n"
    yield f"{_text(what)}\n"
    if inspect.isclass(what):
        if rows := [*_variables(what)]:
            yield key_list(rows)
        for name, member in _members(what):
            shown = (
                member.func if hasattr(member, "func") else getattr(member, "fget", None) or member
            )
            shown = getattr(shown, "__func__", shown)
            is_value = member is not shown and not isinstance(member, classmethod | staticmethod)
            text = textwrap.indent(_text(shown), "  ").removeprefix("  ")
            yield f"{_code(name if is_value else _signature(shown, name, short=True))}\n: {text}\n"
    if example := EXAMPLES.get(what.__name__, "").strip():
        yield f"```pycon\n{example}\n```\n"


def _line(what: Any) -> str:
    """A shortened entry: the arguments that must be given, and the docstring's first clause."""
    paragraph = inspect.cleandoc(what.__doc__ or "").partition("\n\n")[0]
    clause = " ".join(paragraph.split()).partition("; ")[0].removesuffix(".")
    return f"- {_code(_signature(what, what.__name__, short=True))}: {clause}."


def _code(text: str) -> str:
    return f"`{' '.join(text.split())}`"


def _path(what: Any) -> str:
    name = what.__name__
    if getattr(harness, name, None) is what:
        return f"harness.{name}"
    module = next(
        (m for m in ("harness.method", "harness.stats") if what.__module__.startswith(m)),
        what.__module__,
    )
    return f"{what.__module__ if 'conformance' in what.__module__ else module}.{name}"


def _signature(what: Any, name: str, *, short: bool = False) -> str:
    """A signature, each argument on a line of its own where all are too long for one; a short one
    has only the names of what must be given.
    """
    if what.__name__ in _SAME_ARGUMENTS:
        return f"{name}(profile: str = 'paper', *, ...) -> Results"
    made = dataclasses.is_dataclass(what) or "__init__" in vars(what)
    if inspect.isclass(what) and (issubclass(what, BaseException) or not made):
        return name
    found = inspect.signature(what)
    taken = [
        each
        for each in found.parameters.values()
        if each.annotation is not each.empty or each.name not in ("self", "cls")
    ]
    if short:
        needed = [each.name for each in taken if each.default is each.empty]
        return f"{name}({', '.join(needed)})"
    arguments = [_argument(each) for each in taken]
    kinds = [each.kind for each in taken]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        arguments.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = (
        ""
        if found.return_annotation is inspect.Signature.empty
        else f" -> {_named(found.return_annotation)}"
    )
    result = "" if inspect.isclass(what) else result
    line = f"{name}({', '.join(arguments)}){result}"
    return (
        line
        if len(line) <= 100
        else "\n".join([f"{name}(", *(f"    {each}," for each in arguments), f"){result}"])
    )


def _argument(each: inspect.Parameter) -> str:
    text = (
        f"{each.name}: {_named(each.annotation)}"
        if each.annotation is not each.empty
        else each.name
    )
    if each.default is each.empty:
        return text
    default = (
        "..."
        if "factory" in repr(each.default) or "mappingproxy" in repr(each.default)
        else repr(each.default)
    )
    return f"{text} = {default}"


def _named(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def _text(what: Any) -> str:
    """A docstring without the meaning of each argument, with its example in a block."""
    text = re.sub(
        r"^- `.*\n?", "", inspect.cleandoc(what.__doc__ or ""), flags=re.MULTILINE
    ).strip()
    if others := _SAME_ARGUMENTS.get(what.__name__):
        same = " and ".join(f"[`{other}`](#{other})" for other in others)
        text = f"{text}\n\nIts arguments are those of {same}."
    return re.sub(
        r"(^>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.MULTILINE | re.DOTALL
    )


def _variables(what: type) -> Iterator[tuple[str, str]]:
    """The values of a class that its source explains."""
    for comment, name in re.findall(
        r"((?: {4}#: .*\n| {6,}#.*\n)+)^    (\w+): ClassVar\[.*\](?: =.*)?$",
        inspect.getsource(what),
        re.MULTILINE,
    ):
        lines = [re.sub(r"^\s*#:? ?", "", line) for line in comment.splitlines()]
        yield name, " ".join(lines).strip()


def _members(what: type) -> Iterator[tuple[str, Any]]:
    wanted = _MEMBERS.get(what.__name__)
    for name, member in vars(what).items():
        function = (
            inspect.isroutine(member) or isinstance(member, property) or hasattr(member, "func")
        )
        public = (
            not name.startswith("_") or (name == "__call__" and what.__name__ == "Encode")
        ) and function
        documented = public and member.__doc__
        if (name in wanted) if wanted else documented and name not in ("count", "index"):
            yield name, member


@click.command(help=__doc__)
def main() -> None:
    """Print the page."""
    click.echo(page(), nl=False)


if __name__ == "__main__":
    main()
