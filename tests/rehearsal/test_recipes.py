"""From a publisher's layout to the files that the loaders read: a little of each data set in the
published form.
"""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from captioned import Coco, Flickr
from counts import Counts, Splits
from PIL import Image
from publishers import Publishers
from senteval_layout import columns, table

from harness.corpora.files import CaptionsFile
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import COCO, FLICKR30K_ENTITIES, CaptionedFile
from harness.errors import UserError
from harness.evaluation.cxc import CXC, CXC_DEV
from harness.fetching import add_inputs, fetch, find_entry, verify
from harness.fetching.archives import write_parquet
from harness.fetching.data_sets import RECIPES, split_sentences
from harness.fetching.published_captions import strip_annotations
from harness.profiles import load_profile

COUNTS = Counts(
    entities=Splits(3, 1, 2),
    karpathy=Splits(2, 1, 1),
    coco=Splits(3, 1, 1, 1),
    rated=(6, 7),
    cifar=(20, 10),
    classes=2,
    a_class=2,
    recordings=2,
    most=8,
)
FLICKR, OFFICIAL = Flickr(COUNTS), Coco(COUNTS)


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def published(name: str, folder: Path) -> dict[str, list[Path]]:
    """The files of an entry as its publisher has them, below a folder, and those that were made of
    other entries.
    """
    publishers, files = Publishers(folder / "published", COUNTS), {}
    for origin in find_entry(name).origins:
        if origin.output:
            files[origin.file] = [folder / "out" / origin.output]
        elif origin.hand:
            files[origin.file] = [publishers.by_hand(name) / origin.file]
        else:
            files[origin.file] = [*publishers.written(name, origin).values()]
    return files


def run(name: str, files: dict[str, list[Path]], out: Path) -> None:
    RECIPES[find_entry(name).recipe](find_entry(name), files, out, copy)


def made(name: str, folder: Path) -> Path:
    """Make an entry, and before it what it is made from; the folder of the outputs."""
    for each in add_inputs(find_entry(name)):
        run(each.name, published(each.name, folder), folder / "out")
    return folder / "out"


def flat(groups: list[list[str]]) -> list[str]:
    return [text for texts in groups for text in texts]


def test_senteval_of_uneven_files_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "downstream" / "STS" / "STS12-en-test"
    folder.mkdir(parents=True)
    (tmp_path / "downstream" / "SICK").mkdir()
    (folder / "STS.input.MSRpar.txt").write_text("a\tb\nc\td\n")
    (folder / "STS.gs.MSRpar.txt").write_text("1.0\n")
    with pytest.raises(UserError, match="2 pairs and 1 scores"):
        run("senteval", {"senteval.tar": [tmp_path / "downstream"]}, tmp_path / "out")


def test_karpathys_splits_are_read_by_corpus_and_suite(tmp_path: Path) -> None:
    out = made("karpathy", tmp_path)
    assert (
        CaptionedFile("COCO", COCO.files[0], "", {}, split=COCO.layout.split).load(out).texts
        == OFFICIAL.captions[4]
    )
    corpus = CaptionsFile("coco/karpathy_train.parquet", "", captions="all").load(out)
    assert list(corpus.texts) == flat(OFFICIAL.captions[:3])
    header, rows = table(out / "captions" / "coco_karpathy_captions.tsv.gz")
    assert header == ["split", "image_id", "caption_no", "caption"]
    assert [row[0] for row in rows[::5]] == ["train"] * 3 + ["val5k", "test5k", "restval"]
    flickr = table(out / "captions" / "flickr30k_captions.tsv.gz")[1]
    assert [row[0] for row in flickr[::5]] == ["train", "train", "val", "test"]


def test_rated_pairs_of_cxc_get_the_texts_of_karpathys_file(tmp_path: Path) -> None:
    out, (val, test) = made("cxc", tmp_path), OFFICIAL.captions[3:5]
    assert CXC_DEV.load(out)[""] == [(val[i % 5], val[(3 * i + 1) % 5], i / 10) for i in range(6)]
    assert CXC.load(out)[""] == [(test[i % 5], test[(3 * i + 1) % 5], i / 10) for i in range(7)]
    files = published("cxc", tmp_path)
    files["sts_val.csv"][0].write_text(
        "caption1,caption2,agg_score,sampling_method\na:7,a:8,1,c2c_isim\n"
    )
    with pytest.raises(
        UserError, match=r"line 2: a:7 is no caption of dataset_coco\.json; fetch both files again"
    ):
        run("cxc", files, tmp_path / "out")


def test_captions_of_entities_are_read_without_marks_in_the_order_of_the_lists(
    tmp_path: Path,
) -> None:
    out = made("flickr30k-entities", tmp_path)
    header, rows = table(out / FLICKR30K_ENTITIES.files[0])
    assert header == ["split", "image_id", "caption_no", "caption"]
    names = [f"{number}.jpg" for number in FLICKR.numbers]
    assert [row[1] for row in rows[::5]] == names
    assert [row[0] for row in rows[::5]] == ["train"] * 3 + ["val"] + ["test"] * 2
    task = CaptionedFile(
        "mine", FLICKR30K_ENTITIES.files[0], "", {}, split=FLICKR30K_ENTITIES.layout.split
    ).load(out)
    assert (task.texts, task.ids) == (flat(FLICKR.captions[4:]), names[4:])
    marked = "[/EN#1/people The man] holds [/EN#2/other/bodyparts a red\u00e9 [ box ]] , no {}  ."
    assert strip_annotations(marked) == "The man holds a red\u00e9 [ box ] , no {} ."


def test_wrong_files_of_entities_are_refused(tmp_path: Path) -> None:
    files = published("flickr30k-entities", tmp_path)
    ((validation,), (archive,)), known = (
        (files[name] for name in ("val.txt", "annotations.zip")),
        FLICKR.numbers,
    )
    for wrong, said in (
        (known[4], "not a list of images in one split each"),
        ("8", "the image 8 has 0 captions, not"),
    ):
        validation.write_text(f"{wrong}\n")
        with pytest.raises(UserError, match=said):
            run("flickr30k-entities", files, tmp_path / "out")
    validation.write_text(f"{known[3]}\n")
    archive.write_bytes(b"<html>")
    with pytest.raises(UserError, match=r"not an archive of annotations: File is not a zip file"):
        run("flickr30k-entities", files, tmp_path / "out")


def test_mcses_captions_of_flickr_are_matched_to_entities(tmp_path: Path) -> None:
    out = made("flickr-matched", tmp_path)
    methods = {"exact": 3, "order": 0, "elimination": 0, "wording": 0, "guess": 0}
    assert json.loads((out / "flickr/captions.json").read_text()) == {
        "lines": 3,
        "images": 3,
        "methods": methods,
    }
    lines, names = (
        (out / "flickr/captions.txt").read_text().splitlines(),
        [f"{n}.jpg" for n in FLICKR.numbers[:3]],
    )
    for captions, texts in (("one", lines), ("all", flat(FLICKR.captions[:3]))):
        source = CaptionsFile(
            **{**load_profile("paper").corpora["flickr"].options, "captions": captions}
        )
        assert source.missing(out) == []
        assert (list(source.load(out).texts), source.image_ids(out)) == (texts, names)
    files = published("flickr-matched", tmp_path)
    (out / "flickr/captions.txt").write_text("".join(f"{line}\n" for line in lines[::-1]))
    run("flickr-matched", files, out)
    assert (
        parquet.read_table(out / "flickr/captions.parquet")["image_id"].to_pylist() == names[::-1]
    )
    (out / "flickr/captions.txt").write_text("other words\nof another\ndata set\n")
    with pytest.raises(UserError, match=r"flickr-matched: 0 of 3 captions match an image"):
        run("flickr-matched", files, out)


def test_what_an_entry_is_made_from_is_fetched_first_or_taken_where_it_is(tmp_path: Path) -> None:
    matched = find_entry("flickr-matched")
    uncounted = [output.model_copy(update={"rows": None}) for output in matched.outputs]
    matched, out = (
        matched.model_copy(update={"outputs": uncounted}),
        made("flickr-matched", tmp_path),
    )
    before = {output.path: (out / output.path).read_bytes() for output in uncounted}
    for path in before:
        (out / path).unlink()
    fetch(out, matched, print, lambda _: lambda *_: None, offline=True)
    assert {path: (out / path).read_bytes() for path in before} == before
    assert verify(out, matched) == []
    (out / "flickr" / "captions.txt").unlink()
    (out / "flickr" / "captions.json").unlink()
    with pytest.raises(UserError, match=r"^flickr-captions: "):
        fetch(out, matched, print, lambda _: lambda *_: None, offline=True)


def test_mcses_captions_of_coco_are_matched_to_the_official_annotations(tmp_path: Path) -> None:
    out = made("coco-matched", tmp_path)
    assert json.loads((out / "coco/captions.json").read_text())["methods"]["exact"] == 3
    rows = parquet.read_table(out / "coco/captions.parquet").to_pydict()
    assert rows["image_id"] == [OFFICIAL.name(number) for number in range(3)]
    assert rows["captions"] == OFFICIAL.captions[:3], "MCSE draws from five"
    files = published("coco-matched", tmp_path)
    with zipfile.ZipFile(files["annotations_trainval2014.zip"][0], "w") as packed:
        packed.writestr("annotations/captions_train2014.json", json.dumps({"images": [{}]}))
    said = r"contains no annotations/captions_train2014.json with images and captions: 'id'"
    with pytest.raises(UserError, match=said):
        run("coco-matched", files, out)


@pytest.mark.parametrize(("name", "labels"), [("cifar10", 1), ("cifar100", 2)])
def test_cifar_pixels_and_labels_survive(tmp_path: Path, name: str, labels: int) -> None:
    options, out = find_entry(name).options, made(name, tmp_path)
    ((archive,),) = published(name, tmp_path).values()
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "raw", filter="data")
    base = tmp_path / "raw" / options["folder"]
    for path, files in options["splits"].items():
        raw = np.concatenate([np.fromfile(base / file, np.uint8) for file in files]).reshape(
            -1, labels + 3072
        )
        rows = parquet.read_table(out / path).to_pydict()
        assert rows["label"] == raw[:, labels - 1].tolist()
        assert rows["label_name"] == [f"class{label}" for label in rows["label"]]
        pixels = np.stack([np.asarray(Image.open(io.BytesIO(content))) for content in rows["jpeg"]])
        np.testing.assert_array_equal(
            pixels.transpose(0, 3, 1, 2).reshape(-1, 3072), raw[:, labels:]
        )
        assert len(LabelledImages(path, "").load(out).labels) == len(raw)
    (base / files[-1]).write_bytes(bytes(3072 + labels + 10))
    with pytest.raises(UserError, match=f"does not consist of images of {3072 + labels} bytes"):
        run(name, {find_entry(name).origins[0].file: [base.parent]}, tmp_path / "cut")


def test_imagenet_takes_the_listed_images_alone(tmp_path: Path) -> None:
    out, files = made("imagenet60", tmp_path), published("imagenet60", tmp_path)
    ((listing,), (train,)) = files.values()
    given = {path.relative_to(train): path.read_bytes() for path in train.rglob("*.JPEG")}
    taken = {
        path.relative_to(out / "imagenet60"): path.read_bytes() for path in out.rglob("*.JPEG")
    }
    assert (len(given), len(taken)) == (5, 4)
    assert taken.items() <= given.items()
    listing.write_text(f"x/{next(iter(taken))}\nx/n3/n3_1.JPEG\n")
    with pytest.raises(
        UserError, match=r"1 of 2 listed images are missing in .*, first n3/n3_1\.JPEG"
    ):
        run("imagenet60", files, tmp_path / "second")
    listing.write_text("x/../n1_2.JPEG\n")
    with pytest.raises(UserError, match="distinct CLASS"):
        run("imagenet60", files, tmp_path / "third")


def test_multilingual_pairs_are_those_of_the_three_splits(tmp_path: Path) -> None:
    out, files = made("stsb-multi", tmp_path), published("stsb-multi", tmp_path)
    for language in ("de", "fr", "ru", "zh"):
        expected = []
        for split in ("train", "dev", "test"):
            pairs = parquet.read_table(
                files[f"{language}/{split}-00000-of-00001.parquet"][0]
            ).to_pydict()
            texts = zip(
                pairs["similarity_score"], pairs["sentence1"], pairs["sentence2"], strict=True
            )
            expected += [(split, f"{score:.1f}", *both) for score, *both in texts]
        path = out / "sts" / "multilingual" / f"stsb-{language}.tsv.gz"
        assert columns(path, ("split", "score", "sentence1", "sentence2")) == expected


def test_sentences_of_an_article() -> None:
    text = (
        "Berlin\n\nBerlin ist die Hauptstadt der Bundesrepublik Deutschland. Die Stadt hat etwa 3,7 mio. Einwohner! "
        "Kurz.\nSiehe auch\n„Das ist ein Satz mit Anführung.“ Ende dieser Zeile ohne Punkt"
    )
    # there is no list of abbreviations: "mio." before a capital ends a sentence
    german = [
        "Berlin ist die Hauptstadt der Bundesrepublik Deutschland.",
        "Die Stadt hat etwa 3,7 mio.",
    ]
    assert split_sentences(text, spaced=True, shortest=4, longest=60) == german
    assert split_sentences(text, spaced=True, shortest=7, longest=7) == german[:1]
    chinese = "北京是中华人民共和国的首都，也是一座古城。短。它位于华北平原的北部，人口众多！\n标题"
    assert split_sentences(chinese, spaced=False, shortest=10, longest=100) == [
        "北京是中华人民共和国的首都，也是一座古城。",
        "它位于华北平原的北部，人口众多！",
    ]


def test_wikipedia_sentences_are_distinct_bounded_an_article_and_seeded(tmp_path: Path) -> None:
    wiki, titles, shard = find_entry("wiki-de"), range(30), tmp_path / "a.parquet"
    articles = [
        " ".join(f"Der Satz {n} des Artikels {title} ist kurz." for n in range(9))
        for title in titles
    ]
    texts = [f"{text} Dieser Satz steht in jedem Artikel." for text in articles]
    write_parquet(shard, {"title": [str(title) for title in titles], "text": texts})

    def drawn(name: str, count: int) -> list[str]:
        changed = wiki.model_copy(
            update={"options": wiki.options | {"count": count, "per_article": 3}}
        )
        RECIPES["wikipedia"](changed, {wiki.origins[0].file: [shard]}, tmp_path / name, copy)
        return (tmp_path / name / "wiki" / "wiki-de.txt").read_text().splitlines()

    first = drawn("first", 40)
    assert first == drawn("second", 40) != sorted(first)
    assert len(first) == len(set(first)) == 40
    assert max(sum(f"Artikels {title} ist" in line for line in first) for title in titles) == 3
    with pytest.raises(UserError, match="1000 are needed"):
        drawn("third", 1000)


def test_unpacked_folders_are_found_inside_an_archive(tmp_path: Path) -> None:
    out = made("librispeech", tmp_path) / "audio" / "LibriSpeech" / "train-clean-100"
    assert (out / "19" / "198" / "19-198-0000.flac").read_bytes().startswith(b"fLaC")
    with tarfile.open(tmp_path / "wrong.tar.gz", "w:gz") as packed:
        packed.add(out, "other")
    with pytest.raises(UserError, match="contains no folder train-clean-100"):
        run(
            "librispeech",
            {"train-clean-100.tar.gz": [tmp_path / "wrong.tar.gz"]},
            tmp_path / "wrong",
        )
