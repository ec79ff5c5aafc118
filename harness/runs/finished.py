"""Finished runs: finding one, and loading its model again."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from harness.commands import Commands, LastPlaces, read_places
from harness.encoders.student import SentenceModules, Student, open_model
from harness.errors import UserError
from harness.files import DamagedError, expand
from harness.grid import Resolved, resolve
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.planning.names import find_run
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.spec import RunSpec
from harness.store import Result, Store
from harness.store.folder import redo_of
from harness.training.folder import TrainingFolder


def find_result(what: str, results: Path, profile: str | None = None) -> tuple[Result, Store]:
    """Find the one result of a run's key (in any spelling, below `results`) or of a result file, and its store.

    Raises UserError if no result or several match.
    """
    matching = find_run(Store(results), what, profile)
    store = Store.holding(Path(what)) if what.endswith(".json") else Store(results)
    if len(matching) > 1:
        listed = ", ".join(str(store.path(result)) for result in matching)
        raise UserError(f"{results} has {len(matching)} results of {what}; give the file of one of them: {listed}")
    return matching[0], store


class FinishedRun:
    """A result with the profile that it was made under."""

    def __init__(self, result: Result, store: Store, profile: str | None = None, encoder: Path | None = None) -> None:
        """`profile` is needed if the run's profile is a file, `encoder` if its untrained encoder was given as a folder.

        Raises UserError if the profile is missing or a different one.
        """
        self.result, self.store, self.given_encoder = result, store, encoder
        self._places = read_places(store.root, result.profile)
        self.profile = _profile(result, profile, self._places)
        if encoder is not None and self.resolved.trains:
            raise UserError(f"{result.spec.key} is a trained run with stored weights; remove --encoder")

    @cached_property
    def resolved(self) -> Resolved:
        return resolve(self.profile, RunSpec.parse(self.result.spec.key), self.result.overrides)

    @property
    def pooling(self) -> str:
        """The pooling that the run was evaluated with."""
        return str(self.result.hyperparameters["encoder"]["pooling"])

    def student(self) -> Student | SentenceModules:
        """Load the student at its best checkpoint. Raises UserError where its weights are missing or damaged."""
        return open_model(self._best() if self.resolved.trains else self._untrained(), self.pooling)

    def _best(self) -> Path:
        if redo_of(self.store, self.result.fingerprint):
            raise UserError(
                f"{self.result.spec.key} is being trained again, and its former weights are in "
                f"{self.store.root / '.superseded'}; `{self._command(self.store.root)}` finishes that"
            )
        folder = TrainingFolder(self.store.work(self.result.fingerprint))
        best = folder.best
        if not (best / "config.json").is_file():
            raise UserError(
                f"the weights of {self.result.spec.key} are not in {self.store.root / '.work'}; train the run again in "
                f"another folder with `{self._command()}` and use that folder"
            )
        try:
            folder.check_best()
        except DamagedError as error:
            raise UserError(
                f"the weights of {self.result.spec.key} in {best} are damaged ({error}); restore them, or train the "
                f"run again in another folder with `{self._command()}` and use that folder"
            ) from error
        return best

    def _untrained(self) -> Path:
        """The folder of an encoder that was not trained. Raises UserError if its content has changed."""
        key, name = self.result.spec.key, self.result.spec.encoder
        given = {} if self.given_encoder is None else {name: str(expand(self.given_encoder).resolve())}
        places = self._places.model_copy(update={"encoders": self._places.encoders | given})
        if name not in places.encoders and name not in self.profile.encoders and "/" not in name:
            raise UserError(f"{key} evaluated a model in a folder; give that folder with --encoder")
        inventory = Inventory.noted(self.profile, places)
        folder = inventory.encoder(name).source.path()
        if Experiments(inventory, self.result.overrides).of(self.resolved).fingerprint != self.result.fingerprint:
            raise UserError(f"{folder} is not the encoder that {key} evaluated; give that one with --encoder")
        return folder

    def _command(self, results: Path | None = None) -> str:
        """The command to train the run again, by default in a new results folder: in its own, it counts as finished."""
        return Commands(self.store.root).again(self.result, results or Path("AGAIN"))


def _profile(result: Result, given: str | None, places: LastPlaces) -> Profile:
    """The profile of a run. Raises UserError if it is not available, or a different one is given."""
    if not given and not places.profile and result.profile not in shipped_profiles():
        raise UserError(
            f"the profile '{result.profile}' of {result.spec.key} is not part of this package; "
            f"give its file with --profile ./{result.profile}.toml"
        )
    profile = load_profile(given or places.profile or result.profile)
    if profile.name != result.profile:
        raise UserError(f"{result.spec.key} is a run of the profile '{result.profile}', not of '{profile.name}'")
    return profile
