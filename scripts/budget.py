"""What a deployment would cost: `ape run deploy --dry-run` makes it on a fork of the chain, on this machine, and sends the chain nothing.

The fork has the chain's own state, so roles without code and a balance that is too small are noticed as they would be in earnest.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import requests
from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from web3 import HTTPProvider, Web3
from web3.types import TxParams

from zoo_compute.chain.deployment import RpcDeployer
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.errors import DevnetError

WEI = 10**18
TRANSACTION_GAS = 2**24  # the most that one transaction may use (EIP-7825)
RISE = 2  # the budget: so many times the cost at today's fees, which may rise while some forty transactions are mined
FORK_COIN = 1_000 * WEI  # of the deployer, on the fork only: what it really has is compared with the budget
# The contract of an OP Stack chain that prices the data which a transaction puts on L1; other chains have no code there.
L1_PRICES = to_checksum_address("0x420000000000000000000000000000000000000f")
L1_ABI = [
    {
        "type": "function",
        "name": "getL1FeeUpperBound",
        "stateMutability": "view",
        "inputs": [{"name": "unsigned_bytes", "type": "uint256"}],
        "outputs": [{"name": "", "type": "uint256"}],
    }
]
ENVELOPE_BYTES = 128  # of a transaction around its data


@dataclass(frozen=True)
class Step:
    """One transaction. gas: used; data_bytes: of its data; l1_fee: wei for them, at most (0 on a chain that is no rollup)."""

    what: str
    gas: int
    data_bytes: int
    l1_fee: int


class ForkDeployer(RpcDeployer):
    """deployment.Deployer on a fork, which sends for any account. `steps`: what was sent."""

    def __init__(self, w3: Web3, address: str) -> None:
        super().__init__(w3, address)
        self.steps: list[Step] = []
        self._l1_fee = _l1_fees(w3)

    def _mined(self, what: str, function: Any) -> Any:
        receipt = super()._mined(what, function)
        data = len(self.w3.eth.get_transaction(receipt["transactionHash"])["input"])
        self.steps.append(Step(what, receipt["gasUsed"], data, self._l1_fee(data)))
        return receipt

    def _send(self, transaction: TxParams) -> HexBytes:
        return self.w3.eth.send_transaction(transaction)


def _l1_fees(w3: Web3) -> Callable[[int], int]:
    """Wei for so many bytes of data."""
    if not w3.eth.get_code(L1_PRICES):
        return lambda _: 0
    prices = w3.eth.contract(address=L1_PRICES, abi=L1_ABI)
    return lambda data_bytes: int(prices.functions.getL1FeeUpperBound(data_bytes + ENVELOPE_BYTES).call())


@contextmanager
def forked(rpc: str, address: str) -> Iterator[ForkDeployer]:
    """Deploys as `address` on a fork of the chain at `rpc`. Raises DevnetError: no anvil here, or it cannot reach `rpc`."""
    with tempfile.TemporaryDirectory(prefix="zoo-fork") as folder:
        try:
            chain_id = Web3(HTTPProvider(rpc)).eth.chain_id
        except requests.RequestException as error:
            raise DevnetError(f"{rpc} cannot be reached: {error}", hint="is the RPC's address right?") from error
        anvil = Anvil.fork(rpc, chain_id=chain_id, log=Path(folder) / "anvil.log")
        try:
            w3 = Web3(HTTPProvider(anvil.url))
            w3.provider.make_request("anvil_setBalance", [address, hex(FORK_COIN)])  # type: ignore[arg-type]
            yield ForkDeployer(w3, address)
        finally:
            anvil.stop()


def budget_of(steps: list[Step], *, gas_price: int, balance: int) -> dict[str, Any]:
    """For scripts. gas_price, balance: wei, of the chain itself. `budget` is what the deployer should have."""
    largest = max(steps, key=lambda step: step.gas)
    gas = sum(step.gas for step in steps)
    cost = gas * gas_price + sum(step.l1_fee for step in steps)
    return {
        "transactions": len(steps),
        "gas": gas,
        "gas_price_wei": str(gas_price),
        "cost_wei": str(cost),
        "budget_wei": str(RISE * cost),
        "balance_wei": str(balance),
        "enough": balance >= RISE * cost,
        "largest": {"what": largest.what, "gas": largest.gas, "most": TRANSACTION_GAS},
        "steps": [asdict(step) for step in steps],
    }


def lines_of(budget: dict[str, Any]) -> list[str]:
    """The budget for people."""
    largest = budget["largest"]
    return [
        *(f"{step['gas']:>12,}  {step['what']}" for step in budget["steps"]),
        f"{budget['gas']:>12,}  gas in {budget['transactions']} transactions",
        "",
        f"largest      {largest['what']}: {largest['gas']:,} gas of {largest['most']:,} that one transaction may use",
        f"cost         {_coin(budget['cost_wei'])} at {Decimal(budget['gas_price_wei']) / 10**9:.3f} gwei",
        f"budget       {_coin(budget['budget_wei'])}, as fees may rise meanwhile",
        f"balance      {_coin(budget['balance_wei'])}: "
        + ("enough" if budget["enough"] else "NOT ENOUGH; send the deployer the difference"),
    ]


def _coin(wei: str) -> str:
    return f"{Decimal(wei) / WEI:.6f} coin"
