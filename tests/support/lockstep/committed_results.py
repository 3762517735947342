"""What the cast computes: the results of slots, the states of checkpoints, and what opens them.

All of it follows from the slot, the turn and the start root, so that an opening needs nothing but the claim it opens.
"""

from __future__ import annotations

from dataclasses import astuple
from functools import cache

import numpy as np
from eth_abi import encode
from eth_utils import keccak

from repops import commitments
from repops.merkle import merkle_root
from tests.support.openings import SlotRound, State, state_opening, update_opening
from zoo_compute.spec.state import Claim
from zoo_compute.spec.watching import Demand, Opening

CLAIM_TYPES = ["uint256"] * 6 + ["bytes32"] * 2
SEGMENTS, STEPS = 3, 4  # of a slot-round; of a segment


def claim_hash(claim: Claim) -> bytes:
    return keccak(encode(CLAIM_TYPES, astuple(claim)))


@cache
def tensors(number: int) -> State:
    """Three tensors, one of two groups: their tree has a leaf of padding."""
    return {
        "a": np.arange(number, number + 1_200, dtype=np.float32),
        "b": np.full(3, number, dtype=np.float32),
        "c": np.int64([number]),
    }


@cache
def _root(number: int) -> bytes:
    return commitments.state_root(tensors(number))


def checkpoint(turn: int) -> State:
    """What an aggregator that does not lie makes of a turn."""
    return tensors(100 + turn)


def checkpoint_root(turn: int) -> bytes:
    return _root(100 + turn)


@cache
def slot_round(slot: int, turn: int, start_root: bytes) -> SlotRound:
    """Its state after segment 1, 2, ...: some 32 bytes."""
    ends = [(index * STEPS, bytes([slot % 256, turn % 256, index, 1]) * 8) for index in range(1, SEGMENTS + 1)]
    return SlotRound(slot, start_root, ((0, start_root), *ends), tensors(slot % 7))


def segment_leaves(result: SlotRound) -> list[bytes]:
    """The leaves of its segments' tree."""
    return [commitments.segment_leaf(step, root) for step, root in result.steps]


@cache
def round_root(first: int, count: int, turn: int, start_root: bytes) -> bytes:
    """What the holder of these slots commits."""
    results = [slot_round(slot, turn, start_root) for slot in range(first, first + count)]
    roots = [
        commitments.result_root(each.slot, start_root, each.segment_root, each.end_root, _root(each.slot % 7))
        for each in results
    ]
    return merkle_root(roots)


def results_of(claim: Claim) -> list[SlotRound]:
    first = claim.scope >> 16
    return [slot_round(slot, claim.turn, claim.start_root) for slot in range(first, first + claim.count)]


def chunk_opening(claim: Claim, asked: Demand) -> Opening:
    """The answer to a demand of a claim that is no lie."""
    if claim.is_aggregation:
        parts = state_opening(checkpoint(claim.turn), asked.tensor, asked.group)
    else:
        index = asked.slot - (claim.scope >> 16)
        parts = update_opening(results_of(claim), index, asked.tensor, asked.group)
    return Opening(*parts)
