"""Tunings at equal budgets: the trials (configurations) of each method, stored beside the results.

All trials are drawn beforehand; in a search, a sampler of Optuna chooses each from the scores of
the earlier ones.

RESULTS/tunings/DIGEST.json        named by its content, so that folders of several stores can be joined

    tuning  := VARIANT ":" key "=" values { "," key "=" values }
    values  := VALUE { "|" VALUE }  or  LOW ".." HIGH
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from harness.errors import UserError, first_line
from harness.files import DamagedError, parse_note, read_within, write_note
from harness.formatting import count_of
from harness.seeds import derive_seed, make_generator
from harness.sources import digest
from harness.spec import OptionValue, SpecError, Variant, split, write_canonical
from harness.store.files import Store
from harness.store.schema import Result

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

_RANGE = re.compile(r"([^.|]\S*?)\.\.([^.|]\S*)")
#: draws from ranges after which these count as too narrow
_MOST_DRAWS = 10_000
#: the first trials of a search, which are drawn
FIRST_TRIALS = 5
#: proposals after which a sampler that repeats itself gets the next trial of the draw
_MOST_PROPOSALS = 20


@dataclass(frozen=True)
class Range:
    """An interval of positive numbers, from which values are drawn evenly on a logarithmic scale."""

    low: float
    high: float

    def find_value(self, place: float) -> str:
        """The value at a place from 0 (low) to 1 (high), to three digits."""
        value = self.low * (self.high / self.low) ** place
        return write_canonical(float(f"{value:.3g}"))

    def __str__(self) -> str:
        return f"{write_canonical(self.low)}..{write_canonical(self.high)}"


#: the values of an option: those that are listed, or a range
TriedValues = tuple[str, ...] | Range
Space = Mapping[str, TriedValues]


class TunedMethod(BaseModel):
    """A method with the options that are tuned, as typed in canonical form, and its trials as
    variants.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    base: Annotated[str, AfterValidator(lambda text: str(Variant.parse(text)))]
    space: str
    trials: tuple[str, ...]

    def format_code(self, more: str = "") -> str:
        """The code of the picked trial's row in tables, such as `mcse[tuned=6]`; `more` follows the
        number.
        """
        base = Variant.parse(self.base)
        options = dict(base.options)
        options["tuned"] = f"{len(self.trials)}{more}"
        return str(Variant.make(base.name, options, base.reading))

    @property
    def typed(self) -> str:
        """The value of `--tune`."""
        return f"{self.base}:{self.space}"


class Tuning(BaseModel):
    """A tuning of methods with equally many trials each, under one profile and its overrides."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_version: Literal[1] = 1
    profile: str
    overrides: dict[str, OptionValue]
    trials: int
    methods: tuple[TunedMethod, ...]
    #: of a search in one SETTING/ENCODER, whose methods have the trials chosen so far
    sampler: str | None = None
    place: str | None = None

    @property
    def key(self) -> str:
        """The tuning's name, a hash of its content (a search's without trials): 12 hex digits."""
        excluded = {"methods": {"__all__": {"trials"}}} if self.sampler else None
        return digest(self.model_dump(mode="json", exclude_none=True, exclude=excluded))[:12]

    def repeats(self, other: Tuning) -> bool:
        """Whether the same command asks for both, whatever their trials are."""
        without_trials = {"methods": {"__all__": {"trials"}}}
        return self.model_dump(exclude=without_trials) == other.model_dump(exclude=without_trials)

    @property
    def variants(self) -> list[str]:
        variants = dict[str, None]()
        for method in self.methods:
            variants.update(dict.fromkeys(method.trials))
        return list(variants)

    def next_round(self, results: Sequence[Result]) -> Tuning:
        """The search with one more trial of each method that lacks some, once all trials so far
        have results.
        """
        scores_by_trial: dict[str, list[float]] = {trial: [] for trial in self.variants}
        for result in results:
            trial = str(result.spec.variant)
            if trial in scores_by_trial:
                scores_by_trial[trial].append(result.dev.best_score or 0.0)

        if not all(scores_by_trial.values()):
            return self

        means = {trial: fmean(scores) for trial, scores in scores_by_trial.items()}
        methods = []
        for method in self.methods:
            if len(method.trials) < self.trials:
                method = _add_trial(method, str(self.sampler), means)
            methods.append(method)
        return self.model_copy(update={"methods": tuple(methods)})


def make_tuning(
    profile: str, overrides: Mapping[str, OptionValue], texts: Sequence[str], trials: int
) -> Tuning:
    """Draw the trials of each method: without replacement, by a seed made from its options alone.

    Listed values alone make a grid, whose configurations come in random order. With a range, the
    values of each option are spread as `_spread_places` says. The first trials are the same for any
    number. Raises SpecError for a text that is not of this
    grammar, and UserError for a method with fewer configurations than trials, or one that is named
    twice.
    """
    if trials < 1:
        raise UserError(
            f"--trials {trials} is not a number of trials; give the number of configurations per method, such as 6"
        )

    spaces: dict[str, Space] = {}
    for text in texts:
        base, space = _parse_tuned_method(text)
        if base in spaces:
            raise UserError(
                f"--tune names {base} twice; give all its options in one --tune, separated by commas"
            )
        spaces[base] = space

    _check_sizes(spaces, trials)

    methods = []
    for base, space in spaces.items():
        variants = tuple(_draw_variants(base, space, trials))
        methods.append(TunedMethod(base=base, space=_format_space(space), trials=variants))
    return Tuning(profile=profile, overrides=dict(overrides), trials=trials, methods=tuple(methods))


def _check_sizes(spaces: Mapping[str, Space], trials: int) -> None:
    """Raise UserError where a method has fewer configurations than trials."""
    sizes = {base: _count_configurations(space) for base, space in spaces.items()}
    too_few = {base: size for base, size in sizes.items() if size < trials}
    if not too_few:
        return

    counts = [f"{base} has {count_of(size, 'configuration')}" for base, size in too_few.items()]
    raise UserError(
        f"{', '.join(counts)}, fewer than {trials} trials; list more, or give --trials {min(too_few.values())}"
    )


def start_search(tuning: Tuning, sampler: str, place: str) -> Tuning:
    """The first trials of a tuning as a search in one place. Raises UserError without Optuna."""
    if find_spec("optuna") is None:
        raise UserError(
            f"--sampler {sampler} needs Optuna; install it with `pip install 'sentence-harness[optuna]'`"
        )

    methods = tuple(
        method.model_copy(update={"trials": method.trials[:FIRST_TRIALS]})
        for method in tuning.methods
    )
    return tuning.model_copy(update={"methods": methods, "sampler": sampler, "place": place})


def resume_tuning(store: Store, tuning: Tuning) -> Tuning:
    """The tuning as the store has it, with the trials that an earlier command drew or chose; of a
    search the longest. The tuning itself if the store has none.
    """
    same = [candidate for candidate in read_tunings(store)[0] if candidate.repeats(tuning)]
    return max([*same, tuning], key=lambda candidate: len(candidate.variants))


def save_tuning(store: Store, tuning: Tuning) -> None:
    """Write a tuning beside the results, unless it exists, or a later round of a search."""
    path = store.root / "tunings" / f"{tuning.key}.json"
    if tuning.sampler or not path.is_file():
        values = resume_tuning(store, tuning).model_dump(mode="json", exclude_none=True)
        write_note(path, values, store.root)


def read_tunings(store: Store) -> tuple[list[Tuning], list[str]]:
    """The tunings of a store, and one line for each file that cannot be used."""
    tunings = list[Tuning]()
    problems = list[str]()
    for path in sorted((store.root / "tunings").glob("[!.]*.json")):
        try:
            tunings.append(Tuning.model_validate(parse_note(read_within(store.root, path))))
        except (OSError, DamagedError, ValidationError) as error:
            again = "restore it, or remove it and run its `harness run --tune` again"
            problems.append(f"the tuning {path} cannot be used ({first_line(error)}); {again}")

    return tunings, problems


def _parse_tuned_method(text: str) -> tuple[str, Space]:
    """The variant that is tuned and the values of each option, in canonical order."""
    head, *rest = split(text, ":")  # at colons outside brackets
    variant = Variant.parse(head)
    space: dict[str, TriedValues] = {}
    for part in split(":".join(rest)):
        key, _, values = (word.strip() for word in part.partition("="))
        if not (key and values):
            raise SpecError(
                f"--tune '{text}' names no values; write METHOD:key=VALUE|VALUE, or METHOD:key=LOW..HIGH"
            )
        if key in space or key in dict(variant.options):
            raise SpecError(f"--tune '{text}' sets '{key}' twice; keep one")
        space[key] = _parse_tried_values(values, text)

    return str(variant), dict(sorted(space.items()))


def _parse_tried_values(values: str, text: str) -> TriedValues:
    """The values of an option in the text of a tuning. Raises SpecError for a range that is none."""
    ends = _RANGE.fullmatch(values)
    if ends is None:
        listed_values = {write_canonical(value) for value in split(values, "|") if value}
        return tuple(sorted(listed_values))

    try:
        low, high = map(float, ends.groups())
    except ValueError:
        low = high = math.nan

    if not 0 < low < high < math.inf:
        raise SpecError(
            f"--tune '{text}': {values} is not a range of positive numbers; write for example 1e-5..5e-5"
        )
    return Range(low, high)


def _count_configurations(space: Space) -> int:
    """The number of configurations; a range counts as practically infinitely many."""
    count = 1
    for values in space.values():
        count *= sys.maxsize if isinstance(values, Range) else len(values)
    return count


def _format_space(space: Space) -> str:
    """The options and their values as typed."""
    parts = []
    for key, values in space.items():
        text = str(values) if isinstance(values, Range) else "|".join(values)
        parts.append(f"{key}={text}")
    return ",".join(parts)


def _draw_variants(
    base: str, space: Space, trials: int, first: Iterable[Sequence[str]] = ()
) -> list[str]:
    """Different configurations as variants: those of the values `first`, then others as they are
    drawn.
    """
    variant = Variant.parse(base)
    text = f"{base}:{_format_space(space)}"
    variants: dict[str, None] = {}
    for values in chain(first, _draw_configurations(space, make_generator(tune=text))):
        options = dict(variant.options)
        options.update(zip(space, values, strict=True))
        variants[str(Variant.make(variant.name, options, variant.reading))] = None
        if len(variants) == trials:
            return list(variants)

    raise UserError(f"--tune '{text}' has too narrow a range for {trials} trials; widen it")


def _draw_configurations(space: Space, numbers: np.random.Generator) -> Iterator[tuple[str, ...]]:
    """Configurations in random order: all of a grid, once each, or draws from ranges."""
    grid = [values for values in space.values() if not isinstance(values, Range)]
    if len(grid) == len(space):
        sizes = [len(values) for values in grid]
        for number in numbers.permutation(_count_configurations(space)).tolist():
            places = np.unravel_index(number, sizes)
            yield tuple(values[place] for values, place in zip(grid, places, strict=True))
        return

    places_by_option = [_spread_places(numbers) for _ in space]
    for _ in range(_MOST_DRAWS):
        option_places = [next(of_option) for of_option in places_by_option]
        yield tuple(map(_find_value, space.values(), option_places))


def _spread_places(numbers: np.random.Generator) -> Iterator[float]:
    """Random numbers from 0 to below 1, of which the first 2^k lie in 2^k equal parts, one in each."""
    places = [numbers.random()]
    yield from places
    while True:
        parts = 2 * len(places)
        full_parts = {int(place * parts) for place in places}
        free_parts = [part for part in range(parts) if part not in full_parts]
        for part in numbers.permutation(free_parts):
            places.append((part + numbers.random()) / parts)
            yield places[-1]


def _find_value(values: TriedValues, place: float) -> str:
    """The value of an option at a place from 0 to below 1 of its list or range."""
    if isinstance(values, Range):
        return values.find_value(place)
    return values[int(place * len(values))]


def _add_trial(method: TunedMethod, sampler: str, scores: Mapping[str, float]) -> TunedMethod:
    """A method with one more trial: what the sampler proposes that was not tried, or the next of
    the draw.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    base, space = _parse_tuned_method(method.typed)
    seed = derive_seed(tune=method.typed, sampler=sampler, trial=len(method.trials)) % 2**32
    # their seed and the trials so far determine these fully, so that a new one can go on in each
    # round
    make_sampler = {"tpe": optuna.samplers.TPESampler, "gp": optuna.samplers.GPSampler}[sampler]
    study = optuna.create_study(
        direction="maximize", sampler=make_sampler(seed=seed, n_startup_trials=FIRST_TRIALS)
    )
    distributions = {key: _make_distribution(key, values) for key, values in space.items()}

    tried_values = []
    for trial in method.trials:
        options = dict(Variant.parse(trial).options)
        parameters: dict[str, object] = {key: options[key] for key in space}
        tried_values.append([options[key] for key in space])
        for key, values in space.items():
            if isinstance(values, Range):
                parameters[key] = float(options[key])
        study.add_trial(
            optuna.create_trial(params=parameters, distributions=distributions, value=scores[trial])
        )

    first_values = chain(tried_values, _propose_values(study, distributions))
    trials = _draw_variants(base, space, len(method.trials) + 1, first_values)
    return method.model_copy(update={"trials": tuple(trials)})


def _make_distribution(key: str, values: TriedValues) -> BaseDistribution:
    """What a sampler of Optuna draws an option's values from."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if isinstance(values, Range):
        return FloatDistribution(float(f"{values.low:.3g}"), float(f"{values.high:.3g}"), log=True)
    # as the options of trials hold them
    variants = [Variant.make("", {key: value}) for value in values]
    return CategoricalDistribution([dict(variant.options)[key] for variant in variants])


def _propose_values(
    study: Study, distributions: dict[str, BaseDistribution]
) -> Iterator[list[str]]:
    """The values of configurations that a sampler proposes, numbers to three digits."""
    for _ in range(_MOST_PROPOSALS):
        proposal = study.ask(distributions).params
        values = [proposal[key] for key in distributions]
        yield [f"{value:.3g}" if isinstance(value, float) else value for value in values]
