# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Shares of several aggregators in Settlement
@license Apache-2.0
@notice Each aggregator of a job posts a share of its checkpoint; the last one of a turn completes it.
"""


from . import numbers
from . import settlement_state as state
from . import settlement_words as words


uses: state


# job -> aggregator -> of the open turn, or one before: the root that it posted, where it is not the only one
share_roots: HashMap[uint256, HashMap[uint256, bytes32]]


@internal
@view
def _has_posted(job: uint256, seat: uint256) -> bool:
    """
    @return Whether an aggregator posted in the open turn.
    """
    return state.aggregator_state[job] >> unsafe_add(unsafe_sub(words.POSTED_AT, state.AGGREGATION), seat) & 1 == 1


@internal
@view
def _lacks_aggregator(job: uint256, aggregators: uint256) -> bool:
    """
    @return Whether nobody holds a seat of an aggregator that has not posted.
    """
    for share: uint256 in range(aggregators, bound=numbers.MAX_AGGREGATORS):
        seat: uint256 = unsafe_add(state.AGGREGATION, share)
        if not self._has_posted(job, seat) and state.holdings[job][seat] >> words.OPERATOR_AT == 0:
            return True
    return False
