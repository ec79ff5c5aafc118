"""Tables of nearest sentences from synthetic arrays: models, seed, missing answers and hostile
sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from builders import result

from harness.metrics import ArrayName
from harness.papers.published import read_papers
from harness.reporting.contents import Contents
from harness.reporting.sections.papers import make_neighbour_grids
from harness.reporting.tables.grids import Grid
from harness.reporting.tables.texts import format_latex_table
from harness.store import Result, Store

PAPERS = read_papers()
SCORES = {"figures": {"Flickr30k": {"n_texts": 5000.0}, "Avg": {}}}
QUERIES = [f"query {at}" for at in range(6)]


def run(variant: str, seed: int = 0, setting: str = "flickr", **more: object) -> Result:
    where = {"setting": setting, "encoder": "bert-base-uncased", "profile": "paper", **more}
    return result(variant, seed, SCORES, **where)  # type: ignore[arg-type]


def answers(
    name: str, queries: Sequence[str] = QUERIES, task: str = "Flickr30k"
) -> dict[ArrayName, np.ndarray]:
    """Three sentences a query, named after model, query and rank; cosines 0.9, 0.8, 0.7 less a
    hundredth a query.
    """
    texts = [[f"{name} {query} {rank}" for rank in range(3)] for query in queries]
    cosines = np.array([[0.9, 0.8, 0.7]] * len(queries)) - 0.01 * np.arange(len(queries))[:, None]
    parts = {
        "queries": np.array(queries),
        "neighbours": np.array(texts),
        "neighbour_cosines": cosines,
    }
    return {ArrayName(task, what): values for what, values in parts.items()}


def grid(
    name: str,
    results: Sequence[Result],
    arrays: Mapping[str, dict[ArrayName, np.ndarray]],
    profile: str = "paper",
) -> Grid | None:
    """The grid of a table; `arrays` are by 'VARIANT SEED'."""

    class ArraysStore(Store):
        def arrays(self, result: Result) -> dict[ArrayName, np.ndarray]:
            return arrays.get(f"{result.spec.variant} {result.spec.seed}", {})

    paper, table = name.split(":")
    every = make_neighbour_grids(Contents(ArraysStore(Path("results")), results))
    grids = [grid for name, grid in every if name == paper]
    key = f"{paper}-{table}" + ("" if profile == "paper" else f"-{profile}")
    return next((candidate for candidate in grids if candidate.key == key), None)


def lines(shown: Grid | None) -> list[tuple[str, ...]]:
    return [
        (section.title, *line.heads, *(cell.value for cell in line.cells))
        for section in shown.sections
        for line in section.lines
    ]


def test_two_models_stand_side_by_side() -> None:
    results = [run("mcse"), run("simcse")]
    shown = grid("mcse:T8", results, {"simcse 0": answers("s"), "mcse 0": answers("m")})
    assert shown.heads == ("rank", "SimCSE / flickr", "MCSE / flickr")
    assert shown.columns == ("cosine, SimCSE / flickr", "cosine, MCSE / flickr")
    assert lines(shown) == [
        (
            f"query {at}",
            "1",
            f"s query {at} 0",
            f"m query {at} 0",
            f"{0.9 - at / 100:.4f}",
            f"{0.9 - at / 100:.4f}",
        )
        for at in range(6)
    ]
    assert shown.commands == ()
    assert shown.empty == ""
    notes = " ".join(shown.notes)
    for said in (
        "seed 0",
        "Queries are drawn at random",
        "Searched here: the 5,000 captions",
        POOLS["mcse:T8"],
    ):
        assert said in notes


def test_as_many_queries_and_ranks_as_the_paper_shows() -> None:
    results = [run("kdmcse", setting="wiki+flickr"), run("dalr", setting="wiki+flickr")]
    shown = lines(grid("dalr:T10", results, {"kdmcse 0": answers("k"), "dalr 0": answers("d")}))
    assert [line[:3] for line in shown] == [
        (f"query {at}", str(rank + 1), f"k query {at} {rank}")
        for at in range(4)
        for rank in range(3)
    ]


def test_the_lowest_seed_that_both_have_is_shown_with_the_captions_of_the_papers_table() -> None:
    models = [("simcse", 0), ("simcse", 1), ("simcse", 2), ("mcse", 1), ("mcse", 2)]
    arrays = {
        f"{name} {seed}": answers("wrong", task="COCO") | answers(f"{name}{seed}")
        for name, seed in models
    }
    shown = grid("mcse:T8", [run(*model) for model in models], arrays)
    assert lines(shown)[0][2:4] == ("simcse1 query 0 0", "mcse1 query 0 0")
    assert any("seed 1" in note for note in shown.notes)


OTHERS = {
    "no run": [],
    "no arrays": [run("mcse", 0)],
    "other queries": [run("mcse", 0)],
    "with --set": [run("mcse", overrides={"steps": 3})],
    "another profile": [run("mcse", profile="small")],
    "a profile of that name": [run("mcse", profile_origin="file")],
}


@pytest.mark.parametrize("why", OTHERS)
def test_what_is_missing_is_asked_for(why: str) -> None:
    arrays = {"simcse 0": answers("s")}
    if why != "no arrays":
        arrays["mcse 0"] = answers(
            "m", ["strange", *QUERIES[1:]] if why == "other queries" else QUERIES
        )
    shown = grid("mcse:T8", [run("simcse"), *OTHERS[why]], arrays)
    assert lines(shown)[0] == ("query 0", "1", "s query 0 0", "–", "0.9000", "–")
    assert shown.commands == ("harness run --table mcse:T8",)


#: table -> what its paper searched
POOLS = {
    "mcse:T8": "captions of the Flickr30k test images",
    "dalr:T10": "30,000 captions of Flickr30k, about one for each training image",
    "nonling:TD.1": "150,000 captions of Flickr30k, about all five of each training image",
}


def test_without_runs_a_table_is_empty_with_its_command() -> None:
    for name, pool in POOLS.items():
        shown = grid(name, [result()], {})
        assert shown.sections == ()
        assert shown.notes[0].endswith(f"): {pool}."), "nothing was searched here"
        assert shown.empty == "no run of profile paper yet"
        assert shown.commands == (f"harness run --table {name}",)
        assert "\n\n" not in format_latex_table(shown).partition("tabular")[2], (
            "LaTeX ends a paragraph inside the table"
        )


def test_the_shape_of_a_table_on_the_toy_world() -> None:
    toy = {"encoder": "toy-bert", "profile": "tiny"}
    both = [
        run("simcse@official", setting="toy-text", **toy),
        run("visualcse", setting="toy", **toy),
    ]
    arrays = {
        "simcse@official 0": answers("s", task="ToyRetrieval"),
        "visualcse 0": answers("v", task="ToyRetrieval"),
    }
    shown = grid("nonling:TD.1", both, arrays, "tiny")
    assert shown.title.endswith("on toy data")
    assert lines(shown)[0][2:4] == ("s query 0 0", "v query 0 0")
    assert not any("Flickr30k" in note for note in shown.notes)
    assert grid("nonling:TD.1", both[:1], arrays, "tiny") is None
    assert lines(grid("nonling:TD.1", both, arrays)) == [], "toy runs stand in the paper's table"
