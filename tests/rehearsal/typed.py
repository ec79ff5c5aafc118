"""The command line against the stand-ins: python typed.py DIFFERENCES WORDS..., what `harness
WORDS...` is to a user.

The catalogue stays the project's own but for what a stand-in cannot have: checksums, sizes, counts,
and addresses on loopback. DIFFERENCES is a JSON file with them, which `write_differences` writes.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_differences(
    path: Path, address: str, files: Mapping[str, Path], expected: Mapping[str, int]
) -> None:
    """Write how the catalogue of the stand-in at an address differs, of the files `ENTRY/FILE` that
    it serves.
    """
    known = {
        name: {
            "bytes": file.stat().st_size,
            **{kind: _sum(file, kind) for kind in ("md5", "sha256")},
        }
        for name, file in files.items()
    }
    path.write_text(json.dumps({"address": address, "files": known, "expected": dict(expected)}))


def _sum(file: Path, kind: str) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()


def main() -> None:
    """Replace the catalogue's file by that of the stand-in, send what is for the drive there, and
    run the command.
    """
    import requests
    from standin import DRIVE_HOSTS

    from harness.fetching.entries import Entry, read_entries

    path = Path(sys.argv.pop(1))
    differences = json.loads(path.read_text())
    module = sys.modules[read_entries.__module__]

    def of_the_standin(text: str) -> dict[str, Entry]:
        return {name: changed(entry, differences) for name, entry in read_entries(text).items()}

    module.read_entries = of_the_standin  # type: ignore[attr-defined]
    ask = requests.Session.get

    def here(session: requests.Session, url: str, **options: Any) -> requests.Response:
        for host in DRIVE_HOSTS:
            url = url.replace(host, differences["address"])
        return ask(session, url, **options)

    atexit.register(lambda: path.with_name("peak.txt").write_text(str(_peak_mb())))
    requests.Session.get = here  # type: ignore[method-assign, assignment]
    from harness.cli.main import main as harness

    harness()


def _peak_mb() -> float:
    """The most memory of this process or of one that it started; what `wait4` says counts the
    starting process too.
    """
    own = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM")
    )
    return max(int(own.split()[1]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def changed(entry: Any, differences: Mapping[str, Any]) -> Any:
    """An entry with the checksums, sizes, counts and addresses of the stand-in."""
    known, expected = differences["files"], differences["expected"]
    origins = tuple(
        _origin(entry.name, origin, known, differences["address"]) for origin in entry.origins
    )
    outputs = tuple(
        output.model_copy(
            update={
                key: expected[output.path]
                for key in ("rows", "files")
                if getattr(output, key) is not None
            }
        )
        for output in entry.outputs
    )
    sizes = [
        known[f"{entry.name}/{o.file}"]["bytes"]
        for o in origins
        if f"{entry.name}/{o.file}" in known
    ]
    changes: dict[str, Any] = {"origins": origins, "outputs": outputs}
    if entry.about is not None and sizes:
        changes["about"] = sum(sizes)
    if "count" in entry.options:
        changes["options"] = {**entry.options, "count": expected[entry.outputs[0].path]}
    return entry.model_copy(update=changes)


def _origin(name: str, origin: Any, known: Mapping[str, Any], address: str) -> Any:
    changes: dict[str, Any] = {}
    file = known.get(f"{name}/{origin.file}")
    if file is not None and origin.checksum is not None:
        kind = origin.checksum.partition(":")[0]
        changes["checksum"] = f"{kind}:{file[kind]}"
    if file is not None and origin.bytes is not None:
        changes["bytes"] = file["bytes"]
    if origin.url is not None:
        changes["url"] = f"{address}/{origin.url.partition('://')[2]}"
    return origin.model_copy(update=changes)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    main()
