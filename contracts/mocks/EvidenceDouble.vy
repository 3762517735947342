# pragma version ==0.4.3
"""
@title Evidence and OpExecutor with answers that a test sets
@license Apache-2.0
@dev Tests only. Data that is the hash of all that the referee passed on shows the claim false.
"""


from ..interfaces import IEvidence


parts: public(uint256)


@external
def set_parts(parts: uint256):
    self.parts = parts


@external
@view
def part_count(descriptor: Bytes[2048], element: uint256) -> uint256:
    return self.parts


@external
@view
def judge(
    kind: uint256, frame: IEvidence.Frame, position: IEvidence.Position, data: Bytes[45056]
) -> bool:
    told: bytes32 = keccak256(abi_encode(kind, frame, position))
    assert len(data) == 32 and convert(slice(data, 0, 32), bytes32) == told, "evidence: it does not hold"
    return True
