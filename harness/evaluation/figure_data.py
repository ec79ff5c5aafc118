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
from harness.evaluation.retrieval import ImagesWithCaptions, RetrievalTask, compute_ranks
from harness.evaluation.sts import compare_pairs, spearman
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
    list_pairs,
    list_sentences,
    report_tasks,
    require_unit_rows,
    split_rows,
)
from harness.metrics import AVERAGE, ArrayName
from harness.seeds import derive_seed, make_generator
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
            if task in registry.list_registered(kind):
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
        registered = registry.list_registered(RETRIEVAL)
        names = []
        for name, task in self._tasks.items():
            # a task of a profile has its kind with it
            if name in registered or getattr(task, "kind", None) == RETRIEVAL:
                names.append(name)
        return names

    def fingerprint(self, root: Path | None) -> str:
        options = (self.captions, self.clusters, self.views, self.queries, self.seed)
        return digest(super().fingerprint(root), *options)

    def evaluate(self, embed: Embedder, root: Path | None) -> SuiteScores:
        scores: dict[str, Values] = {}
        arrays: dict[ArrayName, np.ndarray] = {}
        warnings: list[str] = []
        for name, task in report_tasks(embed, self._tasks):
            if name in self.image_tasks:
                data: ImagesWithCaptions = task.load(root)
                scores[name], own_arrays, remarks = self._evaluate_captions(name, data, embed)
                if own_arrays:
                    arrays |= _evaluate_spaces(name, data, embed)
            else:
                scores[name], own_arrays, remarks = _evaluate_pairs(task, embed, root)

            for content, values in own_arrays.items():
                arrays[ArrayName(name, content)] = values
            warnings += [f"{self.name}: {name}: {line}" for line in remarks]
        return SuiteScores({**scores, AVERAGE: {}}, warnings=warnings, arrays=arrays)

    def _start_generator(self, task: str, part: str) -> np.random.Generator:
        return make_generator(suite=self.name, task=task, seed=self.seed, part=part)

    def _evaluate_captions(
        self, name: str, data: ImagesWithCaptions, embed: Embedder
    ) -> tuple[Values, Arrays, list[str]]:
        """What a task's captions give, encoded repeatedly where the model can, and a line on what
        is left out.
        """
        counts: Values = {"n_texts": len(data.texts), "n_images": len(data.images)}
        different = len(set(data.texts))
        # the third caption of a triple is not one of its first image
        if len(data.images) < 3 or different <= max([2, *np.bincount(data.image_of)]):
            numbers = f"{len(data.images)} and {different}"
            why = f"left out: too few images or different captions ({numbers})"
            return counts, {}, [why]

        seed = derive_seed(suite=self.name, task=name, seed=self.seed)
        _, first_captions = np.unique(data.image_of, return_index=True)
        order = self._start_generator(name, "captions").permutation(len(first_captions))
        rows = first_captions[np.sort(order[: self.captions])]
        vectors = require_unit_rows(embed([data.texts[row] for row in rows]))

        arrays = {
            "tsne": project_to_plane(vectors, seed),
            "clusters": find_clusters(vectors, self.clusters, seed),
        }

        rng = self._start_generator(name, "queries")
        arrays |= draw_neighbours(data.texts, embed, self.queries, rng)
        if embed.views is None:
            return counts, arrays, ["repeated encodings left out: the model has no dropout views"]

        triples = draw_triples(data, TRIPLES, self._start_generator(name, "triples"))
        views = []
        for triple in triples:
            encoded = embed.views(triple, self.views, seed)
            views.append(require_unit_rows(encoded.reshape(-1, encoded.shape[-1])))
        places = [project_to_plane(vectors, seed) for vectors in views]

        shape = (TRIPLES, 3, self.views, -1)
        arrays["triples"] = np.array(triples)
        arrays["views"] = np.stack(places).reshape(shape)
        return counts | compare_views(np.stack(views).reshape(shape)), arrays, []


def _evaluate_pairs(
    task: SimilarityTask, embed: Embedder, root: Path | None
) -> tuple[Values, Arrays, list[str]]:
    pairs = list_pairs(task.load(root))
    cosines, gold = compare_pairs(pairs, Embedded(embed, list_sentences({"": pairs})))
    arrays = {"gold": gold.astype(np.float32), "cosine": cosines.astype(np.float32)}
    counts: Values = {"n": len(gold)}

    correlation = spearman(cosines, gold)
    if correlation is None:
        why = "spearman left out, undefined: constant similarities or scores"
        return counts, arrays, [why]
    return {"spearman": 100 * correlation} | counts, arrays, []


def _evaluate_spaces(
    name: str, data: ImagesWithCaptions, embed: Embedder
) -> dict[ArrayName, np.ndarray]:
    spaces = {}
    if embed.shared is not None:
        spaces["own"] = (embed.shared.texts(data.texts), embed.shared.images(data.images, name))
    if embed.teacher is not None:
        embedded = embed.teacher.both(data.texts, data.images, name)
        if embedded is not None:
            spaces["teacher"] = embedded

    arrays = {}
    for space, (texts, images) in spaces.items():
        for content, values in measure_similarities(texts, images, data.image_of).items():
            arrays[ArrayName(name, content, space)] = values
    return arrays


def project_to_plane(vectors: np.ndarray, seed: int) -> np.ndarray:
    """Compute t-SNE (van der Maaten and Hinton, 2008) of n > 1 vectors: (n, d) -> (n, 2) float32.

    Deterministic: it starts at the principal components. The perplexity is smaller for fewer than
    92 vectors.
    """
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, max(1.0, (len(vectors) - 1) / 3))
    # seeded noise where there are no two components
    has_components = min(vectors.shape) > 1 and np.ptp(vectors, axis=0).any()
    start = "pca" if has_components else "random"
    projection = TSNE(perplexity=perplexity, init=start, random_state=seed % _SEEDS)
    return np.asarray(projection.fit_transform(vectors), dtype=np.float32)


def find_clusters(vectors: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Cluster n vectors by K-means (Lloyd, 1982): (n, d) -> (n,) int32 below min(k, n)."""
    from sklearn.cluster import KMeans

    clustering = KMeans(min(k, len(vectors)), n_init=4, random_state=seed % _SEEDS)
    return np.asarray(clustering.fit(vectors).labels_, dtype=np.int32)


def find_nearest(pool: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
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
    neighbours = np.empty((len(queries), k), dtype=np.int64)
    nearest_cosines = np.empty((len(queries), k), dtype=np.float32)
    for block in split_rows(len(queries), len(pool)):
        rows = queries[block]
        cosines = ((pool[rows] / norms[rows, None]) @ pool.T) * (1 / norms)
        # no row is its own neighbour
        cosines[np.arange(len(rows)), rows] = -np.inf
        neighbours[block] = np.argsort(-cosines, axis=1, kind="stable")[:, :k]
        nearest_cosines[block] = np.take_along_axis(cosines, neighbours[block], axis=1)
    return neighbours, nearest_cosines


def draw_neighbours(
    captions: Sequence[str], embed: EmbedFunction, queries: int, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Draw `queries` from the distinct captions and find the three nearest others of each, and
    their cosines.
    """
    pool = list(dict.fromkeys(captions))
    query_rows = rng.permutation(len(pool))[:queries]
    drawn = [pool[row] for row in query_rows]
    vectors = Embedded(embed, [*drawn, *pool]).rows(pool)

    nearest_rows, cosines = find_nearest(vectors, query_rows, max(1, min(NEAREST, len(pool) - 1)))
    texts = [pool[row] for row in nearest_rows.ravel()]
    return {
        "queries": np.array(drawn),
        "neighbours": np.array(texts).reshape(nearest_rows.shape),
        "neighbour_cosines": cosines,
    }


def measure_similarities(
    texts: np.ndarray, images: np.ndarray, image_of: np.ndarray
) -> dict[str, np.ndarray]:
    """Rank the worst captions and count cosines: captions (n, p), images (m, p), image of each
    caption (n,).

    `worst_rank` (m,) int32 is the rank, from 1, of an image's last true caption among all captions
    by cosine, and `rank` (n,) int32 that of a caption's image among all images, ties before it; for
    `similarity_true`, `similarity_other` and `similarity_edges` see `FiguresSuite`.
    """
    texts = require_unit_rows(texts)
    images = require_unit_rows(images)
    worst = np.zeros(len(images), dtype=np.int32)
    true_counts = np.zeros(len(EDGES) - 1, dtype=np.int64)
    counts = np.zeros_like(true_counts)

    for block in split_rows(len(images), len(texts)):
        cosines = np.clip(images[block] @ texts.T, -1, 1)
        is_true = image_of == np.arange(block.start, block.stop)[:, None]
        least = np.where(is_true, cosines, np.inf).min(axis=1)
        worst[block] = np.count_nonzero(cosines >= least[:, None], axis=1)
        counts += _count_cosines(cosines)
        true_counts += _count_cosines(cosines[is_true])

    ranks = compute_ranks(texts, images, image_of, np.arange(len(images)))
    return {
        "worst_rank": worst,
        "rank": ranks.astype(np.int32),
        "similarity_true": true_counts,
        "similarity_other": counts - true_counts,
        "similarity_edges": EDGES,
    }


def _count_cosines(cosines: np.ndarray) -> np.ndarray:
    """The number of cosines between each two of `EDGES`."""
    counts, _ = np.histogram(cosines, len(EDGES) - 1, (-1, 1))
    return counts


def draw_triples(data: ImagesWithCaptions, n: int, rng: np.random.Generator) -> list[list[str]]:
    """Draw n triples of captions, two close ones and a distant one (KDMCSE Figures 8 to 12).

    The first two are the first two distinct captions of a drawn image or, where it has one, this
    and the caption of another image with the largest share of common words. The third belongs to
    another image: among the captions with at least as many words as the first, the one with the
    least in common with both, ties drawn. Raises ValueError for fewer than three images.
    """
    images = np.unique(data.image_of)
    if len(images) < 3:
        raise ValueError("triples of captions need three images")
    words = [_split_words(text) for text in data.texts]
    drawn_images = rng.choice(images, size=n, replace=n > len(images))
    return [_draw_triple(data, words, int(image), rng) for image in drawn_images]


def compare_views(views: np.ndarray) -> dict[str, float]:
    """Compute mean cosines of encodings, (t, 3, v, d) of norm 1, v > 1, over t triples (see
    `FiguresSuite`).
    """
    n = views.shape[2]
    centres = views.mean(axis=2, dtype=np.float64)
    first, second, distant = centres.transpose(1, 0, 2)

    # a centre's square is the mean over all n x n pairs, each encoding with itself among them
    square = np.einsum("tsd,tsd->", centres, centres) / centres[..., 0].size
    close = np.einsum("td,td->t", first, second)
    apart = np.einsum("td,td->t", (first + second) / 2, distant)
    return {
        "cosine_same": float((n * square - 1) / (n - 1)),
        "cosine_close": float(close.mean()),
        "cosine_apart": float(apart.mean()),
    }


def _draw_triple(
    data: ImagesWithCaptions, words: list[frozenset[str]], image: int, rng: np.random.Generator
) -> list[str]:
    texts = data.texts
    rows = np.flatnonzero(data.image_of == image)
    close = list(dict.fromkeys(texts[row] for row in rows))
    other_rows = [row for row in np.flatnonzero(data.image_of != image) if texts[row] not in close]
    first_words = _split_words(close[0])
    if len(close) == 1:
        nearest = max(other_rows, key=lambda row: _measure_overlap(first_words, words[row]))
        close.append(texts[nearest])
        other_rows = [row for row in other_rows if texts[row] != texts[nearest]]

    close_words = first_words | _split_words(close[1])
    fewest_words = len(close[0].split())
    long_rows = [row for row in other_rows if len(texts[row].split()) >= fewest_words]
    candidates = long_rows or other_rows
    overlaps = np.array([_measure_overlap(close_words, words[row]) for row in candidates])
    distant = candidates[rng.choice(np.flatnonzero(overlaps == overlaps.min()))]
    return [close[0], close[1], texts[distant]]


def _split_words(text: str) -> frozenset[str]:
    return frozenset(text.lower().split())


def _measure_overlap(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / max(1, len(first | second))
