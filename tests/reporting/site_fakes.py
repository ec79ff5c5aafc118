"""Material for the report's pages: hostile texts, failures and drawn figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from report_fakes import result

from harness.reporting.site.methods import MethodFacts, Value, notes_path
from harness.store import Result

EVIL = ("<script>alert(1)</script>", "../../evil", "\"'><img src=x onerror=alert(2)>", "дальше 文 🙂")
LONG = "wiki+" + "x" * 300


def hostile() -> list[Result]:
    """Results whose every text is an attack, too long, or a path out of the folder."""
    one = result(f"simcse[temperature={EVIL[0]}]", setting=EVIL[1], encoder=EVIL[2], overrides={EVIL[3]: EVIL[0]})
    one.warnings.append(" ".join(EVIL))
    one.hyperparameters["method"][EVIL[2]] = EVIL[1]
    one.hardware["processor"] = EVIL[0]
    one = one.model_copy(update={"packages": {EVIL[0]: EVIL[1]}})
    two = result("mcse[" + "without=text," * 40 + "]", setting=LONG, encoder="toy/bert", losses={EVIL[0]: [1.0, 2.0]})
    three = result("mcse", 5, profile="../<b>up</b>")
    four = result("../../../../etc/passwd", setting="..", encoder="/", profile="tiny")
    return [one, two, three, four]


def failures() -> list[dict[str, Any]]:
    """Failure records, one of them an attack."""
    spec = {"method": "mcse", "variant": EVIL[0], "setting": LONG, "encoder": "toy-bert", "seed": 7}
    texts = {"error": f"RuntimeError: {EVIL[2]}", "traceback": "Traceback\n" + EVIL[0] * 20, "when": "2026-01-02"}
    return [{"spec": spec, "profile": "tiny", "fingerprint": "f" * 64, **texts}]


def described() -> list[MethodFacts]:
    """A method with shipped notes and one with an attack in every text, without the import of torch."""
    notes = notes_path("mcse")
    assert notes is not None
    values = (
        Value("temperature", ("0.05", "0.05"), "", "appendix A"),
        Value("view_reduction", ("sum", "mean"), "sum, mean", "Eq. 3"),
    )
    readings = {"paper": "Eq. 1 to 4", "official": "the public code"}
    parts = (("sentences", "pairs"), ("text", "info"), (), readings, values, notes.read_text(encoding="utf-8"))
    attack = f"{EVIL[0]}\n\n[a](javascript:alert(3)) ![b](https://example.org/x.png) [c](../../x.md) [d](mcse.md)\n"
    evil = (Value(EVIL[0], (EVIL[2],), EVIL[1], LONG),)
    return [
        MethodFacts("mcse", "Zhang et al., MCSE, NAACL 2022", *parts),
        MethodFacts(EVIL[1], EVIL[0], (EVIL[0],), (EVIL[2],), (EVIL[3],), {EVIL[0]: EVIL[2]}, evil, attack),
    ]


@dataclass(frozen=True)
class Drawn:
    """A figure with the fields that a paper's page needs."""

    key: str
    paper: str
    name: str
    title: str
    caption: str
    svg: str
    pdf: bytes
    empty: str
    commands: Sequence[str]


def drawn() -> list[Drawn]:
    """One figure that is drawn and one that is not."""
    line = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="90"><path d="M0,0 900,90" stroke="#000"/></svg>'
    commands = ("harness run --profile paper", "harness run --profile paper --seeds 5")
    return [
        Drawn("mcse-F9", "mcse", "Figure 9", "a drawn line", "What it shows.", line, b"%PDF-1.4", "", ()),
        Drawn("mcse-F10", "mcse", "Figure 10", "nothing", "Later.", "", b"", "no run of profile paper yet", commands),
    ]
