"""Confirming that a result of schema 1 is a run of the shipped profile that it names."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from harness.execution.ingredients import Experiments
from harness.execution.inventory import Inventory
from harness.grid import resolve
from harness.profiles import load_profile
from harness.spec import RunSpec
from harness.store import Result


class Confirmation:
    """Compares results with the shipped profiles; `data` is the root of data files, which fingerprints cover."""

    def __init__(self, data: Path | None) -> None:
        self._data = data
        self._inventories: dict[str, Inventory] = {}

    def __call__(self, result: Result) -> Result:
        """The result with the profile's origin and the group of its training, if both can be confirmed.

        They are confirmed if the shipped profile makes the same training of the run's key and overrides, down to the
        contents of data and models. Otherwise the result is returned as it is.
        """
        try:
            inventory = self._inventory(result.profile)
            run = resolve(inventory.profile, RunSpec.parse(result.spec.key), result.overrides)
            experiment = Experiments(inventory, result.overrides).of(run)
        except UserError:
            return result
        if experiment.fingerprint != result.fingerprint:
            return result
        return result.model_copy(update={"profile_origin": "package", "group": experiment.group})

    def _inventory(self, profile: str) -> Inventory:
        if profile not in self._inventories:
            self._inventories[profile] = Inventory(load_profile(profile), self._data, {})
        return self._inventories[profile]
