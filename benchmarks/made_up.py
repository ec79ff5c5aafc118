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


def made_up(count: int) -> Iterator[MadeUp]:
    """`count` results of one profile: 5 seeds, 4 encoders, 10 settings, and as many variants as are
    needed.
    """
    templates = _templates()
    for index in range(count):
        rest, seed = divmod(index, SEEDS)
        rest, encoder = divmod(rest, ENCODERS)
        variant, setting = divmod(rest, SETTINGS)
        yield _one(templates[variant % len(templates)], variant, setting, encoder, seed)


def write(folder: Path, count: int, log: bool = True) -> None:
    """Write results, and a log beside each, below a folder of results."""
    for one in made_up(count):
        path = folder / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(one.text)
        if log:
            path.with_suffix(".log").write_text(LOG)


def _templates() -> Sequence[dict[str, Any]]:
    """One real result of each profile's methods and readings without options, plain SimCSE first."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for path in sorted(REFERENCE.glob("*/*/*/*/seed-0-*.json")):
        content = json.loads(path.read_bytes())
        plain = "[" not in content["spec"]["variant"] and not content["overrides"]
        if plain and content["hyperparameters"].get("training"):
            del content["digest"]
            found.setdefault((content["profile"], content["spec"]["variant"]), content)
    return sorted(found.values(), key=lambda one: one["spec"]["variant"] != "simcse")


def _one(template: dict[str, Any], option: int, setting: int, encoder: int, seed: int) -> MadeUp:
    variant = template["spec"]["variant"]
    if option:  # the reading stands last: dalr[temperature=0.1]@official
        named = Variant.parse(variant)
        variant = str(
            Variant.make(
                named.name, {**dict(named.options), "temperature": option / 1000}, named.reading
            )
        )
    spec = template["spec"] | {
        "variant": variant,
        "setting": f"corpus-{setting}",
        "encoder": f"encoder-{encoder}",
    }
    group = _hash(variant, setting, encoder)
    fingerprint = _hash(group, seed)
    shift = int(fingerprint[:6], 16) / 2**24
    evaluations = [
        {
            **one,
            "scores": {
                task: {name: value + shift for name, value in row.items()}
                for task, row in scores.items()
            },
        }
        for one in template["evaluations"]
        for scores in [one["scores"]]
    ]
    content = template | {
        **{"spec": spec | {"seed": seed}, "profile": "made-up", "profile_origin": "file"},
        **{"fingerprint": fingerprint, "group": group, "evaluations": evaluations},
    }
    name = "/".join(
        quote(part, safe="[]=,+@.:-_") for part in (variant, spec["setting"], spec["encoder"])
    )
    text = add_seal(json.dumps(content, separators=(",", ":")))
    return MadeUp(f"made-up/{name}/seed-{seed}-{fingerprint[:16]}.json", text)


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
