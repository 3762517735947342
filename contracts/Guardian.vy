# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Guardian
@license Apache-2.0
@notice Pauses the intake of new business: registrations, jobs, bids. A pause ends by itself, and after it as much time must
        pass before the next. The governor replaces the guardian, and may set any end, so that a version can be closed.
@dev NodeRegistry, TaskRegistry and Auction let this contract alone pause them. They ask nobody else, and never for an exit.
"""


interface Intake:
    def pause(until: uint256): nonpayable


# Pauses end before this second: an intake keeps the end in 40 bits.
MAX_END: constant(uint256) = 2**40


# The timelock: appoints the guardian, and sets ends.
governor: public(immutable(address))
# Seconds that a guardian's pause lasts, and the least from its end to the next.
pause_s: public(immutable(uint256))


# The account that may pause. A multisig in production.
account: public(address)
# intake -> the end of the last pause
ends: public(HashMap[address, uint256])
# intake -> whether the governor set that end
is_governed: public(HashMap[address, bool])
# intake -> from when on the guardian may pause it
free_from: public(HashMap[address, uint256])


event GuardianAppointed:
    account: indexed(address)


event IntakePaused:
    intake: indexed(address)
    until: uint256


@deploy
def __init__(governor_: address, account_: address, pause_s_: uint256):
    """
    @param governor_ The timelock.
    @param account_ The first guardian.
    @param pause_s_ Seconds that a pause lasts, and the least between two.
    """
    governor = governor_
    pause_s = pause_s_
    self.account = account_
    log GuardianAppointed(account=account_)


@external
def pause(intake: address):
    """
    @notice The guardian pauses an intake for `pause_s`.
    """
    assert msg.sender == self.account, "guardian: not the guardian"
    assert not self._is_closed(intake), "guardian: the governor paused it"
    # INVARIANT pauses: of any two times `pause_s` a guardian takes at most one.
    assert block.timestamp >= self.free_from[intake], "guardian: paused too recently"
    end: uint256 = block.timestamp + pause_s
    self.is_governed[intake] = False
    self.free_from[intake] = end + pause_s
    self._set_end(intake, end)


@external
def resume(intake: address):
    """
    @notice The guardian ends its pause early. Its next one is no earlier for that.
    """
    assert msg.sender == self.account, "guardian: not the guardian"
    assert not self._is_closed(intake), "guardian: the governor paused it"
    assert block.timestamp < self.ends[intake], "guardian: not paused"
    self._set_end(intake, block.timestamp)


@external
def govern(intake: address, until: uint256):
    """
    @notice The governor pauses an intake until any second, or resumes it. The guardian changes nothing before then.
    @param until 2**40 - 1 closes it for ever; any second that is over resumes it.
    """
    assert msg.sender == governor, "guardian: not the governor"
    assert until < MAX_END, "guardian: end out of range"
    self.is_governed[intake] = True
    self._set_end(intake, until)


@external
def appoint(account: address):
    """
    @notice The governor replaces the guardian. A pause that runs goes on.
    """
    assert msg.sender == governor, "guardian: not the governor"
    self.account = account
    log GuardianAppointed(account=account)


@internal
@view
def _is_closed(intake: address) -> bool:
    return self.is_governed[intake] and block.timestamp < self.ends[intake]


@internal
def _set_end(intake: address, end: uint256):
    self.ends[intake] = end
    log IntakePaused(intake=intake, until=end)
    extcall Intake(intake).pause(end)
