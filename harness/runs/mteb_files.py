"""A run's scores as files that mteb's results repository accepts:
DIR/results/OWNER__NAME/COMMIT/TASK.json.

What mteb itself has written of a task is passed on if it is still in the run's work folder and its
score is the stored one. All other tasks are left out, with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.command_line import harness_command
from harness.encoders.locate import HubModel
from harness.errors import UserError, first_line
from harness.metrics import AVERAGE
from harness.planning.names import find_result
from harness.profiles import load_profile, shipped_profiles
from harness.registry import names
from harness.runs.export import check_new, write_whole
from harness.store import Evaluation, Result, Store
from harness.store.folder import SCORED_BY_MTEB, refuse_linked

if TYPE_CHECKING:
    from mteb.models.model_meta import ModelMeta
    from mteb.results import TaskResult

_SUITE = "mteb"
_NAMED = re.compile(r"([A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)@([0-9a-f]{40})")


@dataclass(frozen=True)
class MTEBFiles:
    """What was written: the model's name, its tasks, and one line for each task that was left out."""

    model: HubModel
    tasks: tuple[str, ...]
    left_out: tuple[str, ...]


def parse_hub_model(text: str) -> HubModel:
    """Read OWNER/NAME@COMMIT. Raises UserError."""
    match = _NAMED.fullmatch(text)
    if match is None:
        raise UserError(
            f"'{text}' is not OWNER/NAME@COMMIT with the 40 digits of a commit; give --as in that form"
        )
    return HubModel(match[1], match[2])


def export_mteb(
    what: str, to: Path, results: Path, named: HubModel | None = None, profile: str | None = None
) -> MTEBFiles:
    """Write mteb's result files of a run into the new folder `to`, completely or not at all.

    `named` is the model's name on the hub; an untrained encoder of the hub has its own. For `what`
    and `profile` see `find_result`. Raises UserError if the run has no mteb scores, if the model
    has no name or that of another model, if no task can be written, and if `to` exists and is not
    empty.
    """
    check_new(to, "--mteb")
    result, store = find_result(what, results, profile)
    evaluation = result.latest(_SUITE)
    if evaluation is None:
        more = harness_command(
            "eval", result.spec.key, profile=result.profile, suites=_SUITE, results=str(results)
        )
        raise UserError(
            f"{result.spec.key} has no scores of the suite {_SUITE}; add them with `{more}`"
        )
    model = _name_model(result, named)
    exported = dict[str, "TaskResult"]()
    left_out = list[str]()
    for task in evaluation.scores:
        if task.partition("[")[0] == AVERAGE:
            continue
        try:
            exported[task] = _find_task_result(task, evaluation, result, store)
        except UserError as error:
            left_out.append(f"{task}: {error}")
    if not exported:
        raise UserError(
            f"no task of {result.spec.key} can be exported to mteb: {'; '.join(left_out)}"
        )
    write_whole(
        to,
        "--mteb",
        partial(_fill, meta=_make_meta(result, model), results=list(exported.values())),
    )
    return MTEBFiles(model, tuple(exported), tuple(left_out))


def _name_model(result: Result, named: HubModel | None) -> HubModel:
    """The name of a run's model. Raises UserError if it has none, or if the run scored a different
    encoder.
    """
    own = None if result.hyperparameters["training"] else _find_hub_encoder(result)
    model = named or own
    if model is None:
        raise UserError(
            f"{result.spec.key} has no name on the hub; give --as OWNER/NAME@COMMIT (`harness "
            "export --push` uploads the model)"
        )
    scored = result.identity.get("encoder")
    known = [replace(model, trusted=trusted).fingerprint(None) for trusted in (False, True)]
    if not result.hyperparameters["training"] and scored not in (None, *known):
        raise UserError(
            f"{result.spec.key} evaluated another model than {model.hub} at {model.revision}; give that one"
        )
    return model


def _find_hub_encoder(result: Result) -> HubModel | None:
    """The encoder of a run on the hub, as its profile pins it."""
    if result.profile not in shipped_profiles():
        return None
    table = load_profile(result.profile).encoders.get(result.spec.encoder)
    return HubModel(table.hub, table.revision) if table and table.hub and table.revision else None


def _find_task_result(
    task: str, evaluation: Evaluation, result: Result, store: Store
) -> TaskResult:
    """A task's result in mteb's form. Raises UserError with the reason where there is none."""
    if task in names("mteb task"):
        raise UserError("not a task of mteb (it comes from this project or from a package)")
    stored = evaluation.scores[task].get("main_score")
    if stored is None:
        raise UserError("its score is undefined")
    kept = (
        store.work(result.fingerprint) / SCORED_BY_MTEB / evaluation.protocol.data[:12] / "results"
    )
    refuse_linked(store, kept)
    paths = sorted(kept.glob(f"*/*/{task}.json"))
    if not paths:
        raise UserError(
            "mteb's own file of it is not in the work folder of the run (it stays where the suite was run)"
        )
    return _read_task_result(paths[0], stored)


def _read_task_result(path: Path, stored: float) -> TaskResult:
    from mteb.results import TaskResult

    try:
        kept = TaskResult.from_disk(path)
        score = 100 * round(float(kept.get_score()), 6)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"mteb's file {path} cannot be read ({first_line(error)})") from error
    if score != stored:
        raise UserError(f"mteb's file {path} has the score {score:g}, the result {stored:g}")
    return kept


def _make_meta(result: Result, model: HubModel) -> ModelMeta:
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    encoder = _find_hub_encoder(result)
    return ModelMeta.create_empty(
        {
            "name": model.hub,
            "revision": model.revision,
            "reference": f"https://huggingface.co/{model.hub}",
            "framework": ["PyTorch"],
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": False,
            "adapted_from": encoder.hub if encoder and result.hyperparameters["training"] else None,
        }
    )


def _fill(folder: Path, meta: ModelMeta, results: Sequence[TaskResult]) -> None:
    from mteb import ResultCache

    cache = ResultCache(folder)
    for result in results:
        cache.save_to_cache(result, meta)
