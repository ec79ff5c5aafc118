"""Triplets: files as their publishers write them, damaged ones, and the toy world's."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.corpora.files import TripletsFile
from harness.errors import UserError
from harness.toy.corpora import ToyTriplets
from harness.toy.world import LEXICON


def test_a_line_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "nli.tsv").write_bytes(b"sent0\tsent1\thard_neg\na\tb\tc\na\tb\rb\tc\n")
    with pytest.raises(UserError, match=r"nli\.tsv, line 3: .*correct the line") as refusal:
        TripletsFile("nli.tsv", "").load(tmp_path)
    assert "\n" not in str(refusal.value)


def test_triplets_are_read_in_both_forms(tmp_path: Path) -> None:
    """Quotes may hold commas and line ends."""
    (tmp_path / "nli.csv").write_text('sent0,sent1,hard_neg\n"One, two",b,c\nd,e,"f ""g"""\n')
    (tmp_path / "nli.tsv").write_text('source\tsent0\tsent1\thard_neg\nx\tOne, two\tb\tc\nx\td\te\tf "g"\n')
    for name in ("nli.csv", "nli.tsv"):
        found = TripletsFile(name, "").load(tmp_path)
        assert (list(found.premises), list(found.contradicted)) == (["One, two", "d"], ["c", 'f "g"'])
    assert len(TripletsFile("nli.csv", "", limit=1).load(tmp_path)) == 1
    (tmp_path / "nli.csv").write_bytes(b'sent0,sent1,hard_neg\r\n"One,\ntwo",b,c\r\n')
    assert list(TripletsFile("nli.csv", "").load(tmp_path).premises) == ["One,\ntwo"]


@pytest.mark.parametrize(
    ("text", "limit", "message"),
    [
        ("a,b\n1,2\n", None, "needs the columns sent0"),
        ("sent0,sent1,hard_neg\n", None, "no triplet"),
        ("sent0,sent1,hard_neg\na,b,c\na,b\n", None, "line 3: a triplet needs three texts"),
        ("sent0,sent1,hard_neg\na,,c\n", None, "line 2: a triplet needs three texts"),
        ("sent0,sent1,hard_neg\na,b,c\n", 2, "fewer than the limit 2"),
    ],
)
def test_bad_triplets_are_one_line(tmp_path: Path, text: str, limit: int | None, message: str) -> None:
    (tmp_path / "nli.csv").write_text(text)
    with pytest.raises(UserError, match=message) as refusal:
        TripletsFile("nli.csv", "", limit=limit).load(tmp_path)
    assert "\n" not in str(refusal.value)


def test_real_triplets_load(data_root: Path) -> None:
    assert len(TripletsFile("nli/triplets_en.tsv.gz", "").load(data_root)) == 8626


def test_toy_triplets_share_a_template_and_differ_in_one_attribute() -> None:
    meaning = {
        word: (name, value) for name, values in LEXICON.items() for value, words in values.items() for word in words
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
