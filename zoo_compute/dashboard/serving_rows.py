"""Events of serving seats: what each offers, what is locked behind its receipts, and what became of those that were admitted."""

from __future__ import annotations

from collections.abc import Sequence

from zoo_compute.chain.events import Event
from zoo_compute.dashboard.rules import Rules, Statement
from zoo_compute.store.cid import raw_cid

RULES = Rules()


@RULES.on("ServingSeatTaken")
def _taken(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    values = (args["seat"], args["operator"], str(args["lock"]), at)
    return [("INSERT INTO serving_seats (seat, operator, locked, taken_at) VALUES (?,?,?,?)", values)]


@RULES.on("Offered")
def _offered(event: Event, at: int) -> Sequence[Statement]:
    offer = event.args["offer"]
    values = (raw_cid(offer["service"]), str(offer["price"]), offer["token"], offer["url"], event.args["seat"])
    return [("UPDATE serving_seats SET service = ?, price = ?, token = ?, url = ? WHERE seat = ?", values)]


@RULES.on("ServingSeatLeft")
def _left(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE serving_seats SET left_at = ? WHERE seat = ?", (at, event.args["seat"]))]


@RULES.on("ServingLockReleased")
def _released(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE serving_seats SET locked = '0' WHERE seat = ?", (event.args["seat"],))]


@RULES.on("ReceiptConvicted")
def _convicted(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [
        ("UPDATE serving_seats SET locked = '0', convictions = convictions + 1 WHERE seat = ?", (args["seat"],)),
        ("UPDATE operators SET convictions = convictions + 1 WHERE operator = ?", (args["operator"],)),
    ]
