# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title A claim, as the contracts beside Settlement see it
@license Apache-2.0
@dev Settlement keeps one word of a claim: the upper 240 bits of its hash, 8 bits that say whether somebody asked
     about it, 8 bits of status.
"""


from ..interfaces import ISettlementViews
from . import bits
from . import merkle


# In place of a job where the claim is a trial, which Admissions keeps as Settlement keeps others, or an admitted receipt, which
# Serving keeps: no job has these numbers.
TRIALS: constant(uint256) = 0
RECEIPTS: constant(uint256) = 2**32 - 1
# Seats from here on are of aggregators.
AGGREGATION: constant(uint256) = 128
# Status of a claim: neither paid, convicted nor void; convicted.
PENDING: constant(uint256) = 1
CONVICTED: constant(uint256) = 3
# In the ring: the status is where the parked claims are.
PARKED: constant(uint256) = 5
# Left out of its turn: too few custodians hold it, and nobody may ask about it.
ABSENT: constant(uint256) = 6


@internal
@pure
def _hash(claim: ISettlementViews.Claim) -> bytes32:
    return keccak256(abi_encode(claim))


@internal
@pure
def _is_of_job(job: uint256) -> bool:
    """
    @notice Whether a claim is of a job: else it is of one run from a start of its own, with a seed in place of its round, on zeros.
    """
    return job != TRIALS and job != RECEIPTS


@internal
@view
def _is_pending(settlement: address, job: uint256, claim: ISettlementViews.Claim) -> bool:
    return self._has_status(settlement, job, claim, PENDING)


@internal
@view
def _is_convicted(settlement: address, job: uint256, claim: ISettlementViews.Claim) -> bool:
    return self._has_status(settlement, job, claim, CONVICTED)


@internal
@view
def _has_status(settlement: address, job: uint256, claim: ISettlementViews.Claim, status: uint256) -> bool:
    return self._status(settlement, job, claim) == status


@internal
@view
def _is_kept(settlement: address, job: uint256, claim: ISettlementViews.Claim) -> bool:
    """
    @notice Whether Settlement has this claim, whatever became of it.
    """
    return self._status(settlement, job, claim) != 0


@internal
@view
def _status(settlement: address, job: uint256, claim: ISettlementViews.Claim) -> uint256:
    word: uint256 = convert(
        staticcall ISettlementViews(settlement).claims(job, claim.seat, claim.turn), uint256
    )
    if self._is_of(word, claim) and word & bits.U8 != PARKED:
        return word & bits.U8
    return staticcall ISettlementViews(settlement).parked(job, self._hash(claim))


@internal
@pure
def _is_of(word: uint256, claim: ISettlementViews.Claim) -> bool:
    """
    @notice Whether the word that is kept of a claim is this one's.
    """
    return word >> 16 == convert(self._hash(claim), uint256) >> 16


@internal
@pure
def _holds_slot(claim: ISettlementViews.Claim, slot: uint256) -> bool:
    """
    @notice Whether a claim of slots covers the slot: its scope is `first << 16 | count`.
    """
    return claim.seat < AGGREGATION and self._covers(claim.scope, slot)


@internal
@pure
def _covers(scope: uint256, slot: uint256) -> bool:
    """
    @notice Whether the scope of a claim of slots has the slot.
    """
    first: uint256 = scope >> 16
    return slot >= first and slot - first < scope & bits.U16


@internal
@pure
def _has_result(
    root: bytes32, scope: uint256, slot: uint256, result: bytes32, path: DynArray[bytes32, merkle.MAX_DEPTH]
) -> bool:
    """
    @notice Whether a slot's result is a leaf of the tree over the claim's slots.
    """
    # INVARIANT results: a root has one result for each slot. A path of another height would lead to a second one.
    return (
        len(path) == merkle._height_over(scope & bits.U16)
        and merkle._climb(result, slot - (scope >> 16), path) == root
    )
