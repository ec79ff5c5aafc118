"""Controls: rows that lack an ingredient of a row's training, and whether one of them explains its
score.

Which rows are controls follows from what runs record (variant, setting, encoder, teachers) and from
what methods declare, never from scores:

- the untrained encoder, at each pooling;
- each text teacher alone: the model whose features of captions the row learns from, evaluated as an
  encoder; of one that was fitted, such as `lit`, its own vectors, not those that it was fitted on;
- unmatched images: the variant with their features shuffled, drawn at random, replaced by noise, or
  permuted: these last stay the same for all captions of an image, so that what they still gain is
  paraphrase, not sight;
- unmatched objects, of a method whose phrases read regions: those of other phrases of the picture, or
  of other pictures;
- images through the same image network with untrained weights, of which the profile names the
  features: what the row gains beyond it comes from what the network was trained on;
- text alone, on the same rows and steps: SimCSE in the same setting, and the variant with its
  method's `text_only`;
- text alone with other values of the training, where a row has been run with them, such as SimCSE
  as tuned;
- twice as much text in place of the images: SimCSE in the same setting with twice the steps or
  epochs.

A control is not beaten if it has an equal or better mean, or if the row is not significantly better
than it. A row has to beat each of its controls (an intersection-union test), so these tests need no
correction. A comparison is confounded by a control of the better row that is not beaten and that the
other row does not share.

A row without some loss terms is a control too, which cannot show anything if these carry no part of
the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache, partial
from itertools import groupby
from typing import NamedTuple

from harness.command_line import list_of_seeds, parse_overrides
from harness.commands import UNTRAINED_VARIANTS, Commands
from harness.errors import UserError
from harness.evaluation.declared import describe_suite
from harness.formatting import fixed, p_value
from harness.method.declared import DeclaredMethod, get_declared_method
from harness.method.naming import name_of
from harness.metrics import Column, Metric, Significance
from harness.profiles import Profile, Training, load_profile, shipped_profiles
from harness.reporting.seeds.cells import (
    Cell,
    Label,
    Row,
    compare_rows,
    is_ahead,
    list_training_differences,
    measure_difference,
)
from harness.reporting.seeds.evaluated import is_unevaluated
from harness.spec import (
    BASELINE,
    CONTROLS,
    MEDIA,
    RUN,
    UNTRAINED,
    UNTRAINED_IMAGES,
    RunSpec,
    SpecError,
    Variant,
    split,
)
from harness.store import TeacherUse

#: the method that is trained on the text of a stream alone
TEXT_ONLY = {"sentences": BASELINE, "triplets": f"{BASELINE}-sup"}
UNTRAINED_ENCODER = "the untrained encoder"
TEACHER_ALONE = "the text teacher alone"
TEXT_OTHERWISE = "text alone, trained with other values"
UNMATCHED = "training on unmatched images"
UNMATCHED_OBJECTS = "training on phrases with other objects"
UNTRAINED_NETWORK = "training on images through an untrained network"
SAME_TEXT = "training on the same text alone"
TWICE_THE_TEXT = "training on twice as much text"
#: a loss term with a smaller share of the gradient in every batch cannot explain a difference
LEAST_SHARE = 0.01


class Control(NamedTuple):
    """What a control is, and the label of its runs; `seed` is that of the one run that is the
    teacher.

    One that is not `needed` counts if it was run, and is not missed otherwise.
    """

    what: str
    label: Label
    seed: int | None = None
    needed: bool = True


class Rival(NamedTuple):
    """A control with scores: its row and cell, and the cell of the row that it is a control of,
    tested against it.
    """

    control: Control
    row: Row
    cell: Cell
    tested: Cell
    confounds: bool

    @property
    def difference(self) -> float:
        """The row's score less the control's, in the metric's unit, as it is tested: of the same
        seeds in a paired test.
        """
        return measure_difference(self.tested, self.cell)


class TableRows(dict[Label, Row]):
    """The rows of a table by label, among which controls are looked for; it is not changed."""

    @cached_property
    def text_trainings(self) -> Mapping[Label, Sequence[Label]]:
        """The labels of rows that are trained on text alone, with any values of the training, by
        their place: the label without variant and overrides.
        """
        labels_by_place: dict[Label, list[Label]] = {}
        for label in self:
            options = {name for name, _ in label.parsed.options} if label.parsed else set()
            if label.method in TEXT_ONLY.values() and options <= Training.model_fields.keys():
                labels_by_place.setdefault(_name_place(label), []).append(label)
        return labels_by_place

    @cached_property
    def test_controls(self) -> Callable[[Row, Column, Metric], Sequence[Rival]]:
        """`_test_controls` among these rows. Its answers are kept, since it is asked for a row at
        each comparison.
        """
        return lru_cache(maxsize=1000)(partial(_test_controls, self))

    @cached_property
    def list_text_methods(self) -> Callable[[str], Sequence[str]]:
        """`_list_text_methods`. Its answers are kept as long as these rows, since it is asked for a
        method many times.
        """
        return cache(_list_text_methods)


def _name_place(label: Label) -> Label:
    return label._replace(variant="", overrides="")


def list_controls(row: Row) -> tuple[Control, ...]:
    """The controls of a row, whether they were run or not; an untrained encoder has none."""
    if not row.is_trained or row.label.parsed is None:
        return ()

    length = ""
    for name in ("steps", "epochs"):
        if row.training.get(name, "").isdecimal():
            length = name
            break
    return _list_controls_of_label(
        row.label, tuple(row.teachers), length, row.training.get(length, "")
    )


@lru_cache(maxsize=10_000)  # a report asks for those of a row once for each comparison
def _list_controls_of_label(
    label: Label, teachers: tuple[tuple[str, str], ...], length: str, number: str
) -> tuple[Control, ...]:
    """The controls of a trained row of a label, whose training is as long as `length`, such as
    steps, says.
    """
    return (
        *_list_untrained_controls(label),
        *_list_teacher_controls(label, teachers),
        *_list_method_controls(label, teachers, length, number),
    )


def _list_untrained_controls(label: Label) -> Iterator[Control]:
    for variant in (*UNTRAINED_VARIANTS, "none[pooling=avg-first-last]"):
        untrained = label._replace(variant=variant, setting=UNTRAINED, overrides="")
        yield Control(UNTRAINED_ENCODER, untrained, needed=variant in UNTRAINED_VARIANTS)


def _list_teacher_controls(label: Label, teachers: Iterable[tuple[str, str]]) -> Iterator[Control]:
    """The text teachers alone."""
    profile = _load_own_profile(label.profile)
    names = [name for describes, name in teachers if describes not in ("image", "region")]
    for name in dict.fromkeys(names):
        with suppress(SpecError):  # a record may name anything
            yield from _list_lone_teachers(label, profile, name)


def _list_method_controls(
    label: Label, teachers: Iterable[tuple[str, str]], length: str, number: str
) -> Iterator[Control]:
    """The controls that follow from what a method says of itself."""
    assert label.parsed
    try:
        declared = get_declared_method(label.parsed.name)
    except UserError:  # a method that is not installed
        return

    image_teachers = {name for describes, name in teachers if describes == "image"}
    if image_teachers and not image_teachers & {*CONTROLS}:
        for option in declared.teacher_options:
            if option.startswith("image"):
                yield from _list_image_controls(label, image_teachers, option)

    object_teachers = {name for describes, name in teachers if describes == "region"}
    if object_teachers and not object_teachers & {*CONTROLS}:
        for option in declared.teacher_options:
            if option.startswith("object"):
                yield from _list_object_controls(label, option)

    if {"pairs", *MEDIA} & {*declared.streams}:
        yield from _list_text_controls(label, declared, length, number)


def _list_image_controls(label: Label, teachers: set[str], option: str) -> Iterator[Control]:
    """A method with images that do not match, or that an untrained network has seen."""
    assert label.parsed
    profile = _load_own_profile(label.profile)
    # only the profile's own image teacher can be shuffled or replaced by an untrained network
    is_own = profile is not None and teachers == {profile.images}
    for value in CONTROLS:
        control = label._replace(variant=_replace_options(label.parsed, {option: value}))
        if value == UNTRAINED_IMAGES:
            is_at_hand = profile is not None and profile.untrained_images is not None
            yield Control(UNTRAINED_NETWORK, control, needed=is_own and is_at_hand)
            continue

        # with one caption an image, to shuffle is to permute
        has_several_captions = "captions=all" in label.setting
        is_telling = value == "shuffled" or (value == "permuted" and has_several_captions)
        yield Control(UNMATCHED, control, needed=is_telling and is_own)


def _list_object_controls(label: Label, option: str) -> Iterator[Control]:
    """A method whose phrases have other objects of their picture, or those of other pictures."""
    assert label.parsed
    for value in ("shuffled", "permuted"):
        control = label._replace(variant=_replace_options(label.parsed, {option: value}))
        yield Control(UNMATCHED_OBJECTS, control, needed=False)


def _list_text_controls(
    label: Label, declared: DeclaredMethod, length: str, number: str
) -> Iterator[Control]:
    """The same text alone, and twice as much of it."""
    assert label.parsed
    methods = [TEXT_ONLY[stream] for stream in declared.streams if stream in TEXT_ONLY]
    variants = list(methods)
    if declared.text_only:
        variants.append(_replace_options(label.parsed, declared.text_only))
    for variant in variants:
        yield Control(SAME_TEXT, label._replace(variant=variant))

    if not length:
        return
    for method in methods:
        longer = label._replace(variant=f"{method}[{length}={2 * int(number)}]")
        yield Control(TWICE_THE_TEXT, longer, needed=False)


def _list_lone_teachers(row: Label, profile: Profile | None, teacher: str) -> Iterator[Control]:
    """The run of a text teacher of a row's profile: of another run, of an encoder, or of a teacher
    whose vectors are evaluated in an encoder's place, such as those that were fitted.
    """
    if teacher.startswith(RUN):
        spec = RunSpec.parse(teacher.removeprefix(RUN))
        label = Label(row.profile, str(spec.variant), str(spec.setting), spec.encoder, "")
        seed = None if label.setting == UNTRAINED else spec.seed
        yield Control(TEACHER_ALONE, label, seed, needed=seed is None)
        return

    profile_section = profile.teachers.get(teacher) if profile else None
    if profile is None or profile_section is None:
        return

    if profile_section.kind == "text" and profile_section.hub:
        encoder = profile_section.hub
        for name, model in profile.encoders.items():
            if model.hub == profile_section.hub:
                encoder = name
                break
        variant = f"{UNTRAINED}[pooling={profile_section.pooling}]"
        yield Control(TEACHER_ALONE, Label(row.profile, variant, UNTRAINED, encoder, ""))
    else:
        variant = str(Variant.make(UNTRAINED, {"teacher": teacher, "pooling": "mean"}))
        label = row._replace(variant=variant, setting=UNTRAINED, overrides="")
        yield Control(TEACHER_ALONE, label)


def describe_teacher_fit(profile: str, use: TeacherUse) -> str:
    """What a teacher was fitted on, from the record of a run or, for an older one, from its
    profile.
    """
    if use.fitted_on:
        return use.fitted_on

    own_profile = _load_own_profile(profile)
    profile_section = own_profile.teachers.get(use.teacher) if own_profile else None
    if profile_section and profile_section.kind == "lit":
        return profile_section.origin
    return ""


def _load_own_profile(name: str) -> Profile | None:
    """A profile of this package; a user's own one is a file of unknown place."""
    return load_profile(name) if name in shipped_profiles() else None


def _replace_options(variant: Variant, values: Mapping[str, object]) -> str:
    """A variant with other values of some options."""
    options = {**dict(variant.options), **values}
    return str(Variant.make(variant.name, options, variant.reading))


def find_rivals(
    row: Row,
    rows: TableRows,
    column: Column,
    metric: Metric,
    shared: Collection[Control] = (),
) -> list[Rival]:
    """The controls of a row among `rows`, without `shared` ones: those that confound it first, the
    best mean first.
    """
    rivals_by_run = dict[tuple[Label, int | None], Rival]()
    for rival in rows.test_controls(row, column, metric):
        control = rival.control
        if control in shared:
            continue

        # one run may be a control for several reasons
        run = (control.label, control.seed)
        earlier = rivals_by_run.get(run)
        if earlier:
            description = f"{earlier.control.what}, also {control.what}"
            rival = rival._replace(control=control._replace(what=description))
        rivals_by_run[run] = rival

    sign = 1 if metric.larger_is_better else -1
    return sorted(
        rivals_by_run.values(),
        key=lambda rival: (not rival.confounds, -sign * rival.cell.summary.mean),
    )


def _test_controls(rows: TableRows, row: Row, column: Column, metric: Metric) -> Sequence[Rival]:
    """A row tested against each of its controls among `rows` that has a score."""
    rivals = []
    for control in (*list_controls(row), *_find_otherwise_trained(row, rows)):
        control_row = rows.get(control.label)
        if control_row is None or control_row.label == row.label:
            continue
        rival = _test_control(row, control, control_row, column, metric)
        if rival is not None:
            rivals.append(rival)
    return rivals


def _test_control(
    row: Row, control: Control, other: Row, column: Column, metric: Metric
) -> Rival | None:
    """A row tested against a control with its own row; None where that has no score."""
    cell = other.cells.get(column)
    if cell is None or control.seed not in (None, *cell.seeds):
        return None
    if control.seed is not None:
        cell = cell.of_seed(control.seed)

    tested = compare_rows(row, other, column, metric, seed=control.seed)
    if tested.test:
        is_beaten = tested.verdict is Significance.BETTER
    else:
        is_beaten = is_ahead(tested.summary.mean, cell.summary.mean, metric)
    return Rival(control, other, cell, tested, not is_beaten)


def _find_otherwise_trained(row: Row, rows: TableRows) -> Iterator[Control]:
    """The same text alone with other values of the training, of a row that learns from more than
    text, such as SimCSE with values that a tuning has chosen.

    A row that such a training explains is no better for what it reads besides.
    """
    variant = row.label.parsed
    text_trainings = rows.text_trainings.get(_name_place(row.label))
    if text_trainings is None or variant is None or not row.is_trained:
        return

    text_methods = rows.list_text_methods(variant.name)
    control_labels = {control.label for control in list_controls(row)}
    for label in text_trainings:
        if label.method in text_methods and label not in control_labels:
            yield Control(TEXT_OTHERWISE, label, needed=False)


def _list_text_methods(method: str) -> Sequence[str]:
    """The methods that are trained on the text of a method's streams alone; none for a method that
    learns from text alone itself.
    """
    try:
        streams = get_declared_method(method).streams
    except UserError:  # a method that is not installed
        return []
    if not {"pairs", *MEDIA} & {*streams} or method in TEXT_ONLY.values():
        return []
    return [TEXT_ONLY[stream] for stream in streams if stream in TEXT_ONLY]


def describe_rival(rival: Rival, row: Row, metric: Metric) -> str:
    """`the text teacher alone (untrained, mean) scores 78.87, 1.67 above DALR (p < 0.0001)`."""
    mean = fixed(rival.cell.summary.mean, metric.digits)
    size = fixed(abs(rival.difference), metric.digits)
    side = "below" if rival.difference > 0 else "above"
    test = rival.tested.test
    seeds = " on the same seeds" if test and test.design == "paired" else ""

    remarks = [p_value(test.p) if test else "too few seeds to test"]
    apart = list_training_differences(row.training, rival.row.training)
    if apart:
        remarks.append(f"trained with {apart}")
    short = describe_short_budget(rival.row, row)
    if short:
        remarks.append(short)

    control = f"{rival.control.what} ({rival.row.label.name}) scores {mean}"
    return f"{control}, {size} {side} {row.label.name}{seeds} ({', '.join(remarks)})"


def describe_short_budget(control: Row, row: Row) -> str:
    """`not trained to its budget: scored at step 50 of 600, MCSE at 150 of 300`; empty for others.

    A control is to be trained as far as the row, or further where its budget is larger: its weights
    are those of an earlier step than the same share of its budget.
    """
    steps = control.spent.budget.get("steps")
    row_steps = row.spent.budget.get("steps")
    if not steps or not row_steps:
        return ""

    kept_steps = control.spent.count_scored("steps")
    row_kept = row.spent.count_scored("steps")
    if kept_steps / steps >= row_kept / row_steps:
        return ""
    return (
        f"not trained to its budget: scored at step {kept_steps:,.0f} of {steps:,.0f}, {row.label.name} at "
        f"{row_kept:,.0f} of {row_steps:,.0f}"
    )


def describe_controls(controls: Sequence[Rival], row: Row, metric: Metric) -> str:
    """Name the strongest of a row's controls in a sentence; empty without one.

    That a control is not beaten is a fact of the row alone. A comparison is confounded by those
    that the other row does not share.
    """
    if not controls:
        return ""
    description = describe_rival(controls[0], row, metric)
    if controls[0].confounds:
        return f" A control is not beaten: {description}."
    return f" The strongest control: {description}."


def list_missing_controls(
    row: Row, rows: Mapping[Label, Row], column: Column, commands: Commands
) -> Iterator[tuple[str, str]]:
    """Each kind of needed controls without a score in a column, and the command that adds them.

    A control that the suite cannot score is not missing.
    """
    suites = commands.select_suites(row.label.profile, [row.suite])
    missing = []
    for control in list_controls(row):
        control_row = rows.get(control.label)
        has_score = control_row is not None and column in control_row.cells
        if control.needed and not has_score and _can_be_added(control, row):
            missing.append(control)

    for (kind, place), controls in groupby(missing, _name_kind_and_place):
        variants = list(dict.fromkeys(control.label.variant for control in controls))
        try:
            values = parse_overrides(split(place.overrides)) if place.overrides else {}
        except UserError:  # values that no command can name
            continue

        command = commands.run(
            profile=place.profile,
            methods=variants,
            settings=place.setting,
            encoders=place.encoder,
            seeds=None if place.setting == UNTRAINED else list_of_seeds(row.seeds),
            suites=suites,
            set=values,
        )
        names = "; ".join(str(name_of(variant)) for variant in variants)
        yield f"{kind} ({names})", command


def _name_kind_and_place(control: Control) -> tuple[str, Label]:
    """What the controls that one command runs have in common."""
    return control.what, control.label._replace(variant="")


def _can_be_added(control: Control, row: Row) -> bool:
    """Whether runs of a control that have not been evaluated would have a score in a row's suite."""
    has_images = control.what in (UNMATCHED, UNMATCHED_OBJECTS)
    if describe_suite(row.suite).needs_images and not has_images:
        return False
    seeds = (0,) if control.label.setting == UNTRAINED else row.seeds
    return row.frames is None or is_unevaluated(row.frames, control.label, row.suite, seeds)


def describe_powerless(row: Row, other: Row) -> str:
    """`cannot show anything: cons carries 0.1 % of the gradient`, of two rows one of which lacks
    only such terms.
    """
    removed = find_removed_terms(row, other) or find_removed_terms(other, row)
    if not removed or max(removed.values()) >= LEAST_SHARE:
        return ""
    return describe_shares(removed)


def describe_shares(shares: Mapping[str, float]) -> str:
    """`cannot show anything: cons carries 0.1 % of the gradient`."""
    carried = [f"{term} carries {100 * share:.1g} %" for term, share in shares.items()]
    return f"cannot show anything: {' and '.join(carried)} of the gradient"


def find_removed_terms(full: Row, other: Row) -> dict[str, float]:
    """The largest shares of the terms that another row lacks, if it differs in `without` and
    weights of 0 alone.
    """
    variant = full.label.parsed
    ablation = other.label.parsed
    is_same_place = full.label._replace(variant=other.label.variant) == other.label
    if variant is None or ablation is None or not is_same_place:
        return {}
    if not _has_terms_removed_only(variant, ablation):
        return {}

    named = find_lacking_terms(variant, ablation)
    shares_left = other.spent.shares
    removed = {}
    for term, share in full.spent.shares.items():
        # a weight of 0 removes a term as well: it then has no share of the ablation's gradient
        has_no_weight = bool(shares_left) and not shares_left.get(term)
        if term in named or has_no_weight:
            removed[term] = share
    return removed


def find_lacking_terms(full: Variant, ablation: Variant) -> list[str]:
    """The terms that a variant is `without`, if nothing else but weights of 0 sets it apart from
    the full one; empty for any other two.
    """
    if not _has_terms_removed_only(full, ablation):
        return []
    named = dict(ablation.options).get("without", "")
    return named.split("+") if named else []


def _has_terms_removed_only(full: Variant, ablation: Variant) -> bool:
    """Whether a variant differs from a whole one in `without` and in weights of 0 alone."""
    if (full.name, full.reading) != (ablation.name, ablation.reading):
        return False

    full_options = dict(full.options)
    options = dict(ablation.options)
    if "without" in full_options or not full_options.keys() <= options.keys():
        return False
    changed = {name: value for name, value in options.items() if full_options.get(name) != value}
    return all(name == "without" or value == "0" for name, value in changed.items())
