"""Refusals reach a wallet as the exact words of docs/protocol/."""

import ape

from zoo_compute.spec.params import lock_of, slash_of

ZEN = 10**18


def test_registration_refuses_what_an_operator_cannot_be(kit, accounts, deployer, guardian):
    owner, hot = accounts[12], accounts[13]
    cases = [
        ("registry: zero hot key", ("0x" + "00" * 20, 1, 24, 100 * ZEN)),
        ("registry: unknown class", (hot, 5, 24, 100 * ZEN)),
        ("registry: too little VRAM for the class", (hot, 3, 39, 100 * ZEN)),
        ("registry: VRAM out of range", (hot, 1, 65_536, 100 * ZEN)),
        ("registry: stake below the minimum", (hot, 1, 24, 100 * ZEN - 1)),
    ]
    for reason, args in cases:
        with ape.reverts(reason):
            kit.registry.register(*args, "", sender=owner)
    with ape.reverts("erc20: insufficient allowance"):
        kit.registry.register(hot, 1, 24, 100 * ZEN, "", sender=owner)
    with ape.reverts("registry: not the guardian"):
        kit.registry.pause(2**40 - 1, sender=deployer)
    kit.registry.pause(2**40 - 1, sender=guardian)
    with ape.reverts("registry: intake paused"):
        kit.registry.register(hot, 1, 24, 100 * ZEN, "", sender=owner)


def test_a_paused_intake_keeps_every_exit_open(kit, register, guardian, to):
    operator = register(14)
    for contract in (kit.registry, kit.tasks, kit.auction):
        contract.pause(2**40 - 1, sender=guardian)
    kit.registry.withdraw(operator.id, kit.zen, 100 * ZEN, sender=operator.owner)
    kit.registry.request_exit(operator.id, sender=operator.owner)
    exit_at = kit.registry.operators(operator.id).exit_at
    to(exit_at - 1)
    with ape.reverts("registry: exit delay runs"):
        kit.registry.withdraw_stake(operator.id, sender=operator.owner)
    to(exit_at)
    before = kit.zen.balanceOf(operator.owner)
    kit.registry.withdraw_stake(operator.id, sender=operator.owner)
    assert kit.zen.balanceOf(operator.owner) == before + 100 * ZEN


def test_only_the_protocol_moves_locks_jobs_and_seats(kit, deployer):
    with ape.reverts("registry: not a protocol contract"):
        kit.registry.slash(1, kit.zen, 1, False, sender=deployer)
    with ape.reverts("tasks: not a protocol contract"):
        kit.tasks.pay(1, deployer, 1, sender=deployer)
    with ape.reverts("auction: not the task registry"):
        kit.auction.open(1, 0, kit.zen, 1, 1, 1, 1, 0, 0, sender=deployer)
    with ape.reverts("settlement: not a protocol contract"):
        kit.settlement.begin(1, sender=deployer)
    with ape.reverts("rewards: not the settlement"):
        kit.rewards.record(1, 1, 1, 1, sender=deployer)
    with ape.reverts("settlement: already wired"):
        kit.settlement.wire(deployer, deployer, deployer, sender=deployer)
    with ape.reverts("registry: already wired"):
        kit.registry.wire(*[deployer] * 6, sender=deployer)


def test_a_job_is_cancelled_with_its_whole_escrow_before_it_clears(kit, play, submitter, anyone):
    job = play.post()
    with ape.reverts("tasks: not the submitter"):
        kit.tasks.cancel(job, sender=anyone)
    kit.tasks.cancel(job, sender=submitter)
    assert kit.tasks.owed(kit.zen, submitter) == (2_000 * 3 + 1_000) * 2
    with ape.reverts("tasks: not open"):
        kit.tasks.cancel(job, sender=submitter)


def test_a_late_holder_loses_a_tenth_of_its_lock(kit, play, running, operators, anyone, to):
    job, holder = running, operators[0]
    deadline = play.deadline_of(job, 0)
    to(deadline)
    with ape.reverts("settlement: deadline not passed"):
        kit.settlement.time_out(job, 0, sender=anyone)
    to(deadline + 1)
    kit.settlement.time_out(job, 0, sender=anyone)
    lock = lock_of(1_000, 500)
    slashed = slash_of(lock)
    assert kit.registry.pot(kit.zen) == kit.locks.pots(job) == slashed
    assert kit.locks.stakes(job, holder.id, False).locked == lock - slashed
    assert kit.settlement.seats(job, 0).operator == 0
