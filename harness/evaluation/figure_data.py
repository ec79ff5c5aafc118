"""Raw data for the papers' figures and lists of neighbours: arrays that are kept beside a run's result.

- Similarity task: gold scores and cosines (DALR Figure 4).
- Retrieval task: captions in the plane by t-SNE with K-means clusters (DALR Figure 3); repeated encodings of three
  captions under dropout (KDMCSE Figures 8 to 12); cosines of captions and images and ranks of an image's captions
  (KDMCSE Figures 5 and 6), in the teacher's space and in the method's own; and the nearest captions of some captions
  (MCSE Table 8, DALR Table 10, NonLing Table D.1).

Random draws depend only on the suite's seed and the task, so that all runs show the same captions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness import registry
from harness.errors import UserError
from harness.evaluation.correlation import spearman
from harness.evaluation.embed import Embedded, Embedder, HasSpaces, HasViews
from harness.evaluation.figure_views import sentence_triples, view_cosines
from harness.evaluation.neighbours import neighbours_of
from harness.evaluation.planes import clusters_of, plane
from harness.evaluation.ranking import units
from harness.evaluation.retrieval import ImagesWithCaptions
from harness.evaluation.sts import cosines_and_gold
from harness.evaluation.suites import SimilarityTask, Suite, SuiteScores, Values, sentences_of
from harness.metrics import AVERAGE, ArrayName
from harness.seeds import derive_seed, generator
from harness.sources import digest

#: Triples of captions, one for each of KDMCSE's Figures 8 to 12.
TRIPLES = 5
#: Bin edges of the histogram of cosines: steps of a hundredth.
EDGES = np.linspace(-1, 1, 201)
#: Cosines in memory at a time: 64 MB in float32.
_CELLS = 1 << 24
Arrays = dict[str, np.ndarray]
_SIMILARITY, _RETRIEVAL = "similarity task", "retrieval task"


class FiguresSuite(Suite):
    """Raw data for figures, named by `ArrayName`: the task, what the array holds, and the space where it has one.

    Of a similarity task: `gold`, `cosine` (n,). Of a retrieval task: `tsne` (c, 2) and `clusters` (c,) of at most
    `captions` first captions of images; `triples` (5, 3) texts and `views` (5, 3, v, 2), encodings under dropout in
    the plane of each triple; `queries` (q,), captions drawn, and `neighbours` and `neighbour_cosines` (q, 3), the
    captions nearest to each and their cosines. In each space of texts and images ('teacher', 'own'): `worst_rank`
    (m,), and `similarity_true` and `similarity_other` (200,), counts of cosines between `similarity_edges` (201,) of
    captions with their own and with the other images.
    Metrics: `spearman` (x100) and `n` pairs; `n_texts`, `n_images`, and the mean cosines of two encodings of one
    caption, of the two close captions and of the distant caption: `cosine_same`, `cosine_close`, `cosine_apart`.
    """

    name = "figures"
    version = 2
    metrics = ()
    kind = _SIMILARITY

    def __init__(
        self,
        tasks: Sequence[str],
        captions: int = 5000,
        clusters: int = 50,
        views: int = 100,
        queries: int = 6,
        seed: int = 0,
    ) -> None:
        """Raises UserError for an unknown task or a number that leaves nothing to draw."""
        super().__init__(tasks)
        if captions < 2 or views < 2 or queries < 1 or not 1 <= clusters <= captions:
            raise UserError(
                f"the suite 'figures' has captions = {captions}, clusters = {clusters}, views = {views}, queries = "
                f"{queries}; give at least 2 captions and views, 1 query, and at most as many clusters as captions"
            )
        self.captions, self.clusters, self.views, self.queries, self.seed = captions, clusters, views, queries, seed

    @classmethod
    def find(cls, task: str) -> Any:
        """Return a similarity or retrieval task by name. Raises UserError for one that is neither."""
        retrieval = registry.names(_RETRIEVAL)
        if task not in retrieval and task not in registry.names(_SIMILARITY):
            raise UserError(f"the suite 'figures' has no task '{task}'; name a similarity or a retrieval task")
        return registry.get(_RETRIEVAL if task in retrieval else _SIMILARITY, task)

    def fingerprint(self, root: Path | None) -> str:
        """Hash the protocol, its options, the tasks and their contents."""
        return digest(super().fingerprint(root), self.captions, self.clusters, self.views, self.queries, self.seed)

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        """Compute the arrays of every task (see `HasViews` and `HasSpaces` for what needs more than vectors)."""
        scores: dict[str, Values] = {}
        arrays: dict[ArrayName, np.ndarray] = {}
        warnings: list[str] = []
        for name, task in self._tasks.items():
            if name in registry.names(_RETRIEVAL):
                data: ImagesWithCaptions = task.load(root)
                scores[name], found = self._of_captions(name, data, embed)
                found |= self._of_queries(name, data, embed)
                arrays |= _of_spaces(name, data, embed)
                remarks = [] if "views" in found else ["repeated encodings left out: the model has no dropout views"]
            else:
                scores[name], found, remarks = _of_pairs(task, embed, root)
            arrays |= {ArrayName(name, what): values for what, values in found.items()}
            warnings += [f"{self.name}: {name}: {line}" for line in remarks]
        return SuiteScores({**scores, AVERAGE: {}}, warnings=warnings, arrays=arrays)

    def _of_captions(self, name: str, data: ImagesWithCaptions, embed: Embedder) -> tuple[Values, Arrays]:
        texts, seed = _first_captions(data), derive_seed(suite=self.name, task=name, seed=self.seed)
        counts: Values = {"n_texts": len(data.texts), "n_images": len(data.images)}
        rng = generator(suite=self.name, task=name, seed=self.seed, part="captions")
        rows = np.sort(rng.permutation(len(texts))[: self.captions])
        vectors = units(np.nan_to_num(embed([texts[row] for row in rows])))
        found = {"tsne": plane(vectors, seed), "clusters": clusters_of(vectors, self.clusters, seed)}
        if not isinstance(embed, HasViews):
            return counts, found
        triples = sentence_triples(data, TRIPLES, generator(suite=self.name, task=name, seed=self.seed, part="triples"))
        views = np.stack([_units_of_views(embed.views(triple, self.views, seed)) for triple in triples])
        found["triples"] = np.array(triples)
        found["views"] = np.stack([_views_plane(each, seed) for each in views])
        return counts | view_cosines(views), found

    def _of_queries(self, name: str, data: ImagesWithCaptions, embed: Embedder) -> Arrays:
        rng = generator(suite=self.name, task=name, seed=self.seed, part="queries")
        return neighbours_of(list(data.texts), embed, self.queries, rng)


def _units_of_views(views: np.ndarray) -> np.ndarray:
    """Scale encodings of s sentences, (s, n, d), to Euclidean norm 1."""
    return units(np.nan_to_num(views).reshape(-1, views.shape[-1])).reshape(views.shape)


def similarities(texts: np.ndarray, images: np.ndarray, image_of: np.ndarray) -> Arrays:
    """Rank the worst captions and count cosines: captions (n, p), images (m, p), image of each caption (n,).

    `worst_rank` (m,) int32 is the rank, from 1, of an image's last true caption among all captions by cosine, ties
    before it; for `similarity_true`, `similarity_other` and `similarity_edges` see `FiguresSuite`.
    """
    texts, images = units(texts), units(images)
    worst = np.zeros(len(images), dtype=np.int32)
    true, every = (np.zeros(len(EDGES) - 1, dtype=np.int64) for _ in range(2))
    for block, cosines in _blocks(images, texts):
        own = image_of[None, :] == block[:, None]
        least = np.where(own, cosines, np.inf).min(axis=1)
        worst[block] = np.count_nonzero(cosines >= least[:, None], axis=1)
        every += np.histogram(cosines, len(EDGES) - 1, (-1, 1))[0]
        true += np.histogram(cosines[own], len(EDGES) - 1, (-1, 1))[0]
    return {"worst_rank": worst, "similarity_true": true, "similarity_other": every - true, "similarity_edges": EDGES}


def _blocks(images: np.ndarray, texts: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of some images, and their cosines with all captions, clipped to [-1, 1]."""
    size = max(1, _CELLS // len(texts))
    for top in range(0, len(images), size):
        block = np.arange(top, min(top + size, len(images)))
        yield block, np.clip(images[block] @ texts.T, -1, 1)


def _of_pairs(task: SimilarityTask, embed: Embedder, root: Path | None) -> tuple[Values, Arrays, list[str]]:
    subsets = task.load(root)
    pairs = [pair for subset in subsets.values() for pair in subset]
    cosines, gold = cosines_and_gold(pairs, Embedded(embed, sentences_of(subsets)))
    found = {"gold": gold.astype(np.float32), "cosine": cosines.astype(np.float32)}
    rank = spearman(cosines, gold)
    if rank is None:
        return {"n": len(gold)}, found, ["spearman left out, undefined: constant similarities or scores"]
    return {"spearman": 100 * rank, "n": len(gold)}, found, []


def _of_spaces(name: str, data: ImagesWithCaptions, embed: Embedder) -> dict[ArrayName, np.ndarray]:
    """Compute similarities in the method's own space and in the teacher's, where they exist."""
    spaces: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if isinstance(embed, HasSpaces):
        if embed.shared is not None:
            spaces["own"] = (embed.shared.texts(data.texts), embed.shared.images(data.images, name))
        both = embed.teacher.both(data.texts, data.images, name) if embed.teacher is not None else None
        if both is not None:
            spaces["teacher"] = both
    return {
        ArrayName(name, what, space): values
        for space, (texts, images) in spaces.items()
        for what, values in similarities(texts, images, data.image_of).items()
    }


def _first_captions(data: ImagesWithCaptions) -> list[str]:
    """Return the first caption of each image."""
    _, rows = np.unique(data.image_of, return_index=True)
    return [data.texts[row] for row in rows]


def _views_plane(views: np.ndarray, seed: int) -> np.ndarray:
    """Place encodings of three captions, (3, v, d), in one plane: (3, v, 2)."""
    return plane(views.reshape(-1, views.shape[-1]), seed).reshape(*views.shape[:2], 2)
