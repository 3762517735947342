# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Protocol time
@license Apache-2.0
@notice What every clock that slashes or makes something final is read in: block time, less the gaps in which nobody could act.
@dev docs/design/clocks.md, rule 6. A second that one contract writes and another compares is of the same time in both. Wall time is
     only what concerns people outside of the protocol: epochs, pauses, the timelock, signed deadlines, the speed of a machine.
"""


from ..interfaces import INodeRegistry


@internal
@view
def _now(registry: address) -> uint256:
    """
    @notice Of this block, in seconds. It is the same throughout a transaction, before and after a beat.
    """
    return staticcall INodeRegistry(registry).time()
