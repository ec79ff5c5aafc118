"""The page docs/results.md, made from the records: `python tools/results_page.py >
docs/results.md`.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any, get_args, get_type_hints

import click
from pydantic import BaseModel
from schema_words import format_keys

from harness.census import InputCensus
from harness.spec import RunSpec
from harness.store import FRAME_COLUMNS
from harness.store.schema import (
    MEASURES,
    SCHEMA_VERSION,
    BatchMixing,
    Budget,
    DevCurve,
    EncoderTrial,
    GradientPoint,
    LossCurves,
    Protocol,
    Result,
    Session,
    TeacherUse,
)

_HEAD = f"""# What a results folder holds

<!-- made by `python tools/results_page.py > docs/results.md` from the code; edit tools/results_page.py -->

For readers who process scores themselves. A results folder (`--results`, by default `results`) is the whole database of
a project: one JSON file for each finished run, schema {SCHEMA_VERSION}.

| file | content |
| --- | --- |
| `PROFILE/VARIANT/SETTING/ENCODER/seed-N-FINGERPRINT.json` | a finished run: the table [below](#the-result-file) |
| the same with `.log` | the run's log, with times in UTC |
| the same with `.SUITE-PROTOCOL.npz` | raw data for figures, written by the suite `figures`; no scores |
| `failed/FINGERPRINT.json`, `.log` | the last failure of a run, and its log |
| `tunings/DIGEST.json` | a tuning: its methods, their trials and their values; of a search, sampler and place |
| `.work/FINGERPRINT/` | the best model of a run, and checkpoints while it is in progress |
| `.superseded/` | old results that `harness run --redo` or `results drop` moved away, each a folder of results |
| `.last-places/PROFILE.USER.json` | where a user's runs found profile, data and encoders |
| `.cache/`, `.locks/` | expendable: an index of all results, and locks of runs in progress |

Failures are records of the same kind. `harness/store/schema.py` has every key, also those that are not listed here.

**What can be relied on.** A file appears complete under its name, or not at all. Stored scores never change: a new
suite, or a new version of one, adds an evaluation. A damaged file is reported and left out.

**Results of others.** Share the folder without names that begin with a dot and without logs; a merge checks each result
before it is taken. Of one training, the result that came first stays, and evaluations that only the other one has are
added; a second training of the same run is named and left out.

```sh
hf upload OWNER/NAME results . --repo-type dataset --private --exclude '.*' --exclude '*.log'
hf download OWNER/NAME --repo-type dataset --local-dir theirs
harness results merge theirs --into results
```
"""
#: record -> heading; the record's keys are described in `_MEANINGS`
_RECORDS: dict[type[Any], str] = {Result: "The result file"}
#: records whose keys are left to the schema
_LEFT_OUT = (
    *(TeacherUse, Protocol, InputCensus, Session),
    *(RunSpec, DevCurve, LossCurves, EncoderTrial, BatchMixing, GradientPoint, Budget),
)
#: RECORD.key, or a key that means the same in every record
_MEANINGS = {
    "schema_version": "version of this layout",
    "spec": "which run it is: method, variant, setting, encoder, seed",
    "profile": "name of the profile",
    "fingerprint": "SHA-256 of everything that can change the training; 64 hex digits",
    "warnings": "what was noted, one line each",
    "finished": "when it ended, ISO 8601 in UTC",
    "backend": "version of the training code; reports mark results of earlier ones",
    "profile_origin": "whether the profile was shipped with the package or a file of the user",
    "overrides": "values of `--set`",
    "group": "identity of the training without its seed: runs of one group differ in their seed alone",
    "hyperparameters": "all values of the training, in the tables `method`, `training` and `encoder`",
    "teachers": "frozen models that gave features, by what the method calls them",
    "evaluations": "scores, one table for each suite and protocol",
    "dev": "dev scores during training, and the best one",
    "losses": "loss terms during training",
    "train_seconds": "wall time of the training",
    "peak_memory_mb": MEASURES["peak_memory_mb"].meaning,
    "hardware": "device, processor, cores and threads; in a result, those of the last session",
    "sessions": "the processes that made it, the first one first; empty in files of schema 5 and before",
    "packages": "versions of Python and of the packages that can change numbers; in a result, of the last session",
    "revision": "git commit of the harness, where it is known; in a result, of the last session",
    "started": "when it began, in a result with its first session; ISO 8601 in UTC",
    "identity": "the values that the fingerprint was made of, so that two runs can be compared",
    "trial": "what a trial of the encoder found before the run; null in older files",
    "suite": "evaluation suite",
    "protocol": "how the suite was scored",
    "scores": "task, then metric, then value; the task `Avg` is the mean over tasks; correlations are x 100",
    "parts": "the same for subsets of a task: task, then part, then metric",
    "seconds": "wall time of the evaluation",
    "gradients": "by stream, of the last batch up to each dev score: the loss terms' parts of its gradient",
    "parameters": "how many numbers were trained",
    "budget": "what the training read and computed; null in files of schema 4 and for an untrained encoder",
    "mixing": "which steps read pairs; null in older files and without training",
    "inputs": "the census of what the run read, one table for each input; empty in files of schema 5 and before",
}


def make_page() -> str:
    """The text of docs/results.md."""
    frame = format_keys(list(FRAME_COLUMNS.items()))
    sections = [
        _HEAD,
        *_make_sections(),
        f"## The frame\n\nColumns of `harness.results(FOLDER).frame`:\n\n{frame}",
    ]
    return "\n".join(sections)


def _make_sections() -> list[str]:
    sections = []
    described = set[type[Any]]()
    for record, title in _RECORDS.items():
        sections.append(f"## {title}\n\n{_format_record(record)}")
        for key, annotation in _find_fields(record).items():
            for inner in _find_records(annotation):
                # a record is described where it is met first
                if inner in (*_RECORDS, *_LEFT_OUT) or inner in described:
                    continue
                described.add(inner)
                sections.append(f"### `{key}`\n\n{_format_record(inner)}")
    return sections


def _format_record(record: type[Any]) -> str:
    return format_keys([(key, _find_meaning(record, key)) for key in _find_fields(record)])


def _find_fields(record: type[Any]) -> dict[str, Any]:
    """The keys of a record in their order, and their types."""
    hints = get_type_hints(record)
    if issubclass(record, BaseModel):
        names = list(record.model_fields)
    else:
        names = [field.name for field in dataclasses.fields(record)]
    return {name: hints[name] for name in names}


def _find_meaning(record: type[Any], key: str) -> str:
    return _MEANINGS.get(f"{record.__name__}.{key}") or _MEANINGS[key]


def _find_records(annotation: Any) -> list[type[Any]]:
    """The records in a type."""
    if dataclasses.is_dataclass(annotation) or _is_model(annotation):
        return [annotation]

    records = []
    for argument in get_args(annotation):
        records += _find_records(argument)
    return records


def _is_model(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, BaseModel)


@click.command(help=__doc__)
def main() -> None:
    """Print the page."""
    click.echo(make_page(), nl=False)


if __name__ == "__main__":
    main()
