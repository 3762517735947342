"""The network, and lists of jobs, operators, auctions and prices, from the index."""

from __future__ import annotations

import sqlite3
from typing import Any

from zoo_compute.dashboard.views import (
    AuctionRow,
    ChainView,
    ClassView,
    JobList,
    JobRow,
    NetworkView,
    OperatorList,
    OperatorRow,
    PricePoint,
    ServingSeat,
    TokenView,
)
from zoo_compute.gpus import CLASSES, TIERS
from zoo_compute.requirement_words import format_region
from zoo_compute.spec.params import GPU_CLASSES, KIND_SLOTS

LIMIT = 50  # rows of a list
MOST = 200
PRICES = 400  # the newest ones of a chart
AUCTIONS = 12
STATES = ("open", "awarded", "running", "ended", "cancelled")
_JOB = """SELECT j.job, j.state, j.submitter, j.token, j.round, j.rounds, j.completed, j.slots, j.posted_at, j.escrowed, j.paid,
    (SELECT COUNT(*) FROM disputes d WHERE d.job = j.job AND d.outcome IS NULL), j.convictions FROM jobs j"""
_OPERATOR = """SELECT operator, owner, gpu_class, vram_gb, stake, admitted, tier, hours, region, exit_at, convictions, endpoint,
    registered_at FROM operators"""
_AUCTION = """SELECT a.job, a.kind, a.attempt, j.token, a.reserve, a.bid_end, a.reveal_end, a.sealed, a.revealed, a.sold, a.price,
    a.priced_at, j.state, a.rowid = (SELECT MAX(rowid) FROM auctions b WHERE b.job = a.job AND b.kind = a.kind)
    FROM auctions a JOIN jobs j ON j.job = a.job"""
_SERVING = "SELECT seat, operator, service, price, token, url, locked, convictions FROM serving_seats"
_TIERS = {number: name for name, number in TIERS.items()}


def network(db: sqlite3.Connection, chain: ChainView, now: int) -> NetworkView:
    """now: the protocol's time."""
    states = dict(db.execute("SELECT state, COUNT(*) FROM jobs GROUP BY state"))
    return NetworkView(
        chain=chain,
        jobs_by_state={state: states.get(state, 0) for state in STATES},
        open_disputes=_count(db, "SELECT COUNT(*) FROM disputes WHERE outcome IS NULL"),
        operators=_count(db, "SELECT COUNT(*) FROM operators"),
        classes=_classes(db),
        auctions=recent_auctions(db, now),
        prices=prices(db),
        tokens=tokens(db),
        serving=serving_seats(db),
    )


def serving_seats(db: sqlite3.Connection) -> list[ServingSeat]:
    """Those that were not left, and those that were convicted: by service, the cheapest first."""
    rows = db.execute(f"{_SERVING} WHERE left_at IS NULL OR convictions > 0 LIMIT ?", (MOST,)).fetchall()
    return sorted((ServingSeat(*row) for row in rows), key=lambda each: (each.service, int(each.price), each.seat))


def jobs(
    db: sqlite3.Connection, *, state: str = "", submitter: str = "", before: int | None = None, limit: int = LIMIT
) -> JobList:
    """The newest first. state, submitter: empty for all; before: only jobs with smaller numbers."""
    where = "1"
    values: list[object] = []
    for column, value in (("state", state), ("submitter", submitter)):
        if value:
            where, values = f"{where} AND j.{column} = ?", [*values, value]
    total = _count(db, f"SELECT COUNT(*) FROM jobs j WHERE {where}", values)
    if before is not None:
        where, values = f"{where} AND j.job < ?", [*values, before]
    rows = db.execute(f"{_JOB} WHERE {where} ORDER BY j.job DESC LIMIT ?", [*values, limit + 1]).fetchall()
    return JobList([JobRow(*row) for row in rows[:limit]], total, rows[limit - 1][0] if len(rows) > limit else None)


def job_row(db: sqlite3.Connection, job: int) -> JobRow | None:
    row = db.execute(f"{_JOB} WHERE j.job = ?", (job,)).fetchone()
    return JobRow(*row) if row else None


def operators(db: sqlite3.Connection, *, after: int = 0, limit: int = LIMIT) -> OperatorList:
    """By their numbers. after: only operators with larger numbers."""
    total = _count(db, "SELECT COUNT(*) FROM operators")
    rows = db.execute(f"{_OPERATOR} WHERE operator > ? ORDER BY operator LIMIT ?", (after, limit + 1)).fetchall()
    return OperatorList(
        [_operator(row) for row in rows[:limit]], total, rows[limit - 1][0] if len(rows) > limit else None
    )


def operator_row(db: sqlite3.Connection, operator: int) -> OperatorRow | None:
    row = db.execute(f"{_OPERATOR} WHERE operator = ?", (operator,)).fetchone()
    return _operator(row) if row else None


def recent_auctions(db: sqlite3.Connection, now: int) -> list[AuctionRow]:
    """Those that are open, the next to close first, and then those that sold last."""
    newest = "a.sold IS NULL AND j.state = 'open' AND a.rowid = (SELECT MAX(rowid) FROM auctions b WHERE b.job = a.job AND b.kind = a.kind)"
    going_on = db.execute(f"{_AUCTION} WHERE {newest} ORDER BY a.reveal_end DESC LIMIT ?", (AUCTIONS,)).fetchall()
    sold = db.execute(
        f"{_AUCTION} WHERE a.priced_at IS NOT NULL ORDER BY a.priced_at DESC LIMIT ?", (AUCTIONS,)
    ).fetchall()
    return [_auction(row, now) for row in [*sorted(going_on, key=lambda row: row[6]), *sold]]


def auctions_of(db: sqlite3.Connection, job: int, now: int) -> list[AuctionRow]:
    """The newest attempts first."""
    rows = db.execute(f"{_AUCTION} WHERE a.job = ? ORDER BY a.rowid DESC LIMIT ?", (job, AUCTIONS))
    return [_auction(row, now) for row in rows]


def prices(db: sqlite3.Connection) -> list[PricePoint]:
    """In the order of time."""
    query = """SELECT a.priced_at, a.job, a.kind, j.token, a.price FROM auctions a JOIN jobs j ON j.job = a.job
        WHERE a.priced_at IS NOT NULL ORDER BY a.priced_at DESC LIMIT ?"""
    rows = db.execute(query, (PRICES,)).fetchall()
    return [PricePoint(at, job, _kind(kind), token, price) for at, job, kind, token, price in reversed(rows)]


def tokens(db: sqlite3.Connection) -> list[TokenView]:
    return [TokenView(*row) for row in db.execute("SELECT address, symbol, decimals FROM tokens ORDER BY address")]


def stopped_s(db: sqlite3.Connection) -> int:
    """Seconds for which the protocol's time has stood still: contracts' deadlines are in it, people's clocks are ahead."""
    return _count(db, "SELECT COALESCE((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'stopped_s'), 0)")


def _classes(db: sqlite3.Connection) -> list[ClassView]:
    counts = {
        c: (n, a)
        for c, n, a in db.execute("SELECT gpu_class, COUNT(*), SUM(admitted) FROM operators GROUP BY gpu_class")
    }
    return [ClassView(each.name, *counts.get(each.id, (0, 0)), each.multiplier_percent) for each in CLASSES]


def _operator(row: Any) -> OperatorRow:
    number, owner, gpu_class, vram, stake, admitted, tier, hours, region, exit_at, *rest = row
    name = GPU_CLASSES[gpu_class].name if gpu_class in GPU_CLASSES else f"class {gpu_class}"
    where = format_region(region) if 0 <= region < 2**32 else ""
    return OperatorRow(
        number, owner, name, vram, stake, bool(admitted), _TIERS.get(tier, "none"), hours, where, exit_at, *rest
    )


def _auction(row: Any, now: int) -> AuctionRow:
    job, kind, *middle, state, is_newest = row
    bid_end, reveal_end, _, _, sold, price, _ = middle[3:]
    if price is not None:
        phase = "sold"
    elif not is_newest or state not in ("open", "awarded"):
        phase = "void"
    elif sold is not None:
        phase = "clearing"
    else:
        phase = "bidding" if now < bid_end else "revealing" if now < reveal_end else "clearing"
    return AuctionRow(*(job, _kind(kind), *middle, phase))


def _kind(kind: int) -> str:
    return "slots" if kind == KIND_SLOTS else "aggregator"


def _count(db: sqlite3.Connection, query: str, values: Any = ()) -> int:
    return int(db.execute(query, values).fetchone()[0])
