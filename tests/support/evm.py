"""Contracts in this process, on revm: accounts, calls, time, and a way back.

    from tests.support.evm import chain, deploy
    token = chain.deploy(load("ZenToken"), 10**27, sender=ada)
    with chain.anchor():                      # undone at the end
        chain.timestamp += 60
        token.transfer(bob, 1, sender=ada)    # raises Reverted
        token.get_logs()

All of a process happens in one transaction as far as gas is concerned: what was read once is warm.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyrevm
from eth_abi.abi import decode
from eth_utils.address import to_checksum_address

from tests.support import base_fee, wallet
from tests.support.contract import Contract, Log, checksummed
from tests.support.sources import Compiled

CHAIN_ID = 1
START = 1_700_000_000
GAS = 300_000_000  # of a call
CODE_SIZE = 24_576  # EIP-170
ERROR_SELECTOR = bytes.fromhex("08c379a0")  # Error(string)
READER = "0x" + "e2" * 20
OUTPUT = re.compile(r"output: 0x([0-9a-f]*)")


class Reverted(Exception):
    """A call that failed. output: as the contract left it; reason: of `Error(string)`, else empty."""

    def __init__(self, result: Result) -> None:
        self.output, self.reason = result.output, result.reason
        super().__init__(self.reason or f"{result.failure} {self.output.hex()}")


@dataclass(frozen=True)
class Result:
    """Of a call. failure: empty, `Revert`, or the name of a halt; gas: of execution, refunds not taken off."""

    output: bytes
    failure: str
    gas: int
    logs: tuple[Log, ...]

    @property
    def reason(self) -> str:
        """Why it was refused; empty where nothing was said."""
        if not self.failure or self.output[:4] != ERROR_SELECTOR:
            return ""
        return str(decode(["string"], self.output[4:])[0])


class Chain:
    """Block number, second and base fee are what they were set to: nothing moves them but the test."""

    def __init__(self, chain_id: int = CHAIN_ID, code_size: int = CODE_SIZE) -> None:
        self.chain_id, self.timestamp, self.block, self.base_fee = chain_id, START, 1, 0
        self.contracts: dict[str, Contract] = {}
        self._random = random.Random("accounts")
        self._wallets: set[str] = set()
        self._undo: list[Any] = []
        self.sender = self.account()
        self.allow_code(code_size)

    def allow_code(self, code_size: int) -> None:
        """Begins anew, where a contract may have so many bytes."""
        cfg = pyrevm.CfgEnv(chain_id=self.chain_id, limit_contract_code_size=code_size)
        self.evm = pyrevm.EVM(gas_limit=2**63, env=pyrevm.Env(cfg=cfg), spec_id="PRAGUE")
        self.evm.set_balance(wallet.RELAY, 2**200)
        self.evm.insert_account_info(READER, pyrevm.AccountInfo(code=wallet.assemble(wallet.READ_CODE)))

    # --- accounts

    def account(self, name: str = "") -> str:
        """A new address."""
        return to_checksum_address(self._random.randbytes(20))

    @contextmanager
    def prank(self, sender: Any) -> Iterator[None]:
        """Who sends where no sender is given."""
        before, self.sender = self.sender, str(address_of(sender))
        try:
            yield
        finally:
            self.sender = before

    def balance(self, account: Any) -> int:
        return int(self.evm.get_balance(address_of(account)))

    def set_balance(self, account: Any, amount: int) -> None:
        at = address_of(account)
        self._undo.append((self.evm.set_balance, at, self.balance(at)))
        self.evm.set_balance(at, amount)

    def code(self, account: Any) -> bytes:
        """As EXTCODECOPY has it: revm itself answers with padding behind it."""
        data = bytes.fromhex(address_of(account)[2:]).rjust(32, b"\0")
        return bytes(self.evm.message_call(caller=wallet.RELAY, to=READER, calldata=data, is_static=True))

    def set_code(self, account: Any, code: bytes) -> None:
        at = address_of(account)
        self._undo.append((self._place, at, self.code(at)))
        self._place(at, code)

    def storage(self, account: Any, slot: int) -> int:
        return int(self.evm.storage(address_of(account), slot))

    def set_storage(self, account: Any, slot: int, value: int) -> None:
        at = address_of(account)
        self._undo.append((self.evm.insert_account_storage, at, slot, self.storage(at, slot)))
        self.evm.insert_account_storage(at, slot, value)

    def block_hash(self, number: int) -> bytes:
        """As contracts see it of the last 256 blocks."""
        return bytes(self.evm.block_hash(number))

    def _place(self, at: str, code: bytes) -> None:
        """Code alone: revm would take the account's balance with it."""
        balance, nonce = self.evm.get_balance(at), self.evm.basic(at).nonce
        self.evm.insert_account_info(at, pyrevm.AccountInfo(nonce=nonce, code=code))
        self.evm.set_balance(at, balance)

    # --- the way back

    @contextmanager
    def anchor(self) -> Iterator[None]:
        """A block whose effects are undone, the clock's too."""
        kept, undo = (self.timestamp, self.block, self.base_fee), self._undo
        wallets, snapshot, self._undo = set(self._wallets), self.evm.snapshot(), []
        try:
            yield
        finally:
            self.evm.revert(snapshot)
            for act, *args in reversed(self._undo):
                act(*args)
            self._undo, self._wallets = undo, wallets
            self.timestamp, self.block, self.base_fee = kept

    # --- calls

    def deploy(self, compiled: Compiled, *args: Any, sender: Any = None, value: int = 0) -> Contract:
        contract = Contract(self, compiled, "")
        result = self.call(
            None, base_fee.replaced(compiled.bytecode) + contract.constructor(args), sender=sender, value=value
        )
        if result.failure:
            raise Reverted(result)
        contract.address, contract.last = to_checksum_address(result.output[12:32]), result
        self.contracts[contract.address] = contract
        return contract

    def call(self, to: Any, data: bytes, *, sender: Any = None, value: int = 0, is_static: bool = False) -> Result:
        """As the sender; `to` is None to create a contract, whose address is the output."""
        who = str(address_of(sender)) if sender is not None else self.sender
        target = address_of(to) if to is not None else "0x" + 40 * "0"
        payload = bytes.fromhex(target[2:]).rjust(32, b"\0") + value.to_bytes(32, "big") + data
        with self._as_wallet(who):
            return self._run(who, payload, is_static)

    def _run(self, to: str, payload: bytes, is_static: bool) -> Result:
        evm = self.evm
        evm.set_block_env(
            pyrevm.BlockEnv(number=self.block, timestamp=self.timestamp, gas_limit=2**63, prevrandao=bytes(32))
        )
        evm.reset_transient_storage()
        output, failure = b"", ""
        try:
            output = evm.message_call(
                caller=wallet.RELAY, to=to, calldata=payload, gas=GAS, gas_price=self.base_fee, is_static=is_static
            )
        except RuntimeError as error:
            text = str(error)
            message = OUTPUT.search(text)
            output, failure = bytes.fromhex(message[1]) if message else b"", text.split(" ")[0]
        done = evm.result
        logs = () if failure else tuple(log_of(log) for log in done.logs)
        gas = done.gas_used + done.gas_refunded - intrinsic_gas(payload)
        assert gas, f"{to} has no wallet"
        return Result(bytes(output), failure, gas, logs)

    @contextmanager
    def _as_wallet(self, who: str) -> Iterator[None]:
        """The sender is a wallet; a contract is one for this call."""
        if who in self._wallets and who not in self.contracts:
            yield
            return
        code = self.code(who)
        if code in (b"", WALLET):
            self._place(who, WALLET)
            self._wallets.add(who)
            yield
            return
        holder = "0x" + bytes(byte ^ 0xFF for byte in bytes.fromhex(who[2:])).hex()
        self._place(holder, code)
        self._place(who, wallet.assemble(wallet.contract_wallet(holder)))
        try:
            yield
        finally:
            self._place(who, code)


WALLET = wallet.assemble(wallet.WALLET)
chain = Chain()


def address_of(account: Any) -> str:
    """Of an account, a contract or a key."""
    return str(getattr(account, "address", account))


def log_of(log: Any) -> Log:
    topics, data = log.data
    words = [each if isinstance(each, bytes) else bytes.fromhex(each.removeprefix("0x")) for each in topics]
    return Log(checksummed(log.address), words, bytes(data))


def intrinsic_gas(data: bytes) -> int:
    zeros = data.count(0)
    return 21_000 + 4 * zeros + 16 * (len(data) - zeros)


@contextmanager
def reverts(reason: str | None = None) -> Iterator[None]:
    """A block in which a call must be refused, for exactly this reason where one is given."""
    try:
        yield
    except Reverted as error:
        refusal = error.reason
        assert reason in (None, refusal), f"refused with {refusal!r}, expected {reason!r}"
    else:
        raise AssertionError(f"accepted, expected {reason!r}")
