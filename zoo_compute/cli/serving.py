"""`zoo serving`: publish a model as a service, and take, change, list and leave the seats that serve one."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zoo_compute.amounts import format_amount, format_seconds, parse_amount
from zoo_compute.cli.context import Group, Number, Settings, pass_settings
from zoo_compute.cli.node.options import folder_of, for_operator, number_of, operators_of, token_option
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.inference.seats import Seat

SEAT = Number(lambda chain: chain.serving.seat_count())
_seat = click.argument("number", type=SEAT, metavar="SEAT")
_service = click.argument("service", metavar="SERVICE")
_price = click.option("--price", required=True, metavar="AMOUNT", help="For 1,000 tokens, in whole ZEN (or --token).")
_url = click.option("--url", required=True, help="Where clients reach your server, such as https://HOST:PORT.")


@click.group("serving", cls=Group)
def serving() -> None:
    """Live inference: publish a model, take a seat that serves it, and answer requests for pay."""


@serving.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--store", "location", metavar="LOCATION", help="Store for its files. [env ZOO_STORE; ~/.zoo/store]")
@pass_settings
def publish(settings: Settings, file: Path, location: str | None) -> None:
    """Trace the model in FILE, and put its programs, weights and tokenizer in the store. Prints the service's CID.

    Sends nothing. Operators and clients fetch the files: keep them served until the operators have them (`zoo store serve`).
    """
    from zoo_compute.jobs.services import publish_service

    cid, service = publish_service(file, settings.store(location), settings.say)
    rows = [program.rows for program in service.programs]
    settings.emit({"service": cid, "model": service.model, "kind": service.kind, "rows": rows}, cid)


@serving.command(cls=Sending)
@_service
@click.option("--lock", required=True, metavar="ZEN", help="What is lost if one of its receipts is false.")
@_price
@_url
@click.option(
    "--signer", metavar="ADDRESS", help="Key that signs its receipts; that of --home by default, made if there is none."
)
@token_option
@for_operator
def take(
    settings: Settings,
    service: str,
    lock: str,
    price: str,
    url: str,
    signer: str | None,
    token: str | None,
    operator: int | None,
    home: Path | None,
) -> None:
    """Take a serving seat for SERVICE, the CID that `zoo serving publish` printed. `zoo serving start` then answers requests.

    Send it from the operator's owner. The lock comes back after `zoo serving leave` and `zoo serving release`.
    """
    from zoo_compute.chain.roles import address_of
    from zoo_compute.inference import seats
    from zoo_compute.operators.hot_key import key_at
    from zoo_compute.paths import RECEIPT_KEY

    money, units = settings.token(token), parse_amount(lock, what="the lock")
    offer = seats.offer_of(service, money.parse(price, what="the price"), money.address, url)
    number = number_of(settings, operators_of(settings), operator, home)
    key = key_at(folder_of(home), RECEIPT_KEY) if signer is None else address_of(signer, "--signer")
    receipt = seats.take_seat(settings.sender(), number, key, units, offer)
    seat = int(receipt.event("ServingSeatTaken").args["seat"])
    settings.emit(
        {"seat": seat, "operator": number, "signer": key, "lock": str(units), "transaction": receipt.transaction_hash},
        f"seat {seat}: operator {number} offers {service} for {money.format(offer.price)} per 1,000 tokens, with {format_amount(units)} "
        f"locked; {key} signs its receipts. Answer requests with: zoo serving start --seat {seat}",
    )


@serving.command("offer", cls=Sending)
@_seat
@click.option("--service", metavar="SERVICE", help="CID of another service; the same by default.")
@click.option("--price", metavar="AMOUNT", help="For 1,000 tokens, in whole tokens; the same by default.")
@click.option("--url", help="Where clients reach your server; the same by default.")
@click.option("--token", metavar="ADDRESS", help="Token of the price; the same by default. Needs --price.")
@pass_settings
def offer_(
    settings: Settings, number: int, service: str | None, price: str | None, url: str | None, token: str | None
) -> None:
    """Change what your seat offers. Send it from the operator's owner or hot key. A running server follows a new price at once.

    Start the server again for another service.
    """
    from zoo_compute.inference import seats

    if service is price is url is token is None:
        raise UserError("say what to change", hint="--service, --price, --url or --token")
    if token is not None and price is None:
        raise UserError("another token needs another price", hint="add --price")
    before = seats.read_seat(settings.chain(), number)
    money = settings.token(token or before.offer.token)
    units = before.offer.price if price is None else money.parse(price, what="the price")
    offer = seats.offer_of(service or before.service, units, money.address, url or before.offer.url)
    receipt = seats.change_offer(settings.sender(), number, offer)
    settings.emit(
        {"seat": number, "price": str(units), "token": money.to_dict(), "transaction": receipt.transaction_hash},
        f"seat {number} offers {service or before.service} at {offer.url} for {money.format(units)} per 1,000 tokens",
    )


@serving.command(cls=Sending)
@_seat
@pass_settings
def leave(settings: Settings, number: int) -> None:
    """Leave your seat: it answers no more. `zoo serving release` gives the lock back once no receipt can be judged any more."""
    from zoo_compute.spec.params import window_s

    chain = settings.chain()
    wait_s = 2 * window_s(chain.params, chain.params.receipt_s, 1)
    receipt = settings.sender().send(chain.serving.leave(number))
    settings.emit(
        {"seat": number, "wait_s": wait_s, "transaction": receipt.transaction_hash},
        f"seat {number} is left; in {format_seconds(wait_s)} run `zoo serving release {number}`. Keep your node running until then: "
        "it answers if somebody asks about a receipt",
    )


@serving.command(cls=Sending)
@_seat
@pass_settings
def release(settings: Settings, number: int) -> None:
    """Take back the lock of a seat that was left. It goes to the operator's owner, whoever sends this.

    Receipts that somebody admitted, and nobody asked about in their window, are ended first: they keep the lock.
    """
    from zoo_compute.operators.admitted_receipts import droppable

    chain = settings.chain()
    for admitted in droppable(chain, number):
        settings.say(f"ending receipt {admitted.claim_hash.hex()[:16]}, which nobody asked about")
        settings.sender().send(chain.serving.drop(astuple(admitted.claim)))  # type: ignore[arg-type]
    receipt = settings.sender().send(chain.serving.release(number))
    amount = int(receipt.event("ServingLockReleased").args["amount"])
    settings.emit(
        {"seat": number, "released": str(amount), "transaction": receipt.transaction_hash},
        f"seat {number}: {format_amount(amount)} came back to the operator's owner",
    )


@serving.command("list")
@click.argument("service", required=False, metavar="[SERVICE]")
@click.option("--all", "with_left", is_flag=True, help="Those that were left, too.")
@pass_settings
def list_(settings: Settings, service: str | None, with_left: bool) -> None:
    """List serving seats, cheapest first: of one service, or all."""
    from zoo_compute.inference.seats import list_seats

    every = [seat for seat in list_seats(settings.chain(), service) if with_left or seat.left_at is None]
    every.sort(key=lambda seat: (seat.service, seat.offer.token, seat.offer.price, seat.number))
    lines = table([_row(settings, seat) for seat in every], header=HEADER) if every else ["no seat serves it"]
    settings.emit({"seats": [seat.to_dict() for seat in every]}, lines)


HEADER = ("seat", "operator", "service", "per 1,000 tokens", "lock", "url")


def _row(settings: Settings, seat: Seat) -> tuple[str, ...]:
    money = settings.token(seat.offer.token)
    url = seat.offer.url if seat.left_at is None else "left"
    price, lock = money.format(seat.offer.price), format_amount(seat.lock)
    return str(seat.number), str(seat.operator), seat.service, price, lock, url
