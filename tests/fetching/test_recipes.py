"""From a publisher's layout to the files that the loaders read: small archives in the published form."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet as parquet
import pytest
from PIL import Image
from senteval_layout import columns, senteval_tar, table

from harness.corpora.files import CaptionsFile
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import COCO, FLICKR30K_ENTITIES, CaptionedFile
from harness.errors import UserError
from harness.evaluation.sts import SICK as SICK_TASK
from harness.evaluation.sts import STS12, STSB_DEV
from harness.fetching import entry
from harness.fetching.archives import write_parquet
from harness.fetching.data_sets import RECIPES, sentences
from harness.fetching.folder import count_rows
from harness.profiles import load_profile


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def run(name: str, got: dict[str, list[Path]], out: Path) -> None:
    out.mkdir()
    RECIPES[entry(name).recipe](entry(name), got, out, copy)


def test_senteval_gives_the_tables_of_the_data_bundle(data_root, tmp_path):
    run("senteval", {"senteval.tar": [senteval_tar(data_root, tmp_path)]}, tmp_path / "out")
    made = entry("senteval")
    for output in made.outputs:
        assert count_rows(tmp_path / "out" / output.path) == output.rows
        header, _ = table(tmp_path / "out" / output.path)
        assert columns(tmp_path / "out" / output.path, tuple(header)) == columns(
            data_root / output.path, tuple(header)
        ), output.path
    for task in (STS12, STSB_DEV, SICK_TASK):
        assert task.load(tmp_path / "out") == task.load(data_root)
    assert not (tmp_path / "out" / ".unpacked").exists()


def test_senteval_of_uneven_files_is_refused(tmp_path):
    folder = tmp_path / "downstream"
    (folder / "SICK").mkdir(parents=True)
    place = folder / "STS" / "STS12-en-test"
    place.mkdir(parents=True)
    (place / "STS.input.MSRpar.txt").write_text("a\tb\nc\td\n")
    (place / "STS.gs.MSRpar.txt").write_text("1.0\n")
    with pytest.raises(UserError, match="2 pairs and 1 scores"):
        run("senteval", {"senteval.tar": [folder]}, tmp_path / "out")


def karpathy_archive(path: Path) -> None:
    def image(name: str, split: str, count: int) -> dict[str, object]:
        return {"filename": name, "split": split, "sentences": [{"raw": f"{name} no\t{n}\n"} for n in range(count)]}

    sets = {
        "flickr30k": [image("1.jpg", "train", 5), image("2.jpg", "test", 5), image("3.jpg", "val", 5)],
        "coco": [image("c1", "train", 7), image("c2", "restval", 5), image("c3", "test", 6), image("c4", "val", 5)],
    }
    with zipfile.ZipFile(path, "w") as packed:
        for name, images in sets.items():
            packed.writestr(f"dataset_{name}.json", json.dumps({"images": images, "dataset": name}))


def test_karpathys_splits_are_read_by_corpus_and_suite(tmp_path):
    karpathy_archive(tmp_path / "k.zip")
    run("karpathy", {"caption_datasets.zip": [tmp_path / "k.zip"]}, tmp_path / "out")
    out = tmp_path / "out"
    loaded = CaptionedFile("COCO", COCO.files[0], "", {}, split=COCO.split).load(out)
    assert loaded.texts == [f"c3 no {n}" for n in range(5)]
    corpus = CaptionsFile("coco/karpathy_train.parquet", "", captions="all").load(out)
    assert list(corpus.texts) == [f"c1 no {n}" for n in range(5)]
    header, rows = table(out / "captions" / "coco_karpathy_captions.tsv.gz")
    assert header == ["split", "image_id", "caption_no", "caption"]
    assert [row[0] for row in rows[::5]] == ["train", "restval", "test5k", "val5k"]
    assert [row[0] for row in table(out / "captions" / "flickr30k_captions.tsv.gz")[1][::5]] == ["train", "test", "val"]
    before = (out / "captions" / "coco_karpathy_captions.tsv.gz").read_bytes()
    run("karpathy", {"caption_datasets.zip": [tmp_path / "k.zip"]}, tmp_path / "again")
    assert (tmp_path / "again" / "captions" / "coco_karpathy_captions.tsv.gz").read_bytes() == before


TRAIN, VAL, TEST = ("31", "9", "205"), ("7",), ("1000", "12")


def entities_files(folder: Path) -> dict[str, list[Path]]:
    """Flickr30k Entities in small: three lists, and five annotated captions an image."""
    for name, numbers in (("train", TRAIN), ("val", VAL), ("test", TEST)):
        (folder / f"{name}.txt").write_text("".join(f"{number}\n" for number in numbers))
    with zipfile.ZipFile(folder / "annotations.zip", "w") as packed:
        for number in (*TRAIN, *VAL, *TEST):
            marked = f"[/EN#1/people The man {number}] holds [/EN#2/other/bodyparts a red\u00e9 [ box ]] , no {{}} .\n"
            packed.writestr(f"annotations/Sentences/{number}.txt", "".join(marked.format(n) for n in range(5)) + "\n")
            packed.writestr(f"annotations/Annotations/{number}.xml", "<annotation/>")
            packed.writestr(f"__MACOSX/annotations/Sentences/{number}.txt", "\x00\x05")
    return {name: [folder / name] for name in ("train.txt", "val.txt", "test.txt", "annotations.zip")}


def entities_captions(number: str) -> list[str]:
    return [f"The man {number} holds a red\u00e9 [ box ] , no {n} ." for n in range(5)]


def test_captions_of_entities_are_read_without_marks_in_the_order_of_the_lists(tmp_path):
    run("flickr30k-entities", entities_files(tmp_path), tmp_path / "out")
    made = tmp_path / "out" / FLICKR30K_ENTITIES.files[0]
    header, rows = table(made)
    assert header == ["split", "image_id", "caption_no", "caption"]
    assert [row[1] for row in rows[::5]] == [f"{number}.jpg" for number in (*TRAIN, *VAL, *TEST)]
    assert [row[0] for row in rows[::5]] == ["train"] * 3 + ["val"] + ["test"] * 2
    task = CaptionedFile("mine", FLICKR30K_ENTITIES.files[0], "", {}, split=FLICKR30K_ENTITIES.split)
    loaded = task.load(tmp_path / "out")
    assert loaded.texts == [text for number in TEST for text in entities_captions(number)]
    assert loaded.ids == ["1000.jpg", "12.jpg"]
    before = made.read_bytes()
    run("flickr30k-entities", entities_files(tmp_path), tmp_path / "again")
    assert (tmp_path / "again" / FLICKR30K_ENTITIES.files[0]).read_bytes() == before


def test_wrong_files_of_entities_are_refused(tmp_path):
    got = entities_files(tmp_path)
    (tmp_path / "val.txt").write_text("205\n")
    with pytest.raises(UserError, match=r"not a list of images in one split each: '205'"):
        run("flickr30k-entities", got, tmp_path / "twice")
    (tmp_path / "val.txt").write_text("8\n")
    with pytest.raises(UserError, match=r"the image 8 has 0 captions, not 5"):
        run("flickr30k-entities", got, tmp_path / "lacking")
    (tmp_path / "val.txt").write_text("7\n")
    (tmp_path / "annotations.zip").write_bytes(b"<html>")
    with pytest.raises(UserError, match=r"not an archive of annotations: File is not a zip file"):
        run("flickr30k-entities", got, tmp_path / "html")


def matched(folder: Path, name: str, got: dict[str, list[Path]], lines: list[str]) -> tuple[bytes, dict[str, object]]:
    """Match lines, and check the corpus that reads them; the matched file and its note."""
    (folder / "captions.txt").write_text("".join(f"{line}\n" for line in lines))
    before = set(folder.iterdir())
    out = folder / f"out-{len(before)}"
    run(name, got | {"captions.txt": [folder / "captions.txt"]}, out)
    data_set = name.removesuffix("-matched")
    (out / data_set / "captions.txt").write_bytes((folder / "captions.txt").read_bytes())
    return (out / data_set / "captions.parquet").read_bytes(), json.loads(
        (out / data_set / "captions.json").read_text()
    )


def corpus(root: Path, name: str, captions: str = "one") -> CaptionsFile:
    options = load_profile("paper").corpora[name].options
    return CaptionsFile(**{**options, "captions": captions})


def test_mcses_captions_of_flickr_are_matched_to_entities(tmp_path):
    run("flickr30k-entities", entities_files(tmp_path), tmp_path / "e")
    got = {"captions.tsv.gz": [tmp_path / "e" / FLICKR30K_ENTITIES.files[0]]}
    lines = [entities_captions(number)[n] for number, n in zip(TRAIN, (4, 0, 2), strict=True)]
    raw, note = matched(tmp_path, "flickr-matched", got, lines)
    assert note == {
        "lines": 3,
        "images": 3,
        "methods": {"exact": 3, "order": 0, "elimination": 0, "wording": 0, "guess": 0},
    }
    out = next(tmp_path.glob("out-*"))
    for captions, texts in (("one", lines), ("all", [text for number in TRAIN for text in entities_captions(number)])):
        source = corpus(out, "flickr", captions)
        assert source.missing(out) == []
        assert list(source.load(out).texts) == texts
        assert source.image_ids(out) == [f"{number}.jpg" for number in TRAIN]
    assert matched(tmp_path, "flickr-matched", got, lines) == (raw, note)
    reordered, _ = matched(tmp_path, "flickr-matched", got, lines[::-1])
    assert parquet.read_table(io.BytesIO(reordered))["image_id"].to_pylist() == ["205.jpg", "9.jpg", "31.jpg"]
    with pytest.raises(UserError, match=r"flickr-matched: 0 of 3 captions match an image"):
        matched(tmp_path, "flickr-matched", got, ["other words", "of another", "data set"])


def test_mcses_captions_of_coco_are_matched_to_the_official_annotations(tmp_path):
    ids = [57870, 384029, 9]
    known = {
        "images": [{"id": number, "file_name": f"COCO_train2014_{number:012}.jpg"} for number in ids],
        "annotations": [
            {"image_id": number, "id": n, "caption": f"Picture {number}\nwith caption {n}. "}
            for n in range(6)
            for number in reversed(ids)
        ],
    }
    archive = tmp_path / "annotations_trainval2014.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("annotations/captions_train2014.json", json.dumps(known))
    lines = [f"Picture {number} with caption {n}." for n, number in enumerate(ids)]
    got = {archive.name: [archive]}
    raw, note = matched(tmp_path, "coco-matched", got, lines)
    assert note["methods"]["exact"] == 3
    rows = parquet.read_table(io.BytesIO(raw)).to_pydict()
    assert rows["image_id"] == [image["file_name"] for image in known["images"]]
    assert rows["captions"][0] == [f"Picture 57870 with caption {n}." for n in range(5)], "MCSE draws from five"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("annotations/captions_train2014.json", json.dumps({"images": [{}]}))
    with pytest.raises(
        UserError, match=r"contains no annotations/captions_train2014.json with images and captions: 'id'"
    ):
        matched(tmp_path, "coco-matched", got, lines)


@pytest.mark.parametrize(("name", "labels"), [("cifar10", 1), ("cifar100", 2)])
def test_cifar_pixels_and_labels_survive(tmp_path, name, labels):
    made, rng = entry(name), np.random.default_rng(0)
    base = tmp_path / "src" / made.options["folder"]
    base.mkdir(parents=True)
    (base / made.options["names"]).write_text("\n".join(f"class{n}" for n in range(10)) + "\n\n")
    pixels: dict[str, np.ndarray] = {}
    for file in [file for files in made.options["splits"].values() for file in files]:
        pixels[file] = rng.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8)
        heads = np.stack([[7] * (labels - 1) + [row * 3] for row in range(4)]).astype(np.uint8)
        (base / file).write_bytes(np.concatenate([heads, pixels[file].reshape(4, -1)], axis=1).tobytes())
    archive = tmp_path / "c.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(base, made.options["folder"])
    run(name, {made.origins[0].file: [archive]}, tmp_path / "out")
    for path, files in made.options["splits"].items():
        rows = parquet.read_table(tmp_path / "out" / path).to_pydict()
        assert rows["label"] == [0, 3, 6, 9] * len(files)
        assert rows["label_name"][1] == "class3"
        expected = np.concatenate([pixels[file] for file in files])
        found = np.stack([np.asarray(Image.open(io.BytesIO(raw))) for raw in rows["jpeg"]]).transpose(0, 3, 1, 2)
        np.testing.assert_array_equal(found, expected)
        assert len(LabelledImages(path, "").load(tmp_path / "out").labels) == len(expected)
    (base / file).write_bytes(bytes(3072 + labels + 10))
    with pytest.raises(UserError, match=f"does not consist of images of {3072 + labels} bytes"):
        run(name, {made.origins[0].file: [base.parent]}, tmp_path / "cut")


def test_imagenet_takes_the_listed_images_alone(tmp_path):
    train = tmp_path / "train"
    for name in ("n1/n1_1.JPEG", "n1/n1_2.JPEG", "n2/n2_1.JPEG"):
        (train / name).parent.mkdir(parents=True, exist_ok=True)
        (train / name).write_text(name)
    listing = tmp_path / "sampled-Imagenet.txt"
    listing.write_text("/datasets/sampled-Imagenet/n1/n1_2.JPEG\n/datasets/sampled-Imagenet/n2/n2_1.JPEG\n")
    got = {"sampled-Imagenet.txt": [listing], "train": [train]}
    run("imagenet60", got, tmp_path / "out")
    found = sorted((tmp_path / "out").rglob("*.JPEG"))
    assert [item.read_text() for item in found] == ["n1/n1_2.JPEG", "n2/n2_1.JPEG"]
    listing.write_text("x/n1/n1_2.JPEG\nx/n3/n3_1.JPEG\n")
    with pytest.raises(UserError, match=r"1 of 2 listed images are missing in .*, first n3/n3_1\.JPEG"):
        run("imagenet60", got, tmp_path / "second")
    listing.write_text("x/../n1_2.JPEG\n")
    with pytest.raises(UserError, match="distinct CLASS"):
        run("imagenet60", got, tmp_path / "third")


def test_multilingual_pairs_equal_the_data_bundle(data_root, tmp_path):
    got = {}
    for output in entry("stsb-multi").outputs:
        language = output.path.rpartition("-")[2].removesuffix(".tsv.gz")
        rows = columns(data_root / output.path, ("split", "score", "sentence1", "sentence2"))
        for split in ("train", "dev", "test"):
            mine = [row for row in rows if row[0] == split]
            place = tmp_path / "src" / language / f"{split}-00000-of-00001.parquet"
            scores = pyarrow.array([float(row[1]) for row in mine], pyarrow.float32())
            content = {"sentence1": [r[2] for r in mine], "sentence2": [r[3] for r in mine], "similarity_score": scores}
            write_parquet(place, content)
            got[f"{language}/{place.name}"] = [place]
    run("stsb-multi", got, tmp_path / "out")
    for output in entry("stsb-multi").outputs:
        kept = columns(tmp_path / "out" / output.path, ("split", "score", "sentence1", "sentence2"))
        known = columns(data_root / output.path, ("split", "score", "sentence1", "sentence2"))
        assert [(split, *texts) for split, _, *texts in kept] == [(split, *texts) for split, _, *texts in known]
        np.testing.assert_allclose([float(row[1]) for row in kept], [float(row[1]) for row in known], rtol=1e-6)
        assert kept[0][1] == "5.0"


def test_sentences_of_an_article():
    text = (
        "Berlin\n\nBerlin ist die Hauptstadt der Bundesrepublik Deutschland. Die Stadt hat etwa 3,7 mio. Einwohner! "
        "Kurz.\nSiehe auch\n„Das ist ein Satz mit Anführung.“ Ende dieser Zeile ohne Punkt"
    )
    # there is no list of abbreviations: "mio." before a capital ends a sentence
    assert sentences(text, spaced=True, shortest=4, longest=60) == [
        "Berlin ist die Hauptstadt der Bundesrepublik Deutschland.",
        "Die Stadt hat etwa 3,7 mio.",
    ]
    assert sentences(text, spaced=True, shortest=7, longest=7) == [
        "Berlin ist die Hauptstadt der Bundesrepublik Deutschland."
    ]
    chinese = "北京是中华人民共和国的首都，也是一座古城。短。它位于华北平原的北部，人口众多！\n标题"
    assert sentences(chinese, spaced=False, shortest=10, longest=100) == [
        "北京是中华人民共和国的首都，也是一座古城。",
        "它位于华北平原的北部，人口众多！",
    ]


def test_wikipedia_sentences_are_distinct_bounded_an_article_and_seeded(tmp_path):
    made = entry("wiki-de")
    made = made.model_copy(update={"options": made.options | {"count": 40, "per_article": 3}})
    articles = [" ".join(f"Der Satz {n} des Artikels {title} ist kurz." for n in range(9)) for title in range(30)]
    content = {
        "title": [str(n) for n in range(30)],
        "text": [f"{text} Dieser Satz steht in jedem Artikel." for text in articles],
    }
    write_parquet(tmp_path / "a.parquet", content)
    results = []
    for name in ("one", "two"):
        RECIPES["wikipedia"](made, {made.origins[0].file: [tmp_path / "a.parquet"]}, tmp_path / name, copy)
        results.append((tmp_path / name / "wiki" / "wiki-de.txt").read_text().splitlines())
    first, second = results
    assert first == second
    assert len(first) == len(set(first)) == 40
    counts = [sum(f"Artikels {title} ist" in line for line in first) for title in range(30)]
    assert max(counts) == 3
    assert first != sorted(first)
    small = made.model_copy(update={"options": made.options | {"count": 1000}})
    with pytest.raises(UserError, match="1000 are needed"):
        RECIPES["wikipedia"](small, {made.origins[0].file: [tmp_path / "a.parquet"]}, tmp_path / "three", copy)


def test_unpacked_folders_are_found_inside_an_archive(tmp_path):
    made = entry("librispeech")
    source = tmp_path / "LibriSpeech" / "train-clean-100" / "19" / "198"
    source.mkdir(parents=True)
    (source / "19-198-0000.flac").write_bytes(b"flac")
    with tarfile.open(tmp_path / "t.tar.gz", "w:gz") as packed:
        packed.add(tmp_path / "LibriSpeech", "LibriSpeech")
    run("librispeech", {"train-clean-100.tar.gz": [tmp_path / "t.tar.gz"]}, tmp_path / "out")
    assert (tmp_path / "out" / made.outputs[0].path / "19" / "198" / "19-198-0000.flac").read_bytes() == b"flac"
    with tarfile.open(tmp_path / "w.tar.gz", "w:gz") as packed:
        packed.add(source, "other")
    with pytest.raises(UserError, match="contains no folder train-clean-100"):
        run("librispeech", {"train-clean-100.tar.gz": [tmp_path / "w.tar.gz"]}, tmp_path / "wrong")
