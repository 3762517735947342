# pragma version ==0.4.3
"""
@title All that the Referee asks of the contracts that keep claims and operators, with answers that a test sets
@license Apache-2.0
@dev Tests and benchmarks only.
"""


from ..interfaces import IDisputes
from ..interfaces import ISettlementViews


struct Price:
    token: address
    amount: uint256


hot_key: public(HashMap[uint256, address])
answer_key: public(HashMap[uint256, address])
owner_of: public(HashMap[uint256, address])
# job, claim -> its terms; without a work root it is not kept
terms: HashMap[bytes32, IDisputes.Terms]
# job -> turn -> when its claims' window ends, 0 while the turn is open
deadlines: HashMap[uint256, HashMap[uint256, uint256]]
# aggregation or not
prices: HashMap[bool, Price]


event DisputeOpened:
    claim: indexed(bytes32)


event DisputeClosed:
    claim: indexed(bytes32)
    outcome: uint256
    used_s: uint256
    burned: uint256


event FinderRewarded:
    claim: indexed(bytes32)
    finder: address


@external
@view
def time() -> uint256:
    return block.timestamp


@external
def set_operator(operator: uint256, owner: address, hot: address):
    self.owner_of[operator] = owner
    self.hot_key[operator] = hot


@external
def allow_answers(operator: uint256, account: address):
    self.answer_key[operator] = account


@external
@view
def may_answer(operator: uint256, account: address) -> bool:
    return account == self.hot_key[operator] or account == self.answer_key[operator]


@external
def set_claim(job: uint256, claim: ISettlementViews.Claim, terms: IDisputes.Terms):
    self.terms[self._key(job, claim)] = terms


@external
def set_deadline(job: uint256, turn: uint256, deadline: uint256):
    self.deadlines[job][turn] = deadline


@external
def set_price(is_aggregation: bool, token: address, amount: uint256):
    self.prices[is_aggregation] = Price(token=token, amount=amount)


@external
@view
def dispute_terms(job: uint256, claim: ISettlementViews.Claim) -> IDisputes.Terms:
    terms: IDisputes.Terms = self.terms[self._key(job, claim)]
    assert terms.work_root != empty(bytes32), "settlement: no such claim"
    return terms


@external
@view
def claim_deadline(job: uint256, turn: uint256) -> uint256:
    deadline: uint256 = self.deadlines[job][turn]
    return max_value(uint256) if deadline == 0 else deadline


@external
@view
def reexecution_price(job: uint256, is_aggregation: bool) -> (address, uint256):
    price: Price = self.prices[is_aggregation]
    return price.token, price.amount


@external
def open_dispute(job: uint256, claim: ISettlementViews.Claim):
    log DisputeOpened(claim=self._key(job, claim))


@external
def close_dispute(job: uint256, claim: ISettlementViews.Claim, outcome: uint256, used_s: uint256, burned: uint256):
    log DisputeClosed(claim=self._key(job, claim), outcome=outcome, used_s=used_s, burned=burned)


@external
def reward_finder(job: uint256, claim: ISettlementViews.Claim, finder: address):
    log FinderRewarded(claim=self._key(job, claim), finder=finder)


@internal
@pure
def _key(job: uint256, claim: ISettlementViews.Claim) -> bytes32:
    return keccak256(abi_encode(job, keccak256(abi_encode(claim))))
