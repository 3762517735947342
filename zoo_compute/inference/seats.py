"""Serving seats on chain: taken, offered, listed and left (docs/protocol/serving.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo_compute.amounts import format_amount
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.events import scan
from zoo_compute.chain.tokens import set_allowance
from zoo_compute.errors import NotFunded, UserError
from zoo_compute.spec.receipts import Offer
from zoo_compute.store.cid import digest_of, raw_cid

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Receipt, Sender

MAX_URL = 128


@dataclass(frozen=True)
class Seat:
    """lock: ZEN behind its receipts. left_at: in the protocol's time; None: it was not left. offer: the newest."""

    number: int
    operator: int
    signer: str
    lock: int
    left_at: int | None
    offer: Offer

    @property
    def service(self) -> str:
        """The CID of its service's file."""
        return raw_cid(self.offer.service)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; amounts in smallest units, as text."""
        offer = {"price": str(self.offer.price), "token": self.offer.token, "url": self.offer.url}
        seat = {"seat": self.number, "operator": self.operator, "signer": self.signer, "lock": str(self.lock)}
        return {**seat, "left_at": self.left_at, "service": self.service, **offer}


def list_seats(chain: Chain, service: str | None = None) -> list[Seat]:
    """All seats, by number, those that were left included. service: only those whose newest offer is of this CID. Raises BadCid."""
    digest = None if service is None else digest_of(service)
    head = chain.head().number
    offers: dict[int, Offer] = {}
    for event in scan(chain, chain.network.first_block, head, names=("Offered",)):
        offers[int(event.args["seat"])] = Offer(**event.args["offer"])
    numbers = sorted(number for number, offer in offers.items() if digest in (None, offer.service))
    records = read_all(chain, head, [Read("serving", "seats", (number,)) for number in numbers])
    return [_seat(number, each, offers[number]) for number, each in zip(numbers, records, strict=True)]


def read_seat(chain: Chain, number: int) -> Seat:
    """One seat. Raises UserError where there is none."""
    match = next((seat for seat in list_seats(chain) if seat.number == number), None)
    if match is None:
        raise UserError(
            f"there is no serving seat {number} on {chain.network.name}", hint="`zoo serving list` shows all"
        )
    return match


def offer_of(service: str, price: int, token: str, url: str) -> Offer:
    """What a seat offers. price: for 1,000 tokens, in the token's smallest unit. Raises BadCid, UserError."""
    if len(url.encode()) > MAX_URL or not url.startswith(("http://", "https://")):
        raise UserError(f"{url!r} is no URL of at most {MAX_URL} bytes that begins with http:// or https://")
    return Offer(digest_of(service), price, token, url)


def take_seat(sender: Sender, operator: int, signer: str, lock: int, offer: Offer) -> Receipt:
    """Take a seat, with the sender's ZEN as its lock; its event ServingSeatTaken has the number. Raises NotFunded, Refusal."""
    chain = sender.chain
    balance = chain.zen.balanceOf(sender.address)
    if balance < lock:
        raise NotFunded(
            f"the account {sender.address} has {format_amount(balance)}, and the lock is {format_amount(lock)}",
            hint="choose a smaller lock, or send the account ZEN",
        )
    set_allowance(sender, chain.zen.address, chain.serving.address, lock)
    return sender.send(chain.serving.take(operator, signer, lock, _bound(offer)))


def change_offer(sender: Sender, number: int, offer: Offer) -> Receipt:
    """What the seat asks from now on. Raises Refusal."""
    return sender.send(sender.chain.serving.offer(number, _bound(offer)))


def _bound(offer: Offer) -> Any:
    from zoo_compute.chain.generated.bindings.serving import Offer as Bound

    return Bound(offer.service, offer.price, offer.token, offer.url)


def _seat(number: int, record: dict[str, Any], offer: Offer) -> Seat:
    return Seat(number, record["operator"], record["signer"], record["lock"], record["left_at"] or None, offer)
