"""The arrays of the suite of figures, and the suite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.encoders.student import Student
from harness.errors import UserError
from harness.evaluation.figure_data import (
    EDGES,
    FiguresSuite,
    compare_views,
    draw_neighbours,
    draw_triples,
    find_clusters,
    find_nearest,
    measure_similarities,
    project_to_plane,
)
from harness.evaluation.suites import Embedder, require_unit_rows
from harness.metrics import ArrayName
from harness.runs.evaluate import encode_dropout_views
from harness.seeds import make_generator
from harness.toy import student_folder
from harness.toy.tasks import TOY_RETRIEVAL

RNG = np.random.default_rng(0)


def slow_nearest(query: int, pool: np.ndarray, k: int) -> list[tuple[int, float]]:
    """A full sort of float64 cosines with the other rows, rounded so that what float32 cannot
    distinguish is equal.
    """
    cosines, own = [], pool[query].astype(np.float64)
    for row, other in enumerate(pool.astype(np.float64)):
        norms = np.linalg.norm(own) * np.linalg.norm(other)
        cosines.append((row, float(own @ other / norms) if norms else 0.0))
    kept = [pair for pair in cosines if pair[0] != query]
    return sorted(kept, key=lambda pair: (-round(pair[1], 5), pair[0]))[:k]


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(2, 30),
    width=st.integers(1, 4),
    cells=st.integers(1, 90),
    seed=st.integers(0, 999),
)
def test_neighbours_in_blocks_are_a_full_sort(rows: int, width: int, cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    # Signs and zeros: cosines tie often, and equal ones are equal in float32 too.
    pool = rng.choice([-1.0, 0.0, 1.0], (rows, width)).astype(np.float32)
    queries, k = rng.integers(0, rows, 5), int(rng.integers(1, rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.evaluation.suites.CELLS", cells)
        neighbours = find_nearest(pool, queries, k)
    for query, found_rows, values in zip(queries, *neighbours, strict=True):
        expected = slow_nearest(query, pool, k)
        assert values == pytest.approx([cosine for _, cosine in expected], abs=1e-6)
        assert found_rows.tolist() == [row for row, _ in expected]


#: sentences on a circle, by their angle in degrees
ANGLES = {"a": 0.0, "b": 10.0, "c": 30.0, "d": 90.0, "e": 180.0}


def circle(texts: Sequence[str]) -> np.ndarray:
    radians = np.radians([ANGLES[text] for text in texts])
    return np.stack([np.cos(radians), np.sin(radians)], axis=1).astype(np.float32)


def test_drawn_captions_have_the_nearest_others_by_hand() -> None:
    def drawn(
        texts: Sequence[str], count: int, seed: int = 0, embed: Callable = circle
    ) -> dict[str, np.ndarray]:
        return draw_neighbours(texts, embed, count, np.random.default_rng(seed))

    # every caption is there twice
    whole = drawn([*ANGLES, *ANGLES], 9)
    queries = whole["queries"].tolist()
    assert sorted(queries) == list("abcde"), "a caption is asked for once"
    near = {query: "".join(row) for query, row in zip(queries, whole["neighbours"], strict=True)}
    assert near == {"a": "bcd", "b": "acd", "c": "bad", "d": "cba", "e": "dcb"}
    row = whole["neighbour_cosines"][queries.index("c")]
    assert row == pytest.approx(np.cos(np.radians([20, 30, 60])), abs=1e-6)
    few = [drawn([*ANGLES], 2, seed)["queries"].tolist() for seed in (0, 0, 1)]
    assert few[0] == few[1] != few[2]
    turned = drawn([*ANGLES], 2, embed=lambda texts: -circle(texts)[:, ::-1])
    assert turned["queries"].tolist() == few[0], "another model is asked something else"
    assert drawn(["a", "b", "a"], 5)["neighbours"].shape == (2, 1)
    with pytest.raises(ValueError, match="fewer than 1 neighbours are left in a pool of 1"):
        drawn(["a", "a"], 5)
    for k in (0, 6):
        with pytest.raises(ValueError, match="neighbours are left in a pool of 6"):
            find_nearest(np.ones((6, 2), dtype=np.float32), np.array([0]), k)


def test_one_seed_gives_one_plane_and_clusters_stay_together_in_it() -> None:
    """Of far centres with little noise, in mixed order; few or equal vectors have a plane too, and
    fewer clusters.
    """
    which = np.random.default_rng(1).permutation(np.repeat(np.arange(3), 20))
    vectors = (np.eye(8)[which] + 0.01 * RNG.standard_normal((60, 8))).astype(np.float32)
    first = project_to_plane(vectors, 7)
    assert (first.shape, first.dtype) == ((60, 2), np.float32)
    np.testing.assert_array_equal(first, project_to_plane(vectors, 7))
    distances = np.linalg.norm(first[:, None] - first[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    assert (which[distances.argmin(axis=1)] == which).all()
    assert len(set(zip(find_clusters(vectors, 3, 0), which, strict=True))) == 3
    for rows in (2, 5):
        assert np.isfinite(project_to_plane(np.ones((rows, 4), dtype=np.float32), 0)).all()
        assert sorted(find_clusters(np.eye(rows, dtype=np.float32), 9, 0)) == list(range(rows))


def test_ranks_and_histograms_are_those_of_a_loop() -> None:
    texts, images = RNG.standard_normal((30, 6)), RNG.standard_normal((10, 6))
    image_of = np.concatenate([np.arange(10), RNG.integers(0, 10, 20)])
    computed = measure_similarities(texts, images, image_of)
    assert computed["worst_rank"].dtype == np.int32
    cosine_of = require_unit_rows(texts) @ require_unit_rows(images).T
    for row, own in enumerate(image_of):
        assert computed["rank"][row] == 1 + sum(
            cosine_of[row, image] > cosine_of[row, own] for image in range(10)
        )
    true, other = [], []
    for image in range(10):
        cosines = [
            float(t @ images[image] / np.linalg.norm(t) / np.linalg.norm(images[image]))
            for t in texts
        ]
        order = sorted(range(30), key=lambda row: -cosines[row])
        assert computed["worst_rank"][image] == 1 + max(
            order.index(row) for row in np.flatnonzero(image_of == image)
        )
        for row, value in enumerate(cosines):
            (true if image_of[row] == image else other).append(value)
    for which, values in (("true", true), ("other", other)):
        np.testing.assert_array_equal(
            computed[f"similarity_{which}"], np.histogram(values, EDGES)[0]
        )
    assert computed["similarity_true"].sum() == 30
    same = np.ones((4, 3))
    tied = measure_similarities(same, same, np.arange(4))
    assert tied["worst_rank"].tolist() == tied["rank"].tolist() == [4] * 4, (
        "ties count against the model"
    )


TEXTS = [
    "a dog runs",
    "the dog is running",
    "a cat sleeps",
    "a dog runs fast",
    "two men play chess indoors",
    "x y",
]


def test_triples_take_two_captions_of_one_image_and_a_far_one() -> None:
    """Where images have one caption, the close one shares most words."""

    def triples(image_of: list[int], count: int) -> list[list[str]]:
        data = SimpleNamespace(texts=TEXTS[: len(image_of)], image_of=np.array(image_of))
        return list(map(list, draw_triples(data, count, np.random.default_rng(0))))

    drawn = triples([0, 0, 1, 1, 2, 2], 3)
    for triple in drawn:
        rows = [TEXTS.index(text) for text in triple]
        assert rows[0] // 2 == rows[1] // 2 != rows[2] // 2
    assert len({triple[0] for triple in drawn}) == 3, "an image was drawn twice"
    assert ["a dog runs", "the dog is running", "two men play chess indoors"] in drawn
    assert ["a dog runs", "a dog runs fast", "two men play chess indoors"] in triples(
        [0, 1, 2, 3, 4, 5], 6
    )
    with pytest.raises(ValueError, match="three images"):
        triples([0, 1], 1)


def test_view_cosines_are_means_over_pairs() -> None:
    views = RNG.standard_normal((2, 3, 4, 5))
    views /= np.linalg.norm(views, axis=-1, keepdims=True)
    same = [
        views[t, s, i] @ views[t, s, j]
        for t in range(2)
        for s in range(3)
        for i in range(4)
        for j in range(i)
    ]
    close = [a @ b for t in range(2) for a in views[t, 0] for b in views[t, 1]]
    apart = [a @ b for t in range(2) for s in (0, 1) for a in views[t, s] for b in views[t, 2]]
    wanted = {
        "cosine_same": np.mean(same),
        "cosine_close": np.mean(close),
        "cosine_apart": np.mean(apart),
    }
    assert compare_views(views) == pytest.approx(wanted)


def test_the_suite_on_the_toy_world() -> None:
    student = Student.load(student_folder(), "cls")
    model = Embedder(student.embed, views=partial(encode_dropout_views, student))
    options = {"captions": 60, "clusters": 4, "views": 5}
    done = FiguresSuite(["ToySTS", "ToyRetrieval"], **options).evaluate(model, None)
    arrays, scores = done.arrays, done.scores
    pairs = (scores["ToySTS"]["n"],)
    of_captions = {
        **{"tsne": (60, 2), "clusters": (60,), "triples": (5, 3), "views": (5, 3, 5, 2)},
        **{"queries": (6,), "neighbours": (6, 3), "neighbour_cosines": (6, 3)},
    }
    assert {name: values.shape for name, values in arrays.items()} == {
        **{ArrayName("ToySTS", what): pairs for what in ("gold", "cosine")},
        **{ArrayName("ToyRetrieval", what): shape for what, shape in of_captions.items()},
    }
    by_name = {name.what: values for name, values in arrays.items()}
    for query, texts in zip(by_name["queries"], by_name["neighbours"], strict=True):
        assert len({query, *texts}) == 4
    assert (np.diff(by_name["neighbour_cosines"]) <= 0).all()
    texts = list(dict.fromkeys(TOY_RETRIEVAL.load(None).texts))
    order = make_generator(
        suite="figures", task="ToyRetrieval", seed=0, part="queries"
    ).permutation(len(texts))
    assert by_name["queries"].tolist() == [texts[row] for row in order[:6]], (
        "a draw of its own for each purpose"
    )
    assert scores["Avg"] == {}
    assert scores["ToyRetrieval"]["cosine_same"] > scores["ToyRetrieval"]["cosine_apart"]
    constant = Embedder(
        student.embed, views=lambda texts, count, seed: np.ones((len(texts), count, 8), np.float32)
    )
    still = FiguresSuite(["ToyRetrieval"], captions=20, clusters=2, views=5).evaluate(
        constant, None
    )
    assert still.scores["ToyRetrieval"]["cosine_apart"] == pytest.approx(1), (
        "each view has length 1"
    )
    again = FiguresSuite(["ToySTS", "ToyRetrieval"], **options).evaluate(model, None)
    for name, values in arrays.items():
        np.testing.assert_array_equal(values, again.arrays[name])
    other = FiguresSuite(["ToyRetrieval"], **options, seed=1).evaluate(model, None)
    assert (other.arrays[ArrayName("ToyRetrieval", "triples")] != by_name["triples"]).any()


def test_spaces_of_a_model_are_kept_apart_and_one_without_dropout_views_is_reported() -> None:
    class Shared:
        def texts(self, texts: Sequence[str]) -> np.ndarray:
            return np.eye(1000)[: len(texts)]

        def images(self, pairs: Sequence[str], name: str) -> np.ndarray:
            return np.eye(1000)[: len(pairs)]

    model = Embedder(
        lambda texts: np.array([[len(text), 1.0] for text in texts], np.float32), shared=Shared()
    )
    done = FiguresSuite(["ToyRetrieval"], captions=20, clusters=2, views=5).evaluate(model, None)
    assert (done.arrays[ArrayName("ToyRetrieval", "worst_rank", "own")] == 1).all()
    assert not any(name.space == "teacher" or name.what == "views" for name in done.arrays)
    assert "repeated encodings left out" in done.warnings[0]


@pytest.mark.parametrize(
    ("captions", "image_of"),
    [
        (["a dog", "a dog"], [0, 1]),
        (["a dog", "a cat"], [0, 0]),
        (["a dog", "a dog", "a cat"], [0, 1, 2]),
        (["a dog", "a cat", "a cow", "a dog", "a cat"], [0, 0, 0, 1, 2]),
        ([], []),
    ],
)
def test_a_task_with_too_few_captions_is_left_out_with_a_line(
    captions: list[str], image_of: list[int]
) -> None:
    images = sorted(set(image_of))
    data = SimpleNamespace(
        texts=captions, image_of=np.array(image_of, dtype=np.int64), images=images
    )
    task = SimpleNamespace(name="mine", kind="retrieval task", load=lambda root: data)
    student = Student.load(student_folder(), "cls")
    model = Embedder(student.embed, views=partial(encode_dropout_views, student))
    done = FiguresSuite([task], views=2).evaluate(model, None)
    assert done.scores["mine"] == {"n_texts": len(captions), "n_images": len(images)}
    assert not done.arrays
    few = f"{len(images)} and {len(set(captions))}"
    assert done.warnings == [
        f"figures: mine: left out: too few images or different captions ({few})"
    ]


def test_numbers_are_part_of_the_protocol_and_checked() -> None:
    options = ({}, {"views": 5}, {"queries": 5}, {"seed": 1}, {"captions": 50}, {"clusters": 5})
    assert len({FiguresSuite(["ToySTS"], **more).fingerprint(None) for more in options}) == len(
        options
    )
    for task, more, message in (
        ("ToySTS", {"captions": 3, "clusters": 4}, "captions = 3, clusters = 4"),
        ("ToySTS", {"queries": 0}, "queries = 0"),
        ("ToyST", {}, "has no task 'ToyST'"),
    ):
        with pytest.raises(UserError, match=message):
            FiguresSuite([task], **more)
