"""pyrevm runs every call at a base fee of 0, whatever the block says, but passes on the gas price. Contracts that ask for
the base fee are therefore deployed with GASPRICE in the place of BASEFEE: two opcodes of the same cost.

The oracle on py-evm (`tests/differential/test_evms.py`) runs the bytecode as it is.
"""

from __future__ import annotations

from functools import cache

import cbor2

GASPRICE, BASEFEE, PUSH1, PUSH32 = 0x3A, 0x48, 0x60, 0x7F


@cache
def replaced(initcode: bytes) -> bytes:
    """Vyper's initcode ends with the runtime code, its data, and a trailer in CBOR that says how long each is."""
    end = len(initcode) - int.from_bytes(initcode[-2:], "big")
    _, runtime_bytes, data_sections, *_ = cbor2.loads(initcode[end:-2])
    return (
        initcode[: end - runtime_bytes]
        + swept(initcode[end - runtime_bytes : end], sum(data_sections))
        + initcode[end:]
    )


def swept(runtime: bytes, data_bytes: int) -> bytes:
    code, at = bytearray(runtime), 0
    while at < len(code) - data_bytes:
        opcode = code[at]
        if opcode == BASEFEE:
            code[at] = GASPRICE
        at += opcode - PUSH1 + 2 if PUSH1 <= opcode <= PUSH32 else 1
    return bytes(code)
