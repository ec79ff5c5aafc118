"""The teacher features of one run: of its own pairs for training, and of other pairs for evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.corpora.base import Pairs
from harness.encoders.features import Stacked
from harness.execution.feature_context import FeatureContext
from harness.execution.ingredients import Experiment
from harness.execution.pairs import KnownPairs
from harness.sources import digest


@dataclass(frozen=True)
class RunFeatures:
    """The teachers of one run and how they compute."""

    experiment: Experiment
    context: FeatureContext

    def load(self, pairs: Sequence[KnownPairs]) -> dict[str, Stacked | np.ndarray]:
        """The features of each role over the run's pair corpora, one row a caption, (n, ...)."""
        roles, seed = self.experiment.ingredients.features, self.experiment.resolved.spec.seed
        return {role: features.load(pairs, seed, self.context) for role, features in roles.items()}

    def of_images(self, pairs: Pairs, content: str) -> np.ndarray:
        """The role 'image' of other images, (n, f); `content` is their hash. A control has the true features here."""
        teacher = self.experiment.ingredients.features["image"].teacher
        return teacher.features(KnownPairs.of_content(pairs, content), self.context)

    def of_captions(self, texts: Sequence[str], content: str) -> np.ndarray | None:
        """Features of n other captions, (n, f); None unless one teacher has both roles 'image' and 'caption'."""
        roles = self.experiment.ingredients.features
        image, caption = roles.get("image"), roles.get("caption")
        if image is None or caption is None or image.asked.teacher != caption.asked.teacher:
            return None
        known = KnownPairs.of_content(Pairs(texts), digest("captions", content))
        return caption.teacher.features(known, self.context)
