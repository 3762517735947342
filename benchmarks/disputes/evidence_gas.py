"""Gas of judging one part, read from receipts on anvil: the call of `Evidence.judge` as a transaction, calldata included.

    python -m benchmarks.disputes.evidence_gas [--json]

`judge` of the Referee costs this, its own calldata and the end of the dispute. Operands are of the sizes named; the trace has 4,096 nodes.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from pathlib import Path
from typing import Any

from web3 import Web3

from repops.graph import Node
from tests.support.explorations.sparse_trees import FORMS, part_evidence
from tests.support.sources import load
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.disputes.evidence import encode

CHAIN_ID = 31337


class Bench:
    def __init__(self, url: str) -> None:
        self.w3 = Web3(Web3.HTTPProvider(url))
        self.me = self.w3.eth.accounts[0]
        operators = self.deploy("OpExecutor")
        self.judge = self.deploy("Evidence", operators.address, operators.address)

    def deploy(self, name: str, *args: Any) -> Any:
        compiled = load(name)
        contract = self.w3.eth.contract(abi=compiled.abi, bytecode=compiled.bytecode)
        receipt = self.w3.eth.wait_for_transaction_receipt(contract.constructor(*args).transact({"from": self.me}))
        return self.w3.eth.contract(address=receipt["contractAddress"], abi=compiled.abi)

    def measure(self, form: tuple[Node, int, int]) -> dict[str, int]:
        frame, position, evidence = part_evidence(form)
        data = encode(evidence)
        call = self.judge.functions.judge(evidence.KIND, astuple(frame), astuple(position), data)
        receipt = self.w3.eth.wait_for_transaction_receipt(call.transact({"from": self.me, "gas": 10_000_000}))
        assert receipt["status"] == 1, "judge reverted"
        return {
            "gas": receipt["gasUsed"],
            "leaves": len(evidence.leaves),
            "hashes": len(evidence.hashes),
            "bytes": len(data),
        }


@contextmanager
def temporary_chain() -> Iterator[str]:
    """The URL of an anvil of its own, which stops at the end."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        anvil = Anvil.start(chain_id=CHAIN_ID, block_time=1, port=0, state=folder / "s.json", log=folder / "log")
        try:
            yield anvil.url
        finally:
            anvil.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object")
    wants_json = parser.parse_args().json
    with temporary_chain() as url:
        bench = Bench(url)
        figures = {label: bench.measure(form) for label, form in FORMS.items()}
    if wants_json:
        print(json.dumps(figures))
        return 0
    print(f"{'part':25} {'gas':>8} {'leaves':>7} {'hashes':>7} {'bytes':>7}")
    for label, row in figures.items():
        print(f"{label:25} {row['gas']:8,} {row['leaves']:7} {row['hashes']:7} {row['bytes']:7,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
