# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Views of a job in Settlement
@license Apache-2.0
"""


from ..interfaces import ISettlementViews
from . import bits
from . import settlement_claims
from . import settlement_state as state
from . import settlement_words as words


uses: state


@external
@reentrant
@view
def runs(job: uint256) -> ISettlementViews.Run:
    """
    @notice Everything known of a run; zeros before it is awarded.
    """
    stage: words.Stage = state._stage(job)
    turn: words.Turn = state._turn(job)
    aggregator: words.AggregatorState = state._aggregator(job)
    return ISettlementViews.Run(
        state=stage.state,
        round=turn.round,
        turn=turn.turn,
        rounds=stage.rounds,
        slots=stage.slots,
        quorum=stage.quorum,
        depth=stage.depth,
        policy=stage.policy,
        opened_at=turn.opened_at,
        window_s=stage.window_s,
        slot_s=stage.slot_s,
        aggregate_s=stage.aggregate_s,
        aggregators=stage.aggregators,
        aggregator_due=aggregator.due,
        token=state._token(job),
        flops=state.payment_terms[job] & bits.U96,
        seats=aggregator.seats,
        missing=turn.missing,
        committed=turn.committed,
        holds=turn.holds,
        held_s=turn.held_s,
        start_root=state._start_root(job, stage.depth, turn.turn),
        said=aggregator.said & bits.U8,
        posted=aggregator.said >> 8,
    )


@external
@reentrant
@view
def seats(job: uint256, seat: uint256) -> ISettlementViews.Seat:
    """
    @notice Who holds a seat at what price, or since when it is vacant; zeros when there is none.
    """
    holding: words.Holding = state._holding(job, seat)
    timing: words.SeatTiming = state._timing(job, seat)
    return ISettlementViews.Seat(
        operator=holding.operator,
        first=holding.first,
        count=holding.count,
        price=holding.price,
        left_turn=holding.left_turn,
        left_at=holding.left_at,
        estimate_s=timing.estimate_s,
        since=timing.since,
    )


@external
@reentrant
@view
def claims(job: uint256, seat: uint256, turn: uint256) -> bytes32:
    """
    @notice The newest claim of a seat in the ring place of a turn: upper bits of its hash | in dispute | status, which has no meaning
            where the hash is not that of the turn's claim.
    """
    word: uint256 = state.claim_words[job][seat][state._place(state._depth(job), turn)]
    if word & bits.U8 == settlement_claims.PENDING and not state._is_pending(job, turn, seat):
        word ^= settlement_claims.PENDING ^ settlement_claims.PAID
    return convert(word, bytes32)


@external
@reentrant
@view
def pending(job: uint256, turn: uint256) -> uint256:
    """
    @notice The seats whose claims of a turn are neither paid, convicted, void nor parked; all bits while the turn may have more.
    """
    return state._pending(job, turn)


@external
@reentrant
@view
def claim_deadline(job: uint256, turn: uint256) -> uint256:
    """
    @notice The last second at which a pending claim of a turn can be challenged: a window after the turn's close. The
            greatest number until then; of no meaning for a turn whose claims are all final.
    """
    return state._claim_deadline(job, turn)
