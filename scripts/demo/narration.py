"""One line for each event a spectator wants to see."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from zoo_compute.amounts import format_amount
from zoo_compute.chain.events import Event
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import AGGREGATION_KEY


def zen(wei: int) -> str:
    return format_amount(wei, places=4)


def _slots(bitmap: int) -> str:
    found = list(slots_in(bitmap))
    return ("slot " if len(found) == 1 else "slots ") + ", ".join(map(str, found))


class Narrator:
    """Turns events into lines; knows the operators' names."""

    def __init__(self, names: Mapping[int, str]) -> None:
        self._names = names
        self._began = time.monotonic()

    def lines(self, events: Iterable[Event]) -> Iterator[str]:
        for event in events:
            tell = getattr(self, f"_{event.name}", None)
            if tell is not None:
                line = tell({**event.args, "who": self._names.get(event.args.get("operator", 0), "?")})
                yield f"{time.monotonic() - self._began:6.1f}s  {line}"

    def _BidSealed(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} seals a bid for {'the aggregator seat' if a['kind'] else str(a['capacity']) + ' slots'}"

    def _BidRevealed(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} reveals {zen(a['price'])} per {'round' if a['kind'] else 'slot-round'}"

    def _SeatAwarded(self, a: Mapping[str, Any]) -> str:
        what = "the aggregator seat" if a["kind"] else _slots(a["bitmap"])
        return f"{a['who']} wins {what} at its critical price {zen(a['price'])}"

    def _SeatReady(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} is ready: {a['estimate_s']} s for {_slots(a['bitmap'])}"

    def _RoundOpened(self, a: Mapping[str, Any]) -> str:
        return f"-- round {a['round']} opens"

    def _ResultsCommitted(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} commits {_slots(a['bitmap'])}"

    def _SlotsVacated(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} missed its deadline: {_slots(a['bitmap'])} vacant, {zen(a['slashed'])} slashed"

    def _SlotTakenOver(self, a: Mapping[str, Any]) -> str:
        paid = zen(a["escrow_price"] + a["pot_price"])
        return f"{a['who']} takes over slot {a['slot']} at {paid} ({zen(a['pot_price'])} of it from the slash)"

    def _CheckpointPosted(self, a: Mapping[str, Any]) -> str:
        return f"{a['who']} posts checkpoint {a['round'] + 1} from {_slots(a['mask'])}"

    def _JobEnded(self, a: Mapping[str, Any]) -> str:
        return f"-- the job {'is complete' if a['completed'] else 'was abandoned'} after {a['rounds_done']} rounds; windows close, then claims are paid"

    def _ClaimFinalised(self, a: Mapping[str, Any]) -> str:
        what = "an aggregation" if a["key"] == AGGREGATION_KEY else "a commitment"
        return f"{what} of round {a['round']} is final: {a['who']} is owed {zen(a['paid'] - a['fee'])}"

    def _JobClosed(self, a: Mapping[str, Any]) -> str:
        return f"the job is closed: {zen(a['refunded'])} go back to the submitter"

    def _Withdrawn(self, a: Mapping[str, Any]) -> str:
        return f"{zen(a['amount'])} withdrawn to {a['account'][:10]}"
