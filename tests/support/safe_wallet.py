"""A real Safe, two of three owners, on a devnet: its published contracts from npm, and the batches that its owners sign."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from eth_account import Account
from eth_utils.address import to_checksum_address
from web3.contract import Contract

from tests.support.waiting import HANG_S
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import COIN

PACKAGE = "@safe-global/safe-contracts@1.4.1"
DELEGATE_CALL = 1
ARTIFACTS = {
    "Safe": "Safe.sol/Safe.json",
    "SafeProxyFactory": "proxies/SafeProxyFactory.sol/SafeProxyFactory.json",
    "MultiSendCallOnly": "libraries/MultiSendCallOnly.sol/MultiSendCallOnly.json",
}


def published_contracts(folder: Path) -> dict[str, Any]:
    """The artifacts of the package. Skips the test where npm cannot bring it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm, which brings the contracts of a Safe")
    done = subprocess.run(
        [npm, "pack", PACKAGE, "--silent"], cwd=folder, capture_output=True, text=True, timeout=HANG_S, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot fetch {PACKAGE}: {done.stderr.strip()[-200:]}")
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        return {
            name: json.load(archive.extractfile(f"package/build/artifacts/contracts/{path}"))  # type: ignore[arg-type]
            for name, path in ARTIFACTS.items()
        }


class SafeWallet:
    """Its owners execute a batch as the Transaction Builder has it: all of it in one transaction, or nothing."""

    def __init__(self, devnet: Devnet, artifacts: dict[str, Any]) -> None:
        self._devnet, self._w3 = devnet, devnet.chain.w3
        self._owners = sorted((Account.create() for _ in range(3)), key=lambda each: int(each.address, 16))
        self._payer = devnet.account("payer")
        self._artifacts = artifacts
        self._multi_send = self._deployed("MultiSendCallOnly")
        factory, singleton = self._deployed("SafeProxyFactory"), self._deployed("Safe")
        owners = [each.address for each in self._owners]
        setup = singleton.encode_abi("setup", [owners, 2, COIN, b"", COIN, COIN, 0, COIN])
        made = factory.functions.createProxyWithNonce(singleton.address, setup, 7)
        address = made.call()
        self._send(made)
        self._safe = self._w3.eth.contract(address, abi=artifacts["Safe"]["abi"])
        self.address = str(to_checksum_address(address))

    def execute(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The receipt. The batch is what was read from the file, and nothing else."""
        packed = b"".join(_packed(each) for each in batch["transactions"])
        data = bytes.fromhex(self._multi_send.encode_abi("multiSend", [packed])[2:])
        terms = (self._multi_send.address, 0, data, DELEGATE_CALL, 0, 0, 0, COIN, COIN)
        digest = self._safe.functions.getTransactionHash(*terms, self._safe.functions.nonce().call()).call()
        signatures = b"".join(each.unsafe_sign_hash(digest).signature for each in self._owners[:2])
        return self._send(self._safe.functions.execTransaction(*terms, signatures))

    def _deployed(self, name: str) -> Contract:
        artifact = self._artifacts[name]
        receipt = self._send(self._w3.eth.contract(abi=artifact["abi"], bytecode=artifact["bytecode"]).constructor())
        return self._w3.eth.contract(receipt["contractAddress"], abi=artifact["abi"])

    def _send(self, function: Any) -> Any:
        eth, address = self._w3.eth, self._payer.address
        fields = {"from": address, "nonce": eth.get_transaction_count(address), "gas": 12_000_000}
        signed = self._payer.sign_transaction(function.build_transaction(fields))
        receipt = eth.wait_for_transaction_receipt(eth.send_raw_transaction(signed.raw_transaction))
        assert receipt["status"] == 1, "the Safe refuses"
        self._devnet.chain.forget_head()
        return receipt


def _packed(each: dict[str, Any]) -> bytes:
    data = bytes.fromhex(each["data"].removeprefix("0x"))
    to = bytes.fromhex(each["to"][2:])
    return b"\0" + to + int(each["value"]).to_bytes(32, "big") + len(data).to_bytes(32, "big") + data
