"""What each contract was deployed with and wired to, every value in its own place, and the interface it is spoken to by. Doubles of other contracts are one address,
so that no other test would see two of them exchanged.
"""

import pytest

from tests.support import sources
from tests.support.evm import chain
from tests.support.evm import reverts as refused
from tests.support.protocol_driver import load
from zoo_compute.chain.artifacts import artifact
from zoo_compute.spec.params import DOLLAR

# Contract, addresses and numbers of its constructor, addresses that it is wired to.
DEPLOYMENTS = [
    (
        "NodeRegistry",
        "zen guardian",
        "min_stake exit_delay_s epoch_s outage_s",
        "auction settlement locks tasks rewards admissions",
    ),
    (
        "Credits",
        "zen treasury governor poster",
        "rate epoch_s mint_per_epoch rate_step_s rate_stale_s",
        "tasks registry",
    ),
    ("TaskRegistry", "treasury governor guardian credits", "needs_admission", "auction settlement locks"),
    ("Rewards", "zen registry governor", "epoch_s emission_per_epoch weight_per_fee", "settlement audits datasets"),
    ("Datasets", "tasks rewards", "", ""),
    ("Channels", "registry tasks treasury", "notice_s", ""),
    ("Treasury", "governor", "", ""),
    ("AuditPool", "treasury", "", ""),
    ("Guardian", "governor account", "pause_s", ""),
    ("Auction", "registry tasks guardian", "bid_window_s reveal_window_s", "settlement"),
    (
        "Settlement",
        "registry tasks auction locks rewards zen",
        "ready_window_s min_window_s pay_fades_from_s pay_gone_at_s",
        "referee availability custody",
    ),
    ("Locks", "registry tasks", "", "settlement audit_pool"),
    ("Availability", "registry tasks settlement", "answer_s", ""),
    ("Audits", "registry tasks settlement rewards zen", "place_bond draw_blocks lapse_s", "referee"),
    ("Custody", "registry tasks settlement availability", "bid_window_s exit_delay_s answer_s draw_blocks", ""),
    ("Admissions", "registry governor", "benchmark_s min_window_s epoch_s", "referee"),
    ("Serving", "zen registry", "min_window_s receipt_s", "referee"),
]
NAMES = [each[0] for each in DEPLOYMENTS]
# What a contract does not tell; whole jobs show it.
UNTOLD = {
    "Settlement": {"rewards", "zen", "deployer", "pay_fades_from_s", "pay_gone_at_s"},
    "Admissions": {"min_window_s"},
    "Serving": {"min_window_s"},
    "Custody": {
        "registry",
        "tasks",
        "settlement",
        "availability",
        "bid_window_s",
        "exit_delay_s",
        "answer_s",
        "draw_blocks",
    },
}
SPEAKERS = {
    "NodeRegistry": "registry",
    "TaskRegistry": "tasks",
    "Credits": "credits",
    "Rewards": "rewards",
    "Auction": "auction",
    "Settlement": "settlement",
    "Locks": "locks",
    "Audits": "audits",
    "Admissions": "admissions",
    "Serving": "serving",
}


def deployed(name, addresses, numbers):
    """The contract, its deployer, and what it was deployed with by name."""
    deployer = chain.account("deployer")
    accounts = {each: chain.account(each) for each in addresses.split()}
    usual = {"needs_admission": True, "rate": DOLLAR}
    accounts |= {each: usual.get(each, 1_000 + place) for place, each in enumerate(numbers.split())}
    return load(name).deploy(*accounts.values(), sender=deployer), deployer, accounts


def values_of(name, contract, accounts):
    return {each: getattr(contract, each)() for each in accounts if each not in UNTOLD.get(name, ())}


@pytest.mark.parametrize(("name", "addresses", "numbers", "wired"), DEPLOYMENTS, ids=NAMES)
def test_contract__keeps_what_it_was_deployed_with_under_its_name(name, addresses, numbers, wired):
    contract, deployer, accounts = deployed(name, addresses, numbers)
    if wired:
        accounts["deployer"] = deployer
    expected = {each: value for each, value in accounts.items() if each not in UNTOLD.get(name, ())}
    assert values_of(name, contract, accounts) == expected


@pytest.mark.parametrize(("name", "addresses", "numbers", "wired"), [each for each in DEPLOYMENTS if each[3]])
def test_wire__names_each_contract_once_by_the_deployer(name, addresses, numbers, wired):
    contract, deployer, accounts = deployed(name, addresses, numbers)
    others = {each: chain.account(f"wired {each}") for each in wired.split()}
    for sender in (chain.account("anyone"), accounts[addresses.split()[-1]]):
        with refused(f"{SPEAKERS[name]}: not the deployer"):
            contract.wire(*others.values(), sender=sender)
    contract.wire(*others.values(), sender=deployer)
    assert values_of(name, contract, others) == others
    with refused(f"{SPEAKERS[name]}: already wired"):
        contract.wire(*others.values(), sender=deployer)


@pytest.mark.parametrize("name", [*NAMES, "Timelock", "ZenToken"])
def test_contract__speaks_the_interface_that_clients_have_of_it(name):
    assert sources.load(name).abi == artifact(name)["abi"]


def test_a_referee__needs_a_contract_that_judges():
    """INVARIANT evidence: from an address without code every judgement would come back unrefused."""
    account, double = chain.account("evidence"), load("mocks/EvidenceDouble").deploy()
    seconds = (1_000, 100, 10, 1, 50)
    with refused():
        load("Referee").deploy(account, account, account, account, account, account, account, *seconds)
    load("Referee").deploy(account, account, account, account, account, double, account, *seconds)
