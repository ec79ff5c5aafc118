"""The page docs/api.md, made from signatures and docstrings: `python tools/api_page.py >
docs/api.md`.

Examples of `harness` stand in its docstrings (tests/test_api.py); those of other objects are below,
and tests/docs/test_made_pages.py executes them in their order.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Sequence
from typing import Any

import click
from schema_words import key_table

import harness
import harness.stats
from harness import method
from harness.encoders import heads
from harness.losses import alignment, contrastive
from harness.method.conformance import check_method
from harness.reporting.seeds.comparison import Comparison

_HEAD = """# The Python API

<!-- made by `python tools/api_page.py > docs/api.md` from the code; edit docstrings, or tools/api_page.py -->

For readers who work in notebooks and scripts. Every command calls a function of the package `harness`, and notebooks
and scripts can call the same functions:

```python
import harness

finished = harness.run("tiny", methods=["simcse", "mcse"], seeds=3)
print(finished.table("sts"))
print(finished.compare("mcse", "simcse", "sts.Avg").conclusion())

model = harness.load_model("mcse/toy/toy-bert/seed-0")
print(model.encode(["a red circle", "a crimson disc"]).shape)
```

They print nothing unless `progress=True`. A mistake that a user can correct is raised as `harness.UserError`, in one
line; a wrong keyword is answered with the closest one. `import harness` is quick: torch and pandas are imported by the
first function that needs them. `dir(harness)` has what is on this page and nothing else.
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
                "Encode",
                "Vocabulary",
                "SentenceBatch",
            ),
            *("PairBatch", "TripletBatch", "MediaBatch", "OwnSteps", "Patches", "by_batches"),
        ),
    ),
    "Statistics": (
        "[Statistics](statistics.md) says which test answers which question. Standard deviations are the sample form "
        "(n - 1), tests are two-sided, and no result is NaN.",
        harness.stats,
        sorted(
            name
            for name, it in vars(harness.stats).items()
            if f"{it}".startswith(("<class", "<function"))
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
}
#: object -> its example; the first group shares a folder of results
EXAMPLES = {
    "execute": """
>>> import harness
>>> plan = harness.plan("tiny", methods="simcse,mcse", seeds=3, suites="sts", set={"steps": 2, "eval_every": 2})
>>> finished = harness.execute(plan, executor="serial")
>>> len(finished)
6
""",
    "results": """
>>> len(harness.results("results"))
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
    "report": """
>>> harness.report("results", "site").page.name
'index.html'
""",
    "SentenceModel": """
>>> model = harness.load_model("mcse/toy/toy-bert/seed-0")
>>> model(["a red circle"]).shape
(1, 64)
""",
    "plan_model": """
>>> [run.key for run in harness.plan_model("mcse/toy/toy-bert/seed-0", profile="tiny", suites="sts").runs]
['mcse/toy/toy-bert/seed-0']
""",
    "UserError": """
>>> harness.run("tiny", seed=3)
Traceback (most recent call last):
harness.errors.UserError: run() has no argument 'seed'; did you mean seeds?
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
    "Feature": """
>>> from harness.method import Feature
>>> Feature("default").of
'image'
""",
    "Vocabulary": """
>>> from harness.method.conformance import small_student
>>> from harness.method import Vocabulary
>>> vocabulary = Vocabulary.of(small_student().tokenizer, limit=32)
>>> vocabulary.ids("7"), vocabulary.mask
([12], 4)
""",
    "Encode": """
>>> import torch
>>> tokens = {"input_ids": torch.tensor([[2, 7, 3]]), "attention_mask": torch.ones(1, 3, dtype=torch.long)}
>>> encode = small_student().eval()
>>> encode(tokens, 2).shape, encode.states(tokens).shape
(torch.Size([1, 2, 8]), torch.Size([1, 1, 3, 8]))
""",
    "PairBatch": """
>>> from harness.method import PairBatch
>>> batch = PairBatch(tokens, {"image": torch.ones(1, 8)})
>>> batch.features["image"].shape
torch.Size([1, 8])
""",
    "SentenceBatch": """
>>> from harness.method import SentenceBatch
>>> SentenceBatch(tokens, texts=("a ring",)).texts
('a ring',)
""",
    "TripletBatch": """
>>> from harness.method import TripletBatch
>>> premises, entailed, contradicted = TripletBatch({"input_ids": torch.ones(6, 4)}).tokens["input_ids"].chunk(3)
>>> premises.shape
torch.Size([2, 4])
""",
    "MediaBatch": """
>>> from harness.method import MediaBatch
>>> MediaBatch({"pixels": torch.ones(2, 2, 3, 8, 8)}, torch.tensor([0, 1])).labels.tolist()
[0, 1]
""",
    "Dimensions": """
>>> Dimensions(encoder=768, features={"image": 512}).features["image"]
512
""",
    "OwnSteps": """
>>> from harness.method import OwnSteps, Patches
>>> steps = OwnSteps(batch_size=32, learning_rate=1e-5, patches=Patches(size=16))
>>> steps.schedule, steps.first
('linear', False)
""",
    "Patches": """
>>> Patches(size=16).positions
True
""",
    "by_batches": """
>>> from harness.method import by_batches
>>> by_batches(rows=1000, pairs=100, text_batches=50, pair_batches=5)
(10, 0)
""",
    "check_method": """
>>> from harness.method.conformance import check_method
>>> check_method(simcse)
[]
""",
    "TanhHead": """
>>> from harness.encoders.heads import TanhHead, by_view
>>> TanhHead(8, 4)(torch.ones(2, 8)).shape
torch.Size([2, 4])
""",
    "by_view": """
>>> first, second = by_view(TanhHead(8, 4), torch.ones(3, 2, 8))
>>> first.shape
torch.Size([3, 4])
""",
    "info_nce": """
>>> from harness.losses.contrastive import cosine_matrix, info_nce, info_nce_hard
>>> rows = torch.eye(3)
>>> round(float(info_nce(rows, rows, temperature=1.0)), 4)
0.5514
""",
    "info_nce_hard": """
>>> float(info_nce_hard(rows, rows, rows, temperature=1.0)) > float(info_nce(rows, rows, temperature=1.0))
True
""",
    "cosine_matrix": """
>>> cosine_matrix(rows, 2 * rows).tolist()[0]
[1.0, 0.0, 0.0]
""",
    "list_net": """
>>> from harness.losses.matching import list_mle, list_net
>>> scores = torch.rand(3, 3)
>>> float(list_net(scores, scores)) <= float(list_net(scores, -scores))
True
""",
    "list_mle": """
>>> float(list_mle(scores, scores)) < float(list_mle(-scores, scores))
True
""",
    "almost_stochastic_order": """
>>> from harness.stats import *
>>> a, b = [71.0, 72.0, 73.0, 72.5], [70.0, 70.5, 69.0, 71.0]
>>> almost_stochastic_order(a, b, draws=100) < 0.5
True
""",
    "bootstrap_difference": """
>>> interval = bootstrap_difference(a, b)
>>> interval.low > 0
True
""",
    "interquartile_mean": """
>>> import numpy
>>> interquartile_mean([numpy.array([70.0, 71.0]), numpy.array([72.0, 99.0])]).item()
71.5
""",
    "probability_of_improvement": """
>>> import numpy
>>> probability_of_improvement([numpy.array([1.0, 2.0])], [numpy.array([1.0, 1.0])]).item()
0.75
""",
    "stratified_interval": """
>>> import numpy
>>> stratified_interval(interquartile_mean, [numpy.array([70.0]), numpy.array([72.0])]).low
71.0
""",
    "bootstrap_ranking": """
>>> import numpy
>>> ranking = bootstrap_ranking(numpy.array([[[1.0, 2.0]], [[3.0, 4.0]]]))
>>> ranking.order.tolist()
[1, 0]
""",
    "detectable_difference": """
>>> round(detectable_difference(std=1.0, n=5), 2)
2.08
""",
    "equivalence_test": """
>>> equivalence_test(t_test(a, a), margin=5.0).p < 0.05
True
""",
    "expected_best": """
>>> expected_best([1.0, 3.0])
[2.0, 2.5]
""",
    "hedges_g": """
>>> hedges_g(summarise(a), summarise(b)).g > 1
True
""",
    "holm": """
>>> holm([0.01, 0.04])
[0.02, 0.04]
""",
    "mean_interval": """
>>> interval = mean_interval(summarise(a))
>>> interval.low < 72.125 < interval.high
True
""",
    "one_sample_t_test": """
>>> one_sample_t_test(a, 60.0).p < 0.01
True
""",
    "paired_t_test": """
>>> paired_t_test(a, b).difference
2.0
""",
    "permutation_test": """
>>> permutation_test(a, b).p < 0.1
True
""",
    "pooled_deviation": """
>>> pooled_deviation(summarise([1.0, 3.0]), summarise([2.0, 4.0]))
1.4142135623730951
""",
    "power_of_verdict": """
>>> 0 < power_of_verdict(effect=0.0, std=0.3, n=5, margin=1.0) <= 1
True
""",
    "seeds_to_decide": """
>>> seeds_to_decide(effect=0.0, std=0.3, margin=1.0) > 1
True
""",
    "summarise": """
>>> summarise([1.0, 3.0])
Summary(mean=2.0, std=1.4142135623730951, n=2)
""",
    "t_test": """
>>> t_test(a, b).difference
2.0
""",
    "Effect": """
>>> effect = hedges_g(summarise(a), summarise(b))
>>> effect.low < effect.g < effect.high
True
""",
    "Equivalence": """
>>> equivalence_test(t_test(a, b), margin=0.5).p > 0.05
True
""",
    "Interval": """
>>> Interval(1.0, 2.0, level=0.95).high
2.0
""",
    "Permutation": """
>>> permutation = permutation_test(a, b)
>>> permutation.exact
True
""",
    "Ranking": """
>>> ranking.low.shape
(2,)
""",
    "Summary": """
>>> Summary(mean=2.0, std=1.0, n=5).n
5
""",
    "TTest": """
>>> test = t_test(a, b)
>>> test.low < test.difference < test.high
True
""",
    "t_test_from_summaries": """
>>> t_test_from_summaries(summarise(a), summarise(b)).p < 0.05
True
""",
    "violation_ratio": """
>>> violation_ratio(a, b)
0.0
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
        parts += [f"## {title}\n", *([f"{line}\n"] if line else [])]
        parts += [text for each in objects(title) for text in _entry(each)]
    return "\n".join(parts)


def _entry(what: Any) -> Iterator[str]:
    """The heading, signature, docstring, values, members and example of a function or class."""
    yield f"### `{what.__name__}`\n"
    yield f"```text\n{_signature(what, _path(what))}\n```\n"
    yield f"{_text(what)}\n"
    if inspect.isclass(what):
        if rows := [*_variables(what)]:
            yield key_table(rows, ("value", "type", "meaning"))
        for name, member in _members(what):
            shown = (
                member.func if hasattr(member, "func") else getattr(member, "fget", None) or member
            )
            shown = getattr(shown, "__func__", shown)
            alone = member is not shown and not isinstance(member, classmethod | staticmethod)
            head = f"{what.__name__}.{name}"
            yield f"#### `{head}`\n"
            yield f"```text\n{head if alone else _signature(shown, head)}\n```\n"
            yield f"{_text(shown)}\n"
    if example := EXAMPLES.get(what.__name__, "").strip():
        yield f"```pycon\n{example}\n```\n"


def _path(what: Any) -> str:
    name = what.__name__
    if getattr(harness, name, None) is what:
        return f"harness.{name}"
    module = next(
        (m for m in ("harness.method", "harness.stats") if what.__module__.startswith(m)),
        what.__module__,
    )
    return f"{what.__module__ if 'conformance' in what.__module__ else module}.{name}"


def _signature(what: Any, name: str) -> str:
    """A signature, each argument on a line of its own where all are too long for one."""
    made = dataclasses.is_dataclass(what) or "__init__" in vars(what)
    if inspect.isclass(what) and (issubclass(what, BaseException) or not made):
        return name
    found = inspect.signature(what)
    taken = [
        each
        for each in found.parameters.values()
        if each.annotation is not each.empty or each.name not in ("self", "cls")
    ]
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
    """A docstring, with its example in a block."""
    text = inspect.cleandoc(what.__doc__ or "")
    return re.sub(
        r"(^>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.MULTILINE | re.DOTALL
    )


def _variables(what: type) -> Iterator[tuple[str, str, str]]:
    """The values of a class that its source explains, with their types."""
    for comment, name, kind in re.findall(
        r"((?: {4}#: .*\n| {6,}#.*\n)*)^    (\w+): ClassVar\[(.*)\](?: =.*)?$",
        inspect.getsource(what),
        re.MULTILINE,
    ):
        yield (
            name,
            f"`{kind}`",
            " ".join(re.sub(r"^\s*#:? ?", "", line) for line in comment.splitlines()).strip(),
        )


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
