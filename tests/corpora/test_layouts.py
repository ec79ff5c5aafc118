"""Files of texts are what their content says: published captions are read, and what is no sentence
is refused.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from harness.corpora.files import CaptionsFile, SentencesFile, TripletsFile
from harness.corpora.retrieval import CaptionedFile
from harness.datarows import read_rows
from harness.errors import UserError
from harness.fetching.archives import write_parquet
from harness.remarks import list_label_remarks

IDS = ["1000.jpg", "b c.JPG"]
TEXTS = [["A child in pink .", "A girl, going up ."], ["Two dogs"]]
FLAT = [text for texts in TEXTS for text in texts]
ROWS = [(name, text) for name, texts in zip(IDS, TEXTS, strict=True) for text in texts]
KARPATHY = {
    "dataset": "flickr8k",
    "images": [
        {
            "filename": name,
            "split": "train",
            "sentences": [{"raw": f" {text}\n", "tokens": []} for text in texts],
        }
        for name, texts in zip(IDS, TEXTS, strict=True)
    ]
    + [{"filename": "t.jpg", "split": "test", "sentences": [{"raw": "never"}]}],
}
COCO = {
    "info": {"year": 2014},
    "images": [{"id": 7, "file_name": IDS[0]}, {"id": 3, "file_name": IDS[1]}],
    "annotations": [
        {"image_id": 3, "id": 1, "caption": "Two dogs"},
        {"image_id": 7, "id": 2, "caption": "A child in pink .\n"},
        {"image_id": 7, "id": 3, "caption": "A girl, going up ."},
    ],
}
TOKENS = "".join(f"{name}#{number}\t{text}\n" for number, (name, text) in enumerate(ROWS))
KAGGLE = "image,caption\n" + "".join(f'{name},"{text}"\n' for name, text in ROWS)
TABLE = "".join(f"{name}\t{text}\n" for name, text in ROWS)
BARS = [f"{name}| {number}| {text}\n" for number, (name, text) in enumerate(ROWS)]
BARS[2] = BARS[2].replace("2| ", "2   ")  # a row of the published file lacks its second bar
#: name -> file, content, options
LAYOUTS = {
    "token file": ("results.token", TOKENS, {}),
    "token file in capitals": ("Flickr8k.TOKEN.TXT", TOKENS, {}),
    "token file, gzip without suffix": ("captions", gzip.compress(TOKENS.encode()), {}),
    "Kaggle": ("captions.txt", KAGGLE, {}),
    "Kaggle without header": ("captions.txt", KAGGLE.partition("\n")[2], {}),
    "results.csv": ("results.csv", "image_name| comment_number| comment\n" + "".join(BARS), {}),
    "Karpathy": ("dataset.json", json.dumps(KARPATHY), {"split": "train"}),
    "Karpathy over lines": (
        "dataset.txt",
        json.dumps(KARPATHY, indent=1),
        {"split": "train+restval"},
    ),
    "COCO": ("captions_train2014.json", json.dumps(COCO), {}),
    "objects": (
        "c.txt",
        "".join(json.dumps({"caption": text, "image": name}) + "\n" for name, text in ROWS),
        {},
    ),
    "table without header": ("c.tsv", TABLE, {}),
    "table, mixed": (
        "c.tsv",
        "".join(f"{ROWS[row][0]}\t{ROWS[row][1]}\n" for row in (0, 2, 1)),
        {},
    ),
    "table of Windows": ("c.tsv", "\ufeff" + TABLE.replace("\n", "\r\n") + "\r\n", {}),
    "other order": (
        "c.tsv",
        "caption\tn\timage\n" + "".join(f"{text}\t1\t{name}\n" for name, text in ROWS),
        {},
    ),
    "catalogue": (
        "c.dat",
        "split\timage_id\tcaption\n" + "".join(f"train\t{n}\t{t}\n" for n, t in ROWS),
        {},
    ),
    "named": (
        "c",
        "file;x,what\n" + "".join(f'{name},"{text}"\n' for name, text in ROWS),
        {"image": "file;x"},
    ),
}
LAYOUTS["named"][2]["caption"] = "what"


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_published_captions_are_read_whatever_the_file_is_called(
    layout: str, tmp_path: Path
) -> None:
    name, content, options = LAYOUTS[layout]
    write(tmp_path / name, content)
    corpus = CaptionsFile(name, captions="all", **options)
    corpus.examined(tmp_path)
    loaded = corpus.load(tmp_path)
    assert (corpus.image_ids(tmp_path), list(loaded.texts), loaded.image_of.tolist()) == (
        IDS,
        FLAT,
        [0, 0, 1],
    )
    drawn = corpus.with_captions("one").load(tmp_path)
    assert [text in texts for text, texts in zip(drawn.texts, TEXTS, strict=True)] == [True, True]
    assert corpus.examined(tmp_path).rows == corpus.expected(tmp_path) == 3
    tested = CaptionedFile("mine", name, "", {}, options.get("split"), layout=corpus.layout).load(
        tmp_path
    )
    assert (tested.ids, tested.texts) == (IDS, FLAT)


def test_rows_of_parquet_are_captions_as_in_a_table(tmp_path: Path) -> None:
    write_parquet(
        tmp_path / "c.bin",
        {"image": [name for name, _ in ROWS], "caption": [text for _, text in ROWS]},
    )
    assert list(CaptionsFile("c.bin", captions="all").load(tmp_path).texts) == FLAT


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
#: content that is no file of sentences, and what the line says besides the file
NO_SENTENCES = {
    "pointer": (LFS, "pointer of Git LFS, not the file; run `git lfs pull`"),
    "page": ("<!DOCTYPE html>\n<html><body>Sign in</body></html>\n", "a web page, not the data"),
    "answer": ("\n<?xml version='1.0'?><Error/>\n".lstrip(), "a web page"),
    "utf-16": ("a sentence\nmore\n".encode("utf-16-le"), "zero bytes.*save it as UTF-8"),
    "utf-16 with mark": (
        "a sentence\n".encode("utf-16"),
        "line 1, cannot be read as UTF-8 text.*save it as UTF-8",
    ),
    "objects": (
        '{"text": "a", "n": 1}\n{"text": "b", "n": 2}\n',
        "columns text, n.*column = '...'",
    ),
    "document": (json.dumps(COCO, indent=1), "line 1: JSON, not one sentence a line"),
    "array": ('["a", "b"]\n', "JSON"),
    "array of objects": ('[\n {"text": "a"}]', "columns text.*column = '...'"),
    "csv": ('sent0,sent1\n"One, two",b\nc,d\n', "columns sent0, sent1.*column = '...'"),
    "csv with a wrong row": ("id,text\n1,a\n2,b, c\n3,d\n", "columns id, text"),
    "words in a header": (
        "Sentence 1,Sentence 2\na.,b.\nc.,d.\n",
        "columns Sentence 1, Sentence 2",
    ),
    "semicolons": ("id;text\n1;a, b\n2;c\n", "columns id, text"),
    "tsv": ("label\ttext\n1\ta\n0\tb\n", "columns label, text"),
    "tsv without header": ("1\ta\n0\tb\n", "columns 1, a"),
    "one column": ("sentence\nA dog.\nA cat.\n", "columns sentence"),
    "captions": (TOKENS, "kind = 'captions-file'"),
    "kaggle": (KAGGLE, "columns image, caption"),
    "bars": (
        "image_name| comment_number| comment\n" + "".join(BARS),
        "columns image_name, comment_number, comment",
    ),
}


@pytest.mark.parametrize("content", NO_SENTENCES)
@pytest.mark.parametrize("name", ["text.txt", "text.csv"])
def test_what_is_no_sentence_is_refused_as_sentences_and_as_captions(
    content: str, name: str, tmp_path: Path
) -> None:
    text, message = NO_SENTENCES[content]
    path = write(tmp_path / name, text)
    with pytest.raises(UserError, match=f"^{path}.*{message}"):
        SentencesFile(name).examined(tmp_path)
    if content not in ("captions", "kaggle", "bars", "document"):
        with pytest.raises(UserError, match=f"^{path}"):
            CaptionsFile(name).examined(tmp_path)


SENTENCES = {
    "braces": '{curly} words begin this\n{"quoted"} and this\n[1] A note.\n["Well," he said]\n',
    "commas": "Hello, world\nOh, no\nYes, please\n",
    "numbers": "1,000 people came\n2,500 left\n",
    "tabs in some": "one\ttwo\nthree\nfour\n",
    "chinese": "你好,世界\n今天天气很好\n我们走吧,朋友,快点\n",
    "bars": "a | b\nno bar here\nnor here\n",
    "names": "dog.jpg is a file\nand cat.png too\n",
    "text first": "The text\ntext\n",
    "one line": "one,two\n",
}


@pytest.mark.parametrize("content", SENTENCES)
def test_sentences_that_look_odd_stay_sentences(content: str, tmp_path: Path) -> None:
    write(tmp_path / "t.jsonl", SENTENCES[content])
    source = SentencesFile("t.jsonl")
    source.examined(tmp_path)
    lines = [line.strip() for line in SENTENCES[content].splitlines()]
    assert (
        source.load(tmp_path).texts == lines == list(CaptionsFile("t.jsonl").load(tmp_path).texts)
    )


#: captions that no option was given to read, and what the line says
NO_CAPTIONS = {
    "other names": (
        "file,comment\na.jpg,x\nb.jpg,y\n",
        r"line 1: .* but file, comment; .* image = '...', caption = ",
    ),
    "other keys": ('{"file": "a.jpg", "text": "x"}\n', r"line 1: JSON with the keys file, text"),
    "other document": ('{"data": [1]}', "line 1: JSON with the keys data, neither COCO's"),
    "cut short": (json.dumps(COCO)[:-9], "line 1: not JSON"),
    "comma": ("image,caption\na.jpg,one dog, running\n", "line 2: 3 fields, the header has 2"),
    "comma without header": (
        "a.jpg,one\nb.jpg,one dog, running\n",
        "line 2: 3 fields, the lines above have 2",
    ),
    "quote": ('image,caption\na.jpg,"one dog\nb.jpg,two\n', "line 2: unexpected end of data"),
    "separator": ("image;caption\na.jpg;one\n", "line 1: its fields are separated by ';'"),
    "separator without header": (
        "a.jpg;one\nb.jpg;two\n",
        "line 1: its fields are separated by ';'",
    ),
    "bar": (
        "image_name| comment_number| comment\na.jpg| x\n",
        "line 2: not an image, a number and a caption",
    ),
    "splits": (json.dumps(KARPATHY), r"has the splits train \(2\), test \(1\); .* split = '...'"),
    "astray": (
        json.dumps(COCO).replace('"id": 3, "f', '"id": 4, "f'),
        "1 captions name no image of the file",
    ),
    "twice": (json.dumps(COCO).replace(IDS[1], IDS[0]), "1 images twice, such as 1000.jpg"),
    "pointer": (LFS, "pointer of Git LFS"),
    "names of a table": (
        "name\ttext\na.jpg\tone\n",
        "line 1: neither a header with the columns 'image' and 'caption'",
    ),
    "three fields": ("a.jpg\tone\tmore\n", "line 1: neither a header"),
    "tab": ("a.jpg\tone\nb.jpg\n", "line 2: 1 fields, the lines above have 2"),
    "no name": ("a.jpg\tone\n\tone\n", "line 2: no file name of an image"),
    "no rows": ("image\tcaption\n", "has no rows"),
    "column twice": ("image\timage\tcaption\na.jpg\ta.jpg\tone\n", "line 1: two columns 'image'"),
}


@pytest.mark.parametrize("content", NO_CAPTIONS)
def test_captions_of_another_layout_are_refused_with_the_option_that_reads_them(
    content: str, tmp_path: Path
) -> None:
    text, message = NO_CAPTIONS[content]
    path = write(tmp_path / "captions.txt", text)
    with pytest.raises(UserError, match=f"^{path}.*{message}") as said:
        CaptionsFile("captions.txt").examined(tmp_path)
    assert "fetch" not in str(said.value), "the file is the user's own"


def test_a_split_is_one_of_the_file(tmp_path: Path) -> None:
    write(tmp_path / "k.json", json.dumps(KARPATHY))
    write(tmp_path / "coco.json", json.dumps(COCO))
    write(tmp_path / "lines.txt", "a dog\na cat\n")
    for name in ("k.json", "coco.json", "lines.txt"):
        with pytest.raises(UserError, match=f"{name} .*split"):
            CaptionsFile(name, split="dev").examined(tmp_path)
    prints = {
        CaptionsFile("k.json", split=split).fingerprint(tmp_path) for split in ("train", "test")
    }
    assert len(prints) == 2


#: columns of a Parquet file, and what the line says
PARQUET = {
    "no id": (
        {"image_id": ["a", None], "captions": [["x"], ["y"]]},
        "row 2: no image_id, as in 1 of 2 rows",
    ),
    "float ids": (
        {"image_id": [1.0, 2.0], "captions": [["x"], ["y"]]},
        "image_id is of the type double",
    ),
    "bytes": ({"image_id": [b"a"], "captions": [["x"]]}, "image_id is of the type binary"),
    **{
        f"{captions} for a list": (
            {"image_id": ["a", "b"], "captions": [["x"], captions]},
            "image b has no list of",
        )
        for captions in (["y", " "], [], None, ["y", None])
    },
    "twice": ({"image_id": [1, 1], "captions": [["x"], ["y"]]}, "1 images twice, such as 1"),
    "no caption": (
        {"image": ["a", "b"], "caption": ["x", None]},
        "row 2: no caption, as in 1 of 2 rows",
    ),
    "names": ({"file": ["a"], "text": ["x"]}, "but file, text; name the columns"),
    "text for lists": (
        {"image_id": ["a"], "captions": ["a text"]},
        "image_id, captions; name the columns in the pro",
    ),
    "list for a text": (
        {"image_id": ["a"], "caption": [["x"]]},
        "the column caption is of the type list",
    ),
    "no column": (
        {"name": ["a"], "captions": [["x"]]},
        "has no column image_id; it has name, captions; rename one",
    ),
}


@pytest.mark.parametrize("columns", PARQUET)
def test_parquet_is_as_strict_as_a_table(columns: str, tmp_path: Path) -> None:
    content, message = PARQUET[columns]
    write_parquet(tmp_path / "c.parquet", content)
    with pytest.raises(UserError, match=rf"c\.parquet.*{message}") as said:
        CaptionsFile("c.parquet").examined(tmp_path)
    assert "fetch" not in str(said.value), "the file is the user's own"


def test_a_column_of_parquet_is_sentences_and_its_missing_values_are_counted(
    tmp_path: Path,
) -> None:
    write_parquet(tmp_path / "t", {"text": ["a", "b"], "n": [1, 2], "score": [0.5, float("nan")]})
    assert SentencesFile("t", column="text").load(tmp_path).texts == ["a", "b"]
    assert [row.values for row in read_rows(tmp_path / "t", "n", "text")] == [
        ("1", "a"),
        ("2", "b"),
    ]
    with pytest.raises(UserError, match=r"row 2: no score, as in 1 of 2 rows"):
        list(read_rows(tmp_path / "t", "score"))
    with pytest.raises(UserError, match=r"columns text, n, score, .*column = "):
        SentencesFile("t").examined(tmp_path)
    write(tmp_path / "p.parquet", LFS)
    with pytest.raises(UserError, match=r"p\.parquet is a pointer of Git LFS"):
        CaptionsFile("p.parquet").examined(tmp_path)


HEADER = "sent0,sent1,hard_neg\n"
TRIPLETS = {
    "comma": ("A man, who runs,b,c\n", "line 3: 4 fields"),
    "fourth": ("a,b,c,d\n", "line 3: 4 fields"),
    "two": ("a,b\n", "line 3: 2 fields"),
    "quote": ('"a,b,c\nd,e,f\n', "line 3: unexpected end of data"),
    "quote inside": ('"a" dog,b,c\n', "line 3: .*quote the field"),
    "semicolons": ("", "line 1: its fields are separated by ';'"),
}


@pytest.mark.parametrize("columns", [(), ("sent0", "sent1", "hard_neg")])
@pytest.mark.parametrize("content", TRIPLETS)
def test_triplets_have_three_fields_with_and_without_named_columns(
    content: str, columns: tuple[str, ...], tmp_path: Path
) -> None:
    rows, message = TRIPLETS[content]
    text = HEADER + "x,y,z\n" + rows
    write(tmp_path / "nli.csv", text.replace(",", ";") if content == "semicolons" else text)
    with pytest.raises(UserError, match=message):
        TripletsFile("nli.csv", columns=columns).examined(tmp_path)


def test_empty_texts_missing_values_and_repeated_captions_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "s.txt", "one\n\nnan\nNone\n \n")
    assert SentencesFile("s.txt").examined(tmp_path).remarks == [
        "2 empty lines are left out",
        "2 sentences are 'nan', 'None': missing values?",
    ]
    write(tmp_path / "c.txt", "one\n\ntwo\n")
    assert CaptionsFile("c.txt").examined(tmp_path).remarks == [
        "1 of 3 lines are empty, captions of one blank"
    ]
    write(
        tmp_path / "c.tsv",
        "split\timage\tcaption\ntest\ta.jpg\tone\ntrain\tb.jpg\ttwo\ntrain\tb.jpg\ttwo\n",
    )
    with pytest.raises(UserError, match=r"'split' parts its rows, test \(1\), train \(2\)"):
        CaptionsFile("c.tsv").examined(tmp_path)
    assert CaptionsFile("c.tsv", ignore=["split"]).examined(tmp_path).remarks == [
        "1 captions are given twice for their image",
    ]
    without = COCO | {"images": [*COCO["images"], {"id": 9, "file_name": "z.jpg"}]}
    write(tmp_path / "coco.json", json.dumps(without))
    assert CaptionsFile("coco.json").examined(tmp_path).remarks == [
        "1 images have no caption and are left out"
    ]


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["1", "1.0", "0"], ["the labels '1' and '1.0' count as 2 classes; are they one?"]),
        (["pos", "Pos", "neg"], ["the labels 'pos' and 'Pos' count as 2 classes; are they one?"]),
        (["ＡＢ", "ab ", "c"], ["the labels 'ＡＢ' and 'ab ' count as 2 classes; are they one?"]),
        (["yes", "nan"], ["1 labels are 'nan': missing values?"]),
        (["1", "2", "10", "a", "b", "-1", "inf"], []),
    ],
)
def test_labels_that_differ_in_spelling_alone_are_told(labels: list[str], told: list[str]) -> None:
    assert list_label_remarks(labels) == told
