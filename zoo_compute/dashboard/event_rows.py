"""What each of the chain's events changes in the index: a pure function from an event to statements.

Amounts are texts of whole numbers: SQLite's integers end at 2**63. `plus(a, b)` adds them (index.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zoo_compute.chain.events import Event
from zoo_compute.json_codec import encode
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import AGGREGATOR_SEAT, fee_of
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.state import Claim, JobState
from zoo_compute.spec.trials import TRIALS

Statement = tuple[str, tuple[Any, ...]]
Rule = Callable[[Event, int], Sequence[Statement]]
LARGEST = 2**63 - 1
RULES: dict[str, Rule] = {}
_NEWEST = "id = (SELECT MAX(id) FROM claims WHERE job = ? AND turn = ? AND seat = ?)"


def rows_of(event: Event, at: int) -> Sequence[Statement]:
    """The statements of an event, in order; none for events that no view shows. at: the second of its block."""
    rule = RULES.get(event.name)
    return rule(event, at) if rule is not None else ()


def _on(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _small(value: int) -> int:
    """A number for a column of integers: strangers choose some, as large as they like."""
    return min(int(value), LARGEST)


# -- jobs


@_on("JobPosted")
def _posted(event: Event, at: int) -> Sequence[Statement]:
    args, terms = event.args, event.args["terms"]
    values = (
        args["job"], args["submitter"], terms["token"], _small(terms["rounds"]), _small(terms["slots"]), _small(terms["quorum"]),
        _small(terms["flops"]), _small(terms["reexecute_s"]), str(terms["requirements"]), event.block, at, str(args["escrow"]),
    )  # fmt: skip
    columns = (
        "job, submitter, token, rounds, slots, quorum, flops, reexecute_s, requirements, posted_block, posted_at, escrowed"
    )
    return [(f"INSERT INTO jobs ({columns}) VALUES ({','.join('?' * len(values))})", values)]


@_on("JobAdvanced")
def _advanced(event: Event, at: int) -> Sequence[Statement]:
    number = event.args["state"]
    state = JobState(number).name.lower() if number in set(JobState) else "unknown"
    over = at if state in ("ended", "cancelled") else None
    return [("UPDATE jobs SET state = ?, over_at = COALESCE(?, over_at) WHERE job = ?", (state, over, event.job))]


@_on("JobCancelled")
def _cancelled(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET state = 'cancelled', over_at = ? WHERE job = ?", (at, event.job))]


@_on("JobEnded")
def _ended(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET state = 'ended', over_at = ? WHERE job = ?", (at, event.job))]


@_on("JobClosed")
def _closed(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET closed_at = ?, refunded = ? WHERE job = ?", (at, str(event.args["refunded"]), event.job))]


@_on("JobFunded")
def _funded(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET restored = plus(restored, ?) WHERE job = ?", (str(event.args["amount"]), event.job))]


@_on("Paid")
def _paid(event: Event, at: int) -> Sequence[Statement]:
    net, fee = str(event.args["net"]), str(event.args["fee"])
    return [("UPDATE jobs SET paid = plus(paid, ?), fee = plus(fee, ?) WHERE job = ?", (net, fee, event.job))]


@_on("TurnOpened")
def _turn_opened(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    turn, round_, closes = args["turn"], args["round"], _small(args["inputs_close"])
    return [
        ("INSERT INTO turns (job, turn, round, opened_at, inputs_close) VALUES (?,?,?,?,?) ON CONFLICT (job, turn) DO UPDATE SET "
         "round = excluded.round, opened_at = excluded.opened_at, inputs_close = excluded.inputs_close",
         (args["job"], turn, round_, at, closes)),
        ("UPDATE jobs SET state = 'running', turn = ?, round = ? WHERE job = ?", (turn, round_, args["job"])),
    ]  # fmt: skip


@_on("TurnClosed")
def _turn_closed(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [("UPDATE turns SET deadline = ? WHERE job = ? AND turn = ?", (_small(args["deadline"]), args["job"], args["turn"]))]  # fmt: skip


@_on("RolledBack")
def _rolled_back(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    change = "completed = MIN(completed, ?), rollbacks = rollbacks + 1"
    return [(f"UPDATE jobs SET {change} WHERE job = ?", (args["round"], args["job"]))]


# -- claims


@_on("ResultsCommitted", "CheckpointPosted")
def _claimed(event: Event, at: int) -> Sequence[Statement]:
    job, claim = event.args["job"], event.args["claim"]
    if event.name == "ResultsCommitted":
        return [_claim(event, at, job, event.args["bundle"])]
    completed = ("UPDATE jobs SET completed = ? WHERE job = ?", (claim["round"] + 1, job))
    return [_claim(event, at, job, event.args["cid"]), completed]


@_on("TrialAnswered")
def _trial_answered(event: Event, at: int) -> Sequence[Statement]:
    return [_claim(event, at, TRIALS, b"")]


def _claim(event: Event, at: int, job: int, digest: bytes) -> Statement:
    """digest: of the CID of what was claimed."""
    claim = event.args["claim"]
    first, count = (claim["scope"] >> 16, claim["scope"] & 0xFFFF) if event.name == "ResultsCommitted" else (0, 0)
    values = (
        job, claim["turn"], claim["round"], _small(claim["seat"]), claim["operator"], first, count, str(claim["price"]), event.block, at,
        digest, claim["root"], claim_hash(Claim(*claim.values())),
    )  # fmt: skip
    columns = "job, turn, round, seat, operator, first, count, price, block, at, digest, root, hash"
    return f"INSERT INTO claims ({columns}) VALUES ({','.join('?' * len(values))})", values


@_on("ClaimFinalised")
def _finalised(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    paid, key = args["paid"], (args["job"], args["turn"], args["seat"])
    net = str(paid - fee_of(paid))
    return [
        (f"UPDATE claims SET state = 'final', disputed = 0 WHERE {_NEWEST}", key),
        ("INSERT INTO payments (operator, job, token, at, amount, kind) SELECT ?, job, token, ?, ?, 'work' FROM jobs WHERE job = ?",
         (args["operator"], at, net, args["job"])),
    ]  # fmt: skip


@_on("ClaimConvicted")
def _convicted(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [
        (f"UPDATE claims SET state = 'convicted', disputed = 0 WHERE {_NEWEST}", (args["job"], args["turn"], args["seat"])),
        ("UPDATE jobs SET convictions = convictions + 1 WHERE job = ?", (args["job"],)),
        ("UPDATE operators SET convictions = convictions + 1 WHERE operator = ?", (args["operator"],)),
        ("INSERT INTO payments (operator, job, token, at, amount, kind) SELECT ?, job, token, ?, ?, 'slashed' FROM jobs WHERE job = ?",
         (args["operator"], at, str(args["slashed"]), args["job"])),
    ]  # fmt: skip


@_on("ClaimVoided")
def _voided(event: Event, at: int) -> Sequence[Statement]:
    key = (event.args["job"], event.args["turn"], event.args["seat"])
    return [(f"UPDATE claims SET state = 'void', disputed = 0 WHERE {_NEWEST}", key)]


@_on("SeatsAbsent")
def _absent(event: Event, at: int) -> Sequence[Statement]:
    job, turn = event.args["job"], event.args["turn"]
    return [
        (f"UPDATE claims SET state = 'absent' WHERE {_NEWEST}", (job, turn, seat))
        for seat in slots_in(event.args["seats"])
    ]


@_on("DisputeOpened")
def _dispute_opened(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [(f"UPDATE claims SET disputed = 1 WHERE {_NEWEST}", (args["job"], args["turn"], args["seat"]))]


# -- seats and auctions


@_on("SeatTaken")
def _seat_taken(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [_seat(args["job"], args["seat"], args["operator"], args["first"], args["count"], args["price"])]


@_on("SeatTakenOver")
def _seat_taken_over(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    change = "operator = ?, price = ? WHERE job = ? AND seat = ?"
    return [(f"UPDATE seats SET {change}", (args["operator"], str(args["price"]), args["job"], args["seat"]))]


@_on("SeatSplit")
def _seat_split(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [
        ("UPDATE seats SET count = ? WHERE job = ? AND seat = ?", (args["kept"], args["job"], args["seat"])),
        _seat(args["job"], args["new_seat"], 0, args["first"], args["count"], 0),
    ]


@_on("SeatVacated")
def _seat_vacated(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    made: list[Statement] = [
        ("UPDATE seats SET operator = 0 WHERE job = ? AND seat = ?", (args["job"], args["seat"]))
    ]
    if args["slashed"]:
        made.append(
            ("INSERT INTO payments (operator, job, token, at, amount, kind) SELECT ?, job, token, ?, ?, 'slashed' FROM jobs WHERE job = ?",
             (args["operator"], at, str(args["slashed"]), args["job"]))
        )  # fmt: skip
    return made


def _seat(job: int, seat: int, operator: int, first: int, count: int, price: int) -> Statement:
    return (
        "INSERT INTO seats (job, seat, operator, first, count, price) VALUES (?,?,?,?,?,?) ON CONFLICT (job, seat) DO UPDATE SET "
        "operator = excluded.operator, first = excluded.first, count = excluded.count, price = excluded.price",
        (job, seat, operator, first, count, str(price)),
    )


@_on("LotOpened")
def _lot_opened(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    values = (args["job"], args["kind"], args["attempt"], str(args["reserve"]), _small(args["bid_end"]), _small(args["reveal_end"]), at)  # fmt: skip
    return [("INSERT INTO auctions (job, kind, attempt, reserve, bid_end, reveal_end, opened_at) VALUES (?,?,?,?,?,?,?)", values)]  # fmt: skip


_LOT = "WHERE rowid = (SELECT MAX(rowid) FROM auctions WHERE job = ? AND kind = ?)"


@_on("BidSealed")
def _bid_sealed(event: Event, at: int) -> Sequence[Statement]:
    return [(f"UPDATE auctions SET sealed = sealed + 1 {_LOT}", (event.job, event.args["kind"]))]


@_on("BidRevealed")
def _bid_revealed(event: Event, at: int) -> Sequence[Statement]:
    return [(f"UPDATE auctions SET revealed = revealed + 1 {_LOT}", (event.job, event.args["kind"]))]


@_on("BidsCleared")
def _bids_cleared(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [(f"UPDATE auctions SET sold = ?, cleared_at = ? {_LOT}", (_small(args["sold"]), at, args["job"], args["kind"]))]  # fmt: skip


@_on("SeatAwarded")
def _seat_awarded(event: Event, at: int) -> Sequence[Statement]:
    """The clearing price is paid to all winners but those whose discount lowers theirs: the highest is shown."""
    args = event.args
    price = str(args["price"])
    change = "price = largest(COALESCE(price, '0'), ?), priced_at = ?"
    return [(f"UPDATE auctions SET {change} {_LOT}", (price, at, args["job"], args["kind"]))]


# -- operators


@_on("OperatorRegistered")
def _registered(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    values = (
        args["operator"], args["owner"], args["hot"], _small(args["gpu_class"]), _small(args["vram_gb"]), str(args["stake"]), args["endpoint"], at,
    )  # fmt: skip
    columns = "operator, owner, hot, gpu_class, vram_gb, stake, endpoint, registered_at"
    return [(f"INSERT INTO operators ({columns}) VALUES (?,?,?,?,?,?,?,?)", values)]


_COLUMNS: Mapping[str, tuple[str, str]] = {
    "EndpointAnnounced": ("endpoint", "endpoint"), "HotKeyChanged": ("hot", "hot"), "OwnerChanged": ("owner", "owner"),
    "AdmissionChanged": ("admitted", "admitted"), "ExitRequested": ("exit_at", "exit_at"), "RegionDeclared": ("region", "region"),
}  # fmt: skip


@_on(*_COLUMNS)
def _operator_changed(event: Event, at: int) -> Sequence[Statement]:
    column, argument = _COLUMNS[event.name]
    value = event.args[argument]
    value = _small(value) if isinstance(value, int) else value
    return [(f"UPDATE operators SET {column} = ? WHERE operator = ?", (value, event.operator))]


@_on("AvailabilityDeclared")
def _declared(event: Event, at: int) -> Sequence[Statement]:
    values = (_small(event.args["tier"]), int(event.args["hours"]).bit_count(), event.operator)
    return [("UPDATE operators SET tier = ?, hours = ? WHERE operator = ?", values)]


_SIGNS = {"StakeAdded": "", "StakeWithdrawn": "-", "StakeSlashed": "-"}


@_on(*_SIGNS)
def _stake_changed(event: Event, at: int) -> Sequence[Statement]:
    change = f"{_SIGNS[event.name]}{event.args['amount']}"
    return [("UPDATE operators SET stake = plus(stake, ?) WHERE operator = ?", (change, event.operator))]


_DEPOSITS = {"CollateralDeposited": "", "CollateralWithdrawn": "-", "CollateralSlashed": "-"}


@_on(*_DEPOSITS)
def _deposit_changed(event: Event, at: int) -> Sequence[Statement]:
    """How much of it is locked follows from no event: bids lock without one."""
    args = event.args
    return [
        ("INSERT INTO collateral (operator, token, balance) VALUES (?,?,?) ON CONFLICT (operator, token) DO UPDATE SET "
         "balance = plus(balance, excluded.balance)", (args["operator"], args["token"], f"{_DEPOSITS[event.name]}{args['amount']}"))
    ]  # fmt: skip


@_on("RewardClaimed")
def _reward_claimed(event: Event, at: int) -> Sequence[Statement]:
    values = (event.operator, at, str(event.args["amount"]))
    return [("INSERT INTO payments (operator, job, token, at, amount, kind) VALUES (?, 0, '', ?, ?, 'rewards')", values)]


@_on("TimeStopped")
def _time_stopped(event: Event, at: int) -> Sequence[Statement]:
    change = "INSERT INTO facts VALUES ('stopped_s', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
    return [(change, (str(event.args["stopped_s"]),))]


# -- disputes


@_on("ClaimAsked")
def _claim_asked(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    first = (
        "INSERT INTO disputes (claim, job, first_at, asks, turn, round, seat, operator) SELECT ?, ?, ?, 1, turn, round, seat, operator "
        "FROM claims WHERE hash = ? ORDER BY id DESC LIMIT 1 ON CONFLICT (claim) DO UPDATE SET asks = asks + 1"
    )
    return [
        (first, (args["claim"], args["job"], at, args["claim_hash"])),
        *_place(event, at, args["claim"], args["id"]),
    ]


@_on("NodeAsked")
def _node_asked(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    asked = ("UPDATE disputes SET asks = asks + 1 WHERE claim = ?", (args["claim"],))
    return [asked, *_place(event, at, args["claim"], args["id"])]


def _place(event: Event, at: int, claim: bytes, id_: bytes) -> list[Statement]:
    """id_: of a place that was asked for, which its answers name alone."""
    return [
        ("INSERT INTO places (id, claim) VALUES (?, ?) ON CONFLICT (id) DO NOTHING", (id_, claim)),
        _step(event, at, id_),
    ]


@_on("NodeAnswered", "LeafShown", "StageFixed")
def _answered(event: Event, at: int) -> Sequence[Statement]:
    return [_step(event, at, event.args["id"])]


@_on("ClaimResolved")
def _resolved(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    keep = "INSERT INTO steps (claim, block, log_index, at, tx, name, args) VALUES (?,?,?,?,?,?,?)"
    over = ("UPDATE disputes SET outcome = ?, ended_at = ? WHERE claim = ?", (_small(args["outcome"]), at, args["claim"]))
    unpaid = "UPDATE claims SET disputed = 0 WHERE (job, turn, seat) = (SELECT job, turn, seat FROM disputes WHERE claim = ?)"
    return [
        (keep, (args["claim"], event.block, event.log_index, at, event.tx, event.name, _arguments(event))),
        over,
        (unpaid, (args["claim"],)),
    ]  # fmt: skip


def _step(event: Event, at: int, id_: bytes) -> Statement:
    return (
        "INSERT INTO steps (claim, block, log_index, at, tx, name, args) SELECT claim, ?, ?, ?, ?, ?, ? FROM places WHERE id = ?",
        (event.block, event.log_index, at, event.tx, event.name, _arguments(event), id_),
    )


def _arguments(event: Event) -> str:
    """As `Exploration.from_plain` reads them."""
    return json.dumps(encode([_plain(value) for value in event.args.values()]))


def _plain(value: Any) -> Any:
    return [_plain(each) for each in value.values()] if isinstance(value, Mapping) else value


NAMES = frozenset(RULES)  # to be read from the chain
AGGREGATOR = AGGREGATOR_SEAT
