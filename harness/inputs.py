"""The names of what a method learns from: streams of training data and kinds of teacher features."""

from __future__ import annotations

from typing import Literal

Stream = Literal["sentences", "pairs", "triplets", "images", "audio"]
#: what a teacher's feature describes: an image, a caption, or each token of a caption
FeatureKind = Literal["image", "caption", "tokens"]
