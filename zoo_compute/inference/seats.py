"""Serving seats as the chain has them: whose they are, what is locked behind their receipts, what they offer and where."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.events import scan
from zoo_compute.spec.receipts import Offer
from zoo_compute.store.cid import digest_of, raw_cid

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain


@dataclass(frozen=True)
class Seat:
    """lock: wei of ZEN. left_at: in the protocol's time; None: it was not left."""

    number: int
    operator: int
    signer: str
    lock: int
    left_at: int | None
    offer: Offer

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; amounts in smallest units, as text."""
        offer = {**asdict(self.offer), "service": raw_cid(self.offer.service), "price": str(self.offer.price)}
        fields = {"seat": self.number, "operator": self.operator, "signer": self.signer, "lock": str(self.lock)}
        return {**fields, "left_at": self.left_at, **offer}


def list_seats(chain: Chain, service: str | None = None) -> list[Seat]:
    """All seats with their newest offers, by number; of one service, by its CID. Raises BadCid, Unreachable."""
    wanted = None if service is None else digest_of(service)
    head = chain.head().number
    offers: dict[int, Offer] = {}
    for event in scan(chain, chain.network.first_block, head, names=("Offered",)):
        offers[int(event.args["seat"])] = Offer(**event.args["offer"])
    numbers = sorted(number for number, offer in offers.items() if wanted in (None, offer.service))
    records = read_all(chain, head, [Read("serving", "seats", (number,)) for number in numbers])
    return [
        Seat(number, each["operator"], each["signer"], each["lock"], each["left_at"] or None, offers[number])
        for number, each in zip(numbers, records, strict=True)
    ]
