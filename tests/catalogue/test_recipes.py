"""From a publisher's layout to the files that the loaders read: small archives in the published form."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
from PIL import Image
from senteval_layout import columns, senteval_tar, table

from harness.catalogue import entry
from harness.catalogue.checks import count_rows
from harness.catalogue.extract import unpack
from harness.catalogue.recipes import RECIPES
from harness.catalogue.recipes.wikipedia import sentences
from harness.corpora.files import CaptionsFile
from harness.corpora.labelled_images import LabelledImages
from harness.corpora.retrieval import COCO, CaptionedFile
from harness.errors import UserError
from harness.evaluation.sts_files import SICK as SICK_TASK
from harness.evaluation.sts_files import STS12, STSB_DEV


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


def test_the_split_of_entities_is_one_table_in_the_order_of_the_numbers(tmp_path, data_root):
    splits = dict(table(data_root / "captions" / "flickr30k_entities_split.tsv")[1])
    lists: dict[str, list[str]] = {}
    for image, split in reversed(splits.items()):
        lists.setdefault(f"{split}.txt", []).append(image.removesuffix(".jpg"))
    for name, numbers in lists.items():
        (tmp_path / name).write_text("\n".join(numbers) + "\n")
    got = {name: [tmp_path / name] for name in lists}
    run("flickr30k-entities", got, tmp_path / "out")
    made = tmp_path / "out" / "captions" / "flickr30k_entities_split.tsv"
    assert made.read_bytes() == (data_root / "captions" / "flickr30k_entities_split.tsv").read_bytes()
    (tmp_path / "val.txt").write_text(lists["test.txt"][0])
    with pytest.raises(UserError, match=r"no list of images in one split each: '\d+'"):
        run("flickr30k-entities", got, tmp_path / "again")


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


def test_cifar_of_a_cut_file_is_refused(tmp_path):
    made = entry("cifar10")
    base = tmp_path / made.options["folder"]
    base.mkdir()
    (base / made.options["names"]).write_text("a\n")
    (base / "data_batch_1.bin").write_bytes(bytes(3073 + 10))
    with tarfile.open(tmp_path / "c.tar.gz", "w:gz") as packed:
        packed.add(base, base.name)
    with pytest.raises(UserError, match="not made of images of 3073 bytes"):
        run("cifar10", {made.origins[0].file: [tmp_path / "c.tar.gz"]}, tmp_path / "out")


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
    import pyarrow

    got = {}
    for output in entry("stsb-multi").outputs:
        language = output.path.rpartition("-")[2].removesuffix(".tsv.gz")
        rows = columns(data_root / output.path, ("split", "score", "sentence1", "sentence2"))
        for split in ("train", "dev", "test"):
            mine = [row for row in rows if row[0] == split]
            place = tmp_path / "src" / language / f"{split}-00000-of-00001.parquet"
            place.parent.mkdir(parents=True, exist_ok=True)
            scores = pyarrow.array([float(row[1]) for row in mine], pyarrow.float32())
            content = {"sentence1": [r[2] for r in mine], "sentence2": [r[3] for r in mine], "similarity_score": scores}
            parquet.write_table(pyarrow.table(content), place)
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
    import pyarrow

    made = entry("wiki-de")
    made = made.model_copy(update={"options": made.options | {"count": 40, "per_article": 3}})
    articles = [" ".join(f"Der Satz {n} des Artikels {title} ist kurz." for n in range(9)) for title in range(30)]
    content = {
        "title": [str(n) for n in range(30)],
        "text": [f"{text} Dieser Satz steht in jedem Artikel." for text in articles],
    }
    parquet.write_table(pyarrow.table(content), tmp_path / "a.parquet")
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
    with pytest.raises(UserError, match="needed 1000"):
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
    with pytest.raises(UserError, match="holds no folder train-clean-100"):
        run("librispeech", {"train-clean-100.tar.gz": [tmp_path / "w.tar.gz"]}, tmp_path / "wrong")


def test_a_real_archive_of_the_bundle_unpacks(data_root, tmp_path):
    unpack(data_root / "audio" / "fsdd_wav.tar.gz", tmp_path / "wav")
    assert len(list((tmp_path / "wav").rglob("*.wav"))) == 1200
