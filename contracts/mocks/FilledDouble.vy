# pragma version ==0.4.3
"""
@title The function of modules/filled, callable
@license Apache-2.0
@dev Tests only.
"""


from ..modules import filled


@external
@pure
def root(count: uint256, word: bytes4) -> bytes32:
    return filled._root(count, word)
