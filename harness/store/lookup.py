"""Looking up results by what a person typed."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UserError
from harness.spec import RunSpec
from harness.store.files import Store
from harness.store.schema import Result, Spec


def find_results(store: Store, text: str, profile: str | None = None) -> list[Result]:
    """The results of a run's key, VARIANT/SETTING/ENCODER/seed-N, or the one of a result file (*.json).

    At least one result, of any configuration, or of one profile only. Raises UserError where there is none.
    """
    path = Path(text)
    if path.suffix == ".json":
        if not path.is_file():
            raise UserError(f"there is no file {path}; give a result file or a run's key")
        found = [store.read(path)]
    else:
        found = store.of_key(Spec.of(RunSpec.parse(text)))
    found = [result for result in found if profile in (None, result.profile)]
    if not found:
        where = f"{store.root} under the profile '{profile}'" if profile else str(store.root)
        raise UserError(f"there is no result of {text} in {where}; `harness status` lists the runs")
    return found
