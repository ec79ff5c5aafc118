"""Claims of the papers as runs: their names, sides and seeds, and parts of tables."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from builders import over_seeds, result, tables
from cli_words import Typed

from harness.command_line import Selection
from harness.commands import Commands
from harness.errors import UserError
from harness.fetching import format_size
from harness.metrics import ClaimVerdict
from harness.papers.claims import PlannedClaim, find_claims, list_claim_names
from harness.papers.needed import Narrowing
from harness.planning.request import Request, make_request
from harness.profiles import load_profile
from harness.reporting.seeds.claims import describe_weak_terms, judge_planned_claim
from harness.stats import power_of_verdict
from harness.store import Store, frames_of
from harness.store.schema import GradientPoint
from harness.toy import student_folder

PAPER = load_profile("paper")
REFERENCE = Path(__file__).parents[2] / "results" / "reference"
BERT = Narrowing(encoders=["bert-base"])


def claims(name: str, part: Narrowing = BERT) -> list[PlannedClaim]:
    return find_claims(PAPER, [name], part, None)


def counts(request: Request) -> dict[str, int]:
    """The runs of each variant, setting and encoder."""
    return dict(Counter(str(spec).rpartition("/")[0] for spec in request.suites_by_run))


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in list_claim_names()))
def test_every_claim_has_the_seeds_that_show_what_is_printed(name: str) -> None:
    for claim in claims(name, Narrowing()):
        assert len(claim.seeds) >= 3, "fewer have no verdict"
        assert len({side.place for side in claim.sides}) == (4 if claim.is_interaction else 2)
        if claim.gain is None or claim.gain.stds is None:
            assert claim.needed is None
            continue
        # of the four sides of an interaction, the deviations of each gain count as a side's
        chances = [
            power_of_verdict(claim.gain.size, claim.gain.stds, number, None, alpha=claim.alpha)
            for number in (len(claim.seeds), max(1, len(claim.seeds) - 1))
        ]
        if claim.needed is not None and claim.needed <= 20:
            assert chances[0] >= 0.8
            assert chances[1] < 0.8 or len(claim.seeds) == 3
        else:
            assert len(claim.seeds) == max(3, claim.usual_seeds), "as the paper has"
            assert "more with 80 % power, and so not what is printed" in claim.describe()


def test_a_claim_runs_both_of_its_sides_and_nothing_else() -> None:
    request = make_request(Selection(claim="kdmcse:t1:AVG", encoders="bert-base"))
    places = [claim.where for claim in request.claims]
    seeds = {claim.where: len(claim.seeds) for claim in request.claims}
    assert places == ["wiki+flickr / bert-base-uncased", "wiki+coco / bert-base-uncased"]
    wanted = {}
    for setting in ("wiki+flickr", "wiki+coco"):
        for method in ("kdmcse", "mcse"):
            number = seeds[f"{setting} / bert-base-uncased"]
            wanted[f"{method}/{setting}/bert-base-uncased"] = number
    assert counts(request) == wanted
    assert set(map(tuple, request.suites_by_run.values())) == {("sts",)}


def test_a_row_a_setting_and_seeds_narrow_a_claim() -> None:
    named = {"claim": "dalr:T3:avg", "rows": "dalr[without=rank]", "seeds": 4}
    narrowed = counts(make_request(Selection(**named)))
    place = "wiki+flickr/bert-base-uncased"
    assert narrowed == {f"dalr/{place}": 4, f"dalr[without=rank]/{place}": 4}
    named = {"claim": "mcse:T2:bert-over-roberta", "settings": "flickr", "seeds": 3}
    corners = counts(make_request(Selection(**named)))
    assert set(corners) == {
        f"{method}/flickr/{encoder}"
        for method in ("mcse", "simcse")
        for encoder in ("bert-base-uncased", "roberta-base")
    }


def test_claims_tested_together_need_more_seeds_than_one() -> None:
    (alone,) = claims("dalr:T3:avg", Narrowing(rows=["dalr[without=info]"]))
    (among_eight,) = (
        claim for claim in claims("dalr:T3:avg") if claim.claim.worse == "dalr[without=info]"
    )
    assert alone.alpha == pytest.approx(8 * among_eight.alpha)
    assert len(alone.seeds) < len(among_eight.seeds)


def test_a_row_of_a_table_brings_the_other_side_of_its_claims() -> None:
    selection = Selection(table="kdmcse:T1", rows="mcse", settings="wiki+coco", encoders="roberta")
    place = "wiki+coco/roberta-base"
    assert counts(make_request(selection)) == {f"kdmcse/{place}": 5, f"mcse/{place}": 5}
    quoted = Selection(table="kdmcse:T1", rows="simcse", encoders="bert-base")
    assert {name.partition("/")[0] for name in counts(make_request(quoted))} == {"simcse"}
    toy = Selection("tiny", table="dalr:T3", rows="dalr[without=rank]", settings="toy")
    assert set(counts(make_request(toy))) == {
        "dalr/toy/toy-bert",
        "dalr[without=rank]/toy/toy-bert",
    }


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"claim": "dalr:T2:avg"}, "no such claim; did you mean dalr:"),
        ({"claim": "dalr:T3:STS12"}, "dalr:T3 has no such column or claim; did you mean STS Avg?"),
        ({"claim": "kdmcse:T1:avg", "rows": "dalr"}, "--rows dalr: kdmcse:T1:avg has no such name"),
        ({"table": "mcse:T1", "encoders": "gpt"}, "--encoders gpt: mcse:T1 has no such name"),
        (
            {"claim": "mcse:T2:bert-over-roberta", "encoders": "bert-base"},
            "leave no claim with all of its sides",
        ),
        (
            {"table": "mcse:T1", "rows": "mcse", "settings": "wiki"},
            "mcse:T1: no run has these --rows, --settings and --encoders at once",
        ),
        (
            {"claim": "mcse:T1:avg", "table": "mcse:T1"},
            "--claim selects its own runs; remove --table",
        ),
        ({"rows": "mcse"}, "--rows works only with --table, --figure, --paper or --claim"),
        (
            {"profile": "tiny", "claim": "mcse:T2:bert-over-roberta"},
            "the profile tiny has no stand-ins for mcse:T2:bert-over-roberta",
        ),
    ],
)
def test_wrong_names_are_refused(named: dict[str, str], message: str) -> None:
    with pytest.raises(UserError) as error:
        make_request(Selection(**named))
    assert message in str(error.value)


@pytest.mark.parametrize("name", ["mcse:T1", "kdmcse:T1", "dalr:T1", "nonling:T3"])
def test_a_claim_of_each_paper_is_planned_with_what_it_costs(typed: Typed, name: str) -> None:
    printed = typed("run", "--claim", f"{name}:avg", "--encoders", "bert-base", "--dry-run")[1]
    assert "  claim     " in printed
    assert " with 80 % power" in printed
    assert " on one H200" in printed
    assert "`harness fetch --claim " in printed
    assert "of models that stay" in printed


def test_the_disk_is_said_where_runs_of_the_profile_are_finished_too(typed: Typed) -> None:
    words = ("run", "--profile", "tiny", "--claim", "mcse:T1:avg", "--dry-run")
    assert "  disk      none to bring, " in typed(*words)[1]
    Store(Path("results")).save(result("mcse", train_seconds=60.0))
    printed = typed(*words)[1]
    assert "; from finished runs of this profile" in printed
    runs = int(re.findall(r"profile tiny: (\d+) runs", printed)[0])
    weights = sum(file.stat().st_size for file in student_folder().glob("*.safetensors"))
    assert (
        f"  disk      none to bring, {format_size(runs * weights)} of models that stay" in printed
    )


def toy_claim(row: str) -> PlannedClaim:
    (claim,) = find_claims(load_profile("tiny"), ["dalr:T3:avg"], Narrowing(rows=[row]), None)
    return claim


def test_a_term_that_carried_no_gradient_is_known_beforehand() -> None:
    shares = {"info": 0.5, "rank": 0.496, "cons": 0.004}
    point = GradientPoint(step=50, shares=shares, cosines=dict.fromkeys(shares, 0.5))
    # of another encoder: the method's terms are the same
    frames = frames_of([result("dalr", encoder="other", gradients={"pairs": [point]})])
    tiny = load_profile("tiny")
    said = describe_weak_terms(toy_claim("dalr[without=cons]"), frames, tiny)
    assert said == "cannot show anything: cons carries 0.4 % of the gradient"
    assert describe_weak_terms(toy_claim("dalr[without=rank]"), frames, tiny) == ""
    assert describe_weak_terms(toy_claim("dalr[without=info]"), frames_of([]), tiny) == ""


def test_a_difference_of_differences_has_a_verdict_of_its_own() -> None:
    (claim,) = find_claims(
        PAPER, ["mcse:T2:bert-over-roberta"], Narrowing(settings=["flickr"]), None
    )
    better = {"bert-base-uncased": 76.0, "roberta-base": 71.0}
    runs = []
    for encoder, value in better.items():
        place = {"profile": "paper", "setting": "flickr", "encoder": encoder}
        runs += over_seeds("mcse", [value, value + 0.2, value + 0.1, value + 0.3], **place)
        runs += over_seeds("simcse", [70.0, 70.3, 70.1, 70.2], **place)

    answer = judge_planned_claim(claim, tables(runs), PAPER, "", Commands(Path("results")))
    assert answer.verdict is ClaimVerdict.HOLDS
    start = "the gain is +5.00 larger with bert-base-uncased than with roberta-base"
    assert answer.words.startswith(start)
    only_bert = tables(runs[:8])
    answer = judge_planned_claim(claim, only_bert, PAPER, "", Commands(Path("results")))
    assert answer == (None, "not all of its four sides have scores")


def test_one_command_ends_with_the_verdict(typed: Typed, tmp_path: Path) -> None:
    """Both sides are shipped as reference runs, so that nothing has to be trained here."""
    for method in ("mcse", "simcse"):
        place = Path("tiny", method, "toy")
        shutil.copytree(REFERENCE / place, tmp_path / "results" / place)
    words = ("--claim", "mcse:T1:avg", "--profile", "tiny", "--seeds", "3")
    code, printed, _ = typed("run", *words)
    assert code == 0
    assert "profile tiny: 6 runs, 6 done, 0 to do" in printed
    *_, verdict, sentence = printed.splitlines()
    assert verdict == "pictures help, toy / toy-bert: holds"
    assert sentence.startswith("  mcse is better than simcse (+")
