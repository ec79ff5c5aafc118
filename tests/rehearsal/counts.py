"""How much of each data set the stand-ins publish, and the counts of the catalogue that follow from
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness import fetching

CAPTIONS = 5
LANGUAGES = ("de", "fr", "ru", "zh")


@dataclass(frozen=True)
class Splits:
    """Images of each split; `rest` are COCO's images of val2014 that are neither validation nor
    test images.
    """

    train: int
    val: int
    test: int
    rest: int = 0

    @property
    def total(self) -> int:
        """Images of all splits."""
        return self.train + self.val + self.test + self.rest


@dataclass(frozen=True)
class Counts:
    """Rows and files that the publishers have; by default in full. `most` limits the tables of
    SentEval's archive.
    """

    wiki: int = 1_000_000
    other_wiki: int = 1_000_000
    nli: int = 275_601
    entities: Splits = Splits(29_783, 1_000, 1_000)
    karpathy: Splits = Splits(29_000, 1_014, 1_000)
    coco: Splits = Splits(82_783, 5_000, 5_000, 30_504)
    rated: tuple[int, int] = (44_009, 44_045)
    cifar: tuple[int, int] = (50_000, 10_000)
    classes: int = 60
    a_class: int = 500
    recordings: int = 28_539
    most: int | None = None

    def rows_of(self, name: str, path: str) -> int:
        """The rows of a table of the entry `name` that is one of SentEval's or of the multilingual
        STS Benchmark.
        """
        (rows,) = (
            output.rows for output in fetching.find_entry(name).outputs if output.path == path
        )
        assert rows is not None
        return rows if self.most is None else min(rows, self.most)

    def expected(self) -> Mapping[str, int]:
        """Path below the data root -> its rows or files, of every output that the catalogue counts."""
        tables = {
            output.path: self.rows_of(name, output.path)
            for name in ("senteval", "stsb-multi")
            for output in fetching.find_entry(name).outputs
        }
        captioned = {"flickr": self.entities.train, "coco": self.coco.train}
        files = ("captions.txt", "captions.parquet", "resnet50.hdf5")
        return tables | {
            "nli/nli_for_simcse.csv": self.nli,
            "captions/flickr30k_captions.tsv.gz": CAPTIONS * self.karpathy.total,
            "captions/coco_karpathy_captions.tsv.gz": CAPTIONS * self.coco.total,
            "captions/flickr30k_entities_captions.tsv.gz": CAPTIONS * self.entities.total,
            "cxc/cxc_sts.tsv.gz": sum(self.rated),
            "flickr/karpathy_train.parquet": self.karpathy.train,
            "coco/karpathy_train.parquet": self.coco.train,
            **{f"{folder}/{file}": train for folder, train in captioned.items() for file in files},
            "flickr/images": self.entities.total,
            "coco/train2014": self.coco.train,
            "coco/val2014": self.coco.total - self.coco.train,
            "imagenet60": self.classes * self.a_class,
            **{f"cifar/cifar{kind}_train.parquet": self.cifar[0] for kind in (10, 100)},
            **{f"cifar/cifar{kind}_test.parquet": self.cifar[1] for kind in (10, 100)},
            "audio/LibriSpeech/train-clean-100": self.recordings,
            **{f"wiki/wiki-{language}.txt": self.other_wiki for language in LANGUAGES},
        }


FULL = Counts()
#: more sentences than captions, fewer than twice as many: by the rules of DALR and KDMCSE every
#: second step is paired
SHORT = Counts(
    wiki=290,
    other_wiki=40,
    nli=20,
    entities=Splits(150, 20, 20),
    karpathy=Splits(140, 20, 20),
    coco=Splits(150, 20, 20, 10),
    rated=(30, 30),
    cifar=(20, 10),
    classes=2,
    a_class=3,
    recordings=4,
    most=132,
)
