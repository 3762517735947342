"""What a production deployment refuses, and that nothing is deployed then."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.evm import chain, reverts
from tests.support.revm_deployment import RevmDeployer, deployed, five_multisigs, multisig
from zoo_compute.chain.deployment import deploy
from zoo_compute.chain.roles import Roles, roles_of
from zoo_compute.errors import UserError
from zoo_compute.spec.params import DEVNET, PRODUCTION, ZEN


@pytest.fixture(autouse=True)
def undone():
    with chain.anchor():
        yield


def refusal(params=PRODUCTION, roles=None, **options) -> str:
    deployer = RevmDeployer()
    with pytest.raises(UserError) as caught:
        deploy(deployer, params, roles=roles, **options)
    assert deployer.at == {}
    return str(caught.value)


def test_the_deployer_alone__has_no_role_in_production():
    lines = refusal().splitlines()
    for role in ("guardian", "proposer", "executor", "canceller", "holder"):
        assert sum(f"the deployer is {role};" in line for line in lines) == 1
        assert any(f"name one with --{role}" in line for line in lines)


def test_what_would_fail_after_every_contract_is_deployed__is_refused_before():
    """A token of the version before that is not there, or a pool that the supply cannot fill."""
    key = chain.account("key")
    for params in (DEVNET, PRODUCTION):
        roles = five_multisigs() if params is PRODUCTION else None
        assert f"there is no contract at {key}" in refusal(params, roles, zen=key)
        assert "the rewards pool (20 ZEN) is larger than the supply (10 ZEN)" in refusal(
            params, roles, supply=10 * ZEN, rewards_pool=20 * ZEN, devnet=params is DEVNET
        )
        pools = {"rewards_pool": 10_000 * ZEN, "credits_pool": 1 * ZEN}
        assert "the pools (10,001 ZEN) are larger than the supply (10,000 ZEN)" in refusal(
            params, roles, supply=10_000 * ZEN, **pools, devnet=params is DEVNET
        )


@pytest.mark.parametrize("role", ["guardian", "proposers", "executors", "cancellers", "holder"])
def test_a_single_key__is_refused_in_each_role(role):
    key = chain.account("key")
    roles = replace(five_multisigs(), **{role: key if role in ("guardian", "holder") else (multisig(), key)})
    option = role.removesuffix("s")
    text = refusal(roles=roles)
    assert f"the {option} {key} is a single key: there is no contract at it; expected a multisig" in text
    assert text.count("\n- ") == 1


@pytest.mark.parametrize("pair", [("guardian", "proposers"), ("proposers", "executors"), ("executors", "cancellers")])
def test_an_account_with_two_roles__is_refused_unless_somebody_says_why(pair):
    roles = five_multisigs()
    both = multisig()
    change = {role: both if role == "guardian" else (both,) for role in pair}
    roles = replace(roles, **change)
    first, second = (role.removesuffix("s") for role in pair)
    assert f"{both} is {first} and {second}; expected one role an account" in refusal(roles=roles)
    assert f"{both} is {first} and {second}" in refusal(roles=replace(roles, shared={both: ""}))
    _, deployment = deployed(PRODUCTION, replace(roles, shared={both: "a committee of five, for the first month"}))
    assert deployment.roles.to_dict()["shared"] == {both: "a committee of five, for the first month"}


@pytest.mark.parametrize("count", [0, 17])
def test_a_role_that_nobody_has__or_too_many__is_refused(count):
    text = refusal(roles=replace(five_multisigs(), executors=tuple(multisig() for _ in range(count))))
    assert f"there are {count} executors; expected 1 to 16; name a multisig with --executor" in text


@pytest.mark.parametrize("name", ["timelock_s", "pause_s", "exit_delay_s", "min_window_s"])
def test_a_delay_of_nothing__is_refused(name):
    text = refusal(replace(PRODUCTION, **{name: 0}), five_multisigs())
    assert f"{name} is 0 s; expected at least" in text


def test_clocks_of_a_devnet__are_refused():
    text = refusal(replace(PRODUCTION, clocks=DEVNET.clocks), five_multisigs())
    assert "committer_s is 3 min; expected at least 12 h" in text


def test_an_empty_rewards_pool__is_refused_unless_a_version_before_fills_it():
    assert "the rewards pool is smaller than one epoch's emission" in refusal(
        roles=five_multisigs(), rewards_pool=PRODUCTION.emission_per_epoch - 1
    )
    kit, _ = deployed(PRODUCTION, five_multisigs())
    second, _ = deployed(PRODUCTION, five_multisigs(), zen=str(kit.zen.address))
    assert (second.zen.address, second.rewards.pool(), second.credits.pool()) == (kit.zen.address, 0, 0)


def test_production__gives_each_role_to_its_own_multisig_and_none_to_the_deployer():
    roles = five_multisigs()
    kit, deployment = deployed(PRODUCTION, roles)
    timelock = kit.timelock
    having = {
        timelock.PROPOSER_ROLE(): roles.proposers,
        timelock.EXECUTOR_ROLE(): roles.executors,
        timelock.CANCELLER_ROLE(): roles.cancellers,
    }
    everybody = (roles.guardian, *roles.proposers, *roles.executors, *roles.cancellers, roles.holder, kit.deployer)
    for role, accounts in having.items():
        assert [account for account in everybody if timelock.hasRole(role, account)] == list(accounts)
    assert not any(timelock.hasRole(timelock.DEFAULT_ADMIN_ROLE(), account) for account in everybody)
    assert kit.guardian.account() == roles.guardian
    for contract in (kit.treasury, kit.tasks, kit.rewards, kit.credits, kit.guardian, kit.admissions):
        assert contract.governor() == timelock.address
    assert kit.zen.balanceOf(kit.deployer) == 0
    assert kit.zen.balanceOf(roles.holder) == 80_000_000 * ZEN
    assert kit.credits.pool() == kit.rewards.pool() == 10_000_000 * ZEN
    assert (kit.credits.rate(), int(kit.credits.poster(), 16), kit.tasks.is_allowed(kit.credits)) == (0, 0, False)
    assert "jobs cannot be paid in credits yet" in deployment.pending[-1]
    assert "proposers and, 172800 s later, executors" in deployment.pending[0]


def test_a_proposer__neither_cancels_nor_executes():
    roles = five_multisigs()
    kit, _ = deployed(PRODUCTION, roles)
    call = (kit.guardian.address, 0, kit.guardian.appoint.prepare_calldata(kit.deployer), bytes(32), bytes(32))
    (proposer,), (executor,), (canceller,) = roles.proposers, roles.executors, roles.cancellers
    for other in (executor, canceller, roles.guardian, kit.deployer):
        with reverts("access_control: account is missing role"):
            kit.timelock.schedule(*call, PRODUCTION.timelock_s, sender=other)
    kit.timelock.schedule(*call, PRODUCTION.timelock_s, sender=proposer)
    operation = kit.timelock.hash_operation(*call)
    for other in (proposer, executor, roles.guardian):
        with reverts("access_control: account is missing role"):
            kit.timelock.cancel(operation, sender=other)
    chain.timestamp += PRODUCTION.timelock_s
    for other in (proposer, canceller):
        with reverts("access_control: account is missing role"):
            kit.timelock.execute(*call, sender=other)
    kit.timelock.cancel(operation, sender=canceller)
    with reverts("timelock_controller: operation is not ready"):
        kit.timelock.execute(*call, sender=executor)


def test_a_command_line__names_roles_and_the_deployer_has_the_rest():
    a, b, me = (chain.account(name) for name in "abc")
    assert roles_of(me) == Roles.of_one(me)
    roles = roles_of(me, guardian=a.lower(), proposers=(a, b), shared=(f"{a}=both, for a month",))
    assert (roles.guardian, roles.proposers, roles.executors) == (a, (a, b), (me,))
    assert roles.shared == {a: "both, for a month"}
    for wrong in ({"guardian": "0xab"}, {"proposers": ("0x" + "0" * 40,)}, {"shared": (a,)}, {"shared": ("x=why",)}):
        with pytest.raises(UserError):
            roles_of(me, **wrong)
