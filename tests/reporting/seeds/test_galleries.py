"""Scores of retrieval beside the images that were ranked: their number, chance, and a mark where
rows of a column rank others.
"""

from __future__ import annotations

from builders import result, tables

from harness.reporting.tables.grids import make_summary_grid
from harness.store import Result


def ranked(variant: str, seed: int, images: int, seen: int = 0, gallery: int = 0) -> Result:
    values = {"t2i_R@1": 1.0, "t2i_R@10": 6.0 + seed, "i2t_R@10": 7.0, "n_images": float(images)}
    values |= {"n_seen": float(seen)} | ({"gallery": float(gallery)} if gallery else {})
    average = {"t2i_R@10": 6.0 + seed, "i2t_R@10": 7.0}
    return result(variant, seed, {"retrieval": {"ring": values, "Avg": average}})


def test_one_gallery_has_its_number_and_chance_in_a_note() -> None:
    results = [ranked("mcse", seed, 184) for seed in range(3)]
    (table,) = tables([*results, *(ranked("simcse", seed, 184) for seed in range(3))])
    grid = make_summary_grid(table)
    said = "ring: 184 images (by chance, text to image, R@1 0.54, R@5 2.72, R@10 5.43)."
    assert said in grid.notes
    assert not any(cell.caveats for line in grid.sections[0].lines for cell in line.cells)


def test_rows_that_rank_other_images_are_marked_in_every_column() -> None:
    results = [ranked("mcse", seed, 184) for seed in range(3)]
    results += [ranked("simcse", seed, 150, seen=34, gallery=5) for seed in range(3)]
    (table,) = tables(results)
    grid = make_summary_grid(table)
    assert all(cell.caveats == "‖" for line in grid.sections[0].lines for cell in line.cells)
    (note,) = [note for note in grid.notes if note.startswith("‖ SimCSE")]
    assert (
        "ranked among 150 images (by chance, text to image, R@1 0.67, R@5 3.33, R@10 6.67)" in note
    )
    assert "not comparable" in note


def test_a_row_without_recalls_marks_no_other() -> None:
    scored = [ranked("mcse", seed, 184) for seed in range(3)]
    counts = {"n_images": 6.0, "n_seen": 178.0, "gallery": 5.0}
    too_few = result("simcse", 0, {"retrieval": {"ring": counts, "Avg": {}}})
    (table,) = tables([*scored, too_few])
    grid = make_summary_grid(table)
    assert not any(cell.caveats for line in grid.sections[0].lines for cell in line.cells)
    assert any(note.startswith("ring: 184 images") for note in grid.notes)


def test_galleries_of_equal_size_with_other_images_are_unlike() -> None:
    (table,) = tables([ranked("mcse", 0, 150, 34, 5), ranked("simcse", 0, 150, 34, 6)])
    lines = make_summary_grid(table).sections[0].lines
    assert all(cell.caveats == "‖" for line in lines for cell in line.cells)

    (table,) = tables([ranked("mcse", 0, 150, 34, 5), ranked("simcse", 0, 150, 34, 5)])
    lines = make_summary_grid(table).sections[0].lines
    assert not any(cell.caveats for line in lines for cell in line.cells)
