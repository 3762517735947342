"""A chain on revm whose every call is made on py-evm too, and compared: output, reason, logs and gas."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from eth.chains.base import MiningChain
from eth.db.atomic import AtomicDB
from eth.exceptions import Revert
from eth.vm.execution_context import ExecutionContext
from eth.vm.forks.prague import PragueVM
from eth.vm.message import Message
from eth.vm.transaction_context import BaseTransactionContext

from tests.support import wallet
from tests.support.contract import Contract, Log, checksummed
from tests.support.evm import GAS, Chain, Result, intrinsic_gas
from tests.support.sources import Compiled

BLOCKHASH_RANGE = 256
# Nothing ends the one transaction of a chain, and revm keeps warm what a test itself has looked at (EIP-2929).
COLD = 2_600 - 100


class TwoChains(Chain):
    """calls: how many were compared; cold: in how many of them an account was cold on py-evm alone."""

    def __init__(self) -> None:
        chain = MiningChain.configure("Oracle", vm_configuration=((0, PragueVM),), chain_id=1)
        self.state: Any = chain.from_genesis(AtomicDB(), {"difficulty": 0, "gas_limit": 2**62}).get_vm().state
        self.calls, self.cold = 0, 0
        self._as_shipped = b"", b""  # the code that is deployed on revm, and on py-evm
        self._twins: dict[bytes, bytes] = {}  # what was deployed differs by the opcode of the base fee
        super().__init__()

    def allow_code(self, code_size: int) -> None:
        super().allow_code(code_size)
        self.state.set_balance(word(wallet.RELAY), 2**200)
        for address in (wallet.RELAY, "0x" + 40 * "0"):
            self.state.mark_address_warm(word(address))

    def balance(self, account: Any) -> int:
        """revm's account is warm once it was looked at."""
        self.state.mark_address_warm(word(getattr(account, "address", account)))
        return super().balance(account)

    def set_balance(self, account: Any, amount: int) -> None:
        super().set_balance(account, amount)
        self.state.set_balance(word(getattr(account, "address", account)), amount)

    def set_storage(self, account: Any, slot: int, value: int) -> None:
        super().set_storage(account, slot, value)
        self.state.set_storage(word(account.address), slot, value)

    def _place(self, at: str, code: bytes) -> None:
        super()._place(at, code)
        self.state.set_code(word(at), self._twins.get(code, code))

    @contextmanager
    def anchor(self) -> Iterator[None]:
        snapshot = self.state.snapshot()
        with super().anchor():
            yield
            self.compare_balances()
        self.state.revert(snapshot)

    def deploy(self, compiled: Compiled, *args: Any, sender: Any = None, value: int = 0) -> Contract:
        from tests.support import base_fee

        self._as_shipped = base_fee.replaced(compiled.bytecode), compiled.bytecode
        try:
            contract = super().deploy(compiled, *args, sender=sender, value=value)
            self._twins[self.code(contract)] = self.state.get_code(word(contract.address))
            return contract
        finally:
            self._as_shipped = b"", b""

    def _run(self, to: str, payload: bytes, is_static: bool) -> Result:
        result = super()._run(to, payload, is_static)
        there = self._run_there(to, payload.replace(*self._as_shipped) if self._as_shipped[0] else payload, is_static)
        self.calls += 1
        same = replace(there, gas=result.gas) if there.gas == result.gas + COLD else there
        self.cold += same is not there
        assert same == result, f"py-evm: {there}\nrevm: {result}"
        return result

    def compare_balances(self) -> None:
        for account in {*self._wallets, *self.contracts}:
            there, here = self.state.get_balance(word(account)), self.balance(account)
            assert there == here, f"{account} has {there} on py-evm, {here} on revm"

    def _run_there(self, to: str, payload: bytes, is_static: bool) -> Result:
        state, gas = self.state, GAS - intrinsic_gas(payload)
        state.execution_context = ExecutionContext(
            coinbase=bytes(20),
            timestamp=self.timestamp,
            block_number=self.block,
            difficulty=0,
            mix_hash=bytes(32),
            gas_limit=2**63,
            prev_hashes=map(self.block_hash, range(self.block - 1, max(-1, self.block - 1 - BLOCKHASH_RANGE), -1)),
            chain_id=self.chain_id,
            base_fee_per_gas=self.base_fee,
            excess_blob_gas=0,
        )
        at, relay = word(to), word(wallet.RELAY)
        state.mark_address_warm(at)
        message = Message(gas, at, relay, 0, payload, state.get_code(at), is_static=is_static)
        context = BaseTransactionContext(gas_price=self.base_fee, origin=relay)
        done = state.computation_class.apply_message(state, message, context)
        logs = [
            Log(checksummed("0x" + address.hex()), [topic.to_bytes(32, "big") for topic in topics], bytes(data))
            for _, address, topics, data in done.get_raw_log_entries()
        ]
        failure = "" if done.is_success else "Revert" if isinstance(done.error, Revert) else "Halt"
        return Result(bytes(done.output), failure, done.get_gas_used(), tuple(logs))


def word(address: str) -> bytes:
    return bytes.fromhex(address[2:])
