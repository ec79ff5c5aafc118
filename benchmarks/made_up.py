"""Many results, made up from the real ones in results/reference: other options, settings, encoders
and seeds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from harness.files import add_seal
from harness.spec import Variant

REFERENCE = Path(__file__).parent.parent / "results" / "reference"
SETTINGS = 10
ENCODERS = 4
SEEDS = 5
#: lines of a log, as many as a paper's run has
LOG = "2026-01-01T00:00:00Z  step 125/15625, dev 50.00, 12.3 steps a second\n" * 130


class MadeUp(NamedTuple):
    """A result's path below the folder of results, and its JSON."""

    path: str
    text: str


def make_results(count: int) -> Iterator[MadeUp]:
    """`count` results of one profile: 5 seeds, 4 encoders, 10 settings, and as many variants as are
    needed.
    """
    templates = _read_templates()
    for index in range(count):
        rest, seed = divmod(index, SEEDS)
        rest, encoder = divmod(rest, ENCODERS)
        option, setting = divmod(rest, SETTINGS)
        template = templates[option % len(templates)]
        yield _make_result(template, option, setting, encoder, seed)


def write_results(folder: Path, count: int, log: bool = True) -> None:
    """Write results, and a log beside each, below a folder of results."""
    for result in make_results(count):
        path = folder / result.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(result.text)
        if log:
            path.with_suffix(".log").write_text(LOG)


def _read_templates() -> Sequence[dict[str, Any]]:
    """One real result of each profile's methods and readings without options, plain SimCSE first."""
    templates: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(REFERENCE.glob("*/*/*/*/seed-0-*.json")):
        content = json.loads(path.read_bytes())
        variant = content["spec"]["variant"]
        is_plain = "[" not in variant and not content["overrides"]
        if is_plain and content["hyperparameters"].get("training"):
            del content["digest"]
            templates.setdefault((content["profile"], variant), content)
    return sorted(templates.values(), key=lambda content: content["spec"]["variant"] != "simcse")


def _make_result(
    template: dict[str, Any], option: int, setting: int, encoder: int, seed: int
) -> MadeUp:
    variant = template["spec"]["variant"]
    if option:
        variant = _set_temperature(variant, option / 1000)
    spec = template["spec"] | {
        "variant": variant,
        "setting": f"corpus-{setting}",
        "encoder": f"encoder-{encoder}",
        "seed": seed,
    }
    group = _hash(variant, setting, encoder)
    fingerprint = _hash(group, seed)
    shift = int(fingerprint[:6], 16) / 2**24
    content = template | {
        "spec": spec,
        "profile": "made-up",
        "profile_origin": "file",
        "fingerprint": fingerprint,
        "group": group,
        "evaluations": [_shift_scores(scored, shift) for scored in template["evaluations"]],
    }

    folders = (variant, spec["setting"], spec["encoder"])
    place = "/".join(quote(folder, safe="[]=,+@.:-_") for folder in folders)
    text = add_seal(json.dumps(content, separators=(",", ":")))
    return MadeUp(f"made-up/{place}/seed-{seed}-{fingerprint[:16]}.json", text)


def _set_temperature(variant: str, temperature: float) -> str:
    """A variant with another temperature; its reading stands last: dalr[temperature=0.1]@official"""
    parsed = Variant.parse(variant)
    options = {**dict(parsed.options), "temperature": temperature}
    return str(Variant.make(parsed.name, options, parsed.reading))


def _shift_scores(evaluation: dict[str, Any], shift: float) -> dict[str, Any]:
    """An evaluation whose scores are all higher by a number."""
    scores = {}
    for task, values in evaluation["scores"].items():
        scores[task] = {name: value + shift for name, value in values.items()}
    return {**evaluation, "scores": scores}


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
