"""Features of Flickr8k's training pictures from SqueezeNet before any training, for
`images=untrained` of the profile `grounding`.

    python tools/untrained_features.py DATA

DATA is the folder of data files. Reads paired/flickr8k/train.parquet and writes
train_squeezenet_untrained.parquet beside it, in the layout of train_squeezenet.parquet, whose
features come from the same network trained on ImageNet: pictures of 192 x 192 pixels (bicubic, blue
first, less Caffe's means), and the average of the last fire module over all positions, 512 numbers
a picture. The weights are drawn by a fixed seed from the distribution that torchvision trains from.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import torch
from PIL import Image
from torchvision.models import squeezenet1_1

SEED = 0
SIZE = 192
#: of blue, green and red, from 0 to 255
CAFFE_MEANS = (103.939, 116.779, 123.68)
ROWS = 50


def read_pixels(jpeg: bytes) -> np.ndarray:
    """A picture as the network reads it: (3, SIZE, SIZE) float32, blue first."""
    picture = Image.open(io.BytesIO(jpeg)).convert("RGB")
    resized = picture.resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    blue_first = np.asarray(resized, dtype=np.float32)[:, :, ::-1]
    means = np.asarray(CAFFE_MEANS, dtype=np.float32)
    return np.moveaxis(blue_first - means, -1, 0)


def make_untrained_network() -> torch.nn.Module:
    """The layers of SqueezeNet 1.1 up to its last fire module, with weights drawn by SEED."""
    torch.manual_seed(SEED)
    network: torch.nn.Module = squeezenet1_1(weights=None).features
    return network.eval()


def compute_features(jpegs: Iterable[bytes], network: torch.nn.Module) -> Iterator[np.ndarray]:
    """One vector of each picture, (512,) float16."""
    pictures = list(jpegs)
    for start in range(0, len(pictures), ROWS):
        batch = np.stack([read_pixels(jpeg) for jpeg in pictures[start : start + ROWS]])
        with torch.inference_mode():
            maps = network(torch.from_numpy(batch))
        yield from maps.mean((2, 3)).numpy().astype(np.float16)


def write_features(root: Path) -> Path:
    """Compute the features of all training pictures below a data root; return their file."""
    folder = root / "paired/flickr8k"
    table = pyarrow.parquet.read_table(folder / "train.parquet", columns=["image_id", "jpeg"])
    features = list(compute_features(table["jpeg"].to_pylist(), make_untrained_network()))

    file = folder / "train_squeezenet_untrained.parquet"
    columns = {
        "image_id": table["image_id"],
        "feature": pyarrow.array(features, type=pyarrow.list_(pyarrow.float16())),
    }
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file


if __name__ == "__main__":
    print(write_features(Path(sys.argv[1])))
