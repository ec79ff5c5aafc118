"""Teachers by name: stored features, kinds of other packages, controls, and what is refused while planning."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from executor_jobs import plan
from PIL import Image
from plugin_packages import Install

from harness.encoders.student import Student
from harness.encoders.teachers import open_teacher
from harness.errors import PlugInError, UserError
from harness.fetching.archives import write_parquet
from harness.grid import resolve
from harness.planning.experiments import Experiment, Experiments
from harness.planning.inventory import Inventory
from harness.planning.teachers import FeatureContext, KnownPairs, RoleFeatures
from harness.profiles import Profile, load_profile
from harness.profiles.schema import TeacherTable
from harness.runs.train import Bench, run_features, train, training_data
from harness.spec import RunSpec
from harness.store import Store
from harness.toy import clip_folder, student_folder

PACKAGE = """
import numpy
from harness.encoders.teachers import Teacher

class Lengths(Teacher):
    "Mean colour of a picture, and the number of letters and of words of a caption."
    gives = ("image", "caption")

    def __init__(self, folder, *, pooling, max_length, device):
        assert list(folder.glob("*.json"))

    def images(self, pixels):
        return numpy.stack([image.mean((0, 1))[:2] for image in pixels]).astype(numpy.float32)

    def captions(self, sentences):
        return numpy.array([[len(text), len(text.split())] for text in sentences], dtype=numpy.float32)
"""


@pytest.fixture
def package(install: Install) -> Profile:
    """The toy profile with a teacher of the kind of another package."""
    install("lengths", PACKAGE, {"teacher_kinds": {"lengths": "Lengths"}})
    return with_teachers(lengths=TeacherTable(kind="lengths", registered="toy-clip"))


def test_a_kind_that_cannot_be_loaded_costs_only_the_grids_that_name_it(install: Install, tmp_path: Path) -> None:
    install("lengths", "raise RuntimeError('no driver')", {"teacher_kinds": {"lengths": "Lengths"}})
    profile = with_teachers(lengths=TeacherTable(kind="lengths", registered="toy-clip"))
    with pytest.raises(PlugInError, match="RuntimeError: no driver"):
        plan(tmp_path / "results", "mcse[images=lengths]", "mcse", profile=profile)
    assert plan(tmp_path / "results", "mcse", profile=profile).runs


def with_teachers(**tables: TeacherTable) -> Profile:
    tiny = load_profile("tiny")
    return tiny.model_copy(update={"teachers": {**tiny.teachers, **tables}})


def experiment(variant: str, profile: Profile, **overrides: int) -> Experiment:
    run = resolve(profile, RunSpec.parse(f"{variant}/toy-pairs/toy-bert/seed-0"), overrides)
    return Experiments(Inventory(profile, None, {}), overrides).of(run)


def features_of(found: Experiment, tmp_path: Path) -> dict[str, np.ndarray]:
    features = run_features(found, Bench(Store(tmp_path), "cpu", lambda event: None))
    tokenizer = Student.load(student_folder()).tokenizer
    data = training_data(features, tokenizer)
    return {role: values[np.arange(20)] for role, values in data.features.items()}


def test_a_kind_of_another_package_teaches_a_run(package: Profile, tmp_path: Path) -> None:
    found = experiment("kdmcse[images=lengths]", package, steps=2, eval_every=2, batch_size=16)
    features = features_of(found, tmp_path)
    (corpus,) = (one for one in found.corpora if one.stream == "pairs")
    expected = [[len(text), len(text.split())] for text in list(corpus.read.source.texts(None))[:20]]
    np.testing.assert_array_equal(features["caption"], np.array(expected, dtype=np.float32))
    assert features["image"].shape == (20, 2)
    trained = train(found, Bench(Store(tmp_path), "cpu", lambda event: None))
    assert trained.record.best_step == 2


def test_another_kind_or_pooling_of_the_same_model_is_another_experiment(package: Profile) -> None:
    tables = {name: TeacherTable(kind="text", registered="toy-clip", pooling=name) for name in ("cls", "mean")}
    variants = [f"mcse[images={name}]" for name in ("toy-clip", "lengths")]
    assert len({experiment(variant, package).fingerprint for variant in variants}) == 2
    assert len({experiment(f"dalr[text={name}]", with_teachers(**tables)).fingerprint for name in tables}) == 2
    kinds = [experiment(variant, package).features["image"] for variant in variants]
    assert kinds[0].needs[0].fingerprint != kinds[1].needs[0].fingerprint, "cached features go by these"


def test_features_in_bf16_are_near_those_in_float32_and_kept_apart(tmp_path: Path) -> None:
    tables = {name: TeacherTable(registered="toy-clip", precision=name) for name in ("fp32", "bf16")}
    found = {name: experiment(f"kdmcse[images={name}]", with_teachers(**tables)) for name in tables}
    assert len({one.fingerprint for one in found.values()}) == 2
    exact, half = (features_of(one, tmp_path) for one in found.values())
    for role, values in exact.items():
        assert not np.array_equal(half[role], values)
        np.testing.assert_allclose(half[role], values, atol=0.02 * np.abs(values).max())


def lit(images: str, captions: str, corpus: str = "toy-pairs") -> TeacherTable:
    return TeacherTable(kind="lit", images=images, captions=captions, corpus=corpus)


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ("reader", "the teacher 'reader' (text) computes features of caption and tokens, not of image"),
        ("nobody", "the profile 'tiny' has no teacher 'nobody'"),
        ("fitted", "has no corpus 'toy-pears' to fit the teacher 'fitted' on; did you mean toy-pairs"),
        ("run:simcse/toy/toy-bert/seed-0", "(text) computes features of caption and tokens, not of image"),
        ("images", "the teacher 'images' of the profile 'tiny' would read its own features; name other"),
        ("captions", "the teacher 'captions' of the profile 'tiny' would read its own features; name other"),
        ("ring", "the teacher 'ring' of the profile 'tiny' would read its own features; name other"),
    ],
)
def test_what_no_teacher_gives_is_one_line_while_planning(teacher: str, message: str) -> None:
    own = {"images": lit("images", "reader"), "captions": lit("toy-clip", "captions")}
    profile = with_teachers(
        reader=TeacherTable(kind="text", registered="toy-clip"),
        fitted=lit("toy-clip", "reader", "toy-pears"),
        ring=lit("other", "reader"),
        other=lit("ring", "reader"),
        **own,
    )
    with pytest.raises(UserError, match=re.escape(message)):
        _ = experiment(f"mcse[images={teacher}]", profile).fingerprint


def test_controls_need_the_true_teacher_and_keep_their_name() -> None:
    plain, shuffled = (experiment(name, load_profile("tiny")) for name in ("mcse", "mcse[images=shuffled]"))
    first, second = (one.features["image"] for one in (plain, shuffled))
    assert [need.fingerprint for need in first.needs] == [need.fingerprint for need in second.needs]
    assert (first.asked.teacher, second.asked.teacher) == (load_profile("tiny").images, "shuffled")


@pytest.fixture
def paper_root(tmp_path: Path) -> Path:
    """MCSE's lines of three images, their images and the file that they are matched to; no features."""
    (tmp_path / "flickr/images").mkdir(parents=True)
    lines, ids = ["one", "two", "three"], ["11.jpg", "5.jpg", "7.jpg"]
    (tmp_path / "flickr/captions.txt").write_text("\n".join(lines))
    rows = {"image_id": ids, "caption": lines, "captions": [[line, f"{line} more"] for line in lines]}
    write_parquet(tmp_path / "flickr/captions.parquet", rows)
    for number, name in enumerate(ids):
        Image.new("RGB", (40, 30), (60 * number, 0, 200)).save(tmp_path / "flickr/images" / name)
    return tmp_path


@pytest.mark.parametrize("setting", ["flickr", "flickr[captions=all]"])
def test_published_features_are_read_and_images_stand_in_for_missing_ones(paper_root: Path, setting: str) -> None:
    """Both say which; features of images are computed once an image, whatever the number of captions."""
    profile = load_profile("paper")
    table = TeacherTable(kind="open-clip", registered="toy-clip")
    profile = profile.model_copy(update={"teachers": {**profile.teachers, "resnet": table, "clip": table}})

    def features(text: str) -> RoleFeatures:
        run = resolve(profile, RunSpec.parse(f"{text}/{setting}/bert-base-uncased/seed-0"), {})
        found = Experiments(Inventory(profile, paper_root, {}), {}).of(run)
        return next(role for role in found.features.values() if role.asked.of == "image")

    computed = features("mcse")
    assert computed.source == features("kdmcse").source == "computed"
    assert not [need for need in computed.needs if need.missing]
    listed = [KnownPairs.of_corpus(corpus) for corpus in computed.corpora]
    context = FeatureContext(student_folder(), 32, "cpu", lambda _: Path(), lambda _: None)
    found = computed.load(listed, 0, context)
    captions = 2 if "all" in setting else 1
    assert len(found) == 3 * captions
    expected = open_teacher("open-clip", clip_folder()).images(
        [np.array(Image.open(paper_root / "flickr/images" / name)) for name in ("11.jpg", "5.jpg", "7.jpg")]
    )
    np.testing.assert_allclose(found[np.arange(len(found))], np.repeat(expected, captions, axis=0), atol=1e-5)

    with h5py.File(paper_root / "flickr/resnet50.hdf5", "w") as file:
        file["features"] = np.array([[1.0], [2.0], [3.0]], np.float32)
    stored = features("mcse")
    assert stored.source == "flickr/resnet50.hdf5"
    assert features("kdmcse").source == "computed"
    assert stored.identity != computed.identity
    listed = [KnownPairs.of_corpus(corpus) for corpus in stored.corpora]
    rows = stored.load(listed, 0, context)
    assert rows[np.arange(len(rows))][:, 0].tolist() == np.repeat([1.0, 2.0, 3.0], captions).tolist()
