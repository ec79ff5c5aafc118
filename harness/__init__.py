"""A harness to reproduce, compare and extend multimodal sentence embeddings. See `harness.api` and
`harness.reading` for what it exports.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from harness.api import (
        evaluate,
        execute,
        fetch,
        load_model,
        overlaps,
        plan,
        plan_model,
        run,
        to_fetch,
    )
    from harness.encoders.sentence_model import SentenceModel
    from harness.errors import UserError
    from harness.reading import compare, figure, report, results, table
    from harness.reporting.results import Results

__all__ = [
    "Results",
    "SentenceModel",
    "UserError",
    "compare",
    "evaluate",
    "execute",
    "fetch",
    "figure",
    "load_model",
    "overlaps",
    "plan",
    "plan_model",
    "report",
    "results",
    "run",
    "table",
    "to_fetch",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for, so that `import harness` stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'harness' has no attribute '{name}'")
    from importlib import import_module

    homes = {
        **dict.fromkeys(("compare", "figure", "report", "results", "table"), "harness.reading"),
        "Results": "harness.reporting.results",
        "SentenceModel": "harness.encoders.sentence_model",
        "UserError": "harness.errors",
    }
    return getattr(import_module(homes.get(name, "harness.api")), name)


def __dir__() -> list[str]:
    return list(__all__)
