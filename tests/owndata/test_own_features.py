"""A user's own image features: whatever is wrong with them is one line before anything is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import harness
from harness.corpora.files import CaptionsFile
from harness.errors import UserError
from harness.fetching.archives import write_parquet

pytestmark = pytest.mark.usefixtures("small_toy_tests")

#: of the world's captioned pictures
PICTURES = 12
OWN = '[corpora.my-captions.features.mine]\nfile = "./{}"\n'


def write(path: Path, rows: int = PICTURES, name: str = "image_id") -> None:
    """Features with ids, in another order, or without; tests/corpora/test_features.py has every
    format.
    """
    values = np.random.default_rng(0).normal(size=(rows, 5)).astype(np.float32)
    if path.suffix == ".npy":
        np.save(path, values)
    else:
        write_parquet(
            path, {name: [f"{row}.png" for row in reversed(range(rows))], "feature": list(values)}
        )


def plan(
    world: Path, file: str, methods: str = "mcse", suites: str = "sts", images: str = "mine"
) -> harness.Plan:
    """Plan with features of one's own for the captions, and without those pictures themselves."""
    named, text = world.with_name("named.toml"), world.read_text()
    pictures = 'kind = "captions-file"\nfile = "./captions.tsv"\n'
    assert f'{pictures}images = "./pictures"\n' in text
    text = text.replace(f'{pictures}images = "./pictures"\n', pictures) + (
        OWN.format(file) if file else ""
    )
    named.write_text(
        (f'images = "{images}"\n' if images else "")
        + text.replace('"my-text", "my-captions"', '"my-captions"')
    )
    return harness.plan(
        str(named), methods=methods, settings="mine", encoders="toy-bert", seeds=1, suites=suites
    )


@pytest.mark.parametrize("file", ["f.parquet", "f.npy"])
def test_features_with_and_without_ids_are_planned_and_trained_on(world: Path, file: str) -> None:
    write(world.with_name(file))
    planned = plan(world, file)
    names = [corpus.name for run in planned.todo for corpus in run.experiment.corpora]
    assert names == ["my-captions"], "not the name of its features"
    finished = harness.execute(planned, executor="serial")
    assert (len(finished), finished.failures) == (1, ())
    assert finished.runs[0].teachers["image"].source == str(world.with_name(file))


def with_captions(world: Path, features: str = "captions.npz") -> str:
    """Features of the pictures, and a table that names those of the captions too, in another order."""
    write(world.with_name("f.parquet"))
    lines = world.with_name("captions.tsv").read_text().splitlines()
    captions = [line.split("\t")[1] for line in reversed(lines)]
    values = np.random.default_rng(1).normal(size=(len(captions), 5)).astype(np.float32)
    np.savez(world.with_name("captions.npz"), features=values, caption=np.array(captions))
    np.save(world.with_name("bare.npy"), values)
    world.with_name("ids.txt").write_text("\n".join(captions))
    return f'f.parquet"\n[corpora.my-captions.caption_features.mine]\nfile = "./{features}'


@pytest.mark.parametrize("captions", ["captions.npz", 'bare.npy"\nids = "./ids.txt'])
def test_kdmcse_trains_on_features_of_images_and_captions(world: Path, captions: str) -> None:
    finished = harness.execute(
        plan(world, with_captions(world, captions), "kdmcse"), executor="serial"
    )
    assert (len(finished), finished.failures) == (1, ())
    teachers = finished.runs[0].teachers
    assert teachers["image"].source == str(world.with_name("f.parquet"))
    assert teachers["caption"].source == str(world.with_name(captions.partition('"')[0]))


def test_the_recipe_of_the_documentation_trains_kdmcse_and_dalr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tables of docs/your-data.md, as they stand there, on files of the names that they have
    there.
    """
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "your-data.md").read_text()
    recipe = page.partition("## Stored features")[2].partition("```toml\n")[2].partition("```")[0]
    grid = '[settings.mine]\ncorpora = ["my-captions"]\n[training]\nsteps = 4\neval_every = 2\nbatch_size = 4\n'
    (tmp_path / "mine.toml").write_text(f'extends = "tiny"\n{recipe}\n{grid}')
    captions = [
        f"a {size} {colour} circle"
        for size in ("small", "large")
        for colour in ["red", "green", "blue", "yellow"]
    ]
    ids = [f"{row}.jpg" for row in range(8)]
    values = np.random.default_rng(0).normal(size=(2, 8, 6)).astype(np.float32)
    write_parquet(
        tmp_path / "captions.parquet", {"image_id": ids, "captions": [[text] for text in captions]}
    )
    write_parquet(
        tmp_path / "features.parquet", {"image_id": ids[::-1], "feature": list(values[0])}
    )
    np.save(tmp_path / "captions.npy", values[1])
    (tmp_path / "captions.txt").write_text("\n".join(captions[::-1]) + "\n")
    methods = ["kdmcse", "dalr[text=my-features]"]
    grid = {
        "methods": methods,
        "settings": "mine",
        "encoders": "toy-bert",
        "seeds": 1,
        "suites": "sts",
    }
    finished = harness.execute(harness.plan(str(tmp_path / "mine.toml"), **grid), executor="serial")
    assert (len(finished), finished.failures) == (2, ())
    for run, role in zip(finished.runs, ("caption", "teacher1"), strict=True):
        sources = {name: teacher.source for name, teacher in run.teachers.items()}
        assert sources == {
            "image": str(tmp_path / "features.parquet"),
            role: str(tmp_path / "captions.npy"),
        }


def test_features_of_captions_are_those_of_the_same_text(world: Path) -> None:
    """Whichever captions are rows, in whatever order the file has them."""
    with_captions(world)
    stored = np.load(world.with_name("captions.npz"))
    by_text = dict(zip(stored["caption"].tolist(), stored["features"], strict=True))
    tables = {"mine": {"file": "captions.npz"}}
    for which in ("one", "all"):
        corpus = CaptionsFile("captions.tsv", captions=which, caption_features=tables)
        rows = corpus.load(world.parent)
        np.testing.assert_array_equal(
            rows.caption_features["mine"], [by_text[text] for text in rows.texts]
        )


def test_what_caption_features_lack_is_said_when_planned(world: Path) -> None:
    write(world.with_name("f.parquet"))
    with pytest.raises(
        UserError, match=r"no file has mine features of captions.*\.caption_features\.mine\]"
    ) as error:
        plan(world, "f.parquet", "kdmcse")
    assert "did you mean" not in str(error.value)
    with pytest.raises(
        UserError, match=r"bare\.npy are matched by caption, .* does not name; give ids = '...'"
    ):
        plan(world, with_captions(world, "bare.npy"), "kdmcse")
    with_captions(world)
    np.savez(
        world.with_name("few.npz"),
        features=np.ones((1, 5)),
        caption=np.array(["one small red circle"]),
    )
    with pytest.raises(
        UserError,
        match=r"few\.npz has no features of the caption .* of 23 of 24 captions in all; its",
    ):
        plan(world, with_captions(world, "few.npz"), "kdmcse[captions=all]")


def test_rows_and_columns_are_checked_when_planned(world: Path) -> None:
    write(world.with_name("f.npy"), PICTURES - 1)
    with pytest.raises(UserError, match=r"f\.npy has 11 rows for 12 captioned images"):
        plan(world, "f.npy")
    assert plan(world, "f.npy", "simcse").todo, "a method without images does not read it"
    np.save(world.with_name("nan.npy"), np.where(np.arange(60).reshape(12, 5) == 33, np.nan, 1))
    with pytest.raises(
        UserError,
        match=r"nan\.npy has 1 of 12 rows with NaN or infinite numbers, the first is row 7",
    ):
        plan(world, "nan.npy")
    write(world.with_name("f.parquet"), name="picture")
    with pytest.raises(
        UserError, match=r"f\.parquet: 'picture' has one value a row; name it image_id"
    ):
        plan(world, "f.parquet")
    write(world.with_name("f.parquet"), PICTURES + 3)
    made = plan(world, "f.parquet")
    assert made.todo, "with ids, features of more images than are captioned do no harm"
    (census,) = [census for census in made.inputs if census.what.startswith("features of mine")]
    assert "3 rows left out (of nothing that is captioned)" in census.line


def test_features_that_no_key_names_are_named(world: Path) -> None:
    write(world.with_name("f.npy"))
    with pytest.raises(
        UserError, match='only features of mine; write images = "mine" at the top of the profile'
    ):
        plan(world, "f.npy", images="")
    assert plan(world, "f.npy", "mcse[images=mine]", images="").todo
    with pytest.raises(
        UserError, match="has no images for the teacher 'toy-clip', and no features"
    ):
        plan(world, "", images="")


def test_a_suite_whose_images_have_no_such_features_is_skipped_when_planned(world: Path) -> None:
    write(world.with_name("f.npy"))
    both = plan(world, "f.npy", "mcse,simcse", "sts,retrieval")
    (skip,) = both.skipped
    assert skip.what == "mcse/mine, suite retrieval"
    assert "no file has mine features of its images" in skip.why
    suites = {run.key.partition("/")[0]: run.todo for run in both.runs}
    assert suites == {"mcse": ("sts",), "simcse": ("sts", "retrieval")}
