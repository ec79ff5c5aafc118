"""Results of runs as a notebook uses them: a frame, tables and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from harness.command_line import parse_overrides
from harness.commands import Commands
from harness.errors import UserError
from harness.profiles import load_profile
from harness.store import Failure, Result, frame_of

if TYPE_CHECKING:
    import pandas

    from harness.reporting.seeds.comparison import Comparison


@dataclass(frozen=True)
class Results:
    """Finished runs in one folder, and failures. Its length is the number of runs.

    `problems` has one line for each result file that cannot be read.
    """

    folder: Path
    runs: Sequence[Result]
    failures: tuple[Failure, ...] = ()
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.runs)

    def __repr__(self) -> str:
        return f"<{len(self)} runs and {len(self.failures)} failures in {self.folder}>"

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """One row per score; `harness.store.FRAME_COLUMNS` documents the columns."""
        frame = frame_of(self.runs)
        return frame.astype(dict.fromkeys(frame.columns[frame.dtypes == "category"], str))

    def table(self, name: str, profile: str | None = None) -> pandas.DataFrame:
        """A suite's summary ("sts") or a paper's table ("mcse:T1") as texts, as the report prints them.

        One row per line of the table: mean and sample standard deviation over seeds with stars for significance; the
        numbers themselves are in `.frame`. `profile` is needed if the folder has results of several.
        """
        from harness.reporting.tables.named import frame_of_grid, named_grid

        return frame_of_grid(named_grid(name, self._profile(profile), self.runs, Commands(self.folder), whole=True))

    def text(self, name: str, text_format: str = "markdown", profile: str | None = None) -> str:
        """The same tables as "markdown", "latex" (booktabs, with a caption) or "csv", ready for a paper.

        Raises UserError for a name that has no table under the profile.
        """
        from harness.reporting.tables.named import FORMATS, named_grid

        return FORMATS[text_format](named_grid(name, self._profile(profile), self.runs, Commands(self.folder)))

    def compare(
        self,
        a: str,
        b: str,
        metric: str = "sts.Avg",
        *,
        profile: str | None = None,
        setting: str | None = None,
        encoder: str | None = None,
        set: Mapping[str, object] | Sequence[str] = (),  # noqa: A002
    ) -> Comparison:
        """Compare two variants, or two VARIANT/SETTING/ENCODER, in SUITE.TASK[.METRIC], with every test over seeds.

        The keyword arguments restrict the runs of both. `print(comparison.conclusion())` gives the result in one
        sentence. Raises UserError when no runs or several groups of runs match.
        """
        from harness.reporting.seeds.lookup import compare_variants

        self._check_runs()
        overrides = set if isinstance(set, Mapping) else parse_overrides(set)
        name = load_profile(profile).name if profile else None
        return compare_variants(
            self.runs, a, b, metric, profile=name, setting=setting, encoder=encoder, overrides=overrides
        )

    def _check_runs(self) -> None:
        if not self.runs:
            raise UserError(f"{self.folder} has no results; run `{Commands(self.folder).run(profile='tiny')}` first")

    def _profile(self, asked: str | None) -> str:
        if asked is not None:
            return load_profile(asked).name
        self._check_runs()
        names = sorted({run.profile for run in self.runs})
        if len(names) != 1:
            raise UserError(
                f"{self.folder} has results of the profiles {', '.join(names)}; choose one (--profile NAME, in Python "
                "profile=NAME)"
            )
        return names[0]
