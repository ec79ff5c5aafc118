"""What each origin of the catalogue publishes, in its layout, and the files that come by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import layouts
from captioned import Coco, Flickr, caption_datasets, features, one_each
from counts import Counts
from standin import StandIn

from harness import fetching
from harness.fetching.entries import Origin

#: writes a file, or the shards below a folder
Maker = Callable[[Path], None]


class Publishers:
    """Writes the files of entries below a folder and serves them."""

    def __init__(self, folder: Path, counts: Counts) -> None:
        self.folder, self.counts = folder, counts
        flickr, coco = Flickr(counts), Coco(counts)
        self.makers: Mapping[str, Maker] = {
            "wiki1m_for_simcse.txt": partial(layouts.wiki1m, counts=counts),
            "nli_for_simcse.csv": partial(layouts.nli, counts=counts),
            "senteval.tar": partial(layouts.senteval_tar, counts=counts),
            "caption_datasets.zip": partial(caption_datasets, flickr=flickr, coco=coco),
            **{
                f"{split}.txt": partial(flickr.image_list, split=split)
                for split in ("train", "val", "test")
            },
            **{f"sts_{split}.csv": partial(coco.ratings, split=split) for split in ("val", "test")},
            "annotations.zip": flickr.annotations,
            "flickr_random_captions.txt": partial(
                one_each, captions=flickr.captions[: counts.entities.train]
            ),
            "flickr_resnet.hdf5": partial(features, rows=counts.entities.train),
            "flickr30k-images.tar.gz": flickr.images,
            "coco_random_captions.txt": partial(
                one_each, captions=coco.captions[: counts.coco.train]
            ),
            "coco_resnet.hdf5": partial(features, rows=counts.coco.train),
            "annotations_trainval2014.zip": coco.annotations,
            "train2014.zip": partial(coco.images, part="train2014"),
            "val2014.zip": partial(coco.images, part="val2014"),
            "sampled-Imagenet.txt": partial(layouts.imagenet_list, counts=counts),
            "cifar-10-binary.tar.gz": partial(layouts.cifar, counts=counts, name="cifar10"),
            "cifar-100-binary.tar.gz": partial(layouts.cifar, counts=counts, name="cifar100"),
            "train-clean-100.tar.gz": partial(layouts.librispeech, counts=counts),
        }

    def publish(self, standin: StandIn, names: Iterable[str]) -> dict[str, Path]:
        """Put the files of entries on the hub, the drive and at their addresses; the path of each
        `ENTRY/FILE`.
        """
        made = {}
        for name in names:
            for origin in fetching.find_entry(name).origins:
                if origin.hand is None and origin.output is None:
                    made |= self._served(standin, name, origin)
        return made

    def _served(self, standin: StandIn, name: str, origin: Origin) -> dict[str, Path]:
        files = self.written(name, origin)
        for file, path in files.items():
            if origin.hub is not None:
                standin.hub_file(origin.hub, file, path, str(origin.revision))
            elif origin.drive is not None:
                standin.drive[origin.drive] = (file, path)
            else:
                standin.files[f"/{str(origin.url).partition('://')[2]}"] = path
        return (
            {f"{name}/{origin.file}": path for path in files.values()}
            if origin.pick is None
            else {}
        )

    def written(self, name: str, origin: Origin) -> dict[str, Path]:
        """The files of an origin by their names in its repository."""
        path = self.folder / name / origin.file
        path.parent.mkdir(parents=True, exist_ok=True)
        if origin.pick is not None:
            layouts.articles(path.parent, self.counts, name.removeprefix("wiki-"))
            return {
                f"{Path(origin.file).parent}/{shard.name}": shard
                for shard in sorted(path.parent.iterdir())
            }
        if name == "stsb-multi":
            language, file = origin.file.split("/")
            layouts.multilingual(path, self.counts, language, file.partition("-")[0])
        else:
            self.makers[origin.name](path)
        return {origin.file: path}

    def by_hand(self, name: str) -> Path:
        """What the steps by hand of an entry give: a folder with its files."""
        folder = self.folder / "by-hand" / name
        if folder.is_dir():
            return folder
        folder.mkdir(parents=True)
        if name == "flickr-images":
            self.makers["flickr30k-images.tar.gz"](folder / "flickr30k-images.tar.gz")
        elif name == "imagenet60":
            layouts.imagenet_folder(folder / "train", self.counts)
        else:
            layouts.shards(folder / name, int(name[-1]), 10)
        return folder
