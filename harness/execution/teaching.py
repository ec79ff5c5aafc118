"""Features of frozen teachers for the pairs of a run: read where they are stored, else computed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.corpora.base import Pairs
from harness.corpora.pixels import Pixels
from harness.encoders.features import Stacked, cached_features
from harness.encoders.lit import Projections, fit
from harness.encoders.teachers import Teacher, open_teacher
from harness.encoders.vocabulary import check_vocabulary
from harness.errors import UserError
from harness.execution.identity import RUN, RunTeacher, feature_sources, run_teacher
from harness.execution.sources import LitTeacher, Sources
from harness.grid import SCRAMBLED, Resolved
from harness.method import Feature
from harness.seeds import generator
from harness.sources import digest

#: gives the model folder of a run, training it first where that has not been done, and its pooling
TrainedFolder = Callable[[Resolved], tuple[Path, str]]
#: hears of (what is computed, rows done, rows in all)
Report = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Teaching:
    """The teachers of one run over its pair corpora."""

    run: Resolved
    sources: Sources
    pairs: Mapping[str, Pairs]
    trained: TrainedFolder
    device: str
    report: Report

    def features(self, wanted: Feature) -> Any:
        """One feature a row over all pair corpora, (n, ...); or a control in its place.

        'shuffled' deals the profile's image features to the captions at random, once a run (MCSE Table 2);
        'random' puts standard normal noise there.
        """
        scrambled = wanted.teacher in SCRAMBLED
        name = str(self.sources.profile.images) if scrambled else wanted.teacher
        found = self._stacked(list(self.pairs), Feature(name, wanted.of))
        seed = self.run.spec.seed
        if wanted.teacher == "shuffled":
            return found.in_order(generator(axis="shuffled images", seed=seed).permutation(len(found)))
        if wanted.teacher == "random":
            return generator(axis="random images", seed=seed).standard_normal(found.shape, dtype=np.float32)
        return found

    def _stacked(self, corpora: Sequence[str], wanted: Feature) -> Stacked:
        """One feature a caption, of the corpora one after the other."""
        parts = Stacked([self._of_corpus(corpus, wanted) for corpus in corpora])
        if wanted.of != "image":
            return parts
        pairs = [self._loaded(corpus) for corpus in corpora]
        starts = np.cumsum([0, *(one.image_count for one in pairs)])
        numbers = [np.arange(len(one)) if one.image_of is None else one.image_of for one in pairs]
        return parts.in_order(np.concatenate([own + start for own, start in zip(numbers, starts, strict=False)]))

    def of_images(self, pairs: Pairs, content: str) -> np.ndarray:
        """The features that the method has as its role 'image', of other images, (n, f); `content` is their hash.

        A control is given what it was kept from: the true features.
        """
        wanted = self.run.features(self.sources.profile)["image"]
        name = str(self.sources.profile.images) if wanted.teacher in SCRAMBLED else wanted.teacher
        return self._of_pairs(pairs, content, lambda teacher: content, Feature(name))

    def of_captions(self, texts: Sequence[str], content: str) -> np.ndarray | None:
        """The features of n captions, (n, f), by the teacher of both roles 'image' and 'caption'; None without one."""
        wanted = self.run.features(self.sources.profile)
        if "caption" not in wanted or "image" not in wanted or wanted["caption"].teacher != wanted["image"].teacher:
            return None
        key = digest("captions", content)
        return self._of_pairs(Pairs(texts), key, lambda teacher: key, wanted["caption"])

    def _of_corpus(self, corpus: str, wanted: Feature) -> np.ndarray:
        """One teacher's features of one corpus, a row an image or a caption, mapped from disk."""
        source = self.sources.corpus(corpus, self.run)
        files = source.stored
        content = (
            source.images_fingerprint(self.sources.root) if wanted.of == "image" else self.sources.fingerprint(source)
        )
        return self._of_pairs(
            self._loaded(corpus), content, lambda teacher: self.sources.fingerprint(files[teacher]), wanted
        )

    def _of_pairs(self, pairs: Pairs, content: str, stored: Callable[[str], str], wanted: Feature) -> np.ndarray:
        """`stored` gives the fingerprint of a teacher's features that lie in a file beside the pairs."""
        if wanted.of == "image" and wanted.teacher in pairs.features:
            key = digest("stored", content, stored(wanted.teacher))
            values = _Once(lambda: pairs.features[wanted.teacher])
            return self._kept(key, wanted, pairs, lambda start, stop: values.value[start:stop])
        if wanted.teacher.startswith(RUN):
            return self._of_model(run_teacher(wanted.teacher, self.run, self.sources), wanted, pairs, content)
        source = self.sources.teacher(wanted.teacher, wanted.of)
        if isinstance(source, LitTeacher):
            return self._of_lit(source, wanted, pairs, content, stored)
        return self._of_model(source, wanted, pairs, content)

    def _of_model(self, source: Any, wanted: Feature, pairs: Pairs, content: str) -> np.ndarray:
        length = self.run.training.max_length
        if wanted.of == "image" and isinstance(pairs.images, Pixels):
            content += pairs.images.content()
        key = digest(content, self.sources.fingerprint(source), wanted.of, None if wanted.of == "image" else length)
        teacher = _Once(lambda: self._opened(source, wanted))
        return self._kept(
            key, wanted, pairs, lambda start, stop: _look(teacher.value, wanted.of, pairs, start, stop, length)
        )

    def _opened(self, source: Any, wanted: Feature) -> Teacher:
        kind = "text" if isinstance(source, RunTeacher) else source.kind
        if isinstance(source, RunTeacher):
            folder, pooling = self.trained(source.run)
        else:
            folder, pooling = source.model.path(), source.pooling
        if wanted.of == "tokens":
            check_vocabulary(self.sources.encoder(self.run.spec.encoder).path(), folder, wanted.teacher)
        return open_teacher(kind, folder, pooling=pooling, max_length=self.run.training.max_length, device=self.device)

    def _of_lit(
        self, source: LitTeacher, wanted: Feature, pairs: Pairs, content: str, stored: Callable[[str], str]
    ) -> np.ndarray:
        """Project the features of the side asked for; the fit is made again where the projected ones are not kept."""
        image, caption = source.parts
        parts = feature_sources(self.run, self.sources, wanted)
        fitted_on = self.sources.fingerprint(self.sources.corpus(source.corpus, self.run))
        key = digest("lit", content, wanted.of, fitted_on, [self.sources.fingerprint(part) for part in parts])
        fitted = _Once(lambda: self._fitted(source))
        part = image if wanted.of == "image" else caption
        inner = _Once(lambda: self._of_pairs(pairs, content, stored, part))

        def project(start: int, stop: int) -> np.ndarray:
            side = fitted.value.images if wanted.of == "image" else fitted.value.captions
            return side(np.asarray(inner.value[start:stop], dtype=np.float32))

        return self._kept(key, wanted, pairs, project)

    def _fitted(self, source: LitTeacher) -> Projections:
        images, captions = (self._stacked([source.corpus], part) for part in source.parts)
        return fit(images, captions)

    def _kept(self, key: str, wanted: Feature, pairs: Pairs, compute: Callable[[int, int], np.ndarray]) -> np.ndarray:
        what = f"{wanted.teacher}: features of {wanted.of}s"
        tokens = wanted.of == "tokens"
        return cached_features(
            key,
            pairs.image_count if wanted.of == "image" else len(pairs),
            compute,
            dtype="float16" if tokens else "float32",
            chunk=512,
            report=lambda done, rows: self.report(what, done, rows),
        )

    def _loaded(self, corpus: str) -> Pairs:
        if corpus in self.pairs:
            return self.pairs[corpus]
        loaded = self.sources.corpus(corpus, self.run).load(self.sources.root)
        if not isinstance(loaded, Pairs):
            raise UserError(f"the corpus '{corpus}' has no image-caption pairs; fit the lit teacher on one that has")
        return loaded


class _Once:
    """A value made when it is first asked for."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    @cached_property
    def value(self) -> Any:
        return self._make()


def _look(teacher: Teacher, of: str, pairs: Pairs, start: int, stop: int, length: int) -> np.ndarray:
    if of == "caption":
        return teacher.captions(pairs.texts[start:stop])
    if of == "tokens":
        return teacher.tokens(pairs.texts[start:stop], length)
    if pairs.images is None:
        raise UserError("the corpus has no pixels; name a teacher whose features of it are stored")
    return teacher.images(pairs.images[start:stop])
