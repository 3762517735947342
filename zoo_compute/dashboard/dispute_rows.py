"""Events of disputes: each is kept whole, since the picture of an exploration is made of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from zoo_compute.chain.events import Event
from zoo_compute.dashboard.rules import Rules, Statement, small
from zoo_compute.json_codec import encode

RULES = Rules()


@RULES.on("ClaimAsked")
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


@RULES.on("NodeAsked")
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


@RULES.on("NodeAnswered", "LeafShown", "StageFixed")
def _answered(event: Event, at: int) -> Sequence[Statement]:
    return [_step(event, at, event.args["id"])]


@RULES.on("ClaimResolved")
def _resolved(event: Event, at: int) -> Sequence[Statement]:
    args = event.args
    keep = "INSERT INTO steps (claim, block, log_index, at, tx, name, args) VALUES (?,?,?,?,?,?,?)"
    over = (
        "UPDATE disputes SET outcome = ?, ended_at = ? WHERE claim = ?",
        (small(args["outcome"]), at, args["claim"]),
    )
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
