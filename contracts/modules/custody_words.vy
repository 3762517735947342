# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of Custody
@license Apache-2.0
@notice What Custody stores of a job (its request and its progress), of a turn, of an operator in a job, and of an offer.
@dev Widths: a committee has at most 9 places; TaskRegistry bounds depth to 64 and a round's price below 2^95, so a reserve is
     below 2^101; operators' numbers fit 56 bits, turns 24, seconds since 1970 40. What the length of a job moves is
     converted, which reverts when it does not fit.
"""


from . import bits
from . import numbers


MAX_CUSTODIANS: constant(uint256) = numbers.MAX_CUSTODIANS
# A later offer displaces the one with the least stake: bounds the gas of a draw.
MAX_OFFERS: constant(uint256) = 32
# Of an operator in a job.
OFFERED: constant(uint256) = 1
CUSTODIAN: constant(uint256) = 2
LEFT: constant(uint256) = 3
# In an offer, and in a member's word.
WEIGHT_BITS: constant(uint256) = 64
OPERATOR_AT: constant(uint256) = 24


# What a submitter offers. `fee`: of one signature; `reserve`: what a custodian puts up.
struct Request:
    fee: uint256
    reserve: uint256
    closes_at: uint256


# Where a job's custody is: all that a signature needs in one word. `counted`: the first turn that is not counted; `vacated_at`: when a
# place last fell vacant.
struct Progress:
    custodians: uint256
    depth: uint256
    version: uint256
    vacant: uint256
    offers: uint256
    draw_block: uint256
    counted: uint256
    started: uint256
    vacated_at: uint256


# Who signed what of a turn. `signed_at` is 0 until a majority did. Bit `i` of the last three is the custodian at place `i`.
struct Record:
    turn: uint256
    version: uint256
    mask: uint256
    signed_at: uint256
    inputs: uint256
    checkpoint: uint256
    answered: uint256


struct Role:
    reserve: uint256
    status: uint256
    index: uint256


# Stake that was noted, in 10^-6 ZEN, and when it last grew.
struct Note:
    stake: uint256
    since: uint256


# A place of a committee: who has it, from which turn on; and the key that signs.
struct Member:
    word: uint256
    key: uint256


@internal
@pure
def _pack_request(request: Request) -> uint256:
    return request.fee << 144 | request.reserve << 40 | request.closes_at


@internal
@pure
def _unpack_request(word: uint256) -> Request:
    return Request(fee=word >> 144, reserve=word >> 40 & bits.U104, closes_at=word & bits.U40)


@internal
@pure
def _pack_progress(progress: Progress) -> uint256:
    return (
        progress.vacated_at << 148
        | progress.started << 147
        | progress.custodians << 139
        | progress.depth << 131
        | convert(convert(progress.version, uint24), uint256) << 107
        | progress.vacant << 96
        | progress.offers << 88
        | convert(convert(progress.draw_block, uint64), uint256) << 24
        | convert(convert(progress.counted, uint24), uint256)
    )


@internal
@pure
def _unpack_progress(word: uint256) -> Progress:
    return Progress(
        custodians=word >> 139 & bits.U8,
        depth=word >> 131 & bits.U8,
        version=word >> 107 & bits.U24,
        vacant=word >> 96 & 511,
        offers=word >> 88 & bits.U8,
        draw_block=word >> 24 & bits.U64,
        counted=word & bits.U24,
        started=word >> 147 & 1,
        vacated_at=word >> 148,
    )


@internal
@pure
def _pack_record(record: Record) -> uint256:
    return (
        record.mask << 128
        | record.signed_at << 88
        | convert(convert(record.turn, uint24), uint256) << 64
        | record.version << 40
        | record.inputs << 20
        | record.checkpoint << 10
        | record.answered
    )


@internal
@pure
def _unpack_record(word: uint256) -> Record:
    return Record(
        turn=word >> 64 & bits.U24,
        version=word >> 40 & bits.U24,
        mask=word >> 128,
        signed_at=word >> 88 & bits.U40,
        inputs=word >> 20 & 1023,
        checkpoint=word >> 10 & 1023,
        answered=word & 1023,
    )


@internal
@pure
def _pack_role(role: Role) -> uint256:
    return role.reserve << 16 | role.index << 8 | role.status


@internal
@pure
def _unpack_role(word: uint256) -> Role:
    return Role(reserve=word >> 16, status=word & bits.U8, index=word >> 8 & bits.U8)


@internal
@pure
def _operator_of(member: Member) -> uint256:
    return member.word >> OPERATOR_AT


@internal
@pure
def _from_of(member: Member) -> uint256:
    return member.word & bits.U24
