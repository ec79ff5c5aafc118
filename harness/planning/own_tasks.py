"""The tasks that a profile describes itself, made from their tables."""

from __future__ import annotations

import re

from harness.corpora.retrieval import CaptionedFile
from harness.errors import UserError
from harness.evaluation.own_files import OwnClasses, OwnPairs
from harness.evaluation.suites import RETRIEVAL, SIMILARITY, OwnTask
from harness.evaluation.transfer import TRANSFER
from harness.metrics import AVERAGE
from harness.profiles.schema import ClassificationTable, RetrievalTable, SimilarityTable
from harness.registry import names
from harness.sources import OWN_FILE

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
#: registry kinds of tasks
_KINDS = (SIMILARITY, TRANSFER, RETRIEVAL, "mteb task")


class OwnImages(CaptionedFile):
    """Captioned images of a user."""

    kind = RETRIEVAL


def check_name(name: str) -> None:
    """Raise UserError for no name, and for that of another task, for whose scores those of this one could be taken."""
    if not _NAME.fullmatch(name) or name == AVERAGE or any(name in names(kind) for kind in _KINDS):
        what = (
            "is a name that the harness reserves"
            if _NAME.fullmatch(name)
            else "is not made of letters, digits, '.', '_' and '-'"
        )
        raise UserError(f"the task [tasks.{name}] {what}; rename it in the profile")


def own_task(name: str, table: SimilarityTable | ClassificationTable | RetrievalTable) -> OwnTask:
    """Make a task. Raises UserError as `check_name` does."""
    check_name(name)
    if isinstance(table, SimilarityTable):
        pair = (table.sentence1, table.sentence2, table.score)
        return OwnPairs(name, table.file, pair, table.scale, table.subset)
    if isinstance(table, ClassificationTable):
        files = {"all": table.file, "train": table.train, "dev": table.dev, "test": table.test}
        texts = (table.text, table.text2) if table.text2 else (table.text,)
        return OwnClasses(name, {split: file for split, file in files.items() if file}, texts, table.label)
    return OwnImages(name, table.captions, OWN_FILE, {}, images=table.images, columns=(table.image, table.caption))
