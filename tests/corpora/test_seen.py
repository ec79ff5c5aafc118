"""Texts compared by their words, images by their names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.planning.seen import hash_texts, is_among, load_hashes, name_image
from harness.remarks import normalise_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man, in a RED shirt .", "a man in a red shirt"),
        ("snake_case -- and 2,5 !", "snake case and 2 5"),
        ("Ein Mädchen; 女孩。Девочка", "ein mädchen 女孩 девочка"),
        ("... !", ""),
    ],
)
def test_a_text_is_its_letters_and_digits_in_lower_case(text: str, words: str) -> None:
    assert normalise_text(text) == words


def test_an_image_is_known_by_its_number_whatever_its_file_is_called() -> None:
    """Flickr8k and Flickr30k number the same photographs alike; COCO's names hold its split."""
    assert (
        name_image("1000268201_693b08cb0e.jpg")
        == name_image("1000268201.jpg")
        == name_image("1000268201")
    )
    assert name_image("COCO_val2014_000000391895.jpg") == "COCO_val2014_000000391895"
    assert name_image("391895") != name_image("COCO_val2014_000000391895.jpg")


def test_sentences_are_seen_by_their_words_whose_hashes_are_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path))
    texts = ["A dog runs.", "...", "A dog runs", "two cats"]
    first = load_hashes("content", lambda: texts)
    again = load_hashes("content", lambda: pytest.fail("they are cached"))
    assert first.tolist() == again.tolist() == hash_texts(texts).tolist()
    assert (first[0], first[1]) == (first[2], 0)
    assert load_hashes("other content", lambda: texts[:1]).tolist() == first[:1].tolist()
    asked = hash_texts(["a dog runs", "A dog ran.", "Two cats !", "!!!", ""])
    assert is_among(asked, np.unique(first)).tolist() == [True, False, True, False, False]
    assert is_among(asked[:1], np.array([], dtype=np.uint64)).tolist() == [False]
