"""A setting's options: how much of its corpora a run sees, and in what state.

flickr[shot=100]        100 pairs, as many steps as all pairs give (MCSE Figure 3)
nli[size=30000]         30,000 triplets or sentences, and the steps that they give (NonLing Figure 2)
nli[deletion=0.4]       each word left out with probability 0.4 (NonLing Figure 3)
nli[insertion=2,swap=2] two words put in, two pairs of words exchanged, in every text (NonLing Figure 3)
flickr[captions=all]    every caption of an image as a row, or `one` of them
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from harness.errors import UserError
from harness.registry import suggest
from harness.spec import Variant

Captions = Literal["one", "all"]
#: option -> the streams that it speaks of
SPEAKS_OF = {
    "shot": ("pairs",),
    "size": ("triplets", "sentences"),
    "deletion": ("triplets",),
    "insertion": ("triplets",),
    "swap": ("triplets",),
    "captions": ("pairs",),
}


@dataclass(frozen=True)
class SettingOptions:
    """What a setting's options come to; the defaults leave the corpora as they are."""

    shot: int | None = None
    size: int | None = None
    deletion: float = 0.0
    insertion: int = 0
    swap: int = 0
    captions: Captions | None = None

    @property
    def noise(self) -> tuple[float, int, int]:
        """Deletion, insertion and swap."""
        return self.deletion, self.insertion, self.swap

    def kept(self, stream: str) -> int | None:
        """Rows of a stream that are kept, or None for all."""
        if stream in SPEAKS_OF["shot"]:
            return self.shot
        return self.size if stream in SPEAKS_OF["size"] else None


def setting_options(setting: Variant) -> SettingOptions:
    """Read a setting's options. Raises UserError naming the option and what it may be."""
    values = {key: _value(setting, key, text) for key, text in setting.options}
    return SettingOptions(**values)  # type: ignore[arg-type]


def check_streams(setting: Variant, streams: Collection[str]) -> None:
    """Raise UserError for an option that speaks of no corpus of the setting, whose streams are these."""
    for key, _ in setting.options:
        if not set(SPEAKS_OF[key]) & set(streams):
            raise UserError(
                f"the setting '{setting}' has no corpus of {' or '.join(SPEAKS_OF[key])}, which '{key}' speaks of; "
                f"leave the option out"
            )


def _value(setting: Variant, key: str, text: str) -> int | float | str:
    if key not in SPEAKS_OF:
        raise UserError(f"the setting '{setting}' has no option '{key}'; {suggest(key, sorted(SPEAKS_OF))}")
    if key == "captions":
        if text not in ("one", "all"):
            raise UserError(f"captions={text} in '{setting}' is neither 'one' nor 'all'; write one of them")
        return text
    try:
        return _share(text) if key == "deletion" else _count(text)
    except ValueError as error:
        raise UserError(f"{key}={text} in '{setting}' is no {error}") from error


def _share(text: str) -> float:
    try:
        if 0 < float(text) < 1:
            return float(text)
    except ValueError:
        pass
    raise ValueError("share of the words; give a number above 0 and below 1")


def _count(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise ValueError("count; give a whole number, 1 or more")
