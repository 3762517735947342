# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Audits
@license Apache-2.0
@notice Pays auditors to re-execute parts of a job that chance picks after the work was committed, and slashes those that call
        clean what is judged false.
@dev A unit is one slot-round, `slot + 16`, or an aggregation of a turn, `seat - 128`. Operators hold places, each behind the same bond. A draw
     fixes which places there were before its block was named; a unit's ticket says whether it is drawn, and which places it falls to.
     Verdicts are checked when they are settled, not when they are given: to give them costs the same whatever their number.
     Audits deter; the challenge window judges.
     The parts, each in a module of its own: state (whom it calls), money, places, draws, settling.
"""


from .modules import audit_draws
from .modules import audit_money
from .modules import audit_places
from .modules import audit_settling
from .modules import audit_state


initializes: audit_state
initializes: audit_money[state := audit_state]
initializes: audit_places[state := audit_state, money := audit_money]
initializes: audit_draws[state := audit_state, money := audit_money, audit_places := audit_places]
initializes: audit_settling[state := audit_state, money := audit_money, draws := audit_draws]


exports: (
    audit_state.registry,
    audit_state.tasks,
    audit_state.settlement,
    audit_state.rewards,
    audit_state.zen,
    audit_state.place_bond,
    audit_state.draw_blocks,
    audit_state.lapse_s,
    audit_state.deployer,
    audit_state.referee,
    audit_state.wire,
    audit_money.owed,
    audit_money.burned,
    audit_money.fund,
    audit_money.refund,
    audit_money.deposit,
    audit_money.pay_out,
    audit_money.withdraw,
    audit_money.budgets,
    audit_money.funds,
    audit_places.place_count,
    audit_places.held,
    audit_places.offer,
    audit_places.leave,
    audit_places.holders,
    audit_draws.draw_units,
    audit_draws.draws,
    audit_draws.assigned,
    audit_settling.given,
    audit_settling.left,
    audit_settling.give_verdicts,
    audit_settling.settle_verdicts,
    audit_settling.lapse_verdicts,
)


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    rewards_: address,
    zen_: address,
    place_bond_: uint256,
    draw_blocks_: uint256,
    lapse_s_: uint256,
):
    """
    @param registry_ Knows the operators' keys.
    @param tasks_ Knows the jobs' submitters, tokens and terms.
    @param settlement_ Keeps the claims.
    @param rewards_ Counts verification of jobs paid in ZEN.
    @param zen_ The token of the bonds.
    @param place_bond_ The bond of a place.
    @param draw_blocks_ Blocks that bury the draw's block before it is read.
    @param lapse_s_ Seconds after a turn's deadline, beside re-executions, from which on verdicts lapse.
    """
    audit_state.__init__(
        registry_, tasks_, settlement_, rewards_, zen_, place_bond_, draw_blocks_, lapse_s_
    )
