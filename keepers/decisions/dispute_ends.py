"""Who ends a dispute whose participants do not: any keeper, one at a time. Pure decisions, as in `duties`.

An open dispute keeps a job's turns, payments and locks waiting, so every seat has an interest in its end. Nobody is paid for
it. Participants go first, beginning with the one that earned the most by answers. Then the operators with a seat in the job take
turns, in an order that each dispute draws; after them all others. It costs one transaction a disputed claim, about as much as
the first ask about it cost somebody else.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from zoo_compute.chain.explorations import DisputeView
from zoo_compute.disputes.exploration import Opened
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import ClockPreset
from zoo_compute.spec.watching import NOBODY

# In the order of those with a seat, and in that of all others: the last one acts before half of the time to age is over.
PLACES = 8


class Ending(NamedTuple):
    """What anyone may send: `expire` of this ask; without one `close`. since: the last second in which it was refused."""

    since: int
    ask: Opened | None


def ending(dispute: DisputeView, now: int, preset: ClockPreset) -> Ending | None:
    """Silence comes first: an ask past its clock convicts also where the dispute has aged."""
    late = [ask for ask in dispute.picture.open_asks if clocks.is_expired(ask.record.clocks, now)]
    if late:  # of a marked ask, silence costs the liar less
        return Ending(late[0].due, min(late, key=lambda ask: ask.record.clocks.exhausted))
    closable_since = closable_after(dispute, now, preset)
    return None if closable_since is None else Ending(closable_since, None)


def closable_after(dispute: DisputeView, now: int, preset: ClockPreset) -> int | None:
    """The second after which the claim could be closed, as final or as aged; None while it cannot."""
    final_after = dispute.final_after(preset)
    aged_at = clocks.aged_at(dispute.deadline, dispute.reexecute_s, preset) if dispute.deadline else None
    return min((at for at in (final_after, aged_at) if at is not None and now > at), default=None)


def close_delay_s(dispute: DisputeView, accounts: Collection[str], preset: ClockPreset) -> int:
    """How long a participant leaves closing to others: whoever earned the most by answers does it at once.

    accounts: to which what the participant answered is paid; of the author, NOBODY is one: its owner.
    """
    earned = dispute.picture.earned
    mine = sum(fee for account, fee in earned.items() if account in accounts)
    others = max((fee for account, fee in earned.items() if account not in accounts), default=0)
    return 0 if mine > others or (mine == others and NOBODY in accounts) else preset.exclusive_s


def patience_s(operator: int, seated: Collection[int], key: bytes, preset: ClockPreset) -> int:
    """How long a keeper leaves an ending to others. seated: operators with a seat in the job, but the claim's author."""
    if operator in seated:
        place = (sorted(seated).index(operator) + key[-1]) % min(len(seated), PLACES)
    else:
        place = PLACES + (operator + key[-1]) % PLACES
    return (2 + place) * preset.exclusive_s
