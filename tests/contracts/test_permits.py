"""TaskRegistry.post_permitted: a job posted in one transaction, by a signature that anyone may have used before."""

from dataclasses import dataclass
from typing import Any

import pytest
from eth_account import Account

from tests.support.consent import CHAIN_ID
from tests.support.evm import chain
from tests.support.job_driver import POSTING_DEPOSIT
from tests.support.protocol_driver import COIN, ZEN, load

ESCROW = (2_000 * 5 + 1_000) * 7
TERMS = {"rounds": 7, "slots": 5, "quorum": 5}
HOUR = 3_600
FIELDS = (
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
TYPES = {"Permit": [{"name": name, "type": kind} for name, kind in FIELDS]}


@dataclass
class Signer:
    """A submitter with ZEN and no allowance."""

    kit: Any
    play: Any
    key: Any

    def permit(self, value: int = ESCROW, **changes: Any) -> tuple[int, int, bytes, bytes]:
        """(deadline, v, r, s) of an allowance for the task registry."""
        zen = self.kit.zen
        message = {
            "owner": self.key.address,
            "spender": str(self.kit.tasks.address),
            "value": value,
            "nonce": zen.nonces(self.key.address),
            "deadline": self.play.now + HOUR,
        } | changes
        domain = {"name": "Zoo", "version": "1", "chainId": CHAIN_ID, "verifyingContract": str(zen.address)}
        signed = self.key.sign_typed_data(domain, TYPES, message)
        return message["deadline"], signed.v, signed.r.to_bytes(32, "big"), signed.s.to_bytes(32, "big")

    def post(self, permit: tuple[int, int, bytes, bytes], **changes: Any) -> int:
        terms = self.play.terms(**{**TERMS, **changes})
        return int(self.kit.tasks.post_permitted(terms, *permit, sender=self.key.address, value=POSTING_DEPOSIT))

    @property
    def allowance(self) -> int:
        return int(self.kit.zen.allowance(self.key.address, self.kit.tasks))


@pytest.fixture
def signer(kit, play):
    key = Account.from_key(b"\x09" * 32)
    kit.zen.transfer(key.address, 10**6 * ZEN, sender=kit.deployer)
    chain.set_balance(key.address, COIN)
    return Signer(kit, play, key)


def test_post_permitted__without_an_allowance__posts_in_one_transaction(kit, signer):
    before = kit.zen.balanceOf(signer.key.address)
    assert signer.allowance == 0
    job = signer.post(signer.permit())
    assert kit.tasks.jobs(job).submitter == signer.key.address
    assert kit.tasks.jobs(job).escrow == before - kit.zen.balanceOf(signer.key.address) == ESCROW
    assert signer.allowance == 0
    assert [kit.auction.lots(job, kind).phase for kind in (0, 1)] == [1, 1]


def test_post_permitted__after_a_stranger_used_the_permit__posts_all_the_same(kit, play, signer):
    deadline, v, r, s = signer.permit()
    kit.zen.permit(signer.key.address, kit.tasks, ESCROW, deadline, v, r, s, sender=play.anyone)
    assert signer.allowance == ESCROW
    assert kit.tasks.jobs(signer.post((deadline, v, r, s))).escrow == ESCROW
    assert signer.allowance == 0


def test_post_permitted__twice_with_one_signature__posts_once(kit, play, signer):
    permit = signer.permit()
    job = signer.post(permit)
    with play.refused("erc20: insufficient allowance"):
        signer.post(permit)
    assert kit.tasks.job_count() == job


@pytest.mark.parametrize(
    ("value", "changes"),
    [(ESCROW - 1, {}), (ESCROW + 1, {}), (ESCROW, {"nonce": 1}), (ESCROW, {"spender": "0x" + "11" * 20})],
)
def test_post_permitted__with_a_signature_of_something_else__is_refused_and_moves_nothing(play, signer, value, changes):
    with play.refused("erc20: insufficient allowance"):
        signer.post(signer.permit(value, **changes))
    assert signer.allowance == 0


def test_post_permitted__with_another_s_signature__is_refused(kit, play, signer):
    thief = chain.account("thief")
    with play.refused("erc20: insufficient allowance"):
        chain.set_balance(thief, COIN)
        kit.tasks.post_permitted(play.terms(**TERMS), *signer.permit(), sender=thief, value=POSTING_DEPOSIT)


def test_post_permitted__up_to_its_deadline_and_no_second_longer(kit, play, signer):
    permit = signer.permit(deadline=play.now)
    signer.post(permit)
    late = signer.permit(deadline=play.now - 1)
    with play.refused("erc20: insufficient allowance"):
        signer.post(late)


def test_post_permitted__refused_as_post_is__leaves_the_permit_unused(kit, play, signer):
    nonce = kit.zen.nonces(signer.key.address)
    with play.refused("tasks: rounds out of range"):
        signer.post(signer.permit(), rounds=0)
    kit.tasks.pause(2**40 - 1, sender=kit.guardian)
    with play.refused("tasks: intake paused"):
        signer.post(signer.permit())
    kit.tasks.pause(0, sender=kit.guardian)
    other = load("mocks/FalseToken").deploy()
    with play.refused("tasks: token not allowed"):
        signer.post(signer.permit(), token=other.address)
    assert kit.zen.nonces(signer.key.address) == nonce


def test_post_permitted__in_a_token_without_permit__posts_where_it_may_pull(kit, signer):
    token = load("mocks/FalseToken").deploy()
    kit.tasks.allow(token, True, 0, sender=kit.deployer)
    token.mint(signer.key.address, ESCROW)
    job = signer.post(signer.permit(), token=token.address)
    assert (kit.tasks.jobs(job).token, token.balanceOf(kit.tasks)) == (token.address, ESCROW)
