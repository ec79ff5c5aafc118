"""The shape of a profile file, checked by pydantic: unknown keys are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Name = Annotated[str, Field(min_length=1)]
#: a commit of the hub
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


class Table(BaseModel):
    """A table of a profile."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Training(Table):
    """What the shared backend needs to know; one value each for a run."""

    batch_size: Annotated[int, Field(ge=1, description="rows a batch")] = 64
    learning_rate: Annotated[float, Field(gt=0, description="peak learning rate of AdamW")] = 3e-5
    epochs: Annotated[int, Field(ge=1, description="passes of (text + paired) batches; ignored when steps is set")] = 1
    steps: Annotated[int | None, Field(ge=1, description="optimizer steps in all")] = None
    eval_every: Annotated[int, Field(ge=1, description="steps between two dev scores (and two checkpoints)")] = 125
    max_length: Annotated[int, Field(ge=3, description="tokens a sentence in training, special ones included")] = 32
    warmup_steps: Annotated[int, Field(ge=0, description="steps of linear warm-up")] = 0
    weight_decay: Annotated[float, Field(ge=0, description="AdamW; biases and LayerNorm are excluded")] = 0.0
    adam_epsilon: Annotated[float, Field(gt=0, description="AdamW epsilon")] = 1e-8
    max_grad_norm: Annotated[float, Field(gt=0, description="global gradient norm to clip at")] = 1.0
    precision: Annotated[Literal["fp32", "bf16", "fp16"], Field(description="autocast type; fp32 is none")] = "fp32"
    compile: Annotated[bool, Field(description="torch.compile the encoder")] = False


class Rule(BaseModel):
    """Values for the runs it matches; an absent list matches everything, a later rule wins."""

    model_config = ConfigDict(extra="allow", frozen=True)

    methods: tuple[Name, ...] = ()
    readings: tuple[Name, ...] = ()
    settings: tuple[Name, ...] = ()
    encoders: tuple[Name, ...] = ()
    source: Name

    @property
    def values(self) -> dict[str, Any]:
        """The hyperparameters that the rule sets, of the trainer or of the method."""
        return dict(self.__pydantic_extra__ or {})

    def matches(self, method: str, reading: str, setting: str, encoder: str) -> bool:
        """Whether the rule speaks of this run."""
        pairs = ((self.methods, method), (self.readings, reading), (self.settings, setting), (self.encoders, encoder))
        return all(not listed or value in listed for listed, value in pairs)

    @model_validator(mode="after")
    def _plain_values(self) -> Rule:
        for key, value in self.values.items():
            if not isinstance(value, int | float | str | bool):
                raise ValueError(f"'{key}' must be a number, a text or true/false")
        return self


class Corpus(BaseModel):
    """One source of training data: a registered kind and that kind's own options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: Name

    @property
    def options(self) -> dict[str, Any]:
        """What the kind's own factory is called with."""
        return dict(self.__pydantic_extra__ or {})


class Setting(Table):
    """A named mixture of corpora."""

    corpora: Annotated[tuple[Name, ...], Field(min_length=1)]
    description: str = ""
    dev: Annotated[Name | None, Field(description="the similarity task that picks checkpoints; else the profile's")] = (
        None
    )


class ModelTable(Table):
    """Where a model comes from: the hub at a pinned revision, a folder below the data root, or a package."""

    hub: Name | None = None
    revision: Commit | None = None
    folder: Name | None = None
    registered: Name | None = None

    @model_validator(mode="after")
    def _one_place(self) -> ModelTable:
        if sum(place is not None for place in (self.hub, self.folder, self.registered)) != 1:
            raise ValueError("give exactly one of 'hub' (with 'revision'), 'folder' and 'registered'")
        if (self.hub is None) != (self.revision is None):
            raise ValueError("'hub' needs 'revision', the 40 digits of a commit, and only 'hub' has one")
        return self


class TeacherTable(Table):
    """A frozen teacher: a model with its kind, a finished run, or a dual encoder fitted on other teachers' features.

    `pooling` and `kind` say how a model is read; `images`, `captions` and `corpus` make a `lit` teacher.
    """

    kind: Literal["open-clip", "timm", "text", "lit"] = "open-clip"
    hub: Name | None = None
    revision: Commit | Literal["main"] | None = None
    folder: Name | None = None
    registered: Name | None = None
    pooling: Literal["cls", "mean", "pooler"] = "cls"
    images: Annotated[Name | None, Field(description="lit: the image teacher whose features are projected")] = None
    captions: Annotated[Name | None, Field(description="lit: the text teacher whose features are projected")] = None
    corpus: Annotated[Name | None, Field(description="lit: the pair corpus that the projections are fitted on")] = None

    @property
    def model(self) -> ModelTable:
        """The place of the model; no `lit` teacher has one. Raises pydantic's ValidationError.

        'main' stands for the commit in the local cache, where none is known.
        """
        revision = "0" * 40 if self.revision == "main" else self.revision
        place = ModelTable(hub=self.hub, revision=revision, folder=self.folder, registered=self.registered)
        return place.model_copy(update={"revision": self.revision})

    @model_validator(mode="after")
    def _whole(self) -> TeacherTable:
        parts = (self.images, self.captions, self.corpus)
        if self.kind != "lit":
            if any(parts):
                raise ValueError("only kind = 'lit' takes 'images', 'captions' and 'corpus'")
            _ = self.model
        elif not all(parts) or any((self.hub, self.folder, self.registered)):
            raise ValueError("kind = 'lit' takes 'images', 'captions' and 'corpus', and no place of a model")
        return self


class SuiteTable(BaseModel):
    """The tasks of one evaluation suite, and its own options; `asked` keeps it for command lines that name it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    tasks: Annotated[tuple[Name, ...], Field(min_length=1)]
    asked: Annotated[bool, Field(description="evaluated only where --suites names it")] = False

    @property
    def options(self) -> dict[str, Any]:
        """What the suite is made with beside its tasks."""
        return dict(self.__pydantic_extra__ or {})


class Defaults(Table):
    """What a command line that leaves something out asks for."""

    methods: Annotated[tuple[Name, ...], Field(min_length=1)]
    settings: Annotated[tuple[Name, ...], Field(min_length=1)]
    encoders: Annotated[tuple[Name, ...], Field(min_length=1)]
    seeds: Annotated[int, Field(ge=1)] = 5


class StandsFor(Table):
    """What stands in a profile for the papers' own settings, encoders, teachers and tasks (by suite, then name).

    With it a table of a paper can be run in its shape alone. What has no stand-in is left out of the table.
    """

    settings: dict[Name, Name] = {}
    encoders: dict[Name, Name] = {}
    teachers: Annotated[dict[Name, Name], Field(description="as a method's options name them")] = {}
    tasks: Annotated[dict[Name, dict[Name, Name]], Field(description="suite -> task -> task")] = {}


class Profile(Table):
    """A whole profile. `name` is the file's stem."""

    name: Name
    description: str
    images: Annotated[str | None, Field(description="the image teacher of a method that names none")] = None
    dev: Annotated[Name, Field(description="the similarity task that picks the best checkpoint")]
    defaults: Defaults
    corpora: dict[str, Corpus]
    settings: dict[str, Setting]
    encoders: dict[str, ModelTable]
    teachers: dict[str, TeacherTable] = {}
    patches: Annotated[dict[str, ModelTable], Field(description="pretrained image patch embeddings")] = {}
    training: Training = Training()
    hyperparameters: tuple[Rule, ...] = ()
    suites: Annotated[dict[str, SuiteTable], Field(min_length=1)]
    stands_for: Annotated[StandsFor | None, Field(description="stand-ins for what the papers use")] = None

    def dev_of(self, setting: str) -> str:
        """The similarity task that picks checkpoints in a setting."""
        table = self.settings.get(setting)
        return (table.dev if table else None) or self.dev

    @model_validator(mode="after")
    def _names_exist(self) -> Profile:
        for name, setting in self.settings.items():
            for corpus in setting.corpora:
                if corpus not in self.corpora:
                    raise ValueError(f"settings.{name}.corpora: there is no table [corpora.{corpus}]")
        for kind, known in (("settings", self.settings), ("encoders", self.encoders)):
            for name in getattr(self.defaults, kind):
                if name not in known:
                    raise ValueError(f"defaults.{kind}: there is no table [{kind}.{name}]")
            for name, mine in getattr(self.stands_for, kind, {}).items():
                if mine not in known:
                    raise ValueError(f"stands_for.{kind}.{name}: there is no table [{kind}.{mine}]")
        return self
