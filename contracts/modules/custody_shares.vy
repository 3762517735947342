# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Who signed for what several aggregators posted
@license Apache-2.0
"""


from . import claims
from . import custody_words as words
from . import numbers


# Of an aggregator's signers.
SIGNERS_BITS: constant(uint256) = 10
ANY_SIGNERS: constant(uint256) = 2**SIGNERS_BITS - 1
# Where a committee has no place: somebody posted, even if nobody signed for all shares.
POSTED: constant(uint256) = 2**words.MAX_CUSTODIANS


# job -> turn mod (depth + 1) -> of several aggregators, the signers of what each posted last there (10 each)
signers_of: HashMap[uint256, HashMap[uint256, uint256]]


@internal
@view
def _of(job: uint256, place: uint256, record: words.Record, seat: uint256) -> uint256:
    """
    @return Who holds what an aggregator posted in the turn of a record; of the only one all that are on record.
    """
    shares: uint256 = record.checkpoint
    if shares != 0 and self.signers_of[job][place] != 0:
        shares = self.signers_of[job][place]
    # Of no aggregator's seat: far beyond the word.
    return shares >> unsafe_mul(SIGNERS_BITS, unsafe_sub(seat, claims.AGGREGATION)) & ANY_SIGNERS


@internal
def _add(job: uint256, place: uint256, seat: uint256, signers: uint256, is_first: bool) -> uint256:
    """
    @dev More signers of what one of several aggregators posted.
    @param is_first Whether nobody posted in the turn before: what is here is of an older one.
    @return Who holds all that was posted: they are paid for the checkpoint.
    """
    before: uint256 = 0 if is_first else self.signers_of[job][place]
    shares: uint256 = before | signers << SIGNERS_BITS * (seat - claims.AGGREGATION)
    self.signers_of[job][place] = shares
    common: uint256 = ANY_SIGNERS
    for share: uint256 in range(numbers.MAX_AGGREGATORS):
        of_share: uint256 = shares >> SIGNERS_BITS * share & ANY_SIGNERS
        if of_share != 0:
            common &= of_share | POSTED
    return common
