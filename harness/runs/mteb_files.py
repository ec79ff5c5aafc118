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
from harness.registry import list_registered
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
        command = harness_command(
            "eval", result.spec.key, profile=result.profile, suites=_SUITE, results=str(results)
        )
        raise UserError(
            f"{result.spec.key} has no scores of the suite {_SUITE}; add them with `{command}`"
        )

    model = _name_model(result, named)
    task_results = dict[str, "TaskResult"]()
    left_out = list[str]()
    for task in evaluation.scores:
        if task.partition("[")[0] == AVERAGE:
            continue
        try:
            task_results[task] = _find_task_result(task, evaluation, result, store)
        except UserError as error:
            left_out.append(f"{task}: {error}")

    if not task_results:
        raise UserError(
            f"no task of {result.spec.key} can be exported to mteb: {'; '.join(left_out)}"
        )

    fill = partial(_fill, meta=_make_meta(result, model), results=list(task_results.values()))
    write_whole(to, "--mteb", fill)
    return MTEBFiles(model, tuple(task_results), tuple(left_out))


def _name_model(result: Result, named: HubModel | None) -> HubModel:
    """The name of a run's model. Raises UserError if it has none, or if the run scored a different
    encoder.
    """
    is_trained = bool(result.hyperparameters["training"])
    model = named
    if model is None and not is_trained:
        model = _find_hub_encoder(result)
    if model is None:
        raise UserError(
            f"{result.spec.key} has no name on the hub; give --as OWNER/NAME@COMMIT (`harness "
            "export --push` uploads the model)"
        )

    if is_trained:
        return model

    # results of earlier versions do not hold the encoder's fingerprint
    fingerprints = [replace(model, trusted=trusted).fingerprint(None) for trusted in (False, True)]
    if result.identity.get("encoder") not in (None, *fingerprints):
        raise UserError(
            f"{result.spec.key} evaluated another model than {model.hub} at {model.revision}; give that one"
        )
    return model


def _find_hub_encoder(result: Result) -> HubModel | None:
    """The encoder of a run on the hub, as its profile pins it."""
    if result.profile not in shipped_profiles():
        return None
    encoder = load_profile(result.profile).encoders.get(result.spec.encoder)
    if encoder is None or not encoder.hub or not encoder.revision:
        return None
    return HubModel(encoder.hub, encoder.revision)


def _find_task_result(
    task: str, evaluation: Evaluation, result: Result, store: Store
) -> TaskResult:
    """A task's result in mteb's form. Raises UserError with the reason where there is none."""
    if task in list_registered("mteb task"):
        raise UserError("not a task of mteb (it comes from this project or from a package)")

    score = evaluation.scores[task].get("main_score")
    if score is None:
        raise UserError("its score is undefined")

    work = store.work(result.fingerprint)
    folder = work / SCORED_BY_MTEB / evaluation.protocol.data[:12] / "results"
    refuse_linked(store, folder)
    paths = sorted(folder.glob(f"*/*/{task}.json"))
    if not paths:
        raise UserError(
            "mteb's own file of it is not in the work folder of the run (it stays where the suite was run)"
        )
    return _read_task_result(paths[0], score)


def _read_task_result(path: Path, stored: float) -> TaskResult:
    from mteb.results import TaskResult

    try:
        task_result = TaskResult.from_disk(path)
        score = 100 * round(float(task_result.get_score()), 6)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"mteb's file {path} cannot be read ({first_line(error)})") from error

    if score != stored:
        raise UserError(f"mteb's file {path} has the score {score:g}, the result {stored:g}")
    return task_result


def _make_meta(result: Result, model: HubModel) -> ModelMeta:
    from mteb.models.model_meta import ModelMeta, ScoringFunction

    adapted_from = None
    encoder = _find_hub_encoder(result)
    if encoder is not None and result.hyperparameters["training"]:
        adapted_from = encoder.hub
    return ModelMeta.create_empty(
        {
            "name": model.hub,
            "revision": model.revision,
            "reference": f"https://huggingface.co/{model.hub}",
            "framework": ["PyTorch"],
            "similarity_fn_name": ScoringFunction.COSINE,
            "use_instructions": False,
            "adapted_from": adapted_from,
        }
    )


def _fill(folder: Path, meta: ModelMeta, results: Sequence[TaskResult]) -> None:
    from mteb import ResultCache

    cache = ResultCache(folder)
    for result in results:
        cache.save_to_cache(result, meta)
