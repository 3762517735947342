"""Amounts of money: parsed from text, formatted for people, and passed as integers of the token's smallest unit."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from decimal import Context, Decimal
from typing import Any

from zoo_compute.errors import UserError

DECIMALS = 18
WEI = 10**DECIMALS
MAX_DECIMALS = 36  # the most a token may have: one whole token still fits in 128 bits
MAX_UNITS = 2**128 - 1  # of any amount in the protocol
_WHOLE = re.compile(r"^(?:\d{1,60}(?:_\d{1,60})*)(?:\.\d{1,60})?(?:[eE]\+?\d{1,3})?$|^\.\d{1,60}$", re.ASCII)
_SMALLEST = re.compile(r"^(\d{1,60})\s*(?:wei|units?)$", re.ASCII)
_EXACT = Context(prec=200)


@dataclass(frozen=True)
class Token:
    """A token that amounts are counted in. ZEN is built in; others are read from the chain (zoo_compute/chain/tokens.py).

    decimals: one whole token is 10**decimals of the smallest unit. address: empty when the token was not read from a chain.
    rate: 10**-18 dollars for a whole token, of credits while their posted rate is fresh; else 0.
    """

    symbol: str
    decimals: int
    address: str = ""
    rate: int = 0

    @property
    def is_worth_zen(self) -> bool:
        """Whether a whole token is worth a ZEN: ZEN itself, and credits."""
        return self.symbol in (ZEN.symbol, CREDIT.symbol)

    def parse(self, text: str | int | float | Decimal, *, what: str = "amount") -> int:
        """The smallest units in `text`: whole tokens such as `12.5` or `1_000 ZEN`; `7wei` or `7 units` are smallest units; `$20` is
        dollars, at the posted rate of credits, rounded up.

        Raises UserError. Numbers are exact: 0.1 is one tenth, not the nearest binary fraction.
        """
        raw = str(text).strip()
        if raw.startswith("$"):
            return self._of_dollars(raw, what)
        lowered = raw.lower().removesuffix(self.symbol.lower()).strip()
        if smallest := _SMALLEST.match(lowered):
            return self._within(int(smallest[1]), raw, what)
        if not _WHOLE.match(lowered):
            raise UserError(
                f"{what} should be a positive number of {self}, not {raw!r}",
                hint=f"write whole {self.symbol}, such as 250 or 12.5; add `wei` for the smallest unit",
            )
        units = Decimal(lowered.replace("_", "")).scaleb(self.decimals, _EXACT)
        if units != units.to_integral_value(context=_EXACT):
            raise UserError(
                f"{what} has more than {self.decimals} decimals: {raw!r}", hint=f"{self.symbol} has {self.decimals}"
            )
        return self._within(int(units), raw, what)

    def format(self, units: int, *, places: int = 6, symbol: bool = True) -> str:
        """`units` as whole tokens, exact up to `places` decimals (a leading `~` marks omitted digits)."""
        sign, magnitude = ("-", -units) if units < 0 else ("", units)
        whole, fraction = divmod(magnitude, 10**self.decimals)
        digits = f"{fraction:0{self.decimals}d}" if self.decimals else ""
        decimals = digits[:places].rstrip("0")
        cut = "~" if digits[places:].strip("0") else ""
        if cut and not whole and not decimals:
            smallest = "wei" if self.decimals == DECIMALS else f"smallest units of {self.symbol}"
            return f"{sign}{magnitude} {smallest}"
        named = f" {self.symbol}" if symbol and self.symbol else ""
        return (
            f"{cut}{sign}{whole:,}{'.' + decimals if decimals else ''}{named}{self._in_dollars(units) if named else ''}"
        )

    def exact(self, units: int) -> str:
        """An amount as `parse` reads it back, without loss."""
        return self.format(units, places=self.decimals, symbol=False).replace(",", "")

    def to_dict(self) -> dict[str, Any]:
        """For scripts: symbol, decimals, address; and the rate, if there is one."""
        return {key: value for key, value in asdict(self).items() if key != "rate" or value}

    def __str__(self) -> str:
        return self.symbol if self.decimals == DECIMALS else f"{self.symbol} ({self.decimals} decimals)"

    def _of_dollars(self, raw: str, what: str) -> int:
        if not self.rate:
            raise UserError(
                f"{what}: {self} has no price in dollars, or its posted rate is stale: {raw!r}",
                hint=f"write whole {self.symbol} without $; `zoo credits show` has the rate of credits",
            )
        dollars = Token("$", DECIMALS).parse(raw[1:], what=what)
        return self._within(-(-dollars * 10**self.decimals // self.rate), raw, what)

    def _in_dollars(self, units: int) -> str:
        """($1.25), where there is a rate; to the cent, and two digits of less."""
        if not self.rate:
            return ""
        dollars = Decimal(units) * self.rate / 10**self.decimals / WEI
        return f" (${dollars:,.2f})" if abs(dollars) >= Decimal("0.1") or not units else f" (${dollars:.2g})"

    def _within(self, units: int, raw: str, what: str) -> int:
        if units > MAX_UNITS:
            raise UserError(f"{what} is larger than the protocol's maximum: {raw!r}")
        return units


ZEN = Token("ZEN", DECIMALS)
CREDIT = Token("CREDIT", DECIMALS)  # burned ZEN, which pays for jobs
CREDITS = "credits"  # what the token is called in files and options


def parse_amount(text: str | int | float | Decimal, *, what: str = "amount") -> int:
    """The smallest units of ZEN, or of the chain's coin, in `text`. Raises UserError."""
    return ZEN.parse(text, what=what)


def format_amount(units: int, symbol: str = "ZEN", *, places: int = 6) -> str:
    """`units` of ZEN, or of the chain's coin, as `Token.format` writes them."""
    return Token(symbol, DECIMALS).format(units, places=places)


def format_seconds(seconds: float) -> str:
    """A duration for people: `8 s`, `2 min 5 s`, `3 h 10 min`, `2 d 4 h`."""
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
