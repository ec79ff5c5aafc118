"""Raw data for the papers' figures and lists of neighbours: arrays that are kept beside a run's result.

- Similarity task: gold scores and cosines (DALR Figure 4).
- Retrieval task: captions in the plane by t-SNE with K-means clusters (DALR Figure 3); repeated encodings of three
  captions under dropout (KDMCSE Figures 8 to 12); cosines of captions and images and ranks of an image's captions
  (KDMCSE Figures 5 and 6), in the teacher's space and in the method's own; and the nearest captions of some captions
  (MCSE Table 8, DALR Table 10, NonLing Table D.1).

Random draws depend only on the suite's seed and the task, so that all runs show the same captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness import registry
from harness.errors import UserError
from harness.evaluation.cosines import spearman, units
from harness.evaluation.embed import Embedded, Embedder, HasSpaces, HasViews, told
from harness.evaluation.figure_arrays import (
    clusters_of,
    neighbours_of,
    plane,
    sentence_triples,
    similarities,
    view_cosines,
)
from harness.evaluation.retrieval import ImagesWithCaptions, RetrievalTask
from harness.evaluation.sts import cosines_and_gold
from harness.evaluation.suites import (
    RETRIEVAL,
    SIMILARITY,
    SimilarityTask,
    Suite,
    SuiteScores,
    Values,
    pairs_of,
    sentences_of,
)
from harness.metrics import AVERAGE, ArrayName
from harness.seeds import derive_seed, generator
from harness.sources import digest

#: Triples of captions, one for each of KDMCSE's Figures 8 to 12.
TRIPLES = 5
Arrays = dict[str, np.ndarray]


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
    kind = SIMILARITY
    asks_teacher = True

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
    def find(cls, task: str) -> SimilarityTask | RetrievalTask:
        """Return a similarity or retrieval task by name. Raises UserError for one that is neither."""
        for kind in (RETRIEVAL, SIMILARITY):
            if task in registry.names(kind):
                found: SimilarityTask | RetrievalTask = registry.get(kind, task)
                return found
        raise UserError(f"the suite 'figures' has no task '{task}'; name a similarity or a retrieval task")

    @classmethod
    def takes(cls, kind: str) -> bool:
        """Whether tasks of a registry kind can be among its own."""
        return kind in (RETRIEVAL, SIMILARITY)

    @property
    def image_tasks(self) -> list[str]:
        """Its retrieval tasks by name."""
        own = {name: getattr(task, "kind", None) for name, task in self._tasks.items()}
        return [name for name, kind in own.items() if kind == RETRIEVAL or name in registry.names(RETRIEVAL)]

    def fingerprint(self, root: Path | None) -> str:
        """Hash the protocol, its options, the tasks and their contents."""
        return digest(super().fingerprint(root), self.captions, self.clusters, self.views, self.queries, self.seed)

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        """Compute the arrays of every task (see `HasViews` and `HasSpaces` for what needs more than vectors)."""
        scores: dict[str, Values] = {}
        arrays: dict[ArrayName, np.ndarray] = {}
        warnings: list[str] = []
        for name, task in told(embed, self._tasks):
            if name in self.image_tasks:
                data: ImagesWithCaptions = task.load(root)
                scores[name], found = self._of_captions(name, data, embed)
                found |= neighbours_of(data.texts, embed, self.queries, self._rng(name, "queries"))
                arrays |= _of_spaces(name, data, embed)
                remarks = [] if "views" in found else ["repeated encodings left out: the model has no dropout views"]
            else:
                scores[name], found, remarks = _of_pairs(task, embed, root)
            arrays |= {ArrayName(name, what): values for what, values in found.items()}
            warnings += [f"{self.name}: {name}: {line}" for line in remarks]
        return SuiteScores({**scores, AVERAGE: {}}, warnings=warnings, arrays=arrays)

    def _rng(self, task: str, part: str) -> np.random.Generator:
        return generator(suite=self.name, task=task, seed=self.seed, part=part)

    def _of_captions(self, name: str, data: ImagesWithCaptions, embed: Embedder) -> tuple[Values, Arrays]:
        """Place the first caption of each image in the plane, and encode triples repeatedly where the model can."""
        seed = derive_seed(suite=self.name, task=name, seed=self.seed)
        counts: Values = {"n_texts": len(data.texts), "n_images": len(data.images)}
        firsts = np.unique(data.image_of, return_index=True)[1]
        chosen = firsts[np.sort(self._rng(name, "captions").permutation(len(firsts))[: self.captions])]
        vectors = units(embed([data.texts[row] for row in chosen]))
        found = {"tsne": plane(vectors, seed), "clusters": clusters_of(vectors, self.clusters, seed)}
        if not isinstance(embed, HasViews):
            return counts, found
        triples = sentence_triples(data, TRIPLES, self._rng(name, "triples"))
        encoded = [embed.views(triple, self.views, seed) for triple in triples]
        views = np.stack([units(each.reshape(-1, each.shape[-1])) for each in encoded])
        places = np.stack([plane(each, seed) for each in views])
        found |= {"triples": np.array(triples), "views": places.reshape(TRIPLES, 3, self.views, 2)}
        return counts | view_cosines(views.reshape(TRIPLES, 3, self.views, -1)), found


def _of_pairs(task: SimilarityTask, embed: Embedder, root: Path | None) -> tuple[Values, Arrays, list[str]]:
    subsets = task.load(root)
    cosines, gold = cosines_and_gold(pairs_of(subsets), Embedded(embed, sentences_of(subsets)))
    found = {"gold": gold.astype(np.float32), "cosine": cosines.astype(np.float32)}
    rank = spearman(cosines, gold)
    if rank is None:
        return {"n": len(gold)}, found, ["spearman left out, undefined: constant similarities or scores"]
    return {"spearman": 100 * rank, "n": len(gold)}, found, []


def _of_spaces(name: str, data: ImagesWithCaptions, embed: Embedder) -> dict[ArrayName, np.ndarray]:
    """Compute similarities in the method's own space and in the teacher's, where they exist."""
    spaces: dict[str, tuple[np.ndarray, np.ndarray] | None] = {}
    if isinstance(embed, HasSpaces):
        if embed.shared is not None:
            spaces["own"] = (embed.shared.texts(data.texts), embed.shared.images(data.images, name))
        if embed.teacher is not None:
            spaces["teacher"] = embed.teacher.both(data.texts, data.images, name)
    return {
        ArrayName(name, what, space): values
        for space, both in spaces.items()
        if both is not None
        for what, values in similarities(*both, data.image_of).items()
    }
