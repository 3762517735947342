"""Vouchers of payment channels: how many one process verifies, signs and keeps a second, and the gas of a channel.

    python -m benchmarks.served.vouchers [--json] [--seconds 2] [--no-gas]

`vouchers_per_s`: signatures verified in one thread. `accepted_per_s`: vouchers that an operator's book verifies and has on
this machine's disk before the answer begins; `paid_per_s`: that a client's book signs, likewise. `gas_open` and `gas_close` are
from receipts on anvil, each of a client and an operator that had channels before (benchmarks/chain/channels.py).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from eth_account import Account

from benchmarks.chain.channels import ChannelBench
from tests.support.devnet_driver import DevnetOperator
from zoo_compute.chain.generated.bindings.channels import Channel
from zoo_compute.chain.sender import Sender
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.inference.books import ClientBook, OperatorBook
from zoo_compute.serving.vouchers import SignedVoucher, Voucher, domain_of, sign, verify
from zoo_compute.spec.params import COIN, ZEN

KEY = b"\x07" * 32
SIGNER = str(Account.from_key(KEY).address)
DOMAIN = domain_of(31_337, "0x" + 20 * "c0")
DEPOSIT = 2**90
DISTINCT = 256  # vouchers that are verified in turn, so that nothing is remembered of one


def rate(act: Callable[[int], Any], seconds: float) -> float:
    """How often a second `act` runs in one thread."""
    started, done = time.perf_counter(), 0
    while (spent := time.perf_counter() - started) < seconds:
        for _ in range(16):
            act(done)
            done += 1
    return done / spent


def rates(seconds: float) -> dict[str, float]:
    """What one process does a second."""
    made = [Voucher(number, number * ZEN + 1) for number in range(1, DISTINCT + 1)]
    signatures = [sign(DOMAIN, voucher, KEY) for voucher in made]

    def check(index: int) -> None:
        at = index % DISTINCT
        assert verify(DOMAIN, made[at], signatures[at], SIGNER)

    measured = {
        "vouchers_per_s": rate(check, seconds),
        "signed_per_s": rate(lambda index: sign(DOMAIN, made[index % DISTINCT], KEY), seconds),
    }
    channel = Channel(COIN, 1, COIN, SIGNER, DEPOSIT, 0, 0)
    totals = count(1)

    def next_voucher() -> SignedVoucher:
        voucher = Voucher(1, next(totals))
        return SignedVoucher(voucher, sign(DOMAIN, voucher, KEY))

    with tempfile.TemporaryDirectory(prefix="zoo-vouchers-") as name:
        book = OperatorBook(Path(name) / "operator.sqlite", DOMAIN, 1, lambda _: channel, 60.0)
        waiting = [next_voucher() for _ in range(int(seconds * 50_000))]
        measured["accepted_per_s"] = rate(lambda index: book.accept(waiting[index]), seconds)
        book.close()
        client = ClientBook(Path(name) / "client.sqlite", DOMAIN, KEY, lambda _: channel)
        measured["paid_per_s"] = rate(lambda _: client.pay(1, 1), seconds)
        client.close()
    return {name: round(each) for name, each in measured.items()}


def gas() -> dict[str, int]:
    """Of a channel's transactions, by what the production preset's contracts take of it."""
    with tempfile.TemporaryDirectory(prefix="zoo-channels-") as name, Devnet(Path(name) / "chain") as devnet:
        operator = DevnetOperator(devnet, "operator", price=1)
        client = Sender(devnet.chain, devnet.account("client", zen=1_000 * ZEN), folder=devnet.folder)
        measured = ChannelBench(client, operator.id, operator.hot).measure()
    return {f"gas_{name.removeprefix('channel_')}": each for name, each in measured.items()}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seconds", type=float, default=2.0, help="that each rate is measured for")
    parser.add_argument("--no-gas", action="store_true", help="leave the chain out")
    arguments = parser.parse_args(argv)
    measured: dict[str, Any] = {**rates(arguments.seconds), **({} if arguments.no_gas else gas())}
    measured["parameters"] = {"seconds": arguments.seconds, "cpus": os.cpu_count(), "token": "ZEN", "evm": "anvil"}
    if arguments.json:
        print(json.dumps(measured))
    else:
        for key, value in measured.items():
            print(f"{key:<20}{value:>10,}" if isinstance(value, int) else f"{value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
