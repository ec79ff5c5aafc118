"""Finished runs: loading the model of one again."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from harness.commands import LastPlaces, read_places
from harness.encoders.sentence_modules import SentenceModules, open_model
from harness.encoders.student import Student
from harness.errors import UserError
from harness.files import expand
from harness.grid import Resolved, resolve
from harness.planning.experiments import Experiments
from harness.planning.inventory import Inventory
from harness.planning.names import find_best_model
from harness.profiles import Profile, load_profile, shipped_profiles
from harness.spec import RunSpec
from harness.store import Result, Store


class FinishedRun:
    """A result with the profile that it was made under."""

    def __init__(
        self, result: Result, store: Store, profile: str | None = None, encoder: Path | None = None
    ) -> None:
        """`profile` is needed if the run's profile is a file, `encoder` if its untrained encoder
        was given as a folder.

        Raises UserError if the profile is missing or a different one.
        """
        self.result = result
        self.store = store
        self.given_encoder = encoder
        self._places = read_places(store.root, result.profile)
        self.profile = _load_profile_of(result, profile, self._places)
        if encoder is not None and self.resolved.trains:
            raise UserError(
                f"{result.spec.key} is a trained run with stored weights; remove --encoder"
            )

    @cached_property
    def resolved(self) -> Resolved:
        return resolve(self.profile, RunSpec.parse(self.result.spec.key), self.result.overrides)

    @property
    def pooling(self) -> str:
        """The pooling that the run was evaluated with."""
        return str(self.result.hyperparameters["encoder"]["pooling"])

    def load_student(self) -> Student | SentenceModules:
        """Load the student at the checkpoint that was scored. Raises UserError where its weights
        are missing or damaged, and for the run of a teacher.
        """
        if self.resolved.trains:
            folder = find_best_model(self.result, self.store)
        elif not self.resolved.features:
            folder = self._find_untrained()
        else:
            raise UserError(
                f"{self.result.spec.key} evaluated the vectors of a teacher, which is no model folder; "
                "name a run that trains, or an encoder"
            )

        return open_model(folder, self.pooling)

    def _find_untrained(self) -> Path:
        """The folder of an encoder that was not trained. Raises UserError if its content has
        changed.
        """
        key = self.result.spec.key
        name = self.result.spec.encoder
        encoders = dict(self._places.encoders)
        if self.given_encoder is not None:
            encoders[name] = str(expand(self.given_encoder).resolve())
        if name not in encoders and name not in self.profile.encoders and "/" not in name:
            raise UserError(f"{key} evaluated a model in a folder; give that folder with --encoder")

        places = self._places.model_copy(update={"encoders": encoders})
        inventory = Inventory.from_places(self.profile, places)
        folder = inventory.find_encoder(name).source.path()
        experiments = Experiments(inventory, self.result.overrides)
        experiment = experiments.find_for_result(self.resolved, self.result.fingerprint)
        if experiment.fingerprint != self.result.fingerprint:
            raise UserError(
                f"{folder} is not the encoder that {key} evaluated; give that one with --encoder"
            )
        return folder


def _load_profile_of(result: Result, given: str | None, places: LastPlaces) -> Profile:
    """The profile of a run. Raises UserError if it is not available, or a different one is given."""
    if not given and not places.profile and result.profile not in shipped_profiles():
        raise UserError(
            f"the profile '{result.profile}' of {result.spec.key} is not part of this package; "
            f"give its file with --profile ./{result.profile}.toml"
        )

    profile = load_profile(given or places.profile or result.profile)
    if profile.name != result.profile:
        raise UserError(
            f"{result.spec.key} is a run of the profile '{result.profile}', not of '{profile.name}'"
        )
    return profile
