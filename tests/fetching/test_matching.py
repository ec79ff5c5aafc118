"""Lines without image ids find their images: by the order of a list, by text, by what is left, by
wording.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.datafiles import read_lines
from harness.datarows import read_rows
from harness.errors import UserError
from harness.fetching.published_captions import WHOLE, Match, match
from harness.remarks import normalise_text


def methods(matched: Match) -> dict[str, int]:
    return {name: count for name, count in matched.counts.items() if count}


def test_the_place_in_a_list_decides_where_the_texts_confirm_its_order() -> None:
    """Three images share a caption, and one has no known caption: text alone cannot place these
    lines.
    """
    captions = {f"image{n}": [f"caption {n}", "a dog runs"] for n in range(400)} | {"last": []}
    lines = [f"Caption {n} ." for n in range(397)] + ["a dog runs"] * 3 + ["never seen before"]
    matched = match(lines, captions)
    assert matched.images == list(captions)
    assert methods(matched) == {"exact": 400, "order": 1}
    backwards = dict(reversed(captions.items()))
    by_text = match(lines, backwards)
    assert by_text.images[:397] == [f"image{n}" for n in range(397)]
    assert set(by_text.images[397:400]) == {"image397", "image398", "image399"}
    assert by_text.images[400] == "last"
    assert methods(by_text) == {"exact": 397, "elimination": 3, "guess": 1}


def test_images_with_one_caption_are_told_apart_by_what_other_lines_need() -> None:
    """'a dog' fits p, q and r; 'the beach' fits p and q; 'a dog at the beach' is a caption of p
    alone.
    """
    captions = {
        "p": ["a dog", "the beach", "a dog at the beach"],
        "q": ["a dog", "the beach"],
        "r": ["a dog", "something"],
        "s": ["unasked"],
    }
    for lines in (
        ["a dog", "the beach", "a dog at the beach"],
        ["the beach", "a dog at the beach", "a dog"],
    ):
        matched = match(lines, captions)
        assert dict(zip(lines, matched.images, strict=True)) == {
            "a dog": "r",
            "the beach": "q",
            "a dog at the beach": "p",
        }, "each image once, as many lines as possible"
        assert methods(matched) == {"exact": 1, "elimination": 2}


def test_two_captions_of_one_image_are_not_both_its_line() -> None:
    matched = match(
        ["first of x", "second of x"], {"x": ["first of x", "second of x"], "y": [], "z": []}
    )
    assert matched.images.count("x") == 1
    assert len(set(matched.images)) == 2
    assert methods(matched) == {"elimination": 1, "guess": 1}


def test_lines_that_are_left_go_to_the_nearest_wording_in_total() -> None:
    captions = {
        "x": ["A woman in a red coat walks home", "no"],
        "y": ["A woman in a red coat &amp; hat walks", "none"],
        "z": ["Boats"],
    }
    lines = [
        "A woman in a red coat walks",
        "A woman in a red coat and a hat walks",
        "entirely different words",
    ]
    matched = match(lines, captions)
    assert matched.images == ["x", "y", "z"]
    assert methods(matched) == {"wording": 2, "guess": 1}


def test_too_few_matches_are_refused_in_one_line() -> None:
    captions = {f"{n}": [f"caption {n}"] for n in range(1000)}
    lines = [f"caption {n}" for n in reversed(range(1000))]
    for wrong in (5, 6):
        matched = match([*lines[:-wrong], *(f"other words {n}" for n in range(wrong))], captions)
        assert matched.counts["guess"] == wrong
        if wrong <= (1 - WHOLE) * 1000:
            assert len(set(matched.check_whole("mine"))) == 1000
            continue
        with pytest.raises(
            UserError, match=r"mine: 994 of 1,000 captions match an image \(99\.4%\)"
        ):
            matched.check_whole("mine")
    with pytest.raises(UserError, match=r"0 of 2 captions"):
        match(["a", "b"], {"x": ["c"]}).check_whole("mine")


@pytest.mark.long
def test_mcses_captions_find_every_image_that_has_captions(data_root: Path) -> None:
    """Of 29,783 lines, 28,859 are captions of one image and 202 of several; 710 images have no
    captions there.

    The images are the training images of Entities, the captions Karpathy's.
    """
    folder = data_root / "captions"
    splits = (
        row.values
        for row in read_rows(folder / "flickr30k_entities_split.tsv", "image_id", "split")
    )
    captions: dict[str, list[str]] = {image: [] for image, split in splits if split == "train"}
    for _, (image, caption) in read_rows(
        folder / "flickr30k_captions.tsv.gz", "image_id", "caption"
    ):
        if image in captions:
            captions[image].append(caption)
    lines = list(read_lines(folder / "flickr_random_captions.txt"))
    matched = match(lines, captions)
    assert methods(matched) == {"exact": 28_851, "elimination": 206, "wording": 16, "guess": 710}
    assert (
        len(lines) - matched.counts["guess"]
        == sum(bool(own) for own in captions.values())
        == 29_073
    )
    assert len(set(matched.images)) == len(lines)
    for line, image, method in zip(lines, matched.images, matched.methods, strict=True):
        texts = {normalise_text(text).replace(" ", "") for text in captions[str(image)]}
        assert (normalise_text(line).replace(" ", "") in texts) == (
            method in ("exact", "elimination")
        )
    with pytest.raises(UserError, match=r"29,073 of 29,783 captions match an image \(97\.6%\)"):
        matched.check_whole("flickr-matched")
    assert match(lines, captions) == matched
