"""Raw data for the papers' figures and lists of neighbours: arrays that are kept beside a run's
result.

- Similarity task: gold scores and cosines (DALR Figure 4).
- Retrieval task: captions in the plane by t-SNE with K-means clusters (DALR Figure 3); repeated
  encodings of three captions under dropout (KDMCSE Figures 8 to 12); cosines of captions and images
  and ranks of an image's captions (KDMCSE Figures 5 and 6), in the teacher's space and in the
  method's own; and the nearest captions of some captions (MCSE Table 8, DALR Table 10, NonLing
  Table D.1).

Random draws depend only on the suite's seed and the task, so that all runs show the same captions.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness import registry
from harness.errors import UserError
from harness.evaluation.retrieval import ImagesWithCaptions, RetrievalTask, ranks
from harness.evaluation.sts import cosines_and_gold, spearman
from harness.evaluation.suites import (
    RETRIEVAL,
    SIMILARITY,
    Embedded,
    Embedder,
    EmbedFunction,
    SimilarityTask,
    Suite,
    SuiteScores,
    Values,
    pairs_of,
    row_blocks,
    sentences_of,
    units,
    with_progress,
)
from harness.metrics import AVERAGE, ArrayName
from harness.seeds import derive_seed, generator
from harness.sources import digest

#: Triples of captions, one for each of KDMCSE's Figures 8 to 12.
TRIPLES = 5
Arrays = dict[str, np.ndarray]

#: Perplexity of t-SNE: the usual value, since no paper states its own.
PERPLEXITY = 30.0
#: scikit-learn takes 32-bit seeds.
_SEEDS = 1 << 32
#: Neighbours of a drawn query: the longest list in the papers.
NEAREST = 3
#: Bin edges of the histogram of cosines: steps of a hundredth.
EDGES = np.linspace(-1, 1, 201)


class FiguresSuite(Suite):
    """Raw data for figures, named by `ArrayName`: the task, what the array holds, and the space
    where it has one.

    Of a similarity task: `gold`, `cosine` (n,). Of a retrieval task: `tsne` (c, 2) and `clusters`
    (c,) of at most `captions` first captions of images; `triples` (5, 3) texts and `views` (5, 3,
    v, 2), encodings under dropout in the plane of each triple; `queries` (q,), captions drawn, and
    `neighbours` and `neighbour_cosines` (q, 3), the captions nearest to each and their cosines. In
    each space of texts and images ('teacher', 'own'): `worst_rank` (m,), `rank` (n,), and
    `similarity_true` and `similarity_other` (200,), counts of cosines between `similarity_edges`
    (201,) of captions with their own and with the other images. Metrics: `spearman` (x100) and `n`
    pairs; `n_texts`, `n_images`, and the mean cosines of two encodings of one caption, of the two
    close captions and of the distant caption: `cosine_same`, `cosine_close`, `cosine_apart`.
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
        super().__init__(tasks)
        if captions < 2 or views < 2 or queries < 1 or not 1 <= clusters <= captions:
            raise UserError(
                f"the suite 'figures' has captions = {captions}, clusters = {clusters}, views = {views}, queries = "
                f"{queries}; give at least 2 captions and views, 1 query, and at most as many clusters as captions"
            )
        self.captions = captions
        self.clusters = clusters
        self.views = views
        self.queries = queries
        self.seed = seed

    @classmethod
    def find(cls, task: str) -> SimilarityTask | RetrievalTask:
        for kind in (RETRIEVAL, SIMILARITY):
            if task in registry.names(kind):
                registered: SimilarityTask | RetrievalTask = registry.get(kind, task)
                return registered
        raise UserError(
            f"the suite 'figures' has no task '{task}'; name a similarity or a retrieval task"
        )

    @classmethod
    def takes(cls, kind: str) -> bool:
        return kind in (RETRIEVAL, SIMILARITY)

    @property
    def image_tasks(self) -> list[str]:
        own = {name: getattr(task, "kind", None) for name, task in self._tasks.items()}
        return [
            name
            for name, kind in own.items()
            if kind == RETRIEVAL or name in registry.names(RETRIEVAL)
        ]

    def fingerprint(self, root: Path | None) -> str:
        return digest(
            super().fingerprint(root),
            self.captions,
            self.clusters,
            self.views,
            self.queries,
            self.seed,
        )

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        scores: dict[str, Values] = {}
        arrays: dict[ArrayName, np.ndarray] = {}
        warnings: list[str] = []
        for name, task in with_progress(embed, self._tasks):
            if name in self.image_tasks:
                data: ImagesWithCaptions = task.load(root)
                scores[name], drawn, remarks = self._of_captions(name, data, embed)
                arrays |= _of_spaces(name, data, embed) if drawn else {}
            else:
                scores[name], drawn, remarks = _of_pairs(task, embed, root)
            arrays |= {ArrayName(name, what): values for what, values in drawn.items()}
            warnings += [f"{self.name}: {name}: {line}" for line in remarks]
        return SuiteScores({**scores, AVERAGE: {}}, warnings=warnings, arrays=arrays)

    def _rng(self, task: str, part: str) -> np.random.Generator:
        return generator(suite=self.name, task=task, seed=self.seed, part=part)

    def _of_captions(
        self, name: str, data: ImagesWithCaptions, embed: Embedder
    ) -> tuple[Values, Arrays, list[str]]:
        """What a task's captions give, encoded repeatedly where the model can, and a line on what
        is left out.
        """
        seed = derive_seed(suite=self.name, task=name, seed=self.seed)
        counts: Values = {"n_texts": len(data.texts), "n_images": len(data.images)}
        different = len(set(data.texts))
        # the third caption of a triple is not one of its first image
        if len(data.images) < 3 or different <= max([2, *np.bincount(data.image_of)]):
            return (
                counts,
                {},
                [
                    f"left out: too few images or different captions ({len(data.images)} and {different})"
                ],
            )
        firsts = np.unique(data.image_of, return_index=True)[1]
        chosen = firsts[
            np.sort(self._rng(name, "captions").permutation(len(firsts))[: self.captions])
        ]
        vectors = units(embed([data.texts[row] for row in chosen]))
        arrays = {
            "tsne": plane(vectors, seed),
            "clusters": clusters_of(vectors, self.clusters, seed),
        }
        arrays |= neighbours_of(data.texts, embed, self.queries, self._rng(name, "queries"))
        if embed.views is None:
            return counts, arrays, ["repeated encodings left out: the model has no dropout views"]
        triples = sentence_triples(data, TRIPLES, self._rng(name, "triples"))
        encoded = [embed.views(triple, self.views, seed) for triple in triples]
        views = np.stack([units(each.reshape(-1, each.shape[-1])) for each in encoded])
        places = np.stack([plane(each, seed) for each in views])
        arrays |= {"triples": np.array(triples), "views": places.reshape(TRIPLES, 3, self.views, 2)}
        return counts | view_cosines(views.reshape(TRIPLES, 3, self.views, -1)), arrays, []


def _of_pairs(
    task: SimilarityTask, embed: Embedder, root: Path | None
) -> tuple[Values, Arrays, list[str]]:
    subsets = task.load(root)
    cosines, gold = cosines_and_gold(pairs_of(subsets), Embedded(embed, sentences_of(subsets)))
    arrays = {"gold": gold.astype(np.float32), "cosine": cosines.astype(np.float32)}
    rank = spearman(cosines, gold)
    if rank is None:
        return (
            {"n": len(gold)},
            arrays,
            ["spearman left out, undefined: constant similarities or scores"],
        )
    return {"spearman": 100 * rank, "n": len(gold)}, arrays, []


def _of_spaces(name: str, data: ImagesWithCaptions, embed: Embedder) -> dict[ArrayName, np.ndarray]:
    spaces: dict[str, tuple[np.ndarray, np.ndarray] | None] = {}
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


def plane(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Compute t-SNE (van der Maaten and Hinton, 2008) of n > 1 vectors: (n, d) -> (n, 2) float32.

    Deterministic: it starts at the principal components. The perplexity is smaller for fewer than
    92 vectors.
    """
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, max(1.0, (len(vectors) - 1) / 3))
    # seeded noise where there are no two components
    start = "pca" if min(vectors.shape) > 1 and np.ptp(vectors, axis=0).any() else "random"
    made = TSNE(perplexity=perplexity, init=start, random_state=seed % _SEEDS).fit_transform(
        vectors
    )
    return np.asarray(made, dtype=np.float32)


def clusters_of(vectors: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Cluster n vectors by K-means (Lloyd, 1982): (n, d) -> (n,) int32 below min(k, n)."""
    from sklearn.cluster import KMeans

    made = KMeans(min(k, len(vectors)), n_init=4, random_state=seed % _SEEDS).fit(vectors)
    return np.asarray(made.labels_, dtype=np.int32)


def nearest(pool: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the k other rows of a pool, (m, d) float32, with the highest cosine to each of its rows
    `queries`, (q,) int.

    Returns row numbers and cosines, (q, k) each, nearest first, equal cosines in the order of the
    pool. A zero row has cosine 0 with everything. Raises ValueError where there are fewer than k
    other rows.
    """
    if not 1 <= k < len(pool):
        raise ValueError(f"fewer than {k} neighbours are left in a pool of {len(pool)}")
    norms = np.linalg.norm(pool, axis=1)
    norms[norms == 0] = 1
    rows = np.empty((len(queries), k), dtype=np.int64)
    nearest_cosines = np.empty((len(queries), k), dtype=np.float32)
    for block in row_blocks(len(queries), len(pool)):
        own = queries[block]
        cosines = ((pool[own] / norms[own, None]) @ pool.T) * (1 / norms)
        cosines[np.arange(len(own)), own] = -np.inf
        rows[block] = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        nearest_cosines[block] = np.take_along_axis(cosines, rows[block], axis=1)
    return rows, nearest_cosines


def neighbours_of(
    captions: Sequence[str], embed: EmbedFunction, queries: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw `queries` from the distinct captions and find the three nearest others of each, and
    their cosines.
    """
    pool = list(dict.fromkeys(captions))
    asked = rng.permutation(len(pool))[:queries]
    drawn = [pool[row] for row in asked]
    rows, cosines = nearest(
        Embedded(embed, [*drawn, *pool]).rows(pool), asked, max(1, min(NEAREST, len(pool) - 1))
    )
    texts = [[pool[row] for row in nearby] for nearby in rows]
    return {"queries": np.array(drawn), "neighbours": np.array(texts), "neighbour_cosines": cosines}


def similarities(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray
) -> dict[str, np.ndarray]:
    """Rank the worst captions and count cosines: captions (n, p), images (m, p), image of each
    caption (n,).

    `worst_rank` (m,) int32 is the rank, from 1, of an image's last true caption among all captions
    by cosine, and `rank` (n,) int32 that of a caption's image among all images, ties before it; for
    `similarity_true`, `similarity_other` and `similarity_edges` see `FiguresSuite`.
    """
    texts = units(texts)
    images = units(images)
    worst = np.zeros(len(images), dtype=np.int32)
    true, every = (np.zeros(len(EDGES) - 1, dtype=np.int64) for _ in range(2))
    for block in row_blocks(len(images), len(texts)):
        cosines = np.clip(images[block] @ texts.T, -1, 1)
        own = image_of == np.arange(block.start, block.stop)[:, None]
        least = np.where(own, cosines, np.inf).min(axis=1)
        worst[block] = np.count_nonzero(cosines >= least[:, None], axis=1)
        every += np.histogram(cosines, len(EDGES) - 1, (-1, 1))[0]
        true += np.histogram(cosines[own], len(EDGES) - 1, (-1, 1))[0]
    rank = ranks(texts, images, image_of, np.arange(len(images))).astype(np.int32)
    counts = {"similarity_true": true, "similarity_other": every - true, "similarity_edges": EDGES}
    return {"worst_rank": worst, "rank": rank, **counts}


def sentence_triples(data: ImagesWithCaptions, n: int, rng: np.random.Generator) -> list[list[str]]:
    """Draw n triples of captions, two close ones and a distant one (KDMCSE Figures 8 to 12).

    The first two are the first two distinct captions of a drawn image or, where it has one, this
    and the caption of another image with the largest share of common words. The third belongs to
    another image: among the captions with at least as many words as the first, the one with the
    least in common with both, ties drawn. Raises ValueError for fewer than three images.
    """
    images = np.unique(data.image_of)
    if len(images) < 3:
        raise ValueError("triples of captions need three images")
    words = [_words(text) for text in data.texts]
    drawn = rng.choice(images, size=n, replace=n > len(images))
    return [_triple(data, words, int(image), rng) for image in drawn]


def view_cosines(views: np.ndarray) -> dict[str, float]:
    """Compute mean cosines of encodings, (t, 3, v, d) of norm 1, v > 1, over t triples (see
    `FiguresSuite`).
    """
    n = views.shape[2]
    centres = views.mean(axis=2, dtype=np.float64)
    squares = np.einsum("tsd,tsd->", centres, centres) / centres[..., 0].size
    first, second, apart = centres.transpose(1, 0, 2)
    return {
        # the mean over all n x n pairs, less each encoding with itself
        "cosine_same": float((n * squares - 1) / (n - 1)),
        "cosine_close": float(np.einsum("td,td->t", first, second).mean()),
        "cosine_apart": float(np.einsum("td,td->t", (first + second) / 2, apart).mean()),
    }


def _triple(
    data: ImagesWithCaptions, words: list[frozenset[str]], image: int, rng: np.random.Generator
) -> list[str]:
    mine = list(dict.fromkeys(data.texts[row] for row in np.flatnonzero(data.image_of == image)))
    others = [row for row in np.flatnonzero(data.image_of != image) if data.texts[row] not in mine]
    first = _words(mine[0])
    if len(mine) == 1:
        mine.append(data.texts[max(others, key=lambda row: _shared(first, words[row]))])
    both = first | _words(mine[1])
    others = [row for row in others if data.texts[row] not in mine]
    long = [row for row in others if len(data.texts[row].split()) >= len(mine[0].split())] or others
    shared = np.array([_shared(both, words[row]) for row in long])
    return [*mine[:2], data.texts[long[rng.choice(np.flatnonzero(shared == shared.min()))]]]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


def _shared(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))
