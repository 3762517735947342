# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Budgets of jobs and deposits of auditors in Audits
@license Apache-2.0
"""


from ethereum.ercs import IERC20
from ..interfaces import INodeRegistry
from ..interfaces import ITaskViews
from . import audit_state as state
from . import bits
from . import numbers


uses: state


# What is there for a job's audits, and what of it verdicts have reserved beside.
struct Budget:
    balance: uint256
    reserved: uint256


# An operator's deposit, and what of it bonds and verdicts have reserved.
struct Funds:
    balance: uint256
    reserved: uint256


# operator -> token -> balance (128) | reserved (128)
fund_words: HashMap[uint256, HashMap[address, uint256]]
# job -> balance (128) | reserved (128)
budget_words: HashMap[uint256, uint256]
# token -> account -> what it may withdraw
owed: public(HashMap[address, HashMap[address, uint256]])
# token -> what nothing can spend
burned: public(HashMap[address, uint256])


event AuditsFunded:
    job: indexed(uint256)
    amount: uint256


event AuditsRefunded:
    job: indexed(uint256)
    amount: uint256


event AuditorFunded:
    operator: indexed(uint256)
    token: address
    amount: uint256


event AuditorPaidOut:
    operator: indexed(uint256)
    token: address
    amount: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


@external
def fund(job: uint256, amount: uint256):
    """
    @notice Adds to what a job's audits are paid from, in the job's token. What is left goes to the submitter.
    """
    assert amount > 0, "audits: zero amount"
    record: ITaskViews.Job = staticcall ITaskViews(state.tasks).jobs(job)
    assert record.state != 0 and record.state != numbers.CANCELLED, "audits: no such job"
    budget: Budget = self._budget(job)
    self._store_budget(job, budget.balance + amount, budget.reserved)
    log AuditsFunded(job=job, amount=amount)
    self._pull(record.token, amount)


@external
def refund(job: uint256):
    """
    @notice When a job is over, what no verdict has reserved becomes owed to its submitter.
    """
    record: ITaskViews.Job = staticcall ITaskViews(state.tasks).jobs(job)
    assert record.state == numbers.ENDED or record.state == numbers.CANCELLED, "audits: job not over"
    budget: Budget = self._budget(job)
    assert budget.balance > 0, "audits: nothing left"
    self._store_budget(job, 0, budget.reserved)
    self.owed[record.token][record.submitter] += budget.balance
    log AuditsRefunded(job=job, amount=budget.balance)


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds to an operator's deposit: in ZEN for places, in a job's token for verdicts.
    """
    assert staticcall INodeRegistry(state.registry).owner_of(operator) != empty(address), "audits: no such operator"
    assert amount > 0, "audits: zero amount"
    funds: Funds = self._funds(operator, token)
    self._store_funds(operator, token, funds.balance + amount, funds.reserved)
    log AuditorFunded(operator=operator, token=token, amount=amount)
    self._pull(token, amount)


@external
def pay_out(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends the owner what neither places nor verdicts have reserved.
    """
    state._check_owner(operator)
    funds: Funds = self._funds(operator, token)
    # INVARIANT exit: nothing of a deposit leaves that a verdict may cost, whatever became of its operator's places.
    assert amount > 0 and amount <= funds.balance - funds.reserved, "audits: amount exceeds free deposit"
    self._store_funds(operator, token, funds.balance - amount, funds.reserved)
    log AuditorPaidOut(operator=operator, token=token, amount=amount)
    self._push(token, msg.sender, amount)


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends an account what it is owed.
    """
    amount: uint256 = self.owed[token][account]
    assert amount > 0, "audits: nothing owed"
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    self._push(token, account, amount)
    return amount


@external
@view
def budgets(job: uint256) -> Budget:
    """
    @notice What is left to pay a job's audits with.
    """
    return self._budget(job)


@external
@view
def funds(operator: uint256, token: address) -> Funds:
    """
    @notice An operator's deposit in a token.
    """
    return self._funds(operator, token)


@internal
def _reserve(operator: uint256, token: address, amount: uint256):
    funds: Funds = self._funds(operator, token)
    assert amount <= funds.balance - funds.reserved, "audits: deposit too small"
    self._store_funds(operator, token, funds.balance, funds.reserved + amount)


@internal
def _release(operator: uint256, token: address, amount: uint256, lost: uint256):
    funds: Funds = self._funds(operator, token)
    self._store_funds(operator, token, funds.balance - lost, funds.reserved - amount)


@internal
@view
def _budget(job: uint256) -> Budget:
    word: uint256 = self.budget_words[job]
    return Budget(balance=word >> 128, reserved=word & bits.U128)


@internal
def _store_budget(job: uint256, balance: uint256, reserved: uint256):
    self.budget_words[job] = self._packed(balance, reserved)


@internal
@view
def _funds(operator: uint256, token: address) -> Funds:
    word: uint256 = self.fund_words[operator][token]
    return Funds(balance=word >> 128, reserved=word & bits.U128)


@internal
def _store_funds(operator: uint256, token: address, balance: uint256, reserved: uint256):
    self.fund_words[operator][token] = self._packed(balance, reserved)


@internal
@pure
def _packed(high: uint256, low: uint256) -> uint256:
    return (
        convert(convert(high, uint128), uint256) << 128 | convert(convert(low, uint128), uint256)
    )


@internal
def _pull(token: address, amount: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "audits: transfer failed"


@internal
def _push(token: address, account: address, amount: uint256):
    assert extcall IERC20(token).transfer(account, amount, default_return_value=True), "audits: transfer failed"
