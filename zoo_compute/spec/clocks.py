"""The clocks of openings: how long each side of a disputed claim has, what an ask costs, and when it is over (docs/design/clocks.md).

Pure functions on integers. `now` and `deadline` are the protocol's time in seconds (`protocol_time_s`): time in which the chain
ran.

A dispute explores the claim's tree. A *path* is a line of asks from a first ask down; each ask names a child of a place
that was answered. A place is asked about at most once, and its word keeps the clocks of the path that leads to it:

    first -> asked -> answered -> asked -> answered -> ... -> judged, or silent and expired

From an ask to its answer the committer's clock runs; from an answer to the next ask the askers' clock runs, after the
claim's deadline only. Nothing else stops or resets a clock. So one path ends at most `bound_s` after the deadline,
however many asks, paths and accounts there are.
"""

from dataclasses import dataclass, replace
from enum import IntEnum

from zoo_compute.spec.revert import require

GWEI: int = 10**9  # smallest units of the coin
FEE_MULTIPLE: int = (
    4  # base fees that an ask prepays for each unit of gas: the base fee may rise so much before the answer
)
LEAST_GAS_PRICE: int = GWEI  # smallest units of the coin a unit of gas: an ask costs something where gas is free
BURNED_SHARE: int = 2  # one in so many of a heavy fee burns: as much as asking oneself must cost
SLASH_PER_BURNED: int = 2  # smallest units that silence slashes at most, for each that exhausting asks burn
NEVER_S: int = 2**40  # longer than any chain lasts
SILENCE_FLOOR: tuple[int, int] = (3, 5)  # of the lock: what a judgement costs a liar that earns the seal's 40 % itself


@dataclass(frozen=True, slots=True)
class ClockPreset:
    """The seconds and counts of openings. A devnet's are small, so that a dispute fits in a test."""

    committer_s: int  # of the committer, along a path in sum
    asker_s: int  # of the askers, along a path in sum, after the claim's deadline only
    exclusive_s: (
        int  # after an ask, in which the author is paid whoever answers: nothing is gained by copying its answer
    )
    counted_reexecutions: (
        int  # re-executions that a path adds to the committer's clock, at most; per slot: when an operator is exhausted
    )
    seal_lead_s: int  # a seal is placed before the first ask at its step, at least
    opening_s: int  # after a judgement, in which seals of its step are opened
    outage_s: int  # without any beat, after which time stops; well below asker_s, or one halt uses the askers' clock up
    aged_factor: int  # times the bound after its deadline, when an open dispute voids the claim
    pay_fades_from_s: int  # of its own clock used, up to which an aggregator is paid in full
    pay_gone_at_s: int  # of its own clock used, from which on it is paid nothing


PRODUCTION = ClockPreset(
    committer_s=43_200,
    asker_s=7_200,
    exclusive_s=1_800,
    counted_reexecutions=32,
    seal_lead_s=600,
    opening_s=86_400,
    outage_s=1_800,
    aged_factor=2,
    pay_fades_from_s=7_200,
    pay_gone_at_s=43_200,
)
DEVNET = ClockPreset(
    committer_s=180,
    asker_s=60,
    exclusive_s=5,
    counted_reexecutions=32,
    seal_lead_s=1,
    opening_s=10,
    outage_s=NEVER_S,
    aged_factor=2,
    pay_fades_from_s=30,
    pay_gone_at_s=180,
)


# --- protocol time


def protocol_time_s(now: int, stopped_s: int, last_beat: int, preset: ClockPreset) -> int:
    """Seconds in which the chain ran: block time, less what was stopped, less the running gap beyond `outage_s`.

    now, last_beat: block timestamps; stopped_s: the sum that `stopped_after` recorded. It never runs backwards: at a
    beat the running gap becomes a recorded one, and the value stays the same.
    """
    return now - stopped_after(now, stopped_s, last_beat, preset)


def stopped_after(now: int, stopped_s: int, last_beat: int, preset: ClockPreset) -> int:
    """What to record at a beat: `stopped_s` and the part of the gap since the last beat beyond `outage_s`."""
    return stopped_s + max(0, now - last_beat - preset.outage_s)


# --- the clocks of a path


@dataclass(frozen=True, slots=True)
class PathClocks:
    """What the word of a place keeps of the path that leads to it."""

    since: int  # protocol time of the last ask or answer; of no ask yet: the claim's deadline
    committer_left_s: int  # of the committer, on this path
    asker_left_s: int  # of the askers, on this path
    counted_left: int  # re-executions that heavy asks can still add on this path
    exhausted: bool = False  # of an open ask: it was heavy, and more were open than an operator must be able to serve


def first(deadline: int, preset: ClockPreset) -> PathClocks:
    """The clocks of a path before its first ask."""
    return PathClocks(deadline, preset.committer_s, preset.asker_s, preset.counted_reexecutions)


def can_begin(now: int, deadline: int) -> bool:
    """Whether a first ask of a path is in time. Later asks of a path are not bound to the deadline."""
    return now <= deadline


def is_askable(clocks: PathClocks, now: int, deadline: int) -> bool:
    """Whether a child of an answered place (or, with `first`, the first place) can be asked about.

    The same question decides whether the place can be judged by this path's clock alone; a judgement is also accepted
    later, as long as the claim is not final (`is_final`).
    """
    return now <= asks_end(clocks, deadline)


def asks_end(clocks: PathClocks, deadline: int) -> int:
    """The last second in which a child of an answered place can be asked about."""
    return max(clocks.since, deadline) + clocks.asker_left_s


def asked(
    clocks: PathClocks,
    now: int,
    deadline: int,
    heavy: bool,
    open_heavy: int,
    slots: int,
    reexecute_s: int,
    preset: ClockPreset,
) -> PathClocks:
    """The clocks of a place that is asked about now, from those of the answered place above it (or `first`).

    heavy: the answer takes a re-execution of a step with its trace.
    open_heavy: heavy asks without an answer against the same operator in the same job, this one included.
    slots: the operator's slots in the job, never fewer than the claim covers, at least 1; one re-executes one at a time.
    reexecute_s: seconds of one re-execution, of the job.

    A heavy ask adds the time in which one worker a slot serves all that are open, oldest first: the re-executions are
    equal, so the last ends after ceil(open_heavy / slots) of them. The sum along a path is capped.
    """
    require(is_askable(clocks, now, deadline), "clocks: the askers' time is over")
    counted = min(clocks.counted_left, -(-open_heavy // max(slots, 1))) if heavy else 0
    return PathClocks(
        since=now,
        committer_left_s=clocks.committer_left_s + counted * reexecute_s,
        asker_left_s=clocks.asker_left_s - max(0, now - max(clocks.since, deadline)),
        counted_left=clocks.counted_left - counted,
        exhausted=heavy and is_exhausting(open_heavy, slots, preset),
    )


def is_exhausting(open_heavy: int, slots: int, preset: ClockPreset) -> bool:
    """Whether more heavy asks are open than an operator must be able to serve (`asked` for the arguments)."""
    return open_heavy > preset.counted_reexecutions * max(slots, 1)


def is_expired(clocks: PathClocks, now: int) -> bool:
    """Whether the committer's clock has passed on an open ask: anyone may convict by silence. Never while it can answer."""
    return now > clocks.since + clocks.committer_left_s


def may_answer(clocks: PathClocks, now: int, is_author: bool, preset: ClockPreset) -> bool:
    """Whether an answer is worth giving by the claim's author, or by somebody else where a hash determines it.

    Others are paid for it after `exclusive_s`, or half of what is left where that is less; earlier the author's owner is. So
    nobody copies an answer of an author that is awake, and of an author that died at least half of what it left remains.
    """
    return not is_expired(clocks, now) and (is_author or now >= exclusive_until(clocks, preset))


def exclusive_until(clocks: PathClocks, preset: ClockPreset) -> int:
    """The first second in which an answer of others than the author is paid to who gives it."""
    return clocks.since + min(preset.exclusive_s, clocks.committer_left_s // 2)


def answered(clocks: PathClocks, now: int) -> PathClocks:
    """The clocks of a place that is answered now, from those of the open ask."""
    require(not is_expired(clocks, now), "clocks: the committer's time is over")
    left_s = clocks.committer_left_s - (now - clocks.since)
    return replace(clocks, since=now, committer_left_s=left_s, exhausted=False)


# --- a claim


def latest(before: int, clocks: PathClocks, deadline: int) -> int:
    """The last second in which the claim can be asked about or judged by what is answered so far.

    before: the value of the claim's word, 0 before the first answer; clocks: of the place that was answered now.
    """
    return max(before, asks_end(clocks, deadline))


def is_final(now: int, deadline: int, latest_s: int, open_asks: int) -> bool:
    """Whether nothing can be asked, answered or judged any more. Once true it stays true.

    latest_s: the claim's word as `latest` made it. Asks and judgements refuse a final claim.
    """
    return open_asks == 0 and now > max(deadline, latest_s)


def bound_s(reexecute_s: int, preset: ClockPreset) -> int:
    """Seconds after its deadline up to which a claim can be disputed: 14 h and 32 re-executions in production.

    After it every claim is final, or has an ask past its clock with which anyone convicts. On a path each second after
    the deadline is the committer's or the askers': from an ask to its answer, or from an answer to the next ask. The
    committer has committer_s and what heavy asks add, at most counted_reexecutions along the path; the askers asker_s.
    """
    return preset.committer_s + preset.asker_s + preset.counted_reexecutions * reexecute_s


def bound(deadline: int, reexecute_s: int, preset: ClockPreset) -> int:
    """`bound_s` as protocol time."""
    return deadline + bound_s(reexecute_s, preset)


def aged_at(deadline: int, reexecute_s: int, preset: ClockPreset) -> int:
    """When a dispute that is still open voids the claim, unpaid and unslashed: so that a fault cannot lock money for ever.

    An ask expires within the bound, so anyone has as long again to convict by silence before a liar could gain from it.
    """
    return deadline + preset.aged_factor * bound_s(reexecute_s, preset)


def used_s(clocks: PathClocks, preset: ClockPreset) -> int:
    """Seconds of its own clock that the committer used on an answered path, beyond what heavy asks added."""
    return max(0, preset.committer_s - clocks.committer_left_s)


def fading_pay(pay: int, most_used_s: int, preset: ClockPreset) -> int:
    """An aggregator's pay, in the same unit: in full up to pay_fades_from_s, then linearly down to nothing.

    most_used_s: the greatest `used_s` of the claim's answered places.
    """
    left_s = preset.pay_gone_at_s - max(most_used_s, preset.pay_fades_from_s)
    return pay * max(0, left_s) // (preset.pay_gone_at_s - preset.pay_fades_from_s)


# --- prices


def gas_price(base_fee: int) -> int:
    """Smallest units of the coin that an ask prepays for a unit of its answer's gas."""
    return max(FEE_MULTIPLE * base_fee, LEAST_GAS_PRICE)


def answer_fee(unanswered: int, gas: int, base_fee: int) -> int:
    """What an ask prepays in the coin for its answer.

    unanswered: asks of the claim without an answer, this one included: the k-th prepays k times.
    gas: of the answer, as the contract estimates it; base_fee: of the block, smallest units of the coin.
    """
    return unanswered * gas * gas_price(base_fee)


def heavy_fee(price: int, reserve: int) -> int:
    """What a heavy ask prepays beside, in the job's payment token: one re-execution, at the claim's price or the reserve.

    price: of a slot of the claim, or of the aggregation. Re-openings of an auction raise it above the posted reserve.
    """
    return max(price, reserve)


class End(IntEnum):
    """How a dispute ended."""

    FINAL = 1  # nobody showed a lie: the claim is paid
    JUDGED = 2  # a judgement convicted
    SILENT = 3  # an ask past its clock convicted
    EXHAUSTED = 4  # the same, and the ask was `exhausted`
    AGED = 5  # void: unpaid and unslashed


@dataclass(frozen=True, slots=True)
class Shares:
    """Where a prepaid fee goes; the three add up to it."""

    asker: int = 0
    answerer: int = 0
    burned: int = 0


def answer_shares(fee: int, end: End) -> Shares:
    """Where the fee for an answer goes, in the coin: to the answerer of a claim that became final, else back."""
    return Shares(answerer=fee) if end is End.FINAL else Shares(asker=fee)


def heavy_shares(fee: int, end: End, on_path: bool) -> Shares:
    """Where a heavy ask's fee goes, in the payment token.

    on_path: the ask is the judged or expired one, or above it. A conviction burns half of every heavy fee off that path:
    an account that asks itself to gain time pays for it. Where the expired ask was exhausted, half of all burn.
    """
    if end is End.FINAL:
        return Shares(answerer=fee)
    if end is End.AGED or (end is not End.EXHAUSTED and on_path):
        return Shares(asker=fee)
    return Shares(asker=fee - fee // BURNED_SHARE, burned=fee // BURNED_SHARE)


def silence_slash(lock: int, burned: int, end: End) -> int:
    """What silence slashes of a slot's lock, in the payment token.

    burned: of the claim's heavy fees, as `heavy_shares` says. Of an exhausted ask: twice that, so that exhausting an
    honest operator costs half of what it costs the operator; yet burned and slashed together are never less than a
    judgement costs a liar that earns the seal's share itself: asking oneself is no way out.
    """
    if end is not End.EXHAUSTED:
        return lock
    numerator, denominator = SILENCE_FLOOR
    return min(lock, max(SLASH_PER_BURNED * burned, lock * numerator // denominator - burned))
