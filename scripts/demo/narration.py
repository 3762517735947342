"""Turns chain events into lines for a spectator."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zoo_compute.amounts import format_amount
from zoo_compute.chain.custody import member_of
from zoo_compute.chain.events import Event
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.chain.views import AGGREGATOR_SEAT
from zoo_compute.client.disputes import ENDS
from zoo_compute.client.explored_places import asks_of, named
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import COIN


def zen(wei: int) -> str:
    return format_amount(wei, places=4)


def _seat(number: int) -> str:
    return "the aggregator's seat" if number == AGGREGATOR_SEAT else f"seat {number}"


def _work(seat: int, first: int, count: int) -> str:
    if seat == AGGREGATOR_SEAT:
        return _seat(seat)
    return f"slot {first}" if count == 1 else f"slots {first} to {first + count - 1}"


def _custodians(signers: int) -> str:
    return "1 custodian signs" if signers.bit_count() == 1 else f"{signers.bit_count()} custodians sign"


class Narrator:
    """Turns events into lines. names: of the operators by number."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._began = time.monotonic()
        self._asked: Counter[bytes] = Counter()  # asks that were narrated, by the claim's key

    def lines(self, events: Iterable[Event]) -> Iterator[str]:
        for event in events:
            describe = getattr(self, f"_{event.name}", None)
            if describe is not None:
                yield self._at(describe({**event.args, "who": self._names.get(event.args.get("operator", 0), "?")}))

    def asks(self, disputes: Iterable[DisputeView]) -> Iterator[str]:
        """New asks of disputes."""
        for dispute in disputes:
            made = asks_of(dispute.picture)[self._asked[dispute.key] :]
            for ask in made:
                sign = "  " if self._asked[dispute.key] else "!!"
                about = f" of {self._names.get(dispute.operator, '?')}'s {ask.path}" if ask.path else ""
                heavy = ", which is computed again" if ask.is_heavy else ""
                self._asked[dispute.key] += 1
                yield self._at(f"{sign} {named(ask.asker, {})} asks about {ask.place}{about}{heavy}")

    def _at(self, line: str) -> str:
        return f"{time.monotonic() - self._began:6.1f}s  {line}"

    def _UnitsDrawn(self, a: Mapping[str, Any]) -> str:
        return f"the hash of a later block draws what of turn {a['turn']} is audited"

    def _VerdictsGiven(self, a: Mapping[str, Any]) -> str:
        clean, wrong = (sum(word.bit_count() for word in a["verdicts"][key]) for key in ("clean", "wrong"))
        return f"{a['who']} audited turn {a['turn']}: {clean} clean, {wrong} false"

    def _VerdictsSettled(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} is paid {zen(a['paid'])} for its verdicts on turn {a['turn']}"

    def _CommitteeChanged(self, a: Mapping[str, Any]) -> str:
        members = [member_of(each["word"], each["key"]) for each in a["committee"]]
        drawn = [self._names.get(member.operator, "nobody") for member in members]
        return f"custodians: {', '.join(drawn)}"

    def _StartSigned(self, a: Mapping[str, Any]) -> str:
        return f"{_custodians(a['signers'])} for program, data and first state"

    def _CheckpointSigned(self, a: Mapping[str, Any]) -> str:
        return f"{_custodians(a['signers'])} for the checkpoint of turn {a['turn']}"

    def _BidSealed(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} seals a bid for {'the aggregator seat' if a['kind'] else str(a['capacity']) + ' slots'}"

    def _BidRevealed(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} reveals {zen(a['price'])} per {'round' if a['kind'] else 'slot-round'}"

    def _SeatTaken(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} wins {_work(a['seat'], a['first'], a['count'])} at its critical price {zen(a['price'])}"

    def _SeatReady(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} is ready: {a['estimate_s']} s for seat {a['seat']}"

    def _TurnOpened(self, a: Mapping[str, Any]) -> str:
        again = "" if a["turn"] == a["round"] else f" (turn {a['turn']})"
        return f"-- round {a['round']} opens{again}"

    def _ResultsCommitted(self, a: Mapping[str, Any]) -> str:
        claim = a["claim"]
        return f"{a['who']} commits {_work(claim['seat'], claim['scope'] >> 16, claim['scope'] & 0xFFFF)}"

    def _SeatVacated(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} loses {_seat(a['seat'])}: {zen(a['slashed'])} slashed"

    def _SeatSplit(self, a: Mapping[str, Any]) -> str:
        return f"seat {a['seat']} is cut: {_work(a['new_seat'], a['first'], a['count'])} become seat {a['new_seat']}"

    def _SeatTakenOver(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} takes over {_seat(a['seat'])} at {zen(a['price'])}"

    def _CheckpointPosted(self, a: Mapping[str, Any]) -> str:
        seats = bin(a["claim"]["scope"]).count("1")
        return f"{a['who']} posts checkpoint {a['claim']['round'] + 1} from {seats} seat{'s' * (seats > 1)}"

    def _ClaimResolved(self, a: Mapping[str, Any]) -> str:
        return f"!! {ENDS[End(a['outcome'])]}"

    def _FinderRewarded(self, a: Mapping[str, Any]) -> str:
        return f"{zen(a['amount'])} of the lock go to the finder {a['finder'][:10]}…, who sealed the false step first"

    def _ClaimConvicted(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} is convicted of {_seat(a['seat'])} in turn {a['turn']}: {zen(a['slashed'])} slashed"

    def _RolledBack(self, a: Mapping[str, Any]) -> str:
        return f"-- rolled back: round {a['round']} is done again"

    def _JobEnded(self, a: Mapping[str, Any]) -> str:
        return f"-- the job {'is complete' if a['completed'] else 'was abandoned'} after {a['rounds_done']} rounds; windows close, then claims are paid"

    def _ClaimFinalised(self, a: Mapping[str, Any]) -> str:
        what = "an aggregation" if a["seat"] == AGGREGATOR_SEAT else "a commitment"
        return f"{what} of turn {a['turn']} is final: {a['who']} is paid {zen(a['paid'])}, less the fee"

    def _JobClosed(self, a: Mapping[str, Any]) -> str:
        return f"the job is closed: {zen(a['refunded'])} go back to the submitter"

    def _Withdrawn(self, a: Mapping[str, Any]) -> str:
        amount = format_amount(a["amount"], "coin", places=4) if a["token"] == COIN else zen(a["amount"])
        return f"{amount} withdrawn to {a['account'][:10]}"
