"""A finished run as a folder that transformers and sentence-transformers load, with its model card."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.encoders.locate import FolderModel
from harness.encoders.student import Student
from harness.errors import UserError
from harness.execution.ingredients import Experiments
from harness.execution.inventory import Inventory
from harness.grid import resolve
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.profiles.schema import ModelTable, TeacherTable
from harness.reporting.card import ModelFacts, Provenance, model_card
from harness.sources import data_root, write_text
from harness.spec import RunSpec, canonical
from harness.store import Result, Store, find_results, frame_of
from harness.training.checkpoint import replace_folder


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    result: Result
    modules: bool


def export(what: str, to: Path, results: Path, profile: str | None = None, encoder: Path | None = None) -> Exported:
    """Write the best checkpoint of a run, and its card, into the new folder `to`, whole or not at all.

    `what` is a run's key, looked for in the store `results`, or a result file, whose own store holds the weights.
    `profile` is the run's profile where it is none of the shipped ones, `encoder` the folder of an encoder that the
    run did not train. Raises UserError for a run that is not there or not alone, weights that are gone, and a
    folder that is not empty.
    """
    folder = to.expanduser().resolve()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise UserError(f"--to {to} is there already and is not an empty folder; name another, nothing is overwritten")
    result, store = find_result(what, results)
    origin = _Origin(result, _profile(result, profile), profile or result.profile, encoder)
    student = origin.student(store)
    about = origin.about(student)
    card = model_card(result, about, frame_of(siblings(result, store)))

    def fill(path: Path) -> None:
        student.save(path)
        write_text(path / "README.md", card)

    try:
        replace_folder(folder, fill)
    except OSError as error:
        raise UserError(f"--to {to} cannot be written: {error.strerror}; name another folder") from error
    return Exported(folder, result, about.modules)


def student_of(result: Result, store: Store, profile: str | None = None, encoder: Path | None = None) -> Student:
    """The model of a finished run at its best checkpoint. Raises UserError if its weights are gone."""
    return _Origin(result, _profile(result, profile), profile or result.profile, encoder).student(store)


def find_result(what: str, results: Path) -> tuple[Result, Store]:
    """The one result that a run's key or a result file names, and the store it lies in.

    Raises UserError where there is none, and where several have the key.
    """
    found = find_results(Store(results), what)
    store = Store.holding(Path(what)) if what.endswith(".json") else Store(results)
    if len(found) > 1:
        listed = ", ".join(str(store.path(result)) for result in found)
        raise UserError(f"{results} has {len(found)} results of {what}; give the file of one of them: {listed}")
    return found[0], store


def siblings(result: Result, store: Store) -> list[Result]:
    """The results of a store that differ from one by their seed alone, itself first."""

    others = (one for one in store.seeds(result.profile, result.spec) if one.fingerprint != result.fingerprint)
    return [result, *(one for one in others if one.group == result.group and one.overrides == result.overrides)]


def _profile(result: Result, given: str | None) -> Profile:
    """The profile of a run. Raises UserError where it is not at hand, or another is given."""
    if given is None and result.profile not in shipped_profiles():
        raise UserError(
            f"the profile '{result.profile}' of {result.spec.key} is a file of yours; "
            f"give it with --profile ./{result.profile}.toml"
        )
    profile = load_profile(given or result.profile)
    if profile.name != result.profile:
        raise UserError(f"{result.spec.key} is a run of the profile '{result.profile}', not of '{profile.name}'")
    return profile


class _Origin:
    """What a result was made of, by its profile."""

    def __init__(self, result: Result, profile: Profile, profile_text: str, encoder: Path | None) -> None:
        self.result, self.profile, self.profile_text = result, profile, profile_text
        self.run = resolve(profile, RunSpec.parse(result.spec.key), result.overrides)
        given = {} if encoder is None else {result.spec.encoder: FolderModel(encoder.expanduser().resolve())}
        self.inventory = Inventory(profile, data_root(), given)

    @property
    def pooling(self) -> str:
        """As the run was read."""
        return str(self.result.hyperparameters["encoder"]["pooling"])

    def student(self, store: Store) -> Student:
        """The run's student at its best checkpoint. Raises UserError where its weights are gone."""
        from transformers.utils.logging import set_verbosity_error

        set_verbosity_error()  # that a pooler nobody reads is not in the folder
        if not self.run.method.trains:
            return Student.load(self._untrained(), self.pooling)
        best = store.work(self.result.fingerprint) / "best"
        if not (best / "config.json").is_file():
            raise UserError(
                f"the weights of {self.result.spec.key} are not in {store.root / '.work'}; train them again in a "
                f"store of their own with `{self._command()}` and export from there"
            )
        return Student.load(best, self.pooling)

    def _untrained(self) -> Path:
        """The folder of an encoder that was scored as it came. Raises UserError where it is another by now."""
        name = self.run.spec.encoder
        if name not in self.inventory.given and not self._named(name):
            raise UserError(f"{self.result.spec.key} scored a folder as it came; give that folder with --encoder")
        folder = self.inventory.encoder(name).source.path()
        if Experiments(self.inventory, self.run.overrides).of(self.run).fingerprint != self.result.fingerprint:
            raise UserError(f"{folder} is not the encoder that {self.result.spec.key} scored; give its with --encoder")
        return folder

    def _named(self, encoder: str) -> bool:
        """Whether an encoder is found by its name alone."""
        return encoder in self.profile.encoders or "/" in encoder

    def _command(self) -> str:
        """What trains the run again; the store that has its result would say that nothing is to do."""
        spec = self.run.spec
        encoder = spec.encoder if self._named(spec.encoder) else f"{spec.encoder}=FOLDER"
        words = ["harness", "run", "--profile", self.profile_text, "--methods", str(spec.variant)]
        words += ["--settings", str(spec.setting), "--encoders", encoder, "--seeds", f"{spec.seed},"]
        for name, value in self.result.overrides.items():
            words += ["--set", f"{name}={canonical(value)}"]
        return shlex.join([*words, "--results", "AGAIN"])

    def about(self, student: Student) -> ModelFacts:
        """What the card says beside the result."""
        name, trains = self.run.spec.encoder, self.run.method.trains
        table = self.profile.encoders.get(name)
        hub = table.hub if table else name if "/" in name else None
        return ModelFacts(
            pooling=self.pooling,
            modules=student.pooling.switch is not None,
            width=student.width,
            longest=student.longest,
            encoder=f"{name} (in the profile: {_place(table)})" if table else name,
            base_model=hub,
            language="en" if self.profile.name in shipped_profiles() else None,
            setting=self.profile.settings[self.run.spec.setting.name].description if trains else "",
            corpora=tuple(self._corpora()) if trains else (),
            teachers=tuple(self._teachers()),
        )

    def _corpora(self) -> Iterator[Provenance]:
        for name in self.run.streams:
            table = self.profile.corpora[name]
            yield Provenance(name, ", ".join(str(part) for part in (table.kind, table.options.get("file")) if part))

    def _teachers(self) -> Iterator[Provenance]:
        """The teachers of the result by role, with their places in the profile."""
        for role, use in self.result.teachers.items():
            table = self.profile.teachers.get(use.teacher)
            text = f"{use.teacher} ({use.of})"
            yield Provenance(role, text if table is None else f"{text}, {table.kind}: {_place(table)}")


def _place(table: ModelTable | TeacherTable) -> str:
    """Where a model of a profile comes from."""
    if table.hub:
        return f"{table.hub} at {table.revision}"
    if isinstance(table, TeacherTable) and table.kind == "lit":
        return f"projections of {table.images} and {table.captions}, fitted on {table.corpus}"
    return f"the folder {table.folder}" if table.folder else f"the package's {table.registered}"
