# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The contracts and constants of Audits
@license Apache-2.0
"""


from ..interfaces import INodeRegistry


registry: public(immutable(address))
tasks: public(immutable(address))
settlement: public(immutable(address))
rewards: public(immutable(address))
zen: public(immutable(address))
# The bond of a place, in ZEN.
place_bond: public(immutable(uint256))
# Blocks that bury the draw's block before it is read.
draw_blocks: public(immutable(uint256))
# Seconds after a turn's deadline, beside re-executions, from which on verdicts lapse.
lapse_s: public(immutable(uint256))
deployer: public(immutable(address))


# Keeps the disputes; set once by `wire`.
referee: public(address)


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
    deployer = msg.sender
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    rewards = rewards_
    zen = zen_
    place_bond = place_bond_
    draw_blocks = draw_blocks_
    lapse_s = lapse_s_


@external
def wire(referee_: address):
    """
    @notice Names the referee, once.
    """
    assert msg.sender == deployer, "audits: not the deployer"
    assert self.referee == empty(address), "audits: already wired"
    self.referee = referee_


@internal
@view
def _check_owner(operator: uint256):
    assert staticcall INodeRegistry(registry).owner_of(operator) == msg.sender, "audits: not the owner"
