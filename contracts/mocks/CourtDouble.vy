# pragma version ==0.4.3
"""
@title All that the Referee asks of the other contracts, for one claim that is pending
@license Apache-2.0
@dev Tests and benchmarks only.
"""


from ..interfaces import ISettlementViews
from ..interfaces import ITaskRegistry


work_roots: public(HashMap[uint256, bytes32])
schedules: public(HashMap[uint256, ITaskRegistry.Schedule])
claims: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, bytes32]]])
hot_key: public(HashMap[uint256, address])
disputes: public(uint256)
benchmark_s: public(uint256)


@external
def set(job: uint256, work_root: bytes32, claim: ISettlementViews.Claim, hot: address):
    self.work_roots[job] = work_root
    self.schedules[job].token = self
    self.hot_key[claim.operator] = hot
    word: uint256 = convert(keccak256(abi_encode(claim)), uint256) >> 16 << 16 | 1
    self.claims[job][claim.seat][claim.turn] = convert(word, bytes32)


@external
def open_dispute(job: uint256, claim: ISettlementViews.Claim):
    self.disputes += 1


@external
def transferFrom(owner: address, to: address, amount: uint256) -> bool:
    return True


@external
@view
def token_of(job: uint256) -> address:
    return self
