"""Disputes from the index: lists of them, and one with its asks as a tree, step by step."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from zoo_compute.client.disputes import AGGREGATOR, ALONE, ENDS, ENDS_BRIEFLY
from zoo_compute.client.explored_places import Ask, asks_of, named, resolved_at
from zoo_compute.dashboard.views import DisputeDetail, DisputeList, DisputeLook, DisputeRow, StepView, TreeRow
from zoo_compute.disputes.exploration import Exploration
from zoo_compute.spec.clocks import End
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.watching import NOBODY

LIMIT = 50
PLACES = 2_000  # of a tree that is drawn
# earlier: disputes with the same name, less its last part
_ROW = """SELECT d.job, d.turn, d.round, d.seat, d.operator, d.asks, d.first_at, d.ended_at, d.outcome,
    (SELECT COUNT(*) FROM disputes e WHERE e.job = d.job AND e.turn IS d.turn AND e.seat IS d.seat AND e.rowid < d.rowid
        AND (d.job != 0 OR e.operator IS d.operator)), d.claim FROM disputes d"""
_WHAT = {
    "ClaimAsked": "asks for {}",
    "NodeAsked": "asks for {}",
    "NodeAnswered": "opens {}",
    "LeafShown": "shows {}",
    "StageFixed": "fixes {}",
}


def disputes(db: sqlite3.Connection, *, only_open: bool = False, limit: int = LIMIT) -> DisputeList:
    """The newest first."""
    where = "d.outcome IS NULL" if only_open else "1"
    total = db.execute(f"SELECT COUNT(*) FROM disputes d WHERE {where}").fetchone()[0]
    rows = db.execute(f"{_ROW} WHERE {where} ORDER BY d.first_at DESC, d.rowid DESC LIMIT ?", (limit,))
    return DisputeList([_row(row) for row in rows], total)


def disputes_of_job(db: sqlite3.Connection, job: int) -> list[DisputeRow]:
    return [_row(row) for row in db.execute(f"{_ROW} WHERE d.job = ? ORDER BY d.rowid DESC LIMIT ?", (job, LIMIT))]


def dispute(db: sqlite3.Connection, name: str, look: DisputeLook | None) -> DisputeDetail | None:
    """name: as `zoo dispute` takes it. None where there is none."""
    match = _find(db, name)
    if match is None:
        return None
    row, claim = match
    steps = db.execute(
        "SELECT name, at, args, tx FROM steps WHERE claim = ? ORDER BY block, log_index", (claim,)
    ).fetchall()
    try:
        picture = Exploration.from_plain([[kind, at, json.loads(args)] for kind, at, args, _ in steps])
        asks = asks_of(picture)
        return DisputeDetail(row, _tree(picture, asks, row.operator), _steps(steps, picture, asks), look)
    except Exception as error:  # noqa: BLE001 - of strangers' bytes, which hide no other dispute
        return DisputeDetail(row, [], [], look, f"this dispute cannot be drawn: {type(error).__name__}: {error}"[:200])


def _find(db: sqlite3.Connection, name: str) -> tuple[DisputeRow, bytes] | None:
    job, _, rest = name.lower().partition(":")
    numbers = {word: number for number, word in ALONE.items()}
    number = numbers.get(job, int(job) if job.isascii() and job.isdigit() and len(job) < 19 else -1)
    first = rest.partition(":")[0]
    where, key = ("d.operator = ?", first) if number in ALONE else ("d.turn = ?", first)
    if not (key.isascii() and key.isdigit() and len(key) < 19):
        return None
    for row in db.execute(f"{_ROW} WHERE d.job = ? AND {where}", (number, int(key))):
        made = _row(row)
        if made.name == name.lower().replace(f":{AGGREGATOR_SEAT}", f":{AGGREGATOR}"):
            return made, row[-1]
    return None


def _row(row: Any) -> DisputeRow:
    job, turn, round_, seat, operator, asks, first_at, ended_at, outcome, earlier, _ = row
    seat_name = AGGREGATOR if seat == AGGREGATOR_SEAT else str(seat)
    name = f"{ALONE[job]}:{operator}" if job in ALONE else f"{job}:{turn}:{seat_name}"
    if job in ALONE:
        work = ALONE[job]
    else:
        work = f"{'aggregation' if seat >= AGGREGATOR_SEAT else f'seat {seat}'}, round {(round_ or 0) + 1}"
    status = "open" if outcome is None else ENDS_BRIEFLY.get(_end(outcome), f"ended: {outcome}")  # type: ignore[arg-type]
    name += f":{earlier + 1}" if earlier else ""
    return DisputeRow(name, job, operator or 0, work, asks, first_at, ended_at, status)


def _end(outcome: int) -> End | None:
    return End(outcome) if outcome in set(End) else None


def _names(operator: int) -> dict[str, str]:
    return {NOBODY.lower(): f"operator {operator}"}


def _tree(picture: Exploration, asks: Sequence[Ask], operator: int) -> list[TreeRow]:
    """Each ask under the one that led to it; the first of each path in the order they were made."""
    below: dict[bytes, list[Ask]] = {}
    for ask in asks:
        below.setdefault(ask.above if ask.above in picture.nodes else b"", []).append(ask)
    convicted = resolved_at(picture) if picture.end is not None else None
    names = _names(operator)
    rows: list[TreeRow] = []
    left = [(ask, 0) for ask in reversed(below.get(b"", []))]  # a stack: paths may be deep
    while left and len(rows) < PLACES:
        ask, depth = left.pop()
        answered = named(ask.answerer, names) if ask.answerer is not None else ""
        due = ask.due if ask.answerer is None else None
        rows.append(TreeRow(
            ask.id.hex(), depth, ask.path, ask.place, ask.is_heavy, named(ask.asker, names), answered, due, ask.id == convicted
        ))  # fmt: skip
        left += [(each, depth + 1) for each in reversed(below.get(ask.id, []))]
    return rows


def _steps(events: Sequence[Any], picture: Exploration, asks: Sequence[Ask]) -> list[StepView]:
    places = {ask.id: ask for ask in asks}
    made = []
    for number, (event, (name, at, _, tx)) in enumerate(zip(picture.events, events, strict=True), 1):
        id_ = _id_of(event.name, event.args)
        place = places[id_].place if id_ in places else "a place"
        if name == "ClaimResolved":
            what, id_ = ENDS[End(event.args[2])], resolved_at(picture)
        else:
            what = _WHAT[name].format(place)
        made.append(StepView(number, at, tx, what, id_.hex() if id_ in places else ""))
    return made


def _id_of(name: str, args: Sequence[Any]) -> bytes:
    """Of the place that an event is about, by its arguments in the contract's order."""
    return bytes(args[{"ClaimAsked": 2, "NodeAsked": 1, "ClaimResolved": 3}.get(name, 0)])
