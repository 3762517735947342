"""Channels: what a signature is bound to, what hostile tokens do to others, replays, permits, and every event.

Refusals, deadlines and sums are met in lockstep with the specification (`tests/support/scenarios/channels.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account

from tests.support.consent import HALF_ORDER, ORDER
from tests.support.evm import chain
from tests.support.protocol_driver import DEVNET, Operator, events_of, load
from tests.support.sources import of_text
from tests.support.vouchers import voucher_signature
from zoo_compute.serving.vouchers import Voucher, domain_of, sign, verify

SIGNER = Account.from_key(b"\x07" * 32)
DEPOSIT = 1_000
ANSWER_FALSE, ANSWER_NOTHING, CALL_BACK, REFUSE_LISTED = (1 << bit for bit in (1, 2, 3, 5))
REFUSE_ZERO = 1 << 4  # of HostileToken
NOBODY = "0x" + 40 * "0"


@dataclass
class Desk:
    """An operator, a client with tokens, and the channels between them."""

    kit: Any
    play: Any
    operator: Operator
    client: Any
    token: Any

    @property
    def channels(self) -> Any:
        return self.kit.channels

    def open(self, amount: int = DEPOSIT, signer: str = SIGNER.address) -> int:
        return int(self.channels.open(self.operator.id, self.token, signer, amount, sender=self.client))

    def sign(self, channel: int, total: int, key: Any = SIGNER, **domain: Any) -> bytes:
        return voucher_signature(key, str(self.channels.address), channel, total, **domain)

    def redeem(self, channel: int, total: int, signature: bytes | None = None) -> int:
        proof = self.sign(channel, total) if signature is None else signature
        return int(self.channels.redeem(channel, total, proof, sender=self.operator.hot))

    def close(self, channel: int, total: int, signature: bytes | None = None) -> int:
        proof = self.sign(channel, total) if signature is None else signature
        return int(self.channels.close(channel, total, proof, sender=self.operator.hot))

    def balances(self) -> list[int]:
        parties = (self.operator.owner, self.kit.treasury, self.client, self.channels)
        return [int(self.token.balanceOf(party)) for party in parties]

    def owed(self) -> list[int]:
        parties = (self.operator.owner, self.kit.treasury, self.client)
        return [int(self.channels.owed(self.token, party)) for party in parties]


@pytest.fixture
def desk(kit, play):
    desk = Desk(kit, play, play.register("ada"), chain.account("client"), kit.zen)
    play.fund(desk.client, 10 * DEPOSIT, kit.channels)
    return desk


@pytest.fixture
def hostile(desk):
    """The desk, in a token that misbehaves on demand."""
    desk.token = load("mocks/HostileToken").deploy()
    desk.kit.tasks.allow(desk.token, True, 0, sender=desk.kit.deployer)
    desk.token.mint(desk.client, 10 * DEPOSIT)
    return desk


# --- signatures


def test_a_voucher__signed_for_anything_else__is_refused(desk):
    channel, other = desk.open(), desk.open()
    good = desk.sign(channel, 5)
    r, s, v = good[:32], int.from_bytes(good[32:64], "big"), good[64]
    assert s <= HALF_ORDER
    wrong = {
        "another signer": desk.sign(channel, 5, Account.from_key(b"\x08" * 32)),
        "another channel": desk.sign(other, 5),
        "another total": desk.sign(channel, 6),
        "another chain": desk.sign(channel, 5, chainId=5),
        "another contract": desk.sign(channel, 5, verifyingContract=str(desk.kit.rewards.address)),
        "another name": desk.sign(channel, 5, name="Zoo"),
        "another version": desk.sign(channel, 5, version="2"),
        "the other s": r + (ORDER - s).to_bytes(32, "big") + bytes([55 - v]),
        "the other v": good[:64] + bytes([55 - v]),
        "v of 0 or 1": good[:64] + bytes([v - 27]),
        "too short": good[:64],
        "nonsense": b"\xff" * 65,
        "zeros": bytes(65),
        "none": b"",
    }
    for what, signature in wrong.items():
        for function in (desk.redeem, desk.close):
            with desk.play.refused("channels: voucher not signed"):
                assert function(channel, 5, signature) is None, what
    assert desk.redeem(channel, 5, good) == 5


def test_a_voucher__of_a_chain_before_a_fork__is_worth_nothing_on_the_other(desk):
    """The domain is built at each use: a copy of the contract on another chain asks for that chain's signature."""
    channel = desk.open()
    signature = desk.sign(channel, 5, chainId=chain.chain_id + 1)
    with desk.play.refused("channels: voucher not signed"):
        desk.close(channel, 5, signature)


def test_a_voucher__of_a_closed_channel__pays_nothing_again(desk):
    channel = desk.open()
    signature = desk.sign(channel, 300)
    assert desk.close(channel, 300, signature) == 300
    assert tuple(desk.channels.channels(channel)) == (NOBODY, 0, NOBODY, NOBODY, 0, 0, 0)
    again = desk.open()
    assert again == channel + 1
    for number, reason in ((channel, "no such channel"), (again, "voucher not signed")):
        with desk.play.refused(f"channels: {reason}"):
            desk.close(number, 300, signature)


def test_the_librarys_signature__is_the_wallets_and_the_contracts(desk):
    channel, domain = desk.open(), domain_of(chain.chain_id, str(desk.channels.address))
    for total in (1, 5, DEPOSIT, 2**96 - 1, 2**256 - 1):
        voucher = Voucher(channel, total)
        signature = sign(domain, voucher, SIGNER.key)
        assert signature == desk.sign(channel, total)
        assert verify(domain, voucher, signature, SIGNER.address)
        with chain.anchor():
            desk.redeem(channel, total, signature)


# --- money


@pytest.mark.parametrize("total", [1, 2, 401, DEPOSIT, DEPOSIT + 1])
def test_close__pays_operator_treasury_and_client_in_one_transaction(desk, total):
    before, due = desk.balances(), min(total, DEPOSIT)
    channel = desk.open()
    assert desk.close(channel, total) == due
    moved = [after - was for after, was in zip(desk.balances(), before, strict=True)]
    assert moved == [due * 95 // 100, due - due * 95 // 100, -due, 0]
    assert desk.owed() == [0, 0, 0]


@pytest.mark.parametrize("listed", ["operator", "treasury", "client"])
@pytest.mark.parametrize("trick", [REFUSE_LISTED, REFUSE_LISTED | ANSWER_NOTHING])
def test_a_token_that_refuses_one_account__holds_up_nobody_else(hostile, listed, trick):
    parties = {"operator": hostile.operator.owner, "treasury": hostile.kit.treasury, "client": hostile.client}
    channel, before = hostile.open(), hostile.balances()
    hostile.token.play(trick)
    hostile.token.blacklist(parties[listed])
    assert hostile.close(channel, 400) == 400
    moved = [after - was for after, was in zip(hostile.balances(), before, strict=True)][:3]
    due = [380, 20, 600]
    unpaid = [amount if name == listed else 0 for name, amount in zip(parties, due, strict=True)]
    assert moved == [amount - kept for amount, kept in zip(due, unpaid, strict=True)]
    assert hostile.owed() == unpaid
    assert hostile.token.balanceOf(hostile.channels) == sum(unpaid)
    with hostile.play.refused("token: blacklisted"):
        hostile.channels.withdraw(hostile.token, parties[listed])
    hostile.token.play(0)
    hostile.channels.withdraw(hostile.token, parties[listed])
    assert hostile.owed() == [0, 0, 0]
    assert hostile.token.balanceOf(hostile.channels) == 0


def test_a_client_that_the_token_refuses__leaves_all_the_same(hostile):
    channel = hostile.open()
    hostile.channels.leave(channel, sender=hostile.client)
    chain.timestamp += DEVNET.notice_s + 1
    hostile.token.play(REFUSE_LISTED)
    hostile.token.blacklist(hostile.client)
    assert hostile.channels.refund(channel, sender=hostile.play.anyone) == DEPOSIT
    assert hostile.owed() == [0, 0, DEPOSIT]


def test_a_token_that_calls_back__enters_nothing(hostile):
    first, second = hostile.open(), hostile.open()
    hostile.token.mint(hostile.token, DEPOSIT)
    payloads = [
        hostile.channels.close.prepare_calldata(second, 0, b""),
        hostile.channels.refund.prepare_calldata(second),
        hostile.channels.withdraw.prepare_calldata(str(hostile.token.address), hostile.client),
        hostile.channels.open.prepare_calldata(hostile.operator.id, str(hostile.token.address), SIGNER.address, 1),
    ]
    hostile.token.arm([(hostile.channels.address, payload, 0) for payload in payloads])
    hostile.token.play(CALL_BACK)
    hostile.channels.leave(second, sender=hostile.client)
    chain.timestamp += DEVNET.notice_s + 1
    assert not chain.call(hostile.channels, payloads[3], sender=hostile.token).failure, "by itself it goes through"
    hostile.close(first, 400)
    assert [hostile.token.attempts(index) for index in range(4)] == [4, 4, 4, 4]
    assert [hostile.token.entered(index) for index in range(4)] == [0, 0, 0, 0]


ODD = """
balanceOf: public(HashMap[address, uint256])

@external
def mint(account: address, amount: uint256):
    self.balanceOf[account] += amount

@external
@raw_return
def transfer(to: address, amount: uint256) -> Bytes[96]:
    self.balanceOf[msg.sender] -= amount
    self.balanceOf[to] += amount
    return {answer}

@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    self.balanceOf[owner] -= amount
    self.balanceOf[to] += amount
    return True
"""
WORDS = "concat(convert({}, bytes32), convert({}, bytes32), convert(3, bytes32))"


@pytest.mark.parametrize(
    ("answer", "is_paid"),
    [(WORDS.format(1, 0), True), (WORDS.format(0, 1), False), ('b"\\x01"', True), ('b"\\x00"', False), ('b""', True)],
)
def test_an_answer_of_any_length__counts_by_its_first_word(desk, answer, is_paid):
    """It is copied no further: no token makes a payment dear or impossible by what it answers."""
    desk.token = chain.deploy(of_text("Odd", ODD.format(answer=answer)), sender=desk.kit.deployer)
    desk.kit.tasks.allow(desk.token, True, 0, sender=desk.kit.deployer)
    desk.token.mint(desk.client, DEPOSIT)
    assert desk.close(desk.open(), 400) == 400
    assert desk.owed() == ([0, 0, 0] if is_paid else [380, 20, 600])


def test_a_token_that_is_allowed_no_longer__opens_no_channel_and_pays_out_of_open_ones(desk):
    channel = desk.open()
    desk.kit.tasks.allow(desk.token, False, 0, sender=desk.kit.deployer)
    with desk.play.refused("channels: token not allowed"):
        desk.open()
    assert desk.close(channel, 400) == 400


def test_open__by_a_signed_allowance__takes_one_transaction(desk):
    key = Account.from_key(b"\x09" * 32)
    desk.kit.zen.transfer(key.address, DEPOSIT, sender=desk.kit.deployer)
    names = {"owner": "address", "spender": "address", "value": "uint256", "nonce": "uint256", "deadline": "uint256"}
    types = {"Permit": [{"name": name, "type": kind} for name, kind in names.items()]}
    deadline = desk.play.now + 60
    message = {
        "owner": key.address,
        "spender": str(desk.channels.address),
        "value": DEPOSIT,
        "nonce": 0,
        "deadline": deadline,
    }
    domain = {
        "name": "Zoo",
        "version": "1",
        "chainId": chain.chain_id,
        "verifyingContract": str(desk.kit.zen.address),
    }
    signed = key.sign_typed_data(domain, types, message)
    permit = (deadline, signed.v, signed.r.to_bytes(32, "big"), signed.s.to_bytes(32, "big"))
    args = (desk.operator.id, desk.kit.zen, SIGNER.address, DEPOSIT)
    with desk.play.refused("erc20: insufficient allowance"):
        desk.channels.open_permitted(*args, deadline + 1, *permit[1:], sender=key.address)
    channel = desk.channels.open_permitted(*args, *permit, sender=key.address)
    assert desk.channels.channels(channel).client == key.address
    assert desk.kit.zen.allowance(key.address, desk.channels) == 0
    with desk.play.refused("erc20: insufficient allowance"):
        desk.channels.open_permitted(*args, *permit, sender=key.address)


def test_a_token_that_answers_nothing__or_refuses_to_send_nothing__is_paid_in_out_and_back(hostile):
    hostile.token.play(ANSWER_NOTHING | REFUSE_ZERO)
    channel = hostile.open()
    hostile.channels.add(channel, 5, sender=hostile.client)
    assert hostile.close(channel, DEPOSIT + 5) == DEPOSIT + 5
    assert [name for name, _ in events_of(hostile.channels)] == ["ChannelClosed", "VoucherPaid"]
    idle = hostile.open()
    hostile.close(idle, 0, b"")
    assert [name for name, _ in events_of(hostile.channels)] == ["ChannelClosed"]
    last = hostile.open()
    hostile.token.play(ANSWER_FALSE)
    hostile.redeem(last, 1)
    assert hostile.owed() == [0, 1, 0]  # of one unit all is the fee
    hostile.token.play(ANSWER_NOTHING)
    assert hostile.channels.withdraw(hostile.token, hostile.kit.treasury) == 1


# --- events


def test_each_change__is_an_event(desk):
    channels, token = desk.channels, desk.kit.zen.address
    channel = desk.open()
    who = {"client": desk.client, "operator": desk.operator.id, "token": token, "signer": SIGNER.address}
    assert events_of(channels) == [("ChannelOpened", {"channel": channel, **who, "amount": DEPOSIT})]
    channels.add(channel, 50, sender=desk.client)
    assert events_of(channels) == [("ChannelFunded", {"channel": channel, "amount": 50})]
    desk.redeem(channel, 100)
    paid = {"channel": channel, "operator": desk.operator.id}
    assert events_of(channels) == [("VoucherPaid", {**paid, "total": 100, "net": 95, "fee": 5})]
    channels.leave(channel, sender=desk.client)
    ends_at = chain.timestamp + DEVNET.notice_s
    assert events_of(channels) == [("NoticeGiven", {"channel": channel, "ends_at": ends_at})]
    desk.close(channel, 140)
    closed = ("ChannelClosed", {"channel": channel, "refunded": DEPOSIT + 50 - 140})
    assert events_of(channels) == [closed, ("VoucherPaid", {**paid, "total": 140, "net": 38, "fee": 2})]
    idle = desk.open()
    desk.close(idle, 0, b"")
    assert events_of(channels) == [("ChannelClosed", {"channel": idle, "refunded": DEPOSIT})]
    left = desk.open()
    channels.leave(left, sender=desk.client)
    chain.timestamp += DEVNET.notice_s + 1
    channels.refund(left, sender=desk.play.anyone)
    assert events_of(channels) == [("ChannelClosed", {"channel": left, "refunded": DEPOSIT})]


def test_what_is_owed__and_withdrawn__is_an_event(hostile):
    channel, token = hostile.open(), str(hostile.token.address)
    hostile.token.play(ANSWER_FALSE)
    hostile.redeem(channel, 100)
    owner = {"token": token, "account": hostile.operator.owner, "amount": 95}
    treasury = {"token": token, "account": str(hostile.kit.treasury.address), "amount": 5}
    assert events_of(hostile.channels)[1:] == [("Owed", owner), ("Owed", treasury)]
    hostile.token.play(0)
    hostile.channels.withdraw(hostile.token, hostile.operator.owner)
    assert events_of(hostile.channels) == [("Withdrawn", owner)]


def test_numbers_at_their_limits__pack_into_their_words(kit, play):
    """The largest deposit, the last second, all that is paid: no field reaches into its neighbour."""
    token = load("mocks/FalseToken").deploy()
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    ada, client = play.register("ada"), chain.account("client")
    most = 2**96 - 1
    token.mint(client, most)
    highest = "0x" + "ff" * 20
    channel = kit.channels.open(ada.id, token, highest, 1, sender=client)
    kit.channels.add(channel, most - 1, sender=client)
    chain.timestamp = 2**40 - 1 - DEVNET.notice_s
    kit.registry.beat()
    kit.channels.leave(channel, sender=client)
    ends_at = kit.registry.time() + DEVNET.notice_s
    record = kit.channels.channels(channel)
    assert (record.client, record.operator, record.token) == (client, ada.id, str(token.address))
    assert (record.signer.lower(), record.deposit, record.ends_at) == (highest, most, ends_at)
