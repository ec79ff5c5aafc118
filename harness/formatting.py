"""Numbers become text here and nowhere else, so that every message, page and file rounds alike."""

from __future__ import annotations


def fixed(value: float, digits: int) -> str:
    """The one rounding rule: to the nearest decimal of the unrounded value; zero has no sign."""
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def signed(value: float, digits: int) -> str:
    """As `fixed`, with a plus sign for what is above zero."""
    text = fixed(value, digits)
    return f"+{text}" if float(text) > 0 else text


def p_value(p: float) -> str:
    """`p = 0.0235`, `p = 0.42` or `p < 0.0001`."""
    if p < 0.0001:
        return "p < 0.0001"
    return f"p = {fixed(p, 2 if p >= 0.1 else 4)}"


def count_of(number: int, thing: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number} {thing}" + ("" if number == 1 else "s")


def points(number: float) -> str:
    """`1 point`, `0.5 points`."""
    return f"{number:g} point" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """A readable wall time: `12.1 s`, `3 min 20 s`, `5 h 02 min`."""
    if seconds < 60:
        return f"{fixed(seconds, 1)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min"
