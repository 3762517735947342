# pragma version ==0.4.3
"""
@title A protocol with answers set by the test: what Availability and Audits ask of the other contracts
@license Apache-2.0
@dev Tests only.
"""


from ..interfaces import ICustody
from ..interfaces import ISettlementViews
from ..interfaces import ITaskViews


# What every custodian put up.
RESERVE: constant(uint256) = 103


struct Verification:
    auditor: uint256
    job: uint256
    weight: uint256


hot_key: public(HashMap[uint256, address])
owner_of: public(HashMap[uint256, address])
jobs: public(HashMap[uint256, ITaskViews.Job])
runs: public(HashMap[uint256, ISettlementViews.Run])
seats: public(HashMap[uint256, HashMap[uint256, ISettlementViews.Seat]])
claims: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, bytes32]]])
# job -> claim_hash -> status of a parked claim
parked: public(HashMap[uint256, HashMap[bytes32, uint256]])
# job -> turn -> the end of its window
claim_deadline: public(HashMap[uint256, HashMap[uint256, uint256]])
pending: public(HashMap[uint256, HashMap[uint256, uint256]])
holds: public(uint256)
resumed: public(DynArray[uint256, 32])
voided: public(DynArray[bytes32, 32])
verifications: public(DynArray[Verification, 32])
# place -> the custodian that signed for every claim
signers: public(HashMap[uint256, uint256])
# operator -> whether it has no reserve
has_nothing: public(HashMap[uint256, bool])
# operator -> whether it lost its reserve, or a part of it
has_forfeited: public(HashMap[uint256, bool])
# operator -> what it kept of that
kept: public(HashMap[uint256, uint256])


@external
@view
def time() -> uint256:
    return block.timestamp


@external
def set_operator(operator: uint256, owner: address, hot: address):
    self.owner_of[operator] = owner
    self.hot_key[operator] = hot


@external
def set_job(job: uint256, record: ITaskViews.Job):
    self.jobs[job] = record


@external
def set_run(job: uint256, run: ISettlementViews.Run):
    self.runs[job] = run


@external
def set_seat(job: uint256, seat: uint256, record: ISettlementViews.Seat):
    self.seats[job][seat] = record


@external
def set_parked(job: uint256, claim: ISettlementViews.Claim, status: uint256):
    """
    @dev Its place has another claim.
    """
    self.claims[job][claim.seat][claim.turn] = empty(bytes32)
    self.parked[job][keccak256(abi_encode(claim))] = status


@external
def set_claim(job: uint256, claim: ISettlementViews.Claim, status: uint256):
    upper: uint256 = convert(keccak256(abi_encode(claim)), uint256) >> 16 << 16
    # In dispute, which nobody asks about.
    self.claims[job][claim.seat][claim.turn] = convert(upper | 1 << 8 | status, bytes32)


@external
def set_deadline(job: uint256, turn: uint256, deadline: uint256):
    self.claim_deadline[job][turn] = deadline


@external
def set_pending(job: uint256, turn: uint256, pending: uint256):
    self.pending[job][turn] = pending


@external
def hold(job: uint256):
    self.holds += 1


@external
def resume(job: uint256, seconds: uint256):
    self.holds -= 1
    self.resumed.append(seconds)


@external
def void(job: uint256, claim: ISettlementViews.Claim):
    self.voided.append(keccak256(abi_encode(claim)))


@external
@view
def custody() -> address:
    return self


@external
def set_signer(index: uint256, operator: uint256):
    self.signers[index] = operator


@external
@view
def signer_of(job: uint256, turn: uint256, seat: uint256, committee: DynArray[ICustody.Member, 9], index: uint256) -> uint256:
    assert self.signers[index] != 0, "custody: it did not sign"
    return self.signers[index]


@external
def set_nothing(operator: uint256, has_nothing_: bool):
    self.has_nothing[operator] = has_nothing_


@external
@view
def requests(job: uint256) -> ICustody.Request:
    return ICustody.Request(fee=0, reserve=RESERVE, closes_at=0)


@external
@view
def roles(job: uint256, operator: uint256) -> ICustody.Role:
    return ICustody.Role(reserve=0 if self.has_nothing[operator] else RESERVE, status=0, index=0)


@external
def forfeit(job: uint256, operator: uint256, kept: uint256) -> bool:
    """
    @return Whether it had not done so before.
    """
    before: bool = self.has_forfeited[operator]
    self.has_forfeited[operator] = True
    self.kept[operator] = kept
    return not before


@external
def record_verification(auditor: uint256, job: uint256, weight: uint256):
    self.verifications.append(Verification(auditor=auditor, job=job, weight=weight))


@external
@view
def count_resumed() -> uint256:
    return len(self.resumed)


@external
@view
def count_voided() -> uint256:
    return len(self.voided)


@external
@view
def count_verifications() -> uint256:
    return len(self.verifications)
