# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title NodeRegistry
@license Apache-2.0
@notice Says who may work. It keeps each operator's keys, stake in ZEN, collateral in payment tokens, and the hours that it promises
        to be there. Part of the collateral is locked behind what the operator took on. It also keeps the protocol's time, which stops
        when the chain does.
@dev Auction and Locks lock, unlock and slash; nothing here calls them. Only `pay_out` moves tokens to one of them.
     The parts, each in a module of its own: state (the operators' words), time, collateral, stakes, promises, keys, operators.
"""


from .interfaces import INodeRegistry
from .modules import registry_collateral
from .modules import registry_keys
from .modules import registry_operators
from .modules import registry_promises
from .modules import registry_stakes
from .modules import registry_state
from .modules import registry_time


implements: INodeRegistry


initializes: registry_state
initializes: registry_time[state := registry_state]
initializes: registry_collateral[state := registry_state]
initializes: registry_stakes[state := registry_state, time := registry_time, collateral := registry_collateral]
initializes: registry_promises[state := registry_state, time := registry_time]
initializes: registry_keys[state := registry_state]
initializes: registry_operators[state := registry_state, collateral := registry_collateral]


exports: (
    registry_state.zen,
    registry_state.min_stake,
    registry_state.epoch_s,
    registry_state.deployer,
    registry_state.settlement,
    registry_state.locks,
    registry_state.tasks,
    registry_state.rewards,
    registry_state.admissions,
    registry_state.burned,
    registry_state.wire,
    registry_time.outage_s,
    registry_time.is_stopped,
    registry_time.beat,
    registry_time.time,
    registry_time.last_beat,
    registry_time.stopped_s,
    registry_collateral.pot,
    registry_collateral.pause_bids,
    registry_collateral.deposit,
    registry_collateral.withdraw,
    registry_collateral.lock,
    registry_collateral.lock_bid,
    registry_collateral.unlock,
    registry_collateral.slash,
    registry_collateral.pay_out,
    registry_collateral.burn,
    registry_collateral.auction,
    registry_collateral.bids_paused_until,
    registry_collateral.collateral,
    registry_stakes.exit_delay_s,
    registry_stakes.add_stake,
    registry_stakes.request_exit,
    registry_stakes.withdraw_stake,
    registry_stakes.slash_stake,
    registry_stakes.slash_for,
    registry_stakes.pay_share,
    registry_stakes.stake_of,
    registry_stakes.is_eligible,
    registry_promises.total_beats,
    registry_promises.declare,
    registry_promises.declare_region,
    registry_promises.heartbeat,
    registry_promises.breach,
    registry_promises.declarations,
    registry_promises.promised,
    registry_promises.meets,
    registry_promises.beats,
    registry_promises.is_judged,
    registry_keys.offered_owners,
    registry_keys.announce,
    registry_keys.set_hot,
    registry_keys.allow_answers,
    registry_keys.offer_owner,
    registry_keys.accept_owner,
    registry_keys.hot_key,
    registry_keys.may_answer,
    registry_keys.owner_of,
    registry_operators.guardian,
    registry_operators.nonces,
    registry_operators.pause,
    registry_operators.register,
    registry_operators.register_for,
    registry_operators.set_admitted,
    registry_operators.reward_outcome,
    registry_operators.operator_count,
    registry_operators.paused_until,
    registry_operators.operators,
    registry_operators.discount_bps,
    registry_operators.multiplier,
    registry_operators.multiplier_of,
    registry_operators.vram_of,
    registry_operators.is_admitted,
    registry_operators.reference_price,
)


@deploy
def __init__(
    zen_: address,
    guardian_: address,
    min_stake_: uint256,
    exit_delay_s_: uint256,
    epoch_s_: uint256,
    outage_s_: uint256,
):
    """
    @param zen_ The token of the stakes.
    @param guardian_ May pause registration.
    @param min_stake_ The least stake, in 10^-18 ZEN.
    @param exit_delay_s_ Seconds from request to withdrawal.
    @param epoch_s_ Seconds of an epoch.
    @param outage_s_ Seconds without any beat after which the protocol's time stops.
    """
    registry_state.__init__(zen_, min_stake_, epoch_s_)
    registry_time.__init__(outage_s_)
    registry_stakes.__init__(exit_delay_s_)
    registry_operators.__init__(guardian_)
