"""What a specification has of explorations as the Referee takes and keeps it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from zoo_compute.disputes.stage_data import TYPES, encode_stage
from zoo_compute.spec.disputed_claims import DisputedClaim, Finder, Place, Verdict
from zoo_compute.spec.exploration import Node, Status
from zoo_compute.spec.frames import Program

PENDING = 6  # of a claim's word: not resolved


def plain(arg: Any) -> Any:
    """Records as a contract takes them."""
    if isinstance(arg, Program):
        return (arg.head, arg.entries, arg.nodes)
    if isinstance(arg, Node):
        return arg.record
    if is_dataclass(arg):
        return tuple(plain(getattr(arg, each.name)) for each in fields(arg))
    if isinstance(arg, tuple):
        return [plain(each) for each in arg]
    return arg


def sent(arg: Any) -> Any:
    """An argument of the Referee; what leads into another tree goes as bytes."""
    if isinstance(arg, Place):
        return (arg.id, arg.node.record, arg.status, arg.is_child, arg.number, arg.child, list(arg.path))
    return encode_stage(arg) if type(arg) in TYPES else plain(arg)


def claim_word(claim: DisputedClaim | None) -> int:
    if claim is None:
        return 0
    return (
        claim.job << 224
        | claim.operator << 196
        | (claim.left_s if claim.deadline else claim.turn) << 176
        | claim.reexecute_s << 156
        | claim.slots << 148
        | claim.deadline << 108
        | claim.latest << 68
        | claim.open << 52
        | (claim.heavy_open or claim.slot) << 36
        | claim.heavy_made << 20
        | claim.used_s << 4
        | (claim.end or PENDING)
    )


def node_word(kept: tuple[Node, Status] | None) -> int:
    return kept[0].word(kept[1]) if kept else 0


def verdict_word(verdict: Verdict) -> int:
    return int.from_bytes(verdict.unit, "big") << 80 | verdict.asked_at << 40 | verdict.judged_at


def finder_word(finder: Finder) -> int:
    sealed_at = 2**96 - 1 if finder.is_rewarded else finder.sealed_at
    return int(finder.account, 16) << 96 | sealed_at
