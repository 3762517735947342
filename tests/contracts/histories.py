"""A contract in the place of EIP-2935's history of block hashes."""

from eth_utils.crypto import keccak

HISTORY = "0x0000F90827F1C53a10cb7A02335B175320002935"
# Answers every call with keccak256 of its 32 bytes, as a history that forgets nothing.
HISTORY_CODE = bytes.fromhex("60205f5f3760205f205f5260205ff3")


def remembered(number):
    """What HISTORY_CODE answers."""
    return keccak(number.to_bytes(32, "big"))
