"""The chain that contract tests run on: what it undoes, who sends on it, and which code it runs."""

from __future__ import annotations

import pytest

from tests.support import base_fee, sources
from tests.support.evm import Reverted, chain, reverts
from tests.support.protocol_driver import load
from zoo_compute.chain import artifacts

ORIGINS = """
# pragma version ==0.4.3
count: public(uint256)

@external
@payable
def both() -> (address, address, uint256):
    self.count += 1
    return msg.sender, tx.origin, msg.value

@external
def calls_back():
    raw_call(msg.sender, method_id("count()"))

@external
def needs(number: uint256):
    assert number < 7, "origins: too many"
    assert number != 3
"""


@pytest.fixture(name="origins")
def origins_fixture():
    return chain.deploy(sources.of_text("Origins", ORIGINS))


@pytest.mark.parametrize("name", sorted(path.stem for path in sources.CONTRACTS.glob("*.vy")))
def test_an_artifact__of_these_sources__is_deployed_as_it_was_committed(name):
    assert sources.integrity(sources.CONTRACTS / f"{name}.vy") == artifacts.artifact(name)["source_sha256"]
    assert sources.load(name).bytecode == bytes.fromhex(artifacts.artifact(name)["bytecode"][2:])


@pytest.mark.parametrize(("name", "count"), [("Availability", 1), ("Referee", 1), ("Settlement", 0), ("ZenToken", 0)])
def test_base_fee__is_replaced_where_code_asks_for_it_and_nowhere_else(name, count):
    before = sources.load(name).bytecode
    changed = [pair for pair in zip(before, base_fee.replaced(before), strict=True) if pair[0] != pair[1]]
    assert changed == [(base_fee.BASEFEE, base_fee.GASPRICE)] * count


def test_a_sender__is_never_the_origin__and_pays_what_it_sends(origins):
    ada = chain.account()
    chain.set_balance(ada, 10)
    sender, origin, value = origins.both(sender=ada, value=7)
    assert (sender, value) == (ada, 7)
    assert origin != ada
    assert (chain.balance(ada), chain.balance(origins)) == (3, 7)
    with reverts():
        origins.both(sender=ada, value=4)


def test_a_contract_that_sends__keeps_its_code_and_storage__and_can_be_called_back(origins):
    other = chain.deploy(sources.of_text("Origins", ORIGINS))
    other.both()
    code = chain.code(other)
    sender, origin, _ = origins.both(sender=other)
    assert sender == other.address != origin
    origins.calls_back(sender=other)
    assert chain.code(other) == code
    assert other.count() == 1


def test_a_refusal__has_the_reason_that_was_given__or_none(origins):
    with reverts("origins: too many"):
        origins.needs(7)
    with pytest.raises(Reverted) as refusal:
        origins.needs(3)
    assert (refusal.value.reason, refusal.value.output) == ("", b"")
    origins.needs(6)


def test_an_anchor__undoes_calls_code_coin_storage_and_clock(origins):
    ada = chain.account()
    before = (chain.timestamp, chain.block, chain.base_fee, chain.code(origins), chain.balance(ada))
    with chain.anchor():
        with chain.anchor():
            origins.both()
        chain.timestamp, chain.block, chain.base_fee = 5, 6, 7
        chain.set_balance(ada, 8)
        chain.set_storage(origins, 0, 9)
        assert (origins.count(), chain.balance(ada)) == (9, 8)
        chain.set_code(origins, b"\x00")
    assert before == (chain.timestamp, chain.block, chain.base_fee, chain.code(origins), chain.balance(ada))
    assert origins.count() == 0


def test_block_hashes__are_known_for_256_blocks__each_its_own():
    hashes = {chain.block_hash(number) for number in range(256)}
    assert len(hashes) == 256


def test_an_event__of_a_contract_that_is_called_on_the_way__has_its_address():
    deployer, ada = chain.account(), chain.account()
    token = load("ZenToken").deploy(10, sender=deployer)
    token.transfer(ada, 3, sender=deployer)
    (event,) = token.get_logs()
    assert type(event).__name__ == "Transfer"
    assert tuple(event) == (token.address, deployer, ada, 3)
