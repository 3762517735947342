"""Events of jobs: their rounds, claims, seats, auctions and payments."""

from __future__ import annotations

from collections.abc import Sequence

from zoo_compute.chain.events import Event
from zoo_compute.dashboard.rules import Rules, Statement, small
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.params import AGGREGATOR_SEAT, fee_of
from zoo_compute.spec.receipts import RECEIPTS
from zoo_compute.spec.state import Claim, JobState
from zoo_compute.spec.trials import TRIALS

RULES = Rules()
_NEWEST = "id = (SELECT MAX(id) FROM claims WHERE job = ? AND turn = ? AND seat = ?)"

# -- jobs


@RULES.on("JobPosted")
def _posted(event: Event, at: int) -> Sequence[Statement]:
    args, terms = event.args, event.args["terms"]
    values = (
        args["job"], args["submitter"], terms["token"], small(terms["rounds"]), small(terms["slots"]), small(terms["quorum"]),
        small(terms["flops"]), small(terms["reexecute_s"]), str(terms["requirements"]), event.block, at, str(args["escrow"]),
    )  # fmt: skip
    columns = "job, submitter, token, rounds, slots, quorum, flops, reexecute_s, requirements, posted_block, posted_at, escrowed"
    return [(f"INSERT INTO jobs ({columns}) VALUES ({','.join('?' * len(values))})", values)]


@RULES.on("JobAdvanced")
def _advanced(event: Event, at: int) -> Sequence[Statement]:
    number = event.args["state"]
    state = JobState(number).name.lower() if number in set(JobState) else "unknown"
    return [("UPDATE jobs SET state = ? WHERE job = ?", (state, event.job))]


@RULES.on("JobCancelled")
def _cancelled(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET state = 'cancelled' WHERE job = ?", (event.job,))]


@RULES.on("JobEnded")
def _ended(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET state = 'ended' WHERE job = ?", (event.job,))]


@RULES.on("JobClosed")
def _closed(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET closed_at = ?, refunded = ? WHERE job = ?", (at, str(event.args["refunded"]), event.job))]


@RULES.on("JobFunded")
def _funded(event: Event, at: int) -> Sequence[Statement]:
    return [("UPDATE jobs SET restored = plus(restored, ?) WHERE job = ?", (str(event.args["amount"]), event.job))]


@RULES.on("Paid")
def _paid(event: Event, at: int) -> Sequence[Statement]:
    net, fee = str(event.args["net"]), str(event.args["fee"])
    return [("UPDATE jobs SET paid = plus(paid, ?), fee = plus(fee, ?) WHERE job = ?", (net, fee, event.job))]


@RULES.on("TurnOpened")
def _turn_opened(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    turn, round_, closes = args["turn"], args["round"], small(args["inputs_close"])
    return [
        ("INSERT INTO turns (job, turn, round, opened_at, inputs_close) VALUES (?,?,?,?,?) ON CONFLICT (job, turn) DO UPDATE SET "
         "round = excluded.round, opened_at = excluded.opened_at, inputs_close = excluded.inputs_close",
         (args["job"], turn, round_, at, closes)),
        ("UPDATE jobs SET state = 'running', turn = ?, round = ? WHERE job = ?", (turn, round_, args["job"])),
    ]  # fmt: skip


@RULES.on("TurnClosed")
def _turn_closed(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [("UPDATE turns SET deadline = ? WHERE job = ? AND turn = ?", (small(args["deadline"]), args["job"], args["turn"]))]  # fmt: skip


@RULES.on("RolledBack")
def _rolled_back(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    change = "completed = MIN(completed, ?), rollbacks = rollbacks + 1"
    return [(f"UPDATE jobs SET {change} WHERE job = ?", (args["round"], args["job"]))]


# -- claims


@RULES.on("ResultsCommitted", "CheckpointPosted")
def _claimed(event: Event, at: int) -> Sequence[Statement]:
    job, claim = event.args["job"], event.args["claim"]
    if event.name == "ResultsCommitted":
        return [_claim(event, at, job, event.args["bundle"])]
    posted = "SELECT COUNT(DISTINCT seat) FROM claims WHERE job = ? AND turn = ? AND seat >= ?"
    aggregators = "SELECT COUNT(*) FROM seats WHERE job = ? AND seat >= ?"
    where, at_turn = (job, AGGREGATOR_SEAT), (job, claim["turn"], AGGREGATOR_SEAT)
    completed = f"UPDATE jobs SET completed = ? WHERE job = ? AND ({posted}) >= ({aggregators})"
    return [_claim(event, at, job, event.args["cid"]), (completed, (claim["round"] + 1, job, *at_turn, *where))]


@RULES.on("TrialAnswered", "ReceiptAdmitted")
def _claimed_alone(event: Event, at: int) -> Sequence[Statement]:
    return [_claim(event, at, TRIALS if event.name == "TrialAnswered" else RECEIPTS, b"")]


def _claim(event: Event, at: int, job: int, digest: bytes) -> Statement:
    """digest: of the CID of what was claimed."""
    claim = event.args["claim"]
    first, count = (claim["scope"] >> 16, claim["scope"] & 0xFFFF) if event.name == "ResultsCommitted" else (0, 0)
    values = (
        job, claim["turn"], claim["round"], small(claim["seat"]), claim["operator"], first, count, str(claim["price"]), event.block, at,
        digest, claim["root"], claim_hash(Claim(*claim.values())),
    )  # fmt: skip
    columns = "job, turn, round, seat, operator, first, count, price, block, at, digest, root, hash"
    return f"INSERT INTO claims ({columns}) VALUES ({','.join('?' * len(values))})", values


@RULES.on("ClaimFinalised")
def _finalised(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    paid, key = args["paid"], (args["job"], args["turn"], args["seat"])
    net = str(paid - fee_of(paid))
    return [
        (f"UPDATE claims SET state = 'final', disputed = 0 WHERE {_NEWEST}", key),
        ("INSERT INTO payments (operator, job, token, at, amount, kind) SELECT ?, job, token, ?, ?, 'work' FROM jobs WHERE job = ?",
         (args["operator"], at, net, args["job"])),
    ]  # fmt: skip


@RULES.on("ClaimConvicted")
def _convicted(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [
        (f"UPDATE claims SET state = 'convicted', disputed = 0 WHERE {_NEWEST}", (args["job"], args["turn"], args["seat"])),
        ("UPDATE jobs SET convictions = convictions + 1 WHERE job = ?", (args["job"],)),
        ("UPDATE operators SET convictions = convictions + 1 WHERE operator = ?", (args["operator"],)),
        ("INSERT INTO payments (operator, job, token, at, amount, kind) SELECT ?, job, token, ?, ?, 'slashed' FROM jobs WHERE job = ?",
         (args["operator"], at, str(args["slashed"]), args["job"])),
    ]  # fmt: skip


@RULES.on("ClaimVoided")
def _voided(event: Event, at: int) -> Sequence[Statement]:
    key = (event.args["job"], event.args["turn"], event.args["seat"])
    return [(f"UPDATE claims SET state = 'void', disputed = 0 WHERE {_NEWEST}", key)]


@RULES.on("SeatsAbsent")
def _absent(event: Event, at: int) -> Sequence[Statement]:
    job, turn = event.args["job"], event.args["turn"]
    return [
        (f"UPDATE claims SET state = 'absent' WHERE {_NEWEST}", (job, turn, seat))
        for seat in slots_in(event.args["seats"])
    ]


@RULES.on("DisputeOpened")
def _dispute_opened(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [(f"UPDATE claims SET disputed = 1 WHERE {_NEWEST}", (args["job"], args["turn"], args["seat"]))]


# -- seats and auctions


@RULES.on("SeatTaken")
def _seat_taken(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [_seat(args["job"], args["seat"], args["operator"], args["first"], args["count"], args["price"])]


@RULES.on("SeatTakenOver")
def _seat_taken_over(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    change = "operator = ?, price = ? WHERE job = ? AND seat = ?"
    return [(f"UPDATE seats SET {change}", (args["operator"], str(args["price"]), args["job"], args["seat"]))]


@RULES.on("SeatSplit")
def _seat_split(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [
        ("UPDATE seats SET count = ? WHERE job = ? AND seat = ?", (args["kept"], args["job"], args["seat"])),
        _seat(args["job"], args["new_seat"], 0, args["first"], args["count"], 0),
    ]


@RULES.on("SeatVacated")
def _seat_vacated(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    made: list[Statement] = [("UPDATE seats SET operator = 0 WHERE job = ? AND seat = ?", (args["job"], args["seat"]))]
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


@RULES.on("LotOpened")
def _lot_opened(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    values = (args["job"], args["kind"], args["attempt"], str(args["reserve"]), small(args["bid_end"]), small(args["reveal_end"]), at)  # fmt: skip
    return [("INSERT INTO auctions (job, kind, attempt, reserve, bid_end, reveal_end, opened_at) VALUES (?,?,?,?,?,?,?)", values)]  # fmt: skip


_LOT = "WHERE rowid = (SELECT MAX(rowid) FROM auctions WHERE job = ? AND kind = ?)"


@RULES.on("BidSealed")
def _bid_sealed(event: Event, at: int) -> Sequence[Statement]:
    return [(f"UPDATE auctions SET sealed = sealed + 1 {_LOT}", (event.job, event.args["kind"]))]


@RULES.on("BidRevealed")
def _bid_revealed(event: Event, at: int) -> Sequence[Statement]:
    return [(f"UPDATE auctions SET revealed = revealed + 1 {_LOT}", (event.job, event.args["kind"]))]


@RULES.on("BidsCleared")
def _bids_cleared(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    return [(f"UPDATE auctions SET sold = ?, cleared_at = ? {_LOT}", (small(args["sold"]), at, args["job"], args["kind"]))]  # fmt: skip


@RULES.on("SeatAwarded")
def _seat_awarded(event: Event, at: int) -> Sequence[Statement]:
    """The clearing price is paid to all winners but those whose discount lowers theirs: the highest is shown."""
    args = event.args
    price = str(args["price"])
    change = "price = largest(COALESCE(price, '0'), ?), priced_at = ?"
    return [(f"UPDATE auctions SET {change} {_LOT}", (price, at, args["job"], args["kind"]))]
