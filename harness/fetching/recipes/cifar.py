"""CIFAR's binary files as Parquet tables; the Python version is pickled, and loading a pickle runs code."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from harness.errors import UserError
from harness.fetching.entries import Entry
from harness.fetching.recipes.base import Got, Take, content_of, only, raw_lines, write_parquet

PIXELS = 3 * 32 * 32


def cifar(entry: Entry, got: Got, out: Path, take: Take) -> None:
    """Write image_id, label, label_name and jpeg (lossless PNG bytes) of each split. Raises UserError.

    `options` name the folder, the number of label bytes (the last one is the class), the file of the names and the
    splits' files. Layout: https://www.cs.toronto.edu/~kriz/cifar.html.
    """
    options = entry.options
    with content_of(only(entry, got, entry.origins[0].file), out) as content:
        base = content / options["folder"]
        names = [line.strip() for line in raw_lines(base / options["names"]) if line.strip()]
        for path, files in options["splits"].items():
            rows = zip(*_images(base, files, options["labels"], names), strict=True)
            columns = ("image_id", "label", "label_name", "jpeg")
            write_parquet(out / path, dict(zip(columns, rows, strict=True)))


def _images(base: Path, files: list[str], labels: int, names: list[str]) -> Iterator[tuple[str, int, str, bytes]]:
    for file in files:
        try:
            raw = np.fromfile(base / file, dtype=np.uint8)
        except FileNotFoundError as error:
            raise UserError(f"the archive does not contain {file}; download it again from its publisher") from error
        if raw.size == 0 or raw.size % (labels + PIXELS):
            raise UserError(
                f"{file} does not consist of images of {labels + PIXELS} bytes; download it again from its publisher"
            )
        for row, record in enumerate(raw.reshape(-1, labels + PIXELS)):
            label = int(record[labels - 1])
            if label >= len(names):
                raise UserError(
                    f"{file}, image {row + 1}: the class {label} has no name; download it again from its publisher"
                )
            stream = io.BytesIO()
            Image.fromarray(record[labels:].reshape(3, 32, 32).transpose(1, 2, 0)).save(stream, "PNG")
            yield f"{Path(file).stem}-{row}", label, names[label], stream.getvalue()
