"""ZenToken: an ERC-20 of fixed supply with permit, against a ledger of plain numbers and signatures of every wrong kind."""

from collections import Counter

import pytest
from eth_account import Account
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.consent import CHAIN_ID, ORDER
from tests.support.contract import Contract
from tests.support.evm import Chain, Reverted, chain
from tests.support.protocol_driver import SUPPLY, UNLIMITED, load
from tests.support.sources import storage_slot

ZERO = "0x" + 40 * "0"
HOLDERS = range(3)
ACCOUNTS = [Account.from_key(bytes([index + 1]) * 32).address for index in HOLDERS]
DEADLINE_S = 60
FIELDS = [("owner", "address"), ("spender", "address"), ("value", "uint256"), ("nonce", "uint256")]
TYPES = {"Permit": [{"name": name, "type": kind} for name, kind in (*FIELDS, ("deadline", "uint256"))]}

# --- the ledger

HOLDER = st.sampled_from(HOLDERS)
PAYEE = st.sampled_from([*HOLDERS, ZERO])
AMOUNT = st.sampled_from([0, 1, 2, 50, 99, 100, 101, SUPPLY, UNLIMITED - 1, UNLIMITED]) | st.integers(0, 200)
STEPS = st.lists(
    st.tuples(st.just("transfer"), HOLDER, PAYEE, AMOUNT)
    | st.tuples(st.just("approve"), HOLDER, PAYEE, AMOUNT)
    | st.tuples(st.just("transferFrom"), HOLDER, HOLDER, PAYEE, AMOUNT),
    min_size=10,
    max_size=40,
)
REACHED: Counter[str] = Counter()


class Ledger:
    """What EIP-20 says, in dictionaries. Each step says why it is refused, or does its work and says nothing."""

    def __init__(self, balances):
        self.balances = dict(balances)
        self.allowances = Counter()

    def transfer(self, sender, to, amount):
        if to == ZERO:
            return "erc20: transfer to the zero address"
        if self.balances[sender] < amount:
            return "erc20: transfer amount exceeds balance"
        self.balances[sender] -= amount
        self.balances[to] += amount
        return None

    def approve(self, sender, spender, amount):
        if spender == ZERO:
            return "erc20: approve to the zero address"
        self.allowances[sender, spender] = amount
        return None

    def transferFrom(self, sender, owner, to, amount):
        allowed = self.allowances[owner, sender]
        if allowed < amount:
            return "erc20: insufficient allowance"
        refused = self.transfer(owner, to, amount)
        if refused is None and allowed != UNLIMITED:
            self.allowances[owner, sender] -= amount
        return refused


@pytest.fixture(scope="module")
def zen():
    deployer = chain.account("deployer")
    token = load("ZenToken").deploy(SUPPLY, sender=deployer)
    for account in ACCOUNTS:
        token.transfer(account, 100, sender=deployer)
    return token


@settings(max_examples=25, deadline=None, derandomize=True)
@given(steps=STEPS)
def check_ledger(zen, steps):
    with chain.anchor():
        ledger = Ledger(dict.fromkeys(HOLDERS, 100))
        for function, sender, *args in steps:
            call_args = [ACCOUNTS[arg] if kind != "amount" and arg in HOLDERS else arg for kind, arg in kinds(args)]
            refused = getattr(ledger, function)(sender, *args)
            REACHED[f"{function}: {refused}"] += 1
            assert outcome(getattr(zen, function), *call_args, sender=ACCOUNTS[sender]) == (refused or True)
            amounts = [zen.balanceOf(account) for account in ACCOUNTS]
            assert amounts == [ledger.balances[index] for index in HOLDERS]
            assert sum(amounts) == 300
        for owner in HOLDERS:
            for spender in HOLDERS:
                assert zen.allowance(ACCOUNTS[owner], ACCOUNTS[spender]) == ledger.allowances[owner, spender]
        assert zen.totalSupply() == SUPPLY


def kinds(args):
    """The last argument is an amount, those before it are accounts."""
    return [*(("account", arg) for arg in args[:-1]), ("amount", args[-1])]


def outcome(method, *args, **options):
    """What a call answered, or why it was refused."""
    try:
        return method(*args, **options)
    except Reverted as error:
        return error.reason


def test_zen__any_transfers_and_allowances__keep_a_ledgers_books(zen):
    check_ledger(zen)
    refusals = ["transfer to the zero address", "transfer amount exceeds balance", "insufficient allowance"]
    wanted = {f"transferFrom: erc20: {refusal}" for refusal in refusals} | {
        "approve: erc20: approve to the zero address"
    }
    wanted |= {f"{function}: None" for function in ("transfer", "approve", "transferFrom")}
    assert wanted <= set(REACHED), "a way that no walk went"


def test_zen__whole_supply__is_the_deployers_and_nobody_can_mint(kit):
    assert kit.zen.totalSupply() == SUPPLY
    assert (kit.zen.name(), kit.zen.symbol(), kit.zen.decimals()) == ("Zoo", "ZEN", 18)
    for function in ("mint", "burn", "set_minter", "transfer_ownership", "owner"):
        assert not hasattr(kit.zen, function)


# --- permit


class Owner:
    """An account that signs permits; `changes` to what is signed make it a wrong one."""

    def __init__(self, zen):
        self.zen, self.account = zen, Account.from_key(b"\x07" * 32)
        self.spender, self.now = ACCOUNTS[0], chain.timestamp

    def sign(self, value=5, **changes):
        message = {
            "owner": self.account.address,
            "spender": str(self.spender),
            "value": value,
            "nonce": self.zen.nonces(self.account.address),
            "deadline": self.now + DEADLINE_S,
        }
        domain = {"name": "Zoo", "version": "1", "chainId": CHAIN_ID, "verifyingContract": str(self.zen.address)}
        message |= {name: change for name, change in changes.items() if name in message}
        domain |= {name: change for name, change in changes.items() if name in domain}
        by = changes.get("by", self.account)
        return by.sign_typed_data(domain, TYPES, message)

    def permit(self, signed, value=5, deadline=None, owner=None):
        """Asks for an allowance with a signature; True, or why it was refused."""
        deadline = self.now + DEADLINE_S if deadline is None else deadline
        args = (owner or self.account.address, self.spender, value, deadline, signed.v)
        r, s = (number.to_bytes(32, "big") for number in (signed.r, signed.s))
        return outcome(self.zen.permit, *args, r, s) or True

    @property
    def allowance(self):
        return self.zen.allowance(self.account.address, self.spender)


@pytest.fixture
def owner(zen):
    return Owner(zen)


@pytest.mark.parametrize("value", [0, 5, UNLIMITED])
def test_permit__signed_by_the_owner__sets_the_allowance_once(owner, value):
    signed = owner.sign(value)
    assert owner.permit(signed, value) is True
    assert (owner.allowance, owner.zen.nonces(owner.account.address)) == (value, 1)
    assert owner.permit(signed, value) == "erc20: invalid signature"
    assert owner.permit(owner.sign(7), 7) is True
    assert owner.allowance == 7


WRONG = {
    "another chain": {"chainId": CHAIN_ID + 1},
    "another token": {"verifyingContract": "0x" + 40 * "1"},
    "another name": {"name": "Zen"},
    "another version": {"version": "2"},
    "another spender": {"spender": "0x" + 40 * "2"},
    "another value": {"value": 6},
    "a later nonce": {"nonce": 1},
    "another deadline": {"deadline": 2**64},
    "another signer": {"by": Account.from_key(b"\x08" * 32)},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_permit__signed_for_something_else__is_refused(owner, wrong):
    signed = owner.sign(**WRONG[wrong])
    assert owner.permit(signed) == "erc20: invalid signature"
    assert (owner.allowance, owner.zen.nonces(owner.account.address)) == (0, 0)


def test_permit__holds_up_to_its_deadline_and_no_second_longer(owner):
    signed = owner.sign()
    chain.timestamp = owner.now + DEADLINE_S + 1
    assert owner.permit(signed) == "erc20: expired deadline"
    chain.timestamp = owner.now + DEADLINE_S
    assert owner.permit(signed) is True


def test_permit__on_another_chain_than_it_was_deployed_on__is_refused(owner):
    """A fork of the chain has another id: what was signed for this one does not count there."""
    signed = owner.sign()
    fork = Chain(CHAIN_ID + 1)
    fork.timestamp = owner.now
    fork.set_code(owner.zen, chain.code(owner.zen))
    owner.zen = Contract(fork, owner.zen.compiled, owner.zen.address)
    assert owner.permit(signed) == "erc20: invalid signature"
    assert owner.permit(owner.sign(chainId=CHAIN_ID + 1)) is True


def test_permit__by_the_other_signature_of_the_same_message__is_refused(owner):
    signed = owner.sign()
    other = signed._replace(v=55 - signed.v, s=ORDER - signed.s)
    assert owner.permit(other).startswith("ecdsa: invalid signature")
    assert owner.allowance == 0


def test_permit__for_the_zero_address_by_a_signature_of_nobody__is_refused(owner):
    nobody = owner.sign()._replace(v=27, r=0, s=1)
    assert owner.permit(nobody, owner=ZERO) != True  # noqa: E712
    assert owner.zen.allowance(ZERO, owner.spender) == 0


def test_deployer__keeps_neither_the_token_nor_a_right_to_mint():
    """No function of the contract shows either: both are read from its storage."""
    deployer = chain.account("deployer")
    token = load("ZenToken").deploy(SUPPLY, sender=deployer)
    account = int(deployer, 16)
    assert chain.storage(token, storage_slot("ZenToken", "erc20.balanceOf", account)) == SUPPLY
    assert chain.storage(token, storage_slot("ZenToken", "ownable.owner")) == 0
    assert chain.storage(token, storage_slot("ZenToken", "erc20.is_minter", account)) == 0
