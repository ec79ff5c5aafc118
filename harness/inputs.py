"""Types of what methods learn from and are configured with, shared by all layers."""

from __future__ import annotations

from typing import Final, Literal

#: a kind of training data
Stream = Literal["sentences", "pairs", "triplets", "images", "audio"]
#: streams that are not text
MEDIA: Final[tuple[Stream, ...]] = ("images", "audio")
#: what a teacher's feature describes: an image, a caption, or each token of a caption
FeatureKind = Literal["image", "caption", "tokens"]
#: a value of a hyperparameter
OptionValue = int | float | str | bool
