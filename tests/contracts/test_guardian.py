"""Guardian in front of the contracts that it pauses, governed through the real timelock."""

from contextlib import suppress

import pytest

from tests.support.evm import Reverted, chain, reverts
from tests.support.protocol_driver import START, Play, events_of
from tests.support.revm_deployment import deployed, govern, multisig
from zoo_compute.spec.guardian import MAX_END
from zoo_compute.spec.params import PRODUCTION, ZEN

FOR_EVER = MAX_END - 1


@pytest.fixture
def kit(roles):
    return deployed(PRODUCTION, roles)[0]


@pytest.fixture
def intakes(kit):
    return (kit.registry, kit.tasks, kit.auction)


def test_pause__is_the_guardians_and_ends_by_itself(kit, roles, intakes):
    for intake in intakes:
        for other in (*roles.proposers, *roles.executors, *roles.cancellers, kit.deployer, kit.timelock.address):
            with reverts("guardian: not the guardian"):
                kit.guardian.pause(intake, sender=other)
        kit.guardian.pause(intake, sender=roles.guardian)
        assert events_of(kit.guardian) == [
            ("IntakePaused", {"intake": intake.address, "until": START + PRODUCTION.pause_s})
        ]
        assert intake.paused_until() == START + PRODUCTION.pause_s


def test_intake__is_paused_by_its_guardian_alone(kit, roles, intakes):
    for intake, name in zip(intakes, ("registry", "tasks", "auction"), strict=True):
        for other in (roles.guardian, kit.timelock.address, kit.deployer):
            with reverts(f"{name}: not the guardian"):
                intake.pause(FOR_EVER, sender=other)


def test_pause__of_any_two_times_its_length_takes_at_most_one(kit, roles):
    """Whatever a guardian that went bad does, half of the time the intake is open."""
    guardian, pause_s = kit.guardian, PRODUCTION.pause_s
    closed, last = 0, START
    for hour in range(0, 6 * pause_s // 3_600):
        chain.timestamp = START + hour * 3_600
        closed += min(kit.tasks.paused_until(), chain.timestamp) - min(kit.tasks.paused_until(), last)
        last = chain.timestamp
        attempt(guardian.pause, kit, roles)
        if hour % 50 == 49:
            attempt(guardian.resume, kit, roles)
    assert 0 < closed <= 3 * pause_s


def attempt(act, kit, roles):
    """Refused or not."""
    with suppress(Reverted):
        act(kit.tasks, sender=roles.guardian)


def test_governors__replace_a_guardian_and_undo_its_pause(kit, roles):
    kit.guardian.pause(kit.tasks, sender=roles.guardian)
    new = multisig()
    govern(kit, roles, PRODUCTION.timelock_s, kit.guardian, "appoint", new)
    assert kit.guardian.account() == new
    with reverts("guardian: not the guardian"):
        kit.guardian.pause(kit.registry, sender=roles.guardian)
    assert kit.tasks.paused_until() > chain.timestamp
    govern(kit, roles, PRODUCTION.timelock_s, kit.guardian, "govern", kit.tasks.address, 0)
    assert kit.tasks.paused_until() == 0
    kit.guardian.pause(kit.registry, sender=new)


def test_appoint__tells_who(kit):
    new = multisig()
    kit.guardian.appoint(new, sender=kit.timelock.address)
    assert events_of(kit.guardian) == [("GuardianAppointed", {"account": new})]


def test_register__after_a_pause_that_is_over__numbers_operators_on(kit, roles):
    """The end of a pause and the count of operators share a word."""
    owner = chain.account("owner")
    kit.zen.transfer(owner, 3 * PRODUCTION.min_stake, sender=roles.holder)
    kit.zen.approve(kit.registry, 3 * PRODUCTION.min_stake, sender=owner)

    def register():
        return kit.registry.register(chain.account("hot"), 1, 8, PRODUCTION.min_stake, "", sender=owner)

    assert register() == 1
    kit.guardian.pause(kit.registry, sender=roles.guardian)
    assert (kit.registry.operator_count(), kit.registry.paused_until()) == (1, START + PRODUCTION.pause_s)
    chain.timestamp = START + PRODUCTION.pause_s - 1
    with reverts("registry: intake paused"):
        register()
    chain.timestamp += 1
    assert register() == 2
    assert (kit.registry.operator_count(), kit.registry.paused_until()) == (2, 0)
    kit.guardian.govern(kit.registry, FOR_EVER, sender=kit.timelock.address)
    assert (kit.registry.operator_count(), kit.registry.paused_until()) == (2, FOR_EVER)


def test_bid__costs_the_same_gas_before_and_after_a_pause(kit, roles):
    """The word that a bid reads for the auction's address has the end of the pause."""
    with chain.anchor():
        before = gas_of_a_bid(kit, roles)
    kit.guardian.pause(kit.auction, sender=roles.guardian)
    chain.timestamp += PRODUCTION.pause_s
    assert abs(gas_of_a_bid(kit, roles) - before) < 100


def gas_of_a_bid(kit, roles):
    kit.tasks.allow(kit.zen, True, 0, sender=kit.timelock.address)
    kit.zen.transfer(kit.deployer, 10**7 * ZEN, sender=roles.holder)
    play = Play(kit, PRODUCTION)
    ada, job = play.register("ada"), play.post()
    kit.registry.set_admitted(ada.id, True, sender=kit.admissions.address)  # as every bid of this network needs
    args = (job, 0, ada.id, b"s" * 32, 1)
    kit.auction.bid(*args, sender=ada.hot)
    return kit.auction.last.gas
