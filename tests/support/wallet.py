"""The code of whoever sends: a wallet, so that `msg.sender` is never `tx.origin` and nothing can be right by asking for the
wrong one. What it is sent, but by the relay, it takes for coin.

Calldata: what to call (0 to create a contract), the value, and the data.
"""

from __future__ import annotations

RELAY = "0x" + "e1" * 20  # the origin of every transaction
OPCODES = {
    "STOP": 0x00, "SUB": 0x03, "EQ": 0x14, "ISZERO": 0x15, "CALLER": 0x33, "CALLDATALOAD": 0x35, "CALLDATASIZE": 0x36,
    "CALLDATACOPY": 0x37, "EXTCODESIZE": 0x3B, "EXTCODECOPY": 0x3C, "RETURNDATASIZE": 0x3D, "RETURNDATACOPY": 0x3E, "POP": 0x50, "MSTORE": 0x52, "JUMPI": 0x57,
    "GAS": 0x5A, "JUMPDEST": 0x5B, "PUSH0": 0x5F, "DUP1": 0x80, "DUP4": 0x83, "DUP5": 0x84, "DUP6": 0x85, "CREATE": 0xF0, "CALL": 0xF1,
    "RETURN": 0xF3, "DELEGATECALL": 0xF4, "REVERT": 0xFD,
}  # fmt: skip
ANSWER = "RETURNDATASIZE PUSH0 PUSH0 RETURNDATACOPY @good JUMPI RETURNDATASIZE PUSH0 REVERT good: RETURNDATASIZE PUSH0 RETURN"
FORWARD = f"""
    forward: 64 CALLDATASIZE SUB  DUP1 64 PUSH0 CALLDATACOPY  PUSH0 CALLDATALOAD DUP1 ISZERO @create JUMPI
    PUSH0 PUSH0 DUP4 PUSH0 32 CALLDATALOAD DUP6 GAS CALL {ANSWER}
    create: POP PUSH0 32 CALLDATALOAD CREATE DUP1 @made JUMPI
    RETURNDATASIZE PUSH0 PUSH0 RETURNDATACOPY RETURNDATASIZE PUSH0 REVERT
    made: PUSH0 MSTORE 32 PUSH0 RETURN
"""
# Of an account: takes coin.
WALLET = f"CALLER {RELAY} EQ @forward JUMPI STOP {FORWARD}"

# Of an address in the calldata.
READ_CODE = "PUSH0 CALLDATALOAD DUP1 EXTCODESIZE DUP1 PUSH0 PUSH0 DUP5 EXTCODECOPY PUSH0 RETURN"


def contract_wallet(code_at: str) -> str:
    """Of a contract that sends: to all others it is the code at this address."""
    own = f"CALLDATASIZE PUSH0 PUSH0 CALLDATACOPY PUSH0 PUSH0 CALLDATASIZE PUSH0 {code_at} GAS DELEGATECALL"
    answer = ANSWER.replace("good", "answered")
    return f"CALLER {RELAY} EQ @forward JUMPI {own} {answer} {FORWARD}"


def assemble(text: str) -> bytes:
    """`name:` marks a place, `@name` pushes it; numbers and addresses are pushed."""
    code, places, uses = bytearray(), dict[str, int](), dict[int, str]()
    for word in text.split():
        if word.endswith(":"):
            places[word[:-1]] = len(code)
            code.append(OPCODES["JUMPDEST"])
        elif word.startswith("@"):
            uses[len(code) + 1] = word[1:]
            code += b"\x61\0\0"
        elif word[0].isdigit():
            number = bytes.fromhex(word[2:]) if word.startswith("0x") else bytes([int(word)])
            code += bytes([0x5F + len(number)]) + number
        else:
            code.append(OPCODES[word])
    for at, name in uses.items():
        code[at : at + 2] = places[name].to_bytes(2, "big")
    return bytes(code)
