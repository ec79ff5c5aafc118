"""The images that retrieval ranks in each row: their number, what chance would recall, and rows of
one column that rank other images.

All models of a profile rank one gallery; results that were scored before a training of the profile
read more of its images, or under another profile of the name, have another one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from harness.metrics import AVERAGE
from harness.reporting.seeds.caveats import GALLERY, Caveat
from harness.store import Frames

if TYPE_CHECKING:
    import pandas

#: ranks up to which recalls are counted
_RANKS = (1, 5, 10)
#: counts of images, and a recall that is in every task with recalls
_COUNTS = ("n_images", "n_seen", "gallery", "t2i_R@1")


class Gallery(NamedTuple):
    """A gallery's images, and a number that only equal galleries share: 0 where none is left out,
    -1 where an older result does not tell which ones are.
    """

    images: int
    number: int

    def __str__(self) -> str:
        chances = ", ".join(f"R@{rank} {100 * rank / self.images:.2f}" for rank in _RANKS)
        return f"{self.images:,} images (by chance, text to image, {chances})"


#: task -> the galleries that the runs of a row have ranked, of one or several
RowGalleries = Mapping[str, Collection[Gallery]]


def find_galleries(frames: Frames, kept: pandas.DataFrame) -> dict[int, RowGalleries]:
    """The galleries of chosen evaluations by row, for those with recalls and a count of seen
    images.
    """
    scores = frames.scores
    counts = scores[scores["metric"].isin(_COUNTS)]
    counts = counts.merge(kept[["evaluation", "row"]], on="evaluation")

    values: dict[tuple[int, int, str], dict[str, float]] = {}
    names = ("row", "evaluation", "task", "metric", "value")
    columns = [counts[name].tolist() for name in names]
    for row, evaluation, task, metric, value in zip(*columns, strict=True):
        values.setdefault((row, evaluation, task), {})[metric] = value

    galleries: dict[int, dict[str, set[Gallery]]] = {}
    for (row, _, task), counted in values.items():
        if not counted.keys() >= {"n_seen", "n_images", "t2i_R@1"}:
            continue
        # without seen images, all are ranked
        number = int(counted.get("gallery", -1)) if counted["n_seen"] else 0
        gallery = Gallery(int(counted["n_images"]), number)
        galleries.setdefault(row, {}).setdefault(task, set()).add(gallery)
    return dict(galleries)


def find_unlike_tasks(rows: Iterable[RowGalleries]) -> set[str]:
    """The tasks in which rows of one table rank among unlike galleries, and then their average."""
    by_task = _group_galleries(rows)
    unlike = {task for task, galleries in by_task.items() if len(galleries) > 1}
    if unlike:
        unlike.add(AVERAGE)
    return unlike


def make_gallery_caveat(
    task: str, unlike: Collection[str], galleries: RowGalleries
) -> list[Caveat]:
    """The caveat of a row's score in a task, or in the average, whose column has unlike galleries."""
    if task not in unlike:
        return []

    own_gallery = list(galleries.get(task, ()))
    if task == AVERAGE:
        own_gallery = [gallery for name in unlike for gallery in galleries.get(name, ())]
    if not own_gallery:
        return []
    return [Caveat(GALLERY, tuple(sorted(map(str, own_gallery))))]


def describe_galleries(rows: Iterable[RowGalleries]) -> Iterator[str]:
    """A line for each task whose rows all rank among one gallery."""
    for task, galleries in _group_galleries(rows).items():
        if len(galleries) == 1:
            yield f"{task}: {next(iter(galleries))}."


def _group_galleries(rows: Iterable[RowGalleries]) -> dict[str, set[Gallery]]:
    """All galleries of each task in any row."""
    by_task: dict[str, set[Gallery]] = {}
    for row in rows:
        for task, galleries in row.items():
            by_task.setdefault(task, set()).update(galleries)
    return by_task
