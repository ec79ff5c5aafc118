"""MyMethod: what the method does, in a sentence.

As it is, the method is SimCSE with an extra term that pulls a caption and its image together. Change the terms, the
heads and the hyperparameters; batches, the optimizer, checkpoints and evaluation come from the harness.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from harness.encoders.heads import TanhHead, by_view
from harness.losses.contrastive import info_nce
from harness.method import Batch, Dimensions, Encode, Feature, Hyperparameters, Method, PairBatch, hyper


@dataclass(frozen=True)
class MyMethodHyperparameters(Hyperparameters):
    """What `--set` and `my_method[key=value]` can change; each value says where it comes from."""

    temperature: float = hyper(0.05, above=0, source="SimCSE section 3")
    # typed `lambda`; the underscore avoids Python's keyword
    lambda_: float = hyper(0.5, at_least=0, source="chosen", unit="weight of the term `image`")
    projection_dim: int = hyper(64, source="chosen", unit="width of the space of captions and images")
    images: str = hyper("default", source="the profile's image teacher", teacher=True)


class MyMethod(Method):
    """`text` on every batch, and `image` on captions with images."""

    name = "my_method"
    title = "MyMethod"
    paper = "where the method is published"
    # printed by `harness cite`
    citation = """
        @misc{my_method,
          title = {MyMethod},
          author = {Your Name},
          year = {2026},
        }
    """
    # ways to read the paper, as in `my_method@official`: what each follows, and its values where they differ
    readings = {"paper": "the equations of the paper", "official": "its public code"}
    reading_values = {"official": {"lambda": 0.1}}
    # what it learns from: sentences, pairs (captions with images), triplets, images, audio
    streams = ("sentences", "pairs")
    # every term that `loss_terms` returns
    terms = ("text", "image")
    Hyperparameters = MyMethodHyperparameters

    def __init__(self, hyperparameters: MyMethodHyperparameters, dimensions: Dimensions) -> None:
        super().__init__(hyperparameters, dimensions)
        self.text_head = TanhHead(dimensions.encoder, dimensions.encoder, std=0.02)
        self.caption_head = TanhHead(dimensions.encoder, hyperparameters.projection_dim)
        self.image_head = TanhHead(dimensions.features["image"], hyperparameters.projection_dim)

    @classmethod
    def features(cls, hyperparameters: MyMethodHyperparameters) -> dict[str, Feature]:
        """The teacher features that it reads, by the names that `loss_terms` uses."""
        return {"image": Feature(hyperparameters.images)}

    def weights(self) -> dict[str, float]:
        """Weights of terms; others weigh 1."""
        return {"image": self.hyperparameters.lambda_}

    def loss_terms(self, batch: Batch, encode: Encode) -> dict[str, Tensor]:
        """Each term as a scalar, without its weight. `encode` gives (rows, views, width): views differ by dropout."""
        vectors = encode(batch.tokens, 2)
        first, second = by_view(self.text_head, vectors)
        terms = {"text": info_nce(first, second, self.hyperparameters.temperature)}
        if isinstance(batch, PairBatch):
            captions = by_view(self.caption_head, vectors)[0]
            images = self.image_head(batch.features["image"])
            terms["image"] = info_nce(captions, images, self.hyperparameters.temperature)
        return terms
