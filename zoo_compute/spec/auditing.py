"""What Audits keeps, and whom chance makes the auditor of a unit (docs/protocol/audits.md). No state, no contract: keepers use it too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from eth_utils.crypto import keccak

from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import ClockPreset
from zoo_compute.spec.params import AUDIT_CANDIDATES, BPS, MAX_AGGREGATORS, VERDICT_WORDS

# Units below are of aggregations, by their seats; the others are slot + FIRST_SLOT_UNIT.
FIRST_SLOT_UNIT: int = MAX_AGGREGATORS
WORD_BITS = 256


class Role(IntEnum):
    """Whose turn it is to judge a unit: in the first half of what is left of the window, and in the second."""

    AUDITOR = 0
    REPLACEMENT = 1


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Bitmaps of units in words of 256 bits: what an auditor calls clean, and what false."""

    clean: tuple[int, ...] = ()
    wrong: tuple[int, ...] = ()

    @property
    def units(self) -> list[int]:
        """All units that they judge, ascending."""
        return sorted((*units_in(self.clean), *units_in(self.wrong)))

    def without(self, unit: int) -> Verdicts:
        return Verdicts(_without(self.clean, unit), _without(self.wrong, unit))


@dataclass(frozen=True, slots=True)
class Draw:
    """Of a closed turn. block: whose hash draws, and 0 before one is named; places: how many there were when it was."""

    block: int = 0
    named_at: int = 0
    places: int = 0
    deadline: int = 0
    rate_bps: int = 0
    is_drawn: bool = False
    seed: bytes = bytes(32)

    @property
    def half_at(self) -> int:
        """The last second of the auditors' half of what was left of the window; the replacements' goes up to the deadline."""
        return self.named_at + (self.deadline - self.named_at) // 2

    def role_at(self, now: int) -> Role:
        return Role.REPLACEMENT if now > self.half_at else Role.AUDITOR


@dataclass(frozen=True, slots=True)
class Budget:
    """Of a job's audits, in its token: what is free, and beside it what verdicts have reserved."""

    balance: int = 0
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Funds:
    """Of an operator's deposit in a token: all of it, and what bonds and verdicts have reserved of it."""

    balance: int = 0
    reserved: int = 0

    @property
    def free(self) -> int:
        return self.balance - self.reserved


@dataclass(frozen=True, slots=True)
class Statement:
    """An auditor's verdicts of a turn and role; `left` is what of them is not settled."""

    verdicts: Verdicts
    said_at: int
    left: Verdicts


def verdicts_of(clean: list[int], wrong: list[int]) -> Verdicts:
    """From units, in as few words as they need."""
    return Verdicts(words_of(clean), words_of(wrong))


def words_of(units: list[int]) -> tuple[int, ...]:
    words = [0] * (1 + max(units) // WORD_BITS if units else 0)
    for unit in units:
        words[unit // WORD_BITS] |= 1 << unit % WORD_BITS
    assert len(words) <= VERDICT_WORDS, "a unit beyond the most slots of a job"
    return tuple(words)


def units_in(words: tuple[int, ...]) -> Iterator[int]:
    for index, word in enumerate(words):
        while word:
            lowest = word & -word
            yield index * WORD_BITS + lowest.bit_length() - 1
            word ^= lowest


def has_unit(words: tuple[int, ...], unit: int) -> bool:
    index = unit // WORD_BITS
    return index < len(words) and bool(words[index] >> unit % WORD_BITS & 1)


def _without(words: tuple[int, ...], unit: int) -> tuple[int, ...]:
    return tuple(
        word & ~(1 << unit % WORD_BITS) if index == unit // WORD_BITS else word for index, word in enumerate(words)
    )


def chance(seed: bytes, *numbers: int) -> int:
    """keccak256(abi_encode(seed, ...)) as a number."""
    return int.from_bytes(keccak(seed + b"".join(number.to_bytes(32, "big") for number in numbers)), "big")


@lru_cache(maxsize=1024)
def ticket_of(seed: bytes, unit: int) -> int:
    """All that chance says of a unit."""
    return chance(seed, unit)


def is_drawn(seed: bytes, unit: int, rate_bps: int) -> bool:
    return ticket_of(seed, unit) % 2**32 % BPS < rate_bps


def assigned(draw: Draw, unit: int, author: int, holder: Callable[[int], int]) -> tuple[int, int]:
    """The auditor and the replacement of a unit of an operator's claim; 0 for nobody. holder: of a place, before the naming."""
    if not draw.is_drawn or not is_drawn(draw.seed, unit, draw.rate_bps):
        return 0, 0
    ticket, judges = ticket_of(draw.seed, unit), [0]
    for index in range(AUDIT_CANDIDATES):
        candidate = holder((ticket >> 32 + 56 * index) % 2**56 % draw.places)
        if candidate not in (*judges, author):
            judges.append(candidate)
    return (*judges[1:], 0, 0)[0], (*judges[1:], 0, 0)[1]


def lapse_s(preset: ClockPreset) -> int:
    """Seconds from a turn's deadline until its verdicts lapse, beside re-executions: disputes and seals are over by then."""
    return clocks.aged_at(0, 0, preset) + 2 * preset.opening_s


def lapses_at(deadline: int, reexecute_s: int, preset: ClockPreset) -> int:
    """The last second in which verdicts do not lapse."""
    return clocks.aged_at(deadline, reexecute_s, preset) + 2 * preset.opening_s
