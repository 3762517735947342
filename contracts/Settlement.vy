# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Settlement
@license Apache-2.0
@notice Runs awarded jobs: records which operator has which seat and what it commits in each turn, vacates seats that are
        late and lets others take over, pays claims that survive their window, convicts those that do not, and has the
        rounds that rest on a false claim done again.
@dev Calls go to the protocol's own contracts only, and none of those calls anybody back while it serves this one: no
     token is moved here, payments become debts of TaskRegistry. Where effects and calls interleave, nothing else runs.
     The parts, each in a module of its own: state (most storage), shares, turns, claims, seats, takeovers, convictions, views.
"""


from .interfaces import IDisputes
from .interfaces import ISettlement
from .modules import settlement_claims
from .modules import settlement_convictions
from .modules import settlement_seats
from .modules import settlement_shares
from .modules import settlement_state
from .modules import settlement_takeovers
from .modules import settlement_turns
from .modules import settlement_views


implements: ISettlement
implements: IDisputes


initializes: settlement_state
initializes: settlement_shares[state := settlement_state]
initializes: settlement_turns[state := settlement_state, shares := settlement_shares]
initializes: settlement_claims[
    state := settlement_state, shares := settlement_shares, turns := settlement_turns
]
initializes: settlement_seats[
    state := settlement_state, shares := settlement_shares, turns := settlement_turns
]
initializes: settlement_takeovers[
    state := settlement_state, turns := settlement_turns, seats := settlement_seats
]
initializes: settlement_convictions[
    state := settlement_state, turns := settlement_turns, claims := settlement_claims, seats := settlement_seats
]
initializes: settlement_views[state := settlement_state]


exports: (
    settlement_state.registry,
    settlement_state.tasks,
    settlement_state.auction,
    settlement_state.ready_window_s,
    settlement_state.min_window_s,
    settlement_state.referee,
    settlement_state.availability,
    settlement_state.custody,
    settlement_state.locks,
    settlement_state.parked,
    settlement_state.records,
    settlement_state.wire,
    settlement_turns.begin,
    settlement_turns.abandon,
    settlement_turns.start,
    settlement_turns.note_custody,
    settlement_turns.hold,
    settlement_turns.resume,
    settlement_claims.commit,
    settlement_claims.post_checkpoint,
    settlement_claims.leave_out,
    settlement_claims.finalise,
    settlement_seats.seat,
    settlement_seats.ready,
    settlement_seats.decline,
    settlement_seats.expire,
    settlement_seats.time_out,
    settlement_seats.check_free,
    settlement_takeovers.take_over,
    settlement_convictions.open_dispute,
    settlement_convictions.close_dispute,
    settlement_convictions.reward_finder,
    settlement_convictions.dispute_terms,
    settlement_convictions.void,
    settlement_views.runs,
    settlement_views.seats,
    settlement_views.claims,
    settlement_views.pending,
    settlement_views.claim_deadline,
)


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    auction_: address,
    locks_: address,
    rewards_: address,
    zen_: address,
    ready_window_s_: uint256,
    min_window_s_: uint256,
    pay_fades_from_s_: uint256,
    pay_gone_at_s_: uint256,
):
    """
    @param registry_ Keys, owners and collateral of the operators.
    @param tasks_ Terms and escrow of the jobs.
    @param auction_ Seats winners.
    @param locks_ What operators have at stake.
    @param rewards_ Records compute paid in ZEN.
    @param zen_ The token whose jobs earn network rewards.
    @param ready_window_s_ Seconds in which holders confirm.
    @param min_window_s_ The least challenge window.
    @param pay_fades_from_s_ Seconds that the author of a disputed aggregation may use at its whole pay.
    @param pay_gone_at_s_ Seconds from which on it is paid nothing.
    """
    settlement_state.__init__(
        registry_,
        tasks_,
        auction_,
        locks_,
        rewards_,
        zen_,
        ready_window_s_,
        min_window_s_,
        pay_fades_from_s_,
        pay_gone_at_s_,
    )
