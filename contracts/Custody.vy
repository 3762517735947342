# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Custody
@license Apache-2.0
@notice Keeps a record of who holds what a job committed: custodians, drawn by stake, sign for it, are paid for it and answer for
        it with a reserve.
@dev docs/design/decisions/0033-custodians-sign-for-what-they-hold.md. A committee is kept by its hash, a number for each change;
     whoever calls shows it. A turn's record is one word in a ring of `depth + 1` places. Fewer than `t = (C + 1) / 2` hostile
     custodians can record nothing that no honest one signed.
     The parts, each in a module of its own: state (most storage), money, offers, draws, places (who leaves), turns (signatures,
     pay), shares (of several aggregators).
"""


from .modules import custody_draws
from .modules import custody_money
from .modules import custody_offers
from .modules import custody_places
from .modules import custody_shares
from .modules import custody_state
from .modules import custody_turns


initializes: custody_state
initializes: custody_money[state := custody_state]
initializes: custody_offers[state := custody_state]
initializes: custody_draws[state := custody_state]
initializes: custody_places[state := custody_state]
initializes: custody_shares
initializes: custody_turns[shares := custody_shares, state := custody_state]


exports: (
    custody_state.escrows,
    custody_state.committees,
    custody_state.checkpoints,
    custody_state.notes,
    custody_state.funds,
    custody_state.burned,
    custody_state.requests,
    custody_state.progress,
    custody_state.records,
    custody_state.roles,
    custody_money.request,
    custody_money.fund,
    custody_money.refund,
    custody_money.deposit,
    custody_money.withdraw,
    custody_money.release,
    custody_offers.note_stake,
    custody_offers.offer,
    custody_offers.retire,
    custody_offers.offers,
    custody_offers.aged_stake,
    custody_draws.schedule,
    custody_draws.draw,
    custody_places.note_key,
    custody_places.resign,
    custody_places.lapse,
    custody_places.forfeit,
    custody_places.expel,
    custody_turns.hold_start,
    custody_turns.hold_inputs,
    custody_turns.leave_out,
    custody_turns.post_checkpoint,
    custody_turns.hold_turn,
    custody_turns.count,
    custody_turns.signer_of,
)


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    availability_: address,
    bid_window_s_: uint256,
    exit_delay_s_: uint256,
    answer_s_: uint256,
    draw_blocks_: uint256,
):
    """
    @param registry_ Knows the operators' keys and stake.
    @param tasks_ Knows the jobs' terms.
    @param settlement_ Keeps seats, turns and claims.
    @param availability_ Says which custodian did not show what it signed for.
    @param bid_window_s_ Seconds in which a request takes its first offers.
    @param exit_delay_s_ Seconds after which noted stake counts.
    @param answer_s_ Seconds that signatures have after a turn's inputs closed, and after the first of them; and offers, after a place
           fell vacant.
    @param draw_blocks_ Blocks that bury the draw's block before it is read.
    """
    custody_state.__init__(
        registry_, tasks_, settlement_, availability_, bid_window_s_, exit_delay_s_, answer_s_, draw_blocks_
    )
