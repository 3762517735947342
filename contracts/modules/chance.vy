# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The hashes of past blocks, from which what nobody knew before is drawn
@license Apache-2.0
"""


# EIP-2935 keeps the hashes of the last 8,191 blocks here; BLOCKHASH alone those of 256.
HISTORY: constant(address) = 0x0000F90827F1C53a10cb7A02335B175320002935
BLOCKHASH_RANGE: constant(uint256) = 256


@internal
@view
def _hash_of(number: uint256) -> bytes32:
    """
    @notice A block's hash, or zero when nothing on chain knows it: yet, or any more.
    """
    if number >= block.number:
        return empty(bytes32)
    if block.number - number <= BLOCKHASH_RANGE:
        return blockhash(number)
    success: bool = False
    answer: Bytes[32] = b""
    success, answer = raw_call(
        HISTORY, abi_encode(number), max_outsize=32, is_static_call=True, revert_on_failure=False
    )
    # Where the history contract is missing, the call succeeds and returns nothing.
    if success and len(answer) == 32:
        return convert(answer, bytes32)
    return empty(bytes32)
