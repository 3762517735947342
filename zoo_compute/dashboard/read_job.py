"""One job from the index: its rounds, money, deadlines, seats."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from zoo_compute.dashboard.read_dispute import disputes_of_job
from zoo_compute.dashboard.read_network import auctions_of, job_row, stopped_s
from zoo_compute.dashboard.views import Deadline, GridRound, JobDetail, JobLook, JobRow, Money, PenaltyView, SeatView
from zoo_compute.requirement_words import described
from zoo_compute.spec.merkle import root_of_shares
from zoo_compute.spec.params import AGGREGATOR_SEAT

ROUNDS, SLOTS = 40, 64  # of the picture: the newest rounds, the first slots
_STATES = {"final": "final", "convicted": "convicted", "void": "void", "absent": "absent"}


def job(db: sqlite3.Connection, number: int, now: int, look: JobLook | None) -> JobDetail | None:
    """None where there is none. now: the protocol's time."""
    row = job_row(db, number)
    if row is None:
        return None
    columns = "requirements, quorum, rollbacks, closed_at, restored, fee, refunded, turn"
    requirements, quorum, rollbacks, closed_at, restored, fee, refunded, turn = db.execute(
        f"SELECT {columns} FROM jobs WHERE job = ?", (number,)
    ).fetchone()
    pending = _pending(db, number)
    seats = _seats(db, number)
    return JobDetail(
        row=row,
        requirements=list(described(int(requirements))),
        quorum=quorum,
        final_rounds=_final_rounds(db, row, pending),
        rollbacks=rollbacks,
        closed=closed_at is not None,
        root=_root(db, row),
        money=_money(row, restored, fee, refunded, pending),
        rounds=_grid(db, row, turn, seats),
        deadlines=_deadlines(db, row, turn, pending, now),
        seats=seats,
        penalties=_penalties(db, number),
        disputes=disputes_of_job(db, number),
        auctions=auctions_of(db, number, now),
        look=look,
    )


def _seats(db: sqlite3.Connection, job: int) -> list[SeatView]:
    query = "SELECT seat, operator, first, count, price FROM seats WHERE job = ? ORDER BY seat LIMIT 200"
    return [
        SeatView(seat, operator, first, 0 if seat >= AGGREGATOR_SEAT else count, price)
        for seat, operator, first, count, price in db.execute(query, (job,))
    ]


def _pending(db: sqlite3.Connection, job: int) -> Sequence[tuple[int, str]]:
    """(turn, price) of claims neither paid nor refused."""
    return db.execute(
        "SELECT turn, price FROM claims WHERE job = ? AND state = 'pending' ORDER BY turn", (job,)
    ).fetchall()


def _money(row: JobRow, restored: str, fee: str, refunded: str, pending: Sequence[tuple[int, str]]) -> Money:
    held = int(row.escrowed) + int(restored) - int(row.paid) - int(fee) - int(refunded)
    if row.state == "cancelled":  # the whole rest came back, of which the event says nothing
        refunded, held = str(int(refunded) + held), 0
    due = min(sum(int(price) for _, price in pending), held)
    return Money(row.escrowed, restored, row.paid, fee, refunded, str(due), str(held - due))


def _final_rounds(db: sqlite3.Connection, row: JobRow, pending: Sequence[tuple[int, str]]) -> int:
    """As `JobView.final_rounds`: rounds whose checkpoint was made before the oldest pending claim's turn."""
    oldest = pending[0][0] if pending else 2**62
    query = (
        "SELECT MAX(round) + 1 FROM claims WHERE job = ? AND seat = ? AND turn < ? AND round < ? AND state = 'final'"
    )
    return db.execute(query, (row.job, AGGREGATOR_SEAT, oldest, row.completed)).fetchone()[0] or 0


def _root(db: sqlite3.Connection, row: JobRow) -> str:
    newest = "SELECT MAX(turn) FROM claims WHERE job = ? AND seat >= ? AND round = ?"
    query = f"SELECT root FROM claims WHERE job = ? AND seat >= ? AND turn = ({newest}) ORDER BY seat"
    where = (row.job, AGGREGATOR_SEAT)
    roots = [root for (root,) in db.execute(query, (*where, *where, row.completed - 1))]
    return "0x" + root_of_shares(roots).hex() if roots else ""


def _grid(db: sqlite3.Connection, row: JobRow, open_turn: int, seats: Sequence[SeatView]) -> list[GridRound]:
    """Of each round the newest turn: it is repeated after a rollback."""
    query = "SELECT round, MAX(turn) FROM turns WHERE job = ? AND round <= ? GROUP BY round ORDER BY round DESC LIMIT ?"
    turns = {turn: round_ for round_, turn in db.execute(query, (row.job, row.completed, ROUNDS))}
    marks = ",".join("?" * len(turns))
    claims = f"SELECT turn, seat, first, count, operator, state, disputed FROM claims WHERE job = ? AND turn IN ({marks}) ORDER BY id"
    by_turn: dict[int, list[Any]] = {}
    for turn, *claim in db.execute(claims, (row.job, *turns)):
        by_turn.setdefault(turn, []).append(claim)
    return [
        _round(round_, turn, by_turn.get(turn, ()), row, seats if turn == open_turn and row.state == "running" else ())
        for turn, round_ in sorted(turns.items())
    ]


def _round(round_: int, turn: int, claims: Sequence[Any], row: JobRow, working: Sequence[SeatView]) -> GridRound:
    """working: the seats whose turn is open."""
    visible = min(row.slots, SLOTS)
    slots, operators = ["none"] * visible, [0] * visible
    aggregation, aggregator = "none", 0
    posted = {seat for seat, *_ in claims}
    awaited = any(seat.seat >= AGGREGATOR_SEAT and seat.seat not in posted for seat in working)
    for seat in working:
        state = "training" if seat.operator else "vacant"
        if seat.seat >= AGGREGATOR_SEAT:
            aggregation, aggregator = ("waiting" if seat.operator else "vacant"), seat.operator
        for slot in range(seat.first, min(seat.first + seat.count, visible)):
            slots[slot], operators[slot] = state, seat.operator
    for seat_number, first, count, operator, state, disputed in claims:
        fate = "disputed" if disputed and state == "pending" else _STATES.get(state, "committed")
        if seat_number >= AGGREGATOR_SEAT and not awaited:
            aggregation, aggregator = fate, operator
        for slot in range(first, min(first + count, visible)):
            slots[slot], operators[slot] = fate, operator
    return GridRound(round_ + 1, turn, slots, operators, aggregation, aggregator)


def _deadlines(
    db: sqlite3.Connection, row: JobRow, turn: int, pending: Sequence[tuple[int, str]], now: int
) -> list[Deadline]:
    """In wall time, the next one first; those that passed are left out."""
    made: list[Deadline] = []
    if row.state == "open":
        query = "SELECT bid_end, reveal_end FROM auctions WHERE job = ? AND sold IS NULL ORDER BY rowid DESC LIMIT 1"
        for bid_end, reveal_end in db.execute(query, (row.job,)):
            made += [Deadline("sealed bids", bid_end), Deadline("bids are revealed", reveal_end)]
    if row.state == "running":
        for (closes,) in db.execute("SELECT inputs_close FROM turns WHERE job = ? AND turn = ?", (row.job, turn)):
            made.append(Deadline(f"results of round {row.round + 1}", closes))
    waiting = sorted({turn for turn, _ in pending})[:3]
    query = f"SELECT round, deadline FROM turns WHERE job = ? AND deadline IS NOT NULL AND turn IN ({','.join('?' * len(waiting))})"
    for round_, deadline in db.execute(query, (row.job, *waiting)):
        made.append(Deadline(f"challenges of round {round_ + 1}", deadline))
    ahead = stopped_s(db)
    coming = [Deadline(each.what, each.at + ahead) for each in made if each.at >= now]
    return sorted(coming, key=lambda each: each.at)


def _penalties(db: sqlite3.Connection, job: int) -> list[PenaltyView]:
    query = "SELECT operator, at, amount FROM payments WHERE job = ? AND kind = 'slashed' ORDER BY id DESC LIMIT 50"
    return [PenaltyView(*row) for row in db.execute(query, (job,))]
