from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile
from harness.errors import UserError
from harness.fetching.archives import write_parquet
from harness.profiles import load_profile
from harness.setting import Noisy
from harness.toy.corpora import ToyTriplets
from harness.toy.world import LEXICON

HOW = "fetch it from the authors"


def sentences(
    root: Path, content: bytes, name: str = "text.txt", limit: int | None = None
) -> SentencesFile:
    (root / name).write_bytes(content)
    return SentencesFile(name, HOW, limit)


def captions(root: Path, rows: dict[str, list[str]], **options: object) -> CaptionsFile:
    write_parquet(
        root / "captions.parquet", {"image_id": list(rows), "captions": list(rows.values())}
    )
    return CaptionsFile("captions.parquet", HOW, **options)


FIVE = {f"image{number}": [f"caption {number}.{k}" for k in range(5)] for number in range(200)}


@pytest.mark.parametrize("name", ["text.txt", "text.txt.gz"])
def test_a_sentence_is_a_line_stripped_and_empty_lines_are_left_out(
    tmp_path: Path, name: str
) -> None:
    raw = b"First one.\n\n  second, with blanks \t\n \t \nthird\r\nlast without newline"
    source = sentences(tmp_path, gzip.compress(raw) if name.endswith(".gz") else raw, name)
    loaded = source.load(tmp_path)
    assert loaded.texts == ["First one.", "second, with blanks", "third", "last without newline"]
    assert len(loaded) == 4


def test_a_limit_takes_the_first_sentences_and_counts_no_empty_line(tmp_path: Path) -> None:
    assert sentences(tmp_path, b"a\n\nb\n\nc\nd\n", limit=3).load(tmp_path).texts == ["a", "b", "c"]
    for limit, message in (
        (3, r"text\.txt has 2 sentences, fewer than the limit 3"),
        (0, "limit = 0 selects no rows"),
    ):
        with pytest.raises(UserError, match=message) as said:
            sentences(tmp_path, b"a\n\n\nb\n", limit=limit).load(tmp_path)
        assert "fetch" not in str(said.value)


GZIP = gzip.compress(("A sentence of this file.\n" * 500).encode())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("text.txt", "caf\xe9\n".encode("latin-1"), "cannot be read as UTF-8 text"),
        ("text.txt.gz", GZIP[:-12], "cannot be read as UTF-8 text"),
        (
            "text.txt.gz",
            GZIP[:20] + b"\xff\xff\xff\xff" + GZIP[24:],
            "cannot be read as UTF-8 text",
        ),
        ("text.txt", b"", "is empty"),
        ("text.txt", b"\n \n\n", "is empty"),
    ],
    ids=["latin-1", "gzip cut short", "gzip damaged inside", "empty", "blank"],
)
def test_a_damaged_or_empty_file_is_one_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    for source in (sentences(tmp_path, content, name), CaptionsFile(name, HOW)):
        with pytest.raises(UserError, match=rf"{name}.*{message}"):
            source.load(tmp_path)


def test_content_and_limit_change_a_fingerprint_and_the_path_does_not(tmp_path: Path) -> None:
    original = sentences(tmp_path, b"a\nb\n").fingerprint(tmp_path)
    assert sentences(tmp_path, b"a\nb\n", "renamed.txt").fingerprint(tmp_path) == original
    assert sentences(tmp_path, b"a\nb\n", limit=2).fingerprint(tmp_path) != original
    assert sentences(tmp_path, b"a\nc\n").fingerprint(tmp_path) != original


def test_one_caption_an_image_is_drawn_by_seed_whatever_the_other_images(tmp_path: Path) -> None:
    def drawn(rows: dict[str, list[str]] = FIVE, **options: int) -> list[str]:
        return list(captions(tmp_path, rows, **options).load(tmp_path).texts)

    first = drawn()
    assert len(first) == 200
    assert all(text in FIVE[f"image{number}"] for number, text in enumerate(first))
    assert drawn() == first != drawn(caption_seed=1)
    assert drawn(dict(list(FIVE.items())[:100])) == first[:100]
    counts = Counter(text[-1] for text in first)
    assert set(counts) == set("01234")
    assert max(counts.values()) < 2 * 200 / 5


def test_all_captions_make_a_row_each_and_are_refused_of_a_file_with_one_an_image(
    tmp_path: Path,
) -> None:
    """They would change nothing: once the file is there, it is counted."""
    several = captions(
        tmp_path, {"a": ["a1", "a2"], "b": ["b1"], "c": ["c1", "c2", "c3"]}, captions="all"
    )
    several.examined(tmp_path)
    assert list(several.load(tmp_path).texts) == ["a1", "a2", "b1", "c1", "c2", "c3"]
    (tmp_path / "captions.txt").write_text("A dog.\nTwo cats.\n")
    lines = CaptionsFile("captions.txt", HOW)
    lines.examined(tmp_path)
    few = captions(tmp_path, {"a": ["a1"], "b": ["b1"]}, captions="all")
    for source in (lines.with_captions("all"), few):
        with pytest.raises(
            UserError,
            match=rf"captions = all, but .*{source.files[0]} has only one caption per image",
        ):
            source.examined(tmp_path)


LINES = ["two cats", "A dog ."]
MATCHED = {
    "image_id": ["7.jpg", "3.jpg"],
    "caption": LINES,
    "captions": [["two cats", "cats"], ["A dog .", "b", "c"]],
}


def lines_matched(root: Path, rows: dict[str, object], **options: object) -> CaptionsFile:
    (root / "captions.txt").write_text("\n".join(LINES))
    write_parquet(root / "matched.parquet", rows)
    return CaptionsFile(
        "captions.txt", HOW, matched={"file": "matched.parquet", "how": "match it"}, **options
    )


def test_a_text_file_and_the_file_that_it_is_matched_to_are_one_corpus(tmp_path: Path) -> None:
    """Published features have the rows of the lines; one caption an image trains alike with and
    without ids.
    """
    np.save(tmp_path / "features.npy", np.array([[7.0], [3.0]], np.float32))
    lines = lines_matched(
        tmp_path, MATCHED, features={"net": {"file": "features.npy", "how": HOW}}, images="pictures"
    )
    loaded, known = lines.load(tmp_path), lines.fingerprint(tmp_path)
    assert (list(loaded.texts), lines.image_ids(tmp_path)) == (LINES, ["7.jpg", "3.jpg"])
    whole = lines.with_captions("all")
    whole.examined(tmp_path)
    rows = whole.load(tmp_path)
    assert list(rows.texts) == ["two cats", "cats", "A dog .", "b", "c"]
    for corpus in (loaded, rows):
        assert corpus.image_count == 2
        assert corpus.features["net"].tolist() == [[7], [3]]
    changed = lines_matched(
        tmp_path, MATCHED | {"captions": [["two cats"], ["A dog .", "b", "d"]]}
    ).with_captions("all")
    assert len({known, whole.images_fingerprint(tmp_path), changed.fingerprint(tmp_path)}) == 3
    (tmp_path / "matched.parquet").unlink()
    assert (lines.missing(tmp_path), lines.image_ids(tmp_path)) == ([], None)
    assert list(lines.load(tmp_path).texts) == LINES
    assert lines.fingerprint(tmp_path) == known
    assert [str(item) for item in whole.missing(tmp_path)] == [
        "cannot find matched.parquet; match it"
    ]
    assert [item.what for item in lines.pixels.missing(tmp_path)] == ["matched.parquet", "pictures"]


def test_a_file_that_was_matched_to_other_lines_is_refused(tmp_path: Path) -> None:
    for wrong in (["two cats", "A dog"], ["two cats"]):
        rows = {
            "image_id": ["7", "3"][: len(wrong)],
            "caption": wrong,
            "captions": [["x"], ["y"]][: len(wrong)],
        }
        with pytest.raises(
            UserError, match=r"matched\.parquet was matched to other captions .* and match it"
        ):
            lines_matched(tmp_path, rows, captions="all").load(tmp_path)


def test_content_draw_and_seed_change_a_fingerprint_and_blank_lines_keep_their_place(
    tmp_path: Path,
) -> None:
    options = ({}, {"captions": "all"}, {"caption_seed": 1})
    prints = {captions(tmp_path, FIVE, **each).fingerprint(tmp_path) for each in options}
    prints.add(captions(tmp_path, {**FIVE, "image0": ["another"]}).fingerprint(tmp_path))
    assert len(prints) == 4
    (tmp_path / "captions.txt").write_bytes("A dog .\n\n Two\u2028cats . \n".encode())
    assert list(CaptionsFile("captions.txt", HOW).load(tmp_path).texts) == [
        "A dog .",
        " ",
        "Two\u2028cats .",
    ]
    with pytest.raises(UserError, match="captions = 'some' is neither 'one' nor 'all'"):
        CaptionsFile("captions.txt", HOW, captions="some")


def test_lists_of_captions_have_the_columns_that_are_named(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "captions.parquet",
        {"file": ["a", "b"], "raw": [["x", "y"], ["z"]], "said": ["u", "v"]},
    )
    lists, texts = (
        CaptionsFile("captions.parquet", HOW, captions="all", image="file", caption=name)
        for name in ("raw", "said")
    )
    loaded = lists.load(tmp_path)
    assert (loaded.texts, loaded.image_of.tolist(), lists.image_ids(tmp_path)) == (
        ["x", "y", "z"],
        [0, 0, 1],
        ["a", "b"],
    )
    assert lists.fingerprint(tmp_path) != texts.fingerprint(tmp_path)


@pytest.mark.long
def test_the_files_of_the_bundle_are_read_whole(data_root: Path) -> None:
    loaded = SentencesFile("wiki/enwiki_sentences.txt.gz", HOW).load(data_root)
    assert len(loaded) == 120_000
    assert all(text and "\n" not in text and text == text.strip() for text in loaded.texts)
    assert len(TripletsFile("nli/triplets_en.tsv.gz", "").load(data_root)) == 8626
    drawn = CaptionsFile(**load_profile("small").corpora["flickr8k"].options).load(data_root)
    features = drawn.features["squeezenet"]
    assert (features.shape, features.dtype.name) == ((6000, 512), "float32")
    assert abs(float(features.mean())) < 1e-4
    assert float(features.std(axis=0).max()) < 1.01
    every = CaptionsFile("paired/flickr8k/train.parquet", HOW, captions="all").load(data_root)
    assert (len(drawn), len(every)) == (6000, 30_000)
    assert all(text in every.texts[5 * row : 5 * row + 5] for row, text in enumerate(drawn.texts))


def test_triplets_are_read_in_both_forms(tmp_path: Path) -> None:
    """Quotes may hold commas and line ends."""
    (tmp_path / "nli.csv").write_text('sent0,sent1,hard_neg\n"One, two",b,c\nd,e,"f ""g"""\n')
    (tmp_path / "nli.tsv").write_text(
        'source\tsent0\tsent1\thard_neg\nx\tOne, two\tb\tc\nx\td\te\tf "g"\n'
    )
    for name in ("nli.csv", "nli.tsv"):
        loaded = TripletsFile(name, "").load(tmp_path)
        assert (list(loaded.premises), list(loaded.contradicted)) == (
            ["One, two", "d"],
            ["c", 'f "g"'],
        )
    assert len(TripletsFile("nli.csv", "", limit=1).load(tmp_path)) == 1
    (tmp_path / "nli.csv").write_bytes(b'sent0,sent1,hard_neg\r\n"One,\ntwo",b,c\r\n')
    assert list(TripletsFile("nli.csv", "").load(tmp_path).premises) == ["One,\ntwo"]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("sent0\tsent1\thard_neg\na\tb\tc\na\tb\rb\tc\n", {}, r"line 3: .*correct the line"),
        ("a,b\n1,2\n", {}, "line 1: no column 'sent0' among a, b"),
        ("sent0,sent1,hard_neg\n", {}, "has no rows"),
        ("sent0,sent1,hard_neg\na,b,c\na,b\n", {}, "line 3: 2 fields, the header has 3"),
        ("sent0,sent1,hard_neg\na,,c\n", {}, "line 2: a triplet needs three texts"),
        ("sent0,sent1,hard_neg\na,b,c\n", {"limit": 2}, "fewer than the limit 2"),
        ("", {"columns": ["a", "a", "a"]}, "names a column twice"),
        ("", {"columns": ["a"]}, "has three texts"),
    ],
)
def test_bad_triplets_are_one_line(
    tmp_path: Path, text: str, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "nli").write_bytes(text.encode())
    with pytest.raises(UserError, match=message):
        TripletsFile("nli", "", **options).load(tmp_path)


def test_toy_triplets_share_a_template_and_differ_in_one_attribute() -> None:
    meaning = {
        word: (name, value)
        for name, values in LEXICON.items()
        for value, words in values.items()
        for word in words
    }

    def read(sentence: str) -> dict[str, str]:
        return dict(meaning[word] for word in sentence.split() if word in meaning)

    def template(sentence: str) -> list[str]:
        return [meaning.get(word, (word,))[0] for word in sentence.split()]

    triplets = ToyTriplets(size=200).load(None)
    assert len({tuple(template(premise)) for premise in triplets.premises}) > 1
    for texts in zip(triplets.premises, triplets.entailed, triplets.contradicted, strict=True):
        assert template(texts[0]) == template(texts[1]) == template(texts[2])
        premise, entailed, contradicted = map(read, texts)
        assert premise == entailed
        assert sum(premise[name] != contradicted[name] for name in premise) == 1


WORDS = [f"w{number}" for number in range(20)]


def noisy(root: Path, *texts: str, **options: float) -> Noisy:
    """Noise on a file of triplets: of these texts, else 300 times of the same words."""
    listed = list(texts) or [" ".join(WORDS)] * 300
    rows = [",".join(listed[start : start + 3]) for start in range(0, len(listed), 3)]
    (root / "clean.csv").write_text("\n".join(["sent0,sent1,hard_neg", *rows]) + "\n")
    return Noisy(TripletsFile("clean.csv", ""), **options)


def test_noise_deletes_words_but_the_last_swaps_them_and_repeats_some(tmp_path: Path) -> None:
    def words_of(*texts: str, **options: float) -> list[list[str]]:
        return [text.split() for text in noisy(tmp_path, *texts, **options).texts(tmp_path)]

    left = words_of(deletion=0.4)
    assert 0.58 < sum(map(len, left)) / (300 * 20) < 0.62
    assert all(words == [word for word in WORDS if word in set(words)] for words in left)
    assert len({len(words) for words in left}) > 5
    first, two, three = words_of("one", "two words", "three", deletion=0.99)
    assert (first, three, len(two)) == (["one"], ["three"], 1)
    swapped = words_of(swap=2)
    assert all(Counter(words) == Counter(WORDS) for words in swapped)
    moved = [
        sum(word != clean for word, clean in zip(words, WORDS, strict=True)) for words in swapped
    ]
    assert max(moved) == 4
    assert sum(moved) / len(moved) > 3
    assert all(len(words) == 22 and set(words) == set(WORDS) for words in words_of(insertion=2))


@pytest.mark.parametrize("options", [{"deletion": 0.5}, {"insertion": 3}, {"swap": 1}])
def test_a_loaded_triplet_is_the_three_texts_of_a_row_drawn_once(
    tmp_path: Path, options: dict[str, float]
) -> None:
    source, same, other = (
        noisy(tmp_path, "a b c", "d e f", "g h i", "j k l", "m n o", "p q r", **each)
        for each in (options, options, {"deletion": 0.3})
    )
    loaded, texts = source.load(tmp_path), list(source.texts(tmp_path))
    assert [*zip(loaded.premises, loaded.entailed, loaded.contradicted, strict=True)][1] == tuple(
        texts[3:]
    )
    assert source.per_row == 3
    assert source.fingerprint(tmp_path) == same.fingerprint(tmp_path)
    assert source.fingerprint(tmp_path) not in {
        each.fingerprint(tmp_path) for each in (other, source.clean)
    }
