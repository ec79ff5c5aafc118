"""The STS Benchmark machine-translated to ten languages, and the suite of its test sets.

Files: sts/multilingual/stsb-LANGUAGE.tsv.gz with the columns split, score, sentence1, sentence2.
"""

from __future__ import annotations

from harness.evaluation.sts import STSSuite
from harness.evaluation.sts_files import SimilarityFile

_HOW = "put the data set stsb_multi_mt there, gzip, with the columns split, score, sentence1 and sentence2"


def _task(language: str, split: str) -> SimilarityFile:
    name = f"STS-B-{language}" if split == "test" else f"STS-B-{language}-{split}"
    return SimilarityFile(name, f"sts/multilingual/stsb-{language}.tsv.gz", split=split, how=_HOW)


DE, DE_DEV = _task("de", "test"), _task("de", "dev")
ES, ES_DEV = _task("es", "test"), _task("es", "dev")
FR, FR_DEV = _task("fr", "test"), _task("fr", "dev")
IT, IT_DEV = _task("it", "test"), _task("it", "dev")
JA, JA_DEV = _task("ja", "test"), _task("ja", "dev")
NL, NL_DEV = _task("nl", "test"), _task("nl", "dev")
PL, PL_DEV = _task("pl", "test"), _task("pl", "dev")
PT, PT_DEV = _task("pt", "test"), _task("pt", "dev")
RU, RU_DEV = _task("ru", "test"), _task("ru", "dev")
ZH, ZH_DEV = _task("zh", "test"), _task("zh", "dev")


class MultilingualSTSSuite(STSSuite):
    """The protocol of `sts` with an average over languages."""

    name = "stsb-multi"
