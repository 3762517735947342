"""The long target: float32 on chain against Berkeley softfloat and exact rationals, on anvil (`make floats`; minutes an operation).

    python -m tests.campaigns.floats [--cases 1000000] [--seed 0] [--json]

Edges crossed with edges, random words, words of like size, and words that nearly cancel or nearly tie.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import requests
import softfloatpy as softfloat
from eth_abi.abi import decode, encode
from eth_utils.crypto import keccak

from repops.words import PRIMITIVES, SIGN, number
from tests.referee.test_float32 import BATCH, BATCHED
from tests.support.programs.primitives import RATIONAL, SOFTFLOAT, cases, nearest
from tests.support.protocol_driver import load
from zoo_compute.devnet.anvil import Anvil

AT = "0x" + "f3" * 20  # where eth_call is told the harness lies
SELECTOR = keccak(b"batch(uint256,uint256[],uint256[],uint256[])")[:4]
Words = np.ndarray[Any, np.dtype[np.uint32]]


def close_calls(name: str, count: int, seed: int) -> list[tuple[int, ...]]:
    """Words whose result lies near zero, near a tie, or on the border of the subnormals."""
    rng = np.random.default_rng([seed, len(name), 7])
    width = len(PRIMITIVES[name][1])
    exponent = rng.integers(0, 255, count)
    around = np.clip(exponent[:, None] + rng.integers(-26, 27, (count, width)), 0, 254)
    few = np.array([0, 1, 2, 0x400000, 0x400001, 0x3FFFFF, 0x7FFFFF, 0x7FFFFE, 0x555555], np.int64)
    fraction = np.where(
        rng.random((count, width)) < 0.5, rng.choice(few, (count, width)), rng.integers(0, 1 << 23, (count, width))
    )
    words = (rng.integers(0, 2, (count, width)) << 31 | around << 23 | fraction).astype(np.uint32)
    if name in ("add", "sub"):
        words[::2, 1] = words[::2, 0] ^ SIGN ^ rng.integers(0, 8, len(words[::2])).astype(np.uint32)
    if name == "fma":
        with np.errstate(all="ignore"):
            product = words[::2, 0].view(np.float32) * words[::2, 1].view(np.float32)
        words[::2, 2] = product.view(np.uint32) ^ SIGN ^ rng.integers(0, 8, len(product)).astype(np.uint32)
    return list(map(tuple, words.tolist()))


def truth(name: str, operands: Sequence[int]) -> int:
    """What softfloat says, which exact rationals must say too. Raises AssertionError where they differ."""
    result = SOFTFLOAT[name](*operands)
    values = [number(word) for word in operands]
    if name in RATIONAL and all(map(math.isfinite, values)) and not (name == "div" and values[1] == 0):
        exact = RATIONAL[name](*map(Fraction, values))
        assert exact == 0 or nearest(exact) == result, (name, operands)
    return result


def on_chain(url: str, code: str, name: str, group: Sequence[Sequence[int]]) -> tuple[int, ...]:
    columns = [list(column) for column in zip(*group, strict=True)]
    arguments = encode(["uint256", *["uint256[]"] * 3], [BATCHED.index(name), *columns, *[[]] * (3 - len(columns))])
    call = {"to": AT, "data": "0x" + (SELECTOR + arguments).hex(), "gas": hex(25_000_000)}
    body = {"jsonrpc": "2.0", "id": 1, "method": "eth_call", "params": [call, "latest", {AT: {"code": code}}]}
    answer = requests.post(url, json=body, timeout=60).json()
    if "result" not in answer:
        raise RuntimeError(f"eth_call: {answer.get('error')}")
    return tuple(decode(["uint256[]"], bytes.fromhex(answer["result"][2:]))[0])


def every(name: str, count: int, seed: int) -> Iterator[tuple[int, ...]]:
    yield from cases(name, 1_000, seed)
    left = count
    while left > 0:
        seed += 1
        yield from (result := [*close_calls(name, 4_000, seed), *cases(name, 2_000, seed)[-4_500:]])
        left -= len(result)


def compare(url: str, code: str, name: str, count: int, seed: int) -> dict[str, Any]:
    """How many cases of an operation were tried, and the first few that differ."""
    started, tried, wrong, group = time.monotonic(), 0, [], []

    def settle() -> None:
        for operands, result in zip(group, on_chain(url, code, name, group), strict=True):
            if result != truth(name, operands):
                wrong.append([hex(word) for word in (*operands, result)])

    for operands in every(name, count, seed):
        group.append(operands)
        if len(group) == BATCH:
            settle()
            tried, group = tried + len(group), []
            if tried % (BATCH * 200) == 0:
                print(f"{name}: {tried:,} of {count:,}, {len(wrong)} differ", file=sys.stderr, flush=True)
            if tried >= count:
                break
    return {"cases": tried, "wrong": len(wrong), "first": wrong[:5], "seconds": round(time.monotonic() - started)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=1_000_000, help="of each operation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    softfloat.set_rounding_mode(softfloat.RoundingMode.NEAR_EVEN)
    code = "0x" + load("mocks/Float32Harness").compiler_data.bytecode_runtime.hex()
    with tempfile.TemporaryDirectory(prefix="zoo-floats-") as folder:
        place = Path(folder)
        anvil = Anvil.start(chain_id=31337, block_time=1, port=0, state=place / "state", log=place / "log")
        try:
            result = {name: compare(anvil.url, code, name, arguments.cases, arguments.seed) for name in BATCHED}
        finally:
            anvil.stop()
    if arguments.json:
        print(json.dumps({"seed": arguments.seed, **result}))
    else:
        for name, row in result.items():
            print(
                f"{name:<6}{row['cases']:>12,} cases{row['wrong']:>8,} differ{row['seconds']:>8,} s  {row['first'] or ''}"
            )
    return int(any(row["wrong"] for row in result.values()))


if __name__ == "__main__":
    sys.exit(main())
