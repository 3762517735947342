# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Intake of new business, which a guardian may pause
@license Apache-2.0
@notice Only the one function that takes new business reads `paused`; whoever is in can always go on and leave.
@dev The contract that initialises the module checks the caller, so that the refusal carries its own name.
"""


guardian: public(immutable(address))


paused: public(bool)


event IntakePaused:
    paused: bool


@deploy
def __init__(guardian_: address):
    """
    @param guardian_ Who may pause and resume the intake, and nothing else.
    """
    guardian = guardian_


@internal
def _set_paused(paused: bool):
    self.paused = paused
    log IntakePaused(paused=paused)
