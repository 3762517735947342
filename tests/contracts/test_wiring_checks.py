"""Every address and number of every contract, against the network file."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tests.support.evm import chain
from tests.support.revm_deployment import deployed, five_multisigs
from zoo_compute.chain.artifacts import artifact
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.wiring import MEANINGS, UNCHECKED, WIRED, miswired
from zoo_compute.spec.params import DEVNET, PRODUCTION, Preset


@pytest.fixture(scope="module")
def production():
    with chain.anchor():
        kit, deployment = deployed(PRODUCTION, five_multisigs())
        codes = {name: chain.code(at) for name, at in deployment.contracts.items()}
        wired = {(of, name): getattr(getattr(kit, of), name)() for of, names in WIRED.items() for name in names}
        yield dict(deployment.contracts), codes, wired


def faults(production, addresses=None, params=PRODUCTION, codes=None, wired=None, *, devnet=False):
    ours, code, views = production
    found = miswired(ours | (addresses or {}), params, code | (codes or {}), views | (wired or {}), devnet=devnet)
    return [(fault.contract, fault.name) for fault in found]


def test_what_was_deployed__is_wired_as_its_file_says(production):
    assert faults(production) == []


def test_each_immutable__has_a_meaning():
    clocks = {item.name for item in fields(PRODUCTION.clocks)}
    known = {
        "window_s",
        "receipt_window_s",
        "lapse_s",
        "needs_admission",
        *CONTRACTS,
        *(item.name for item in fields(Preset)),
        *clocks,
    }
    for contract in set(CONTRACTS) - UNCHECKED:
        for name in artifact(CONTRACTS[contract])["immutables"]:
            meaning = MEANINGS.get(name, name)
            assert meaning is None or meaning in known, f"{CONTRACTS[contract]}.{name}"


@pytest.mark.parametrize("name", sorted(set(CONTRACTS) - {"zen", "timelock"}))
def test_another_address__is_noticed_by_each_contract_that_speaks_to_it(production, name):
    """Each contract but the leaves is named by another one; so none can be exchanged."""
    found = faults(production, {name: chain.account("another")})
    speakers = {of for of, what in found}
    assert {what for _, what in found} <= {name}
    if name == "channels":
        assert speakers == set(), "no contract calls it"
        return
    nobody_calls = {"audits": {"rewards"}, "datasets": {"rewards"}}
    assert speakers, f"no contract knows {name}"
    assert nobody_calls.get(name, set()) <= speakers


@pytest.mark.parametrize("name", ["zen", "timelock"])
def test_another_token_or_timelock__is_noticed(production, name):
    found = faults(production, {name: chain.account("another")})
    expected = {
        "zen": {(of, "zen") for of in ("registry", "rewards", "settlement", "audits", "serving", "credits")},
        "timelock": {(of, "governor") for of in ("treasury", "tasks", "rewards", "credits", "guardian", "admissions")},
    }
    assert set(found) == expected[name]


@pytest.mark.parametrize(("contract", "name"), [(of, name) for of, names in WIRED.items() for name in names])
def test_each_wired_address__is_compared(production, contract, name):
    assert faults(production, wired={(contract, name): chain.account("another")}) == [(contract, name)]


def test_each_word_of_code__is_compared(production):
    _, codes, _ = production
    for contract in set(CONTRACTS) - UNCHECKED:
        for name, offset in artifact(CONTRACTS[contract])["immutables"].items():
            code = bytearray(codes[contract])
            code[offset + 31] ^= 1
            expected = [] if MEANINGS.get(name, name) is None else [(contract, name)]
            assert faults(production, codes={contract: bytes(code)}) == expected, f"{contract}.{name}"


def test_code_that_is_shorter_than_this_versions__is_noticed(production):
    addresses, codes, wired = production
    short = codes["audits"][: artifact("Audits")["immutables"]["lapse_s"]]
    (fault,) = miswired(addresses, PRODUCTION, codes | {"audits": short}, wired, devnet=False)
    assert str(fault) == "Audits.lapse_s is missing, expected the code of this version"
    assert set(faults(production, codes={"audits": b""})) >= {("audits", "registry"), ("audits", "place_bond")}


def test_another_preset__is_noticed_and_said(production):
    found = miswired(*_parts(production, DEVNET), devnet=False)
    assert {(fault.contract, fault.name) for fault in found} >= {
        ("registry", "min_stake"),
        ("referee", "committer_s"),
        ("audits", "place_bond"),
        ("admissions", "window_s"),
        ("serving", "receipt_window_s"),
        ("guardian", "pause_s"),
    }
    (one,) = [fault for fault in found if fault.name == "place_bond"]
    assert (
        str(one)
        == f"Audits.place_bond is {PRODUCTION.audit_bond}, expected {DEVNET.audit_bond}, the preset's audit_bond"
    )


def test_a_devnet__may_be_governed_by_its_deployer():
    kit, deployment = deployed(DEVNET, devnet=True)
    assert kit.tasks.governor() == kit.deployer
    codes = {name: chain.code(at) for name, at in deployment.contracts.items()}
    wired = {(of, name): getattr(getattr(kit, of), name)() for of, names in WIRED.items() for name in names}
    assert miswired(deployment.contracts, DEVNET, codes, wired, devnet=True) == []
    found = miswired(deployment.contracts, replace(DEVNET), codes, wired, devnet=False)
    assert {(fault.contract, fault.name) for fault in found} == {
        ("tasks", "governor"),
        ("tasks", "needs_admission"),
        ("admissions", "governor"),
    }


def _parts(production, params):
    addresses, codes, wired = production
    return addresses, params, codes, wired
