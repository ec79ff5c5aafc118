"""The schema of profile files; unknown keys are refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from harness import registry
from harness.spec import (
    MOST_SEEDS,
    OptionValue,
    Variant,
    parse_encoder,
    parse_setting,
    select_identifying,
)
from harness.tomlfiles import Commit, Name, Table

#: a number of rows, steps or tokens; a larger one is a mistake
Amount = Annotated[int, Field(le=10**9)]


class OpenTable(BaseModel):
    """A table with further keys: keyword arguments of the registered class that it names, or the
    values of a rule.
    """

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)

    @property
    def options(self) -> dict[str, Any]:
        """The further keys."""
        return dict(self.__pydantic_extra__ or {})


class Rule(OpenTable):
    """Values for the runs that it matches; an absent list matches everything, and a later rule
    wins.

    Its further keys are the values: those of `[training]`, and options of methods (`harness show
    METHOD`).
    """

    methods: Annotated[
        tuple[Name, ...], Field(description="names of methods, without options")
    ] = ()
    readings: Annotated[
        tuple[Name, ...], Field(description="readings of the methods, such as paper")
    ] = ()
    settings: Annotated[
        tuple[Name, ...], Field(description="names of settings, without options")
    ] = ()
    encoders: Annotated[tuple[Name, ...], Field(description="names of encoders")] = ()
    source: Annotated[
        Name, Field(description="where the values are published, or why they were chosen")
    ]

    def matches(self, method: str, reading: str, setting: str, encoder: str) -> bool:
        """Whether the rule applies to a run."""
        pairs = (
            (self.methods, method),
            (self.readings, reading),
            (self.settings, setting),
            (self.encoders, encoder),
        )
        return all(not listed or value in listed for listed, value in pairs)

    @model_validator(mode="after")
    def _check_values(self) -> Rule:
        for key, value in self.options.items():
            if not isinstance(value, OptionValue):
                raise ValueError(f"'{key}' must be a number, a string or true/false")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"'{key}' must be a finite number")
        return self


class Training(Table):
    """Training values of a run; the defaults are those of the public code of SimCSE and MCSE."""

    batch_size: Annotated[
        Amount, Field(ge=2, description="rows per batch; a batch of one has no negatives")
    ] = 64
    learning_rate: Annotated[float, Field(gt=0, description="peak learning rate of AdamW")] = 3e-5
    epochs: Annotated[
        Amount,
        Field(ge=1, description="passes over text and paired batches; ignored if steps is set"),
    ] = 1
    steps: Annotated[
        Amount | None, Field(ge=1, description="optimizer steps, instead of epochs")
    ] = None
    eval_every: Annotated[
        Amount, Field(ge=1, description="steps between dev scores, and between checkpoints")
    ] = 125
    max_length: Annotated[
        Amount, Field(ge=3, description="tokens per sentence in training, with special tokens")
    ] = 32
    warmup_steps: Annotated[Amount, Field(ge=0, description="steps of linear warm-up")] = 0
    weight_decay: Annotated[
        float, Field(ge=0, description="AdamW; biases and LayerNorm are excluded")
    ] = 0.0
    adam_epsilon: Annotated[
        float, Field(gt=0, description="AdamW epsilon, added before the bias correction")
    ] = 1e-8
    unreached: Annotated[
        Literal["momentum", "rest"],
        Field(
            description="a parameter without a gradient in a step: still moved by its momentum, or left unchanged"
        ),
    ] = "momentum"
    max_grad_norm: Annotated[float, Field(gt=0, description="global gradient norm to clip at")] = (
        1.0
    )
    precision: Annotated[
        Literal["fp32", "tf32", "bf16", "fp16"],
        Field(
            description="autocast type; fp32 and tf32: none, with products in TF32 on cards that have it for tf32"
        ),
    ] = "fp32"
    compile: Annotated[
        bool | Literal["auto"],
        Field(description="torch.compile the encoder; auto: of long trainings on CUDA"),
    ] = "auto"
    checkpoint: Annotated[
        Literal["best", "last"],
        Field(
            description="the weights that are scored: of the best dev score, or of the last step"
        ),
    ] = "best"

    @property
    def identity(self) -> dict[str, Any]:
        """The values that identify a run: all but those that change nothing of earlier runs."""
        return select_identifying(self.model_dump())

    @model_validator(mode="after")
    def _check_warm_up(self) -> Self:
        if self.steps is not None and self.warmup_steps >= self.steps:
            raise ValueError(
                f"warmup_steps = {self.warmup_steps} leave none of {self.steps} steps at the full rate"
            )
        return self


class Corpus(OpenTable):
    """Training data: a registered kind of corpus, with the options of that kind."""

    kind: Annotated[Name, Field(description="a registered kind of corpus")]


class Setting(Table):
    """A named mixture of corpora."""

    corpora: Annotated[
        tuple[Name, ...],
        Field(min_length=1, description="names of corpora; a method reads its streams"),
    ]
    description: Annotated[str, Field(description="one line for `harness list settings`")] = ""
    dev: Annotated[
        Name | None,
        Field(description="the task that selects checkpoints, instead of the profile's"),
    ] = None
    tests: Annotated[
        dict[Name, Name],
        Field(
            description="task of a paper's table -> the task whose split fits the training images"
        ),
    ] = {}


class ModelTable(Table):
    """A model on the hub at a pinned revision, in a folder, or in an installed package."""

    hub: Annotated[Name | None, Field(description="OWNER/NAME on the hub")] = None
    revision: Annotated[
        Commit | Literal["main"] | None,
        Field(
            description="its commit, 40 hex digits; main: the one in the local cache, where none is known"
        ),
    ] = None
    folder: Annotated[
        Name | None, Field(description="the folder of a saved model; of an encoder also run:KEY")
    ] = None
    registered: Annotated[Name | None, Field(description="a model in an installed package")] = None
    about: Annotated[
        int | None, Field(gt=0, description="approximate size of its files in bytes")
    ] = None

    @property
    def origin(self) -> str:
        """Where the model comes from, for a model card."""
        if self.hub:
            return f"{self.hub} at {self.revision}"
        return f"the folder {self.folder}" if self.folder else f"the package's {self.registered}"

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self._needs_place():
            if sum(origin is not None for origin in (self.hub, self.folder, self.registered)) != 1:
                raise ValueError(
                    "set exactly one of 'hub' (with 'revision'), 'folder' and 'registered'"
                )
            if (self.hub is None) != (self.revision is None):
                raise ValueError("set 'hub' and 'revision' (the 40 digits of a commit) together")
        return self

    def _needs_place(self) -> bool:
        return True


class TeacherTable(ModelTable):
    """A frozen teacher: a model with its kind, a finished run, or a dual encoder fitted on other
    teachers' features.

    `pooling`, `precision` and `kind` say how a model is read; `images`, `captions` and `corpus`
    make a `lit` teacher.
    """

    kind: Annotated[Name, Field(description="a registered kind of teacher, or lit")] = "open-clip"
    pooling: Annotated[Name, Field(description="a registered pooling")] = "cls"
    precision: Annotated[
        Literal["fp32", "bf16"], Field(description="autocast type of its features; fp32: none")
    ] = "fp32"
    images: Annotated[
        Name | None, Field(description="lit: the image teacher whose features are projected")
    ] = None
    captions: Annotated[
        Name | None, Field(description="lit: the text teacher whose features are projected")
    ] = None
    corpus: Annotated[
        Name | None, Field(description="lit: the pair corpus that the projections are fitted on")
    ] = None

    @property
    def origin(self) -> str:
        """Where the teacher comes from, for a model card."""
        if self.kind == "lit":
            return f"projections of {self.images} and {self.captions}, fitted on {self.corpus}"
        return super().origin

    def _needs_place(self) -> bool:
        return self.kind != "lit"

    @model_validator(mode="after")
    def _check_kind(self) -> Self:
        parts = (self.images, self.captions, self.corpus)
        if self.kind == "lit":
            if not all(parts) or any((self.hub, self.folder, self.registered)):
                raise ValueError(
                    "kind = 'lit' takes 'images', 'captions' and 'corpus', but no 'hub', 'folder' or 'registered'"
                )
            return self
        check_registered("teacher kind", self.kind)
        check_registered("pooling", self.pooling)
        if any(parts):
            raise ValueError("only kind = 'lit' takes 'images', 'captions' and 'corpus'")
        return self


class ReleasedRows(Table):
    """Rows of papers' tables: those with a printed key, in a setting, for the encoder of a released
    model.
    """

    tables: Annotated[tuple[Name, ...], Field(min_length=1, description="PAPER:TABLE")]
    published: Annotated[Name, Field(description="METHOD or METHOD:VARIANT in published.csv")]
    setting: Annotated[Name, Field(description="the setting of the rows")]
    source: Annotated[Name, Field(description="the column of that name in published.csv")] = "own"


class ReleasedTable(ModelTable):
    """Weights that others published, named as on the hub."""

    pooling: Annotated[
        Name, Field(description="a registered pooling, as the weights' authors evaluate them")
    ]
    encoder: Annotated[Name, Field(description="the papers' name of the encoder that was trained")]
    heads: Annotated[
        Name | None,
        Field(description="a file beside them: their projections of captions and images"),
    ] = None
    images: Annotated[
        Name | None, Field(description="the image teacher whose features `heads` projects")
    ] = None
    rows: Annotated[
        tuple[ReleasedRows, ...], Field(description="the rows that the weights should reproduce")
    ] = ()
    source: Annotated[Name, Field(description="where name, pooling and commit are published")]

    @model_validator(mode="after")
    def _check_heads(self) -> Self:
        if (self.heads is None) != (self.images is None):
            raise ValueError("set 'heads' and 'images' (a teacher of the profile) together")
        check_registered("pooling", self.pooling)
        return self


def check_registered(kind: str, name: str) -> str:
    """Return a registered name. Raises ValueError, as pydantic's validators do, for an unknown one."""
    registered = registry.list_registered(kind)
    if name not in registered:
        raise ValueError(f"unknown {kind} '{name}'; {registry.suggest(name, registered)}")
    return name


class SimilarityTable(Table):
    """Sentence pairs with scores in a table, for the suites sts and geometry, and for `dev`."""

    kind: Annotated[Literal["similarity"], Field(description="sentence pairs with scores")]
    file: Annotated[Name, Field(description="the table")]
    sentence1: Annotated[Name, Field(description="the column of the first sentence")] = "sentence1"
    sentence2: Annotated[Name, Field(description="the column of the second sentence")] = "sentence2"
    score: Annotated[Name, Field(description="the column of the scores")] = "score"
    scale: Annotated[
        tuple[float, float],
        Field(description="scores of unrelated and of equal meaning; scores outside are errors"),
    ] = (0.0, 5.0)
    subset: Annotated[
        Name | None, Field(description="the column of subsets, which are also scored separately")
    ] = None
    split: Annotated[
        Name | None,
        Field(description="the rows with this value in the column split; or 'COLUMN=VALUE+VALUE'"),
    ] = None
    ignore: Annotated[
        tuple[Name, ...],
        Field(description="patterns of the names of columns that may be left out unread"),
    ] = ()

    @model_validator(mode="after")
    def _check_scale(self) -> Self:
        if self.scale[0] >= self.scale[1]:
            raise ValueError("scale is the lowest and the highest score, in this order")
        return self


class ClassificationTable(Table):
    """Texts, or pairs of texts, with labels in tables, for the suite transfer.

    One `file` is scored by nested folds; `train` and `test` by the folds of `train`, or by `dev`
    where it is there. These three may be parts of one `file`, by `splits`.
    """

    kind: Annotated[Literal["classification"], Field(description="texts with labels")]
    file: Annotated[Name | None, Field(description="the only file")] = None
    train: Annotated[Name | None, Field(description="the table of training samples")] = None
    dev: Annotated[
        Name | None,
        Field(description="the table that selects the classifier's l2 weight; default: folds"),
    ] = None
    test: Annotated[Name | None, Field(description="the table of test samples")] = None
    text: Annotated[Name, Field(description="the column of the texts")] = "text"
    text2: Annotated[
        Name | None, Field(description="the column of the second texts, where samples are pairs")
    ] = None
    label: Annotated[
        Name, Field(description="the column of the labels, which may be any texts or numbers")
    ] = "label"
    split: Annotated[
        Name | None,
        Field(description="the rows with this value in the column split; or 'COLUMN=VALUE+VALUE'"),
    ] = None
    splits: Annotated[
        dict[Literal["train", "dev", "test"], Name],
        Field(description="train, test and perhaps dev as parts of `file`, each as in `split`"),
    ] = {}
    no_label: Annotated[
        str | None,
        Field(description="a label whose rows have none and are left out, such as -1; '': none"),
    ] = None
    ignore: Annotated[
        tuple[Name, ...],
        Field(description="patterns of the names of columns that may be left out unread"),
    ] = ()

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        if self.splits and (self.split or not self.file):
            raise ValueError("splits are parts of 'file', without 'split'")
        if self.splits and not {"train", "test"} <= {*self.splits}:
            raise ValueError("splits need 'train' and 'test'")
        return self

    @model_validator(mode="after")
    def _check_protocol(self) -> Self:
        has_parts = bool(self.train)
        has_one_place = bool(self.file) != has_parts
        if not has_one_place or bool(self.test) != has_parts or (self.dev and not has_parts):
            raise ValueError("set 'file' alone, or 'train' and 'test', or these and 'dev'")
        return self


class RetrievalTable(Table):
    """Images with captions, for the suite retrieval."""

    kind: Annotated[Literal["retrieval"], Field(description="images with captions")]
    captions: Annotated[Name, Field(description="captions in any layout of a captions-file")]
    images: Annotated[
        Name | None, Field(description="the folder of the image files, unless there are features")
    ] = None
    features: Annotated[
        dict[Name, dict[str, str]],
        Field(description="stored image features by teacher, as of a captions-file"),
    ] = {}
    split: Annotated[
        Name | None, Field(description="of a file with splits: the images to test on")
    ] = None
    image: Annotated[
        Name | int, Field(description="the column of the images' file names, or its number")
    ] = "image"
    caption: Annotated[
        Name | int, Field(description="the column of the captions, or its number")
    ] = "caption"
    image_list: Annotated[
        Name | None, Field(description="a text file with the image of each line of captions")
    ] = None
    missing_images: Annotated[
        Literal["refuse", "skip"], Field(description="what is done about images without a file")
    ] = "refuse"
    ignore: Annotated[
        tuple[Name, ...],
        Field(description="patterns of the names of columns that may be left out unread"),
    ] = ()

    @model_validator(mode="after")
    def _check_images(self) -> Self:
        if self.images is None and not self.features:
            raise ValueError("set 'images', the folder of the image files, or 'features'")
        return self


def _find_task_kind(table: Any) -> str:
    return str(table.get("kind") if isinstance(table, dict) else getattr(table, "kind", None))


TaskTable = Annotated[
    Annotated[SimilarityTable, Tag("similarity")]
    | Annotated[ClassificationTable, Tag("classification")]
    | Annotated[RetrievalTable, Tag("retrieval")],
    Discriminator(
        _find_task_kind,
        custom_error_type="kind",
        custom_error_message="its kind must be 'similarity', 'classification' or 'retrieval'",
    ),
]


class SuiteTable(OpenTable):
    """The tasks of an evaluation suite, with the options of that suite."""

    tasks: Annotated[
        tuple[Name, ...], Field(min_length=1, description="registered tasks, and those of [tasks]")
    ]
    asked: Annotated[bool, Field(description="evaluated only if --suites names it")] = False


class Defaults(Table):
    """Methods, settings, encoders and seeds of a command line that does not name them."""

    methods: Annotated[
        tuple[Name, ...],
        Field(min_length=1, description="variants of methods, as `--methods` has them"),
    ]
    settings: Annotated[
        tuple[Name, ...], Field(min_length=1, description="settings, as `--settings` has them")
    ]
    encoders: Annotated[tuple[Name, ...], Field(min_length=1, description="names of encoders")]
    seeds: Annotated[int, Field(ge=1, le=MOST_SEEDS, description="number of seeds, from 0")] = 5


class StandsFor(Table):
    """Replacements for the papers' settings, encoders, teachers and tasks, to rerun a paper's
    tables on other data.

    Rows and columns without a replacement are left out of the table.
    """

    settings: Annotated[
        dict[Name, Name], Field(description="a paper's setting -> one of this profile")
    ] = {}
    encoders: Annotated[
        dict[Name, Name], Field(description="a paper's encoder -> one of this profile")
    ] = {}
    teachers: Annotated[dict[Name, Name], Field(description="as named in a method's options")] = {}
    tasks: Annotated[dict[Name, dict[Name, Name]], Field(description="suite -> task -> task")] = {}


class Profile(Table):
    """A profile. `name` is the file's stem; `origin` distinguishes a profile of this package from a
    user's own file.
    """

    name: Annotated[Name, Field(description="taken from the file name; not a key of the file")]
    origin: Annotated[
        Literal["package", "file"],
        Field(description="derived from the file; not a key of the file"),
    ]
    extends: Annotated[
        Name | None,
        Field(
            description="the profile whose tables are inherited: a shipped one, or the path of a file"
        ),
    ] = None
    description: Annotated[str, Field(description="one line for `harness list profiles`")]
    images: Annotated[str | None, Field(description="the default image teacher")] = None
    untrained_images: Annotated[
        str | None,
        Field(description="the default image teacher before training, for images=untrained"),
    ] = None
    dev: Annotated[Name, Field(description="the similarity task that selects the best checkpoint")]
    defaults: Annotated[Defaults, Field(description="what a command without further options runs")]
    corpora: Annotated[dict[str, Corpus], Field(description="training data, by name")]
    settings: Annotated[dict[str, Setting], Field(description="mixtures of corpora, by name")]
    encoders: Annotated[
        dict[str, ModelTable], Field(description="models to train or evaluate, by name")
    ]
    teachers: Annotated[
        dict[str, TeacherTable], Field(description="frozen models that provide features, by name")
    ] = {}
    patches: Annotated[
        dict[str, ModelTable], Field(description="pretrained image patch embeddings")
    ] = {}
    released: Annotated[
        dict[str, ReleasedTable], Field(description="public weights, by the name of their encoder")
    ] = {}
    tasks: Annotated[
        dict[Name, TaskTable], Field(description="tasks of your own, for suites and `dev`")
    ] = {}
    training: Annotated[Training, Field(description="training values for all runs")] = Training()
    hyperparameters: Annotated[
        tuple[Rule, ...], Field(description="rules: values for some runs")
    ] = ()
    suites: Annotated[
        dict[str, SuiteTable], Field(min_length=1, description="evaluation of the runs, by suite")
    ]
    stands_for: Annotated[
        StandsFor | None, Field(description="replacements for what the papers use")
    ] = None

    def find_dev_task(self, setting: str) -> str:
        """The similarity task that selects checkpoints in a setting."""
        section = self.settings.get(setting)
        if section is not None and section.dev:
            return section.dev
        return self.dev

    @model_validator(mode="after")
    def _check_references(self) -> Profile:
        """Refuse references to tables that the profile does not have, and names that results could
        not state.
        """
        for name in self.settings:
            if parse_setting(name) != Variant(name):
                raise ValueError(
                    f"settings.{name}: a name has no options; they are given in --settings"
                )
        for name in (*self.encoders, *self.released):
            parse_encoder(name)  # raises for what is no name
        for name, setting in self.settings.items():
            _check_sections(f"settings.{name}.corpora", setting.corpora, "corpora", self.corpora)

        for kind in ("settings", "encoders"):
            sections = getattr(self, kind)
            _check_sections(f"defaults.{kind}", getattr(self.defaults, kind), kind, sections)
            for name, stand_in in getattr(self.stands_for, kind, {}).items():
                _check_sections(f"stands_for.{kind}.{name}", [stand_in], kind, sections)

        for name, weights in self.released.items():
            if weights.hub not in (None, name):
                raise ValueError(
                    f"released.{name}: its results are those of {weights.hub}; name the table so"
                )
            if weights.images:
                key = f"released.{name}.images"
                _check_sections(key, [weights.images], "teachers", self.teachers)
        return self


def _check_sections(
    key: str, names: Iterable[str], kind: str, sections: Mapping[str, BaseModel]
) -> None:
    """Raise ValueError for the first name without a table."""
    for name in names:
        if name not in sections:
            raise ValueError(f"{key}: there is no table [{kind}.{name}]")
