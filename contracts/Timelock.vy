# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The timelock that governs treasury and payment tokens
@license AGPL-3.0-only
@notice Proposers schedule calls, executors execute them no sooner than `timelock_s` later.
        Its roles and its delay can be changed only through itself. It takes the chain's coin, which a call may send on.
@dev A thin deployment of snekmate's timelock_controller, whose licence it therefore carries.
"""


from snekmate.auth import access_control
from snekmate.governance import timelock_controller


initializes: access_control
initializes: timelock_controller[access_control := access_control]


exports: (
    access_control.DEFAULT_ADMIN_ROLE,
    access_control.hasRole,
    access_control.getRoleAdmin,
    access_control.grantRole,
    access_control.revokeRole,
    access_control.renounceRole,
    timelock_controller.PROPOSER_ROLE,
    timelock_controller.EXECUTOR_ROLE,
    timelock_controller.CANCELLER_ROLE,
    timelock_controller.get_timestamp,
    timelock_controller.get_minimum_delay,
    timelock_controller.is_operation,
    timelock_controller.is_operation_pending,
    timelock_controller.is_operation_ready,
    timelock_controller.is_operation_done,
    timelock_controller.hash_operation,
    timelock_controller.schedule,
    timelock_controller.cancel,
    timelock_controller.execute,
    timelock_controller.update_delay,
    timelock_controller.__default__,
)


@deploy
def __init__(
    timelock_s: uint256,
    proposers: DynArray[address, 16],
    executors: DynArray[address, 16],
    cancellers: DynArray[address, 16],
):
    """
    @notice Nobody is admin but the timelock itself.
    @param timelock_s The least seconds between scheduling and execution.
    @param proposers Schedule calls. They cannot cancel: snekmate's constructor would let them.
    @param executors Execute calls whose delay is over.
    @param cancellers Cancel calls that are scheduled.
    """
    access_control.__init__()
    timelock_controller.__init__(timelock_s, [], [], empty(address))
    for account: address in proposers:
        access_control._grant_role(timelock_controller.PROPOSER_ROLE, account)
    for account: address in executors:
        access_control._grant_role(timelock_controller.EXECUTOR_ROLE, account)
    for account: address in cancellers:
        access_control._grant_role(timelock_controller.CANCELLER_ROLE, account)
