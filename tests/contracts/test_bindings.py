"""Artifacts and generated bindings say what the contracts are."""

import pytest
from web3 import EthereumTesterProvider, Web3

from scripts.generate.artifacts import CONTRACTS, compile_contract, most_bytes
from tests.support.evm import chain
from tests.support.protocol_driver import ZEN, deploy_all
from zoo_compute.chain.artifacts import artifact
from zoo_compute.chain.call import Call, functions_of
from zoo_compute.chain.generated import bindings
from zoo_compute.chain.generated.bindings.settlement import Claim

NAMES = (
    "Auction",
    "Channels",
    "Datasets",
    "NodeRegistry",
    "Rewards",
    "Settlement",
    "TaskRegistry",
    "Timelock",
    "Treasury",
    "ZenToken",
)
ADDRESS = "0x" + "11" * 20


@pytest.mark.parametrize("name", NAMES)
def test_artifact__of_the_committed_sources__is_fresh(name):
    fresh = compile_contract(name).data.integrity_sum
    assert artifact(name)["source_sha256"] == fresh, "run: python -m scripts.generate artifacts"


def test_artifact__deployed_code__leaves_room_below_the_limit():
    for name in CONTRACTS:
        assert 0 < artifact(name)["deployed_bytes"] <= most_bytes(name), name


def test_artifact__deployed_bytes__are_those_on_chain_immutables_included():
    contracts = deploy_all()
    for name, contract in (("Settlement", contracts.settlement), ("Treasury", contracts.treasury)):
        assert artifact(name)["deployed_bytes"] == len(chain.code(contract.address)), name


def test_binding__a_change_of_state__is_a_call_with_the_calldata_web3_makes():
    w3 = Web3()
    root, other = b"\x04" * 32, b"\x0a" * 32
    claims = [Claim(0, 1, 2, 3, 4, 5, root, other), Claim(10, 11, 12, 13, 14, 15, other, root)]
    call = bindings.Settlement(w3, ADDRESS).finalise(7, claims)
    assert isinstance(call, Call)
    assert (call.contract, call.function, call.address) == ("Settlement", "finalise", ADDRESS)
    contract = w3.eth.contract(abi=bindings.abi("Settlement"))
    assert Web3.to_hex(call.encode()) == contract.encode_abi("finalise", args=[7, [tuple(claim) for claim in claims]])


@pytest.mark.parametrize("name", NAMES)
def test_binding__every_function__has_a_method(name):
    binding = getattr(bindings, name)
    for function in functions_of(name):
        assert callable(getattr(binding, function))
        assert getattr(binding, function).__doc__


def test_call__wrong_number_of_arguments__is_an_error():
    entry = functions_of("NodeRegistry")["burn"]
    with pytest.raises(ValueError, match="burn takes 2 arguments, got 1"):
        Call("NodeRegistry", ADDRESS, "burn", (ADDRESS,), entry).encode()


def test_binding__views__return_named_values():
    w3 = Web3(EthereumTesterProvider())
    account = w3.eth.accounts[0]

    def deploy(name, *args):
        factory = w3.eth.contract(abi=bindings.abi(name), bytecode=artifact(name)["bytecode"])
        receipt = w3.eth.wait_for_transaction_receipt(factory.constructor(*args).transact({"from": account}))
        return receipt["contractAddress"]

    def send(call):
        digest = w3.eth.send_transaction({"from": account, "to": call.address, "data": Web3.to_hex(call.encode())})
        return w3.eth.wait_for_transaction_receipt(digest)["blockNumber"]

    zen = bindings.ZenToken(w3, deploy("ZenToken", 1_000 * ZEN))
    registry = bindings.NodeRegistry(w3, deploy("NodeRegistry", zen.address, account, 100 * ZEN, 30, 60, 2**40))
    send(zen.approve(registry.address, 1_000 * ZEN))
    block = send(registry.register(ADDRESS, 3, 80, 100 * ZEN, "http://here"))
    operator = registry.operators(1)
    assert (operator.owner, operator.gpu_class, operator.vram_gb, operator.stake) == (account, 3, 80, 100 * ZEN)
    assert operator.hot == Web3.to_checksum_address(ADDRESS)
    assert registry.operators(1, block=block - 1).stake == 0
    assert registry.collateral(1, zen.address) == (0, 0)
    assert registry.is_eligible(1, ADDRESS) is True
    assert zen.symbol() == "ZEN"
