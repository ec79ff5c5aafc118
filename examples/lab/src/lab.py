"""A method and a section of the report, in one package.

The method pulls the cosines between captions towards those between their images: a relation instead of a pair. The
section shows what each run cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn.functional import mse_loss, normalize

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce
from harness.method import Batch, Dimensions, Encode, Feature, Hyperparameters, Method, PairBatch, hyper
from harness.reporting.sections.base import Part, ReportSection
from harness.reporting.tables.grids import CellText, Grid, Line, Section


@dataclass(frozen=True)
class RelationalHyperparameters(Hyperparameters):
    """What `--set` and `relational[key=value]` can change."""

    temperature: float = hyper(0.05, above=0, source="SimCSE section 3")
    lambda_: float = hyper(1.0, at_least=0, source="chosen", unit="weight of the term `relation`")
    images: str = hyper("default", source="the profile's image teacher", teacher=True)


class Relational(Method):
    """`text` on every batch, and `relation` on captions with images."""

    name = "relational"
    paper = "an example"
    streams = ("sentences", "pairs")
    terms = ("text", "relation")
    Hyperparameters = RelationalHyperparameters

    def __init__(self, hyperparameters: RelationalHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)

    @classmethod
    def features(cls, hyperparameters: RelationalHyperparameters) -> dict[str, Feature]:
        """The features of the images."""
        return {"image": Feature(hyperparameters.images)}

    def weights(self) -> dict[str, float]:
        """`text` weighs 1."""
        return {"relation": self.hyperparameters.lambda_}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """InfoNCE of two views; on pairs, the mean squared difference of two (n, n) matrices of cosines."""
        first, second = by_view(self.head, encode(batch.tokens, 2))
        terms = {"text": info_nce(first, second, self.hyperparameters.temperature)}
        if isinstance(batch, PairBatch):
            captions, images = normalize(first), normalize(batch.features["image"])
            terms["relation"] = mse_loss(captions @ captions.T, images @ images.T)
        return terms


class Cost(ReportSection):
    """Seconds and megabytes of each run."""

    order = 450
    title = menu = "Cost"

    @property
    def parts(self) -> Sequence[Part]:
        """One table of all runs that trained."""
        runs = [one for one in self.contents.runs if one.dev.steps]
        lines = tuple(
            Line(
                (str(one.spec.variant), str(one.spec.seed)),
                (CellText(f"{one.train_seconds:.1f}"), CellText(f"{one.peak_memory_mb:.0f}")),
                "plain",
            )
            for one in runs
        )
        columns = ("seconds", "MB")
        grid = Grid("cost", "Training", ("variant", "seed"), columns, (False, False), (Section("all runs", lines),), ())
        return [Part("", "", [grid])] if runs else []
