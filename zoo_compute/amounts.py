"""Amounts of a token with 18 decimals: read from people, shown to people, passed as integers of the smallest unit."""

from __future__ import annotations

import re
from decimal import Decimal

from zoo_compute.errors import UserError

DECIMALS = 18
WEI = 10**DECIMALS
_WHOLE = re.compile(r"^(?:\d+(?:_\d+)*)(?:\.\d+)?(?:[eE]\+?\d+)?$|^\.\d+$")


def parse_amount(text: str | int | float | Decimal, *, what: str = "amount") -> int:
    """The smallest units in `text`, whole tokens such as `12.5` or `1_000 ZEN`; `7wei` is taken as it stands.

    Raises UserError. Numbers are taken as written: 0.1 is a tenth, not the nearest binary fraction.
    """
    raw = str(text).strip()
    lowered = raw.lower().removesuffix("zen").strip()
    if lowered.endswith("wei"):
        digits = lowered.removesuffix("wei").strip()
        if digits.isdigit():
            return int(digits)
        raise UserError(f"{what} should be a whole number of wei, not {raw!r}")
    if not _WHOLE.match(lowered):
        raise UserError(
            f"{what} should be a positive number of ZEN, not {raw!r}",
            hint="write whole tokens, such as 250 or 12.5; add `wei` for the smallest unit",
        )
    units = Decimal(lowered.replace("_", "")).scaleb(DECIMALS)
    if units != units.to_integral_value():
        raise UserError(f"{what} has more than {DECIMALS} decimals: {raw!r}")
    if units >= 2**128:
        raise UserError(f"{what} is larger than the protocol can hold: {raw!r}")
    return int(units)


def format_amount(units: int, symbol: str = "ZEN", *, places: int = 6) -> str:
    """`units` as whole tokens, exact up to `places` decimals (`~` in front when digits were left off)."""
    sign, magnitude = ("-", -units) if units < 0 else ("", units)
    whole, fraction = divmod(magnitude, WEI)
    digits = f"{fraction:018d}"
    shown = digits[:places].rstrip("0")
    cut = "~" if digits[places:].strip("0") else ""
    if cut and not whole and not shown:
        return f"{sign}{magnitude} wei"
    return f"{cut}{sign}{whole:,}{'.' + shown if shown else ''}{' ' + symbol if symbol else ''}"


def format_seconds(seconds: float) -> str:
    """A duration as people read it: `8 s`, `2 min 5 s`, `3 h 10 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{seconds:g} s" if seconds == int(seconds) else f"{seconds:.1f} s"
    units = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
    rest = round(seconds)
    parts: list[str] = []
    for size, name in units:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def format_count(value: float, unit: str = "") -> str:
    """A large count with an SI prefix: 1.25 M, 3.2 P."""
    for size, prefix in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:g}{' ' + unit if unit else ''}"
