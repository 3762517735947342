"""One operator from the index, and the node whose folder is on this machine."""

from __future__ import annotations

import json
import sqlite3
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from zoo_compute.dashboard.read_network import operator_row, stopped_s
from zoo_compute.dashboard.views import DayEarned, Deadline, NodeLook, OperatorClaim, OperatorDetail, OperatorLook
from zoo_compute.paths import CONFIG, STATUS
from zoo_compute.spec.params import AGGREGATOR_SEAT

DAYS = 60
CLAIMS = 50
DAY_S = 86_400


def operator(
    db: sqlite3.Connection, number: int, now: int, look: OperatorLook | None, node: NodeLook | None
) -> OperatorDetail | None:
    """None where there is none. now: the protocol's time."""
    row = operator_row(db, number)
    if row is None:
        return None
    return OperatorDetail(
        row=row,
        next_deadline=_next_deadline(db, number, now),
        earnings=_earnings(db, number, now),
        claims=_claims(db, number, now),
        seats=db.execute(
            "SELECT COUNT(*) FROM seats s JOIN jobs j ON j.job = s.job WHERE s.operator = ? AND j.state IN ('awarded', 'running')",
            (number,),
        ).fetchone()[0],
        look=look,
        node=node,
    )


def _next_deadline(db: sqlite3.Connection, operator: int, now: int) -> Deadline | None:
    """When the inputs of the open turn close in which it has a seat and no claim yet; in wall time."""
    query = """SELECT t.inputs_close, s.job, t.round FROM seats s JOIN jobs j ON j.job = s.job AND j.state = 'running'
        JOIN turns t ON t.job = s.job AND t.turn = j.turn WHERE s.operator = ? AND t.inputs_close >= ? AND NOT EXISTS
        (SELECT 1 FROM claims c WHERE c.job = s.job AND c.turn = t.turn AND c.seat = s.seat) AND s.seat < ?
        ORDER BY t.inputs_close LIMIT 1"""
    row = db.execute(query, (operator, now, AGGREGATOR_SEAT)).fetchone()
    return Deadline(f"results of round {row[2] + 1} of job {row[1]}", row[0] + stopped_s(db)) if row else None


def _earnings(db: sqlite3.Connection, operator: int, now: int) -> list[DayEarned]:
    """By day and token, the newest day first."""
    query = "SELECT at / ?, token, kind, amount FROM payments WHERE operator = ? AND at >= ?"
    sums: dict[tuple[int, str], dict[str, int]] = {}
    # Rewards are ZEN, whose address their event does not name. Another token with this symbol is listed as ZEN@0x...
    zen = db.execute("SELECT COALESCE((SELECT address FROM tokens WHERE symbol = 'ZEN'), '')").fetchone()[0]
    for day, token, kind, amount in db.execute(query, (DAY_S, operator, now - DAYS * DAY_S)):
        kinds = sums.setdefault((day, token or zen), {"work": 0, "rewards": 0, "slashed": 0})
        kinds[kind] += int(amount)
    return [
        DayEarned(
            datetime.fromtimestamp(day * DAY_S, UTC).strftime("%Y-%m-%d"),
            token,
            *(str(each) for each in kinds.values()),
        )
        for (day, token), kinds in sorted(sums.items(), reverse=True)
    ]


def _claims(db: sqlite3.Connection, operator: int, now: int) -> list[OperatorClaim]:
    query = """SELECT c.job, c.round, c.turn, c.seat, c.first, c.count, c.state, c.disputed, j.token, c.price, t.deadline
        FROM claims c JOIN jobs j ON j.job = c.job LEFT JOIN turns t ON t.job = c.job AND t.turn = c.turn
        WHERE c.operator = ? ORDER BY c.id DESC LIMIT ?"""
    ahead = stopped_s(db)
    made = []
    for job, round_, turn, seat, first, count, state, disputed, token, price, deadline in db.execute(
        query, (operator, CLAIMS)
    ):
        slots = f"slots {first} to {first + count - 1}" if count > 1 else f"slot {first}"
        work = "aggregation" if seat >= AGGREGATOR_SEAT else slots
        is_open = state == "pending" and deadline is not None
        fate = "in dispute" if disputed and state == "pending" else _fate(state, deadline, now)
        made.append(
            OperatorClaim(job, round_ + 1, turn, work, fate, token, price, deadline + ahead if is_open else None)
        )
    return made


def _fate(state: str, deadline: int | None, now: int) -> str:
    if state != "pending":
        return "paid" if state == "final" else state
    if deadline is None:
        return "in turn"
    return "challenge window" if now <= deadline else "payable"


def node_in(folder: Path | None, needs: list[str]) -> NodeLook | None:
    """What the operator's folder on this machine says; None without one. needs: what `zoo node status` says is missing."""
    if folder is None:
        return None
    config, status = _json(folder / CONFIG), _json(folder / STATUS)
    if not config:
        return None
    path = folder / STATUS
    block, jobs = status.get("block"), status.get("jobs")
    return NodeLook(
        operator=_int(config.get("operator")),
        folder=str(folder),
        read_at=int(path.stat().st_mtime) if path.exists() else 0,
        block=block if isinstance(block, int) else None,
        workers=_texts(status.get("workers")),
        jobs={str(job): str(state) for job, state in jobs.items()} if isinstance(jobs, dict) else {},
        trouble=_texts(status.get("trouble")),
        needs=needs,
    )


def _json(path: Path) -> dict[str, Any]:
    """Empty where there is none, or it is being written."""
    try:
        plain = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _texts(value: Any) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list) else []


def _int(value: Any) -> int:
    return value if isinstance(value, int) else 0
