"""What governors name on the command line: an argument that is not what it looks like is refused before it is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.roles import address_of
from zoo_compute.errors import UserError
from zoo_compute.governance.timelock import governed_call

ADDRESS = "0x5FbDB2315678afecb367f032d93F642f64180aa3"
CHAIN: Any = SimpleNamespace(network=SimpleNamespace(contracts=dict.fromkeys(CONTRACTS, ADDRESS)))


def test_arguments__are_of_the_functions_types():
    call = governed_call(CHAIN, "tasks.allow", (ADDRESS.lower(), "True", "0x10"))
    assert (call.contract, call.function, call.args) == ("TaskRegistry", "allow", (ADDRESS, True, 16))
    word = "0x" + 32 * "ab"
    assert governed_call(CHAIN, "timelock.grantRole", (word, ADDRESS)).args == (bytes.fromhex(32 * "ab"), ADDRESS)
    workload = governed_call(CHAIN, "admissions.set_workload", ("80", f"{word}, {word},64,{10**15}"))
    root = bytes.fromhex(32 * "ab")
    assert workload.args == (80, (root, root, 64, 10**15))
    assert workload.encode()[-32:] == (10**15).to_bytes(32, "big")


@pytest.mark.parametrize(
    ("target", "args", "refused"),
    [
        ("guardian.appoint", (ADDRESS.replace("5Fb", "5fb"),), "account takes address"),  # one letter is mistyped
        ("guardian.appoint", (ADDRESS[:-1],), "account takes address"),
        ("guardian.govern", (ADDRESS, "-1"), "until takes uint256"),
        ("guardian.govern", (ADDRESS, str(2**256)), "until takes uint256"),
        ("tasks.allow", (ADDRESS, "yes", "1"), "allowed takes bool"),
        ("timelock.grantRole", ("0x" + 31 * "ab", ADDRESS), "role takes bytes32"),
        ("admissions.set_workload", ("1", "2"), "workload takes 4 values, got 1"),
        ("admissions.set_workload", ("1", f"0x{32 * 'ab'},0xab,1,2"), "state_root takes bytes32"),
        ("auction.clear", tuple("101"), "which this command cannot read"),
        ("guardian.appoint", (), "takes 1 argument, got 0"),
        ("guardian.apoint", (ADDRESS,), "no function 'apoint'"),
        ("guardians.appoint", (ADDRESS,), "no contract 'guardians'"),
    ],
)
def test_an_argument_of_another_type__is_refused(target, args, refused):
    with pytest.raises(UserError, match=refused):
        governed_call(CHAIN, target, args)


@pytest.mark.parametrize("text", [ADDRESS, ADDRESS.lower(), "0x" + ADDRESS[2:].upper()])
def test_an_address__with_a_right_checksum_or_without_one(text):
    assert address_of(text, "--holder") == ADDRESS


def test_an_address_with_a_mistyped_letter__is_refused_by_its_checksum():
    for wrong in (ADDRESS.replace("5Fb", "5fb"), ADDRESS.replace("aa3", "aa4")):
        with pytest.raises(UserError, match="is no address, as --holder takes") as refused:
            address_of(wrong, "--holder")
        assert "checksum" in str(refused.value.hint)
