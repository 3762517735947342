# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Who pays a job's custodians, and what operators put up
@license Apache-2.0
"""


from ethereum.ercs import IERC20
from ..interfaces import INodeRegistry
from ..interfaces import ITaskRegistry
from ..interfaces import ITaskViews
from . import bits
from . import custody_signatures as signatures
from . import custody_state as state
from . import custody_words as words
from . import numbers


uses: state


# The price is per GiB and round, and a round takes two signatures.
SIGNED_BYTES: constant(uint256) = 2 * 2**30
MAX_SIZE: constant(uint256) = 2**50


event CustodyRequested:
    job: indexed(uint256)
    custodians: uint256
    fee: uint256
    reserve: uint256
    closes_at: uint256


event CustodyFunded:
    job: indexed(uint256)
    amount: uint256


event CustodyRefunded:
    job: indexed(uint256)
    amount: uint256


event FundsDeposited:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event FundsWithdrawn:
    operator: indexed(uint256)
    token: indexed(address)
    amount: uint256


event ReserveReleased:
    job: indexed(uint256)
    operator: indexed(uint256)
    amount: uint256


@external
def request(job: uint256, price: uint256, size: uint256):
    """
    @notice The submitter asks, once, for the custodians that its job's terms say it has.
    @param price Per GiB and round, in the job's token.
    @param size Bytes that a custodian holds of a round.
    """
    record: ITaskViews.Job = state._job(job)
    if record.submitter != msg.sender:
        state._refuse("custody: not the submitter")
    if record.state != numbers.OPEN:
        state._refuse("custody: job not open")
    if state.request_words[job] != 0:
        state._refuse("custody: already requested")
    terms: ITaskRegistry.Schedule = staticcall ITaskRegistry(state.tasks).schedules(job)
    custodians: uint256 = terms.policy >> numbers.CUSTODIANS_AT
    if custodians == 0:
        state._refuse("custody: no custodians")
    if price > numbers.MAX_PRICE or size > MAX_SIZE or price * size < SIGNED_BYTES:
        state._refuse("custody: price out of range")
    fee: uint256 = price * size // SIGNED_BYTES
    # INVARIANT reserves: any majority's cover what it costs to do again all rounds that may rest on what it lost.
    least: uint256 = state._least(custodians)
    reserve: uint256 = (terms.depth * terms.round_price + least - 1) // least
    closes_at: uint256 = state._now() + state.bid_window_s
    state.request_words[job] = words._pack_request(
        words.Request(fee=fee, reserve=reserve, closes_at=closes_at)
    )
    state.progress_words[job] = words._pack_progress(
        words.Progress(
            custodians=custodians,
            depth=terms.depth,
            version=0,
            vacant=bits._full(custodians),
            offers=0,
            draw_block=0,
            counted=0,
            started=0,
            vacated_at=0,
        )
    )
    log CustodyRequested(job=job, custodians=custodians, fee=fee, reserve=reserve, closes_at=closes_at)


@external
def fund(job: uint256, amount: uint256):
    """
    @notice Adds to what pays a job's custodians.
    """
    if state.request_words[job] == 0:
        state._refuse("custody: nothing requested")
    if amount == 0:
        state._refuse("custody: zero amount")
    state.escrows[job] += amount
    log CustodyFunded(job=job, amount=amount)
    self._pull(state._job(job).token, amount)


@external
def refund(job: uint256):
    """
    @notice Sends the submitter what is left, once nothing can be earned any more. Anyone may call it.
    """
    if not state._is_over(job):
        state._refuse("custody: job not over")
    amount: uint256 = state.escrows[job]
    if amount == 0:
        state._refuse("custody: nothing left")
    state.escrows[job] = 0
    log CustodyRefunded(job=job, amount=amount)
    record: ITaskViews.Job = state._job(job)
    self._push(record.token, record.submitter, amount)


@external
def deposit(operator: uint256, token: address, amount: uint256):
    """
    @notice Adds to what an operator can put up for its offers. Anyone may.
    """
    if staticcall INodeRegistry(state.registry).owner_of(operator) == empty(address):
        state._refuse("custody: unknown operator")
    if amount == 0:
        state._refuse("custody: zero amount")
    state.funds[token][operator] += amount
    log FundsDeposited(operator=operator, token=token, amount=amount)
    self._pull(token, amount)


@external
def withdraw(operator: uint256, token: address, amount: uint256):
    """
    @notice Sends the owner of an operator what it earned, or put up for nothing yet.
    """
    if staticcall INodeRegistry(state.registry).owner_of(operator) != msg.sender:
        state._refuse("custody: not the owner")
    if amount == 0:
        state._refuse("custody: zero amount")
    if amount > state.funds[token][operator]:
        state._refuse("custody: amount exceeds funds")
    state.funds[token][operator] -= amount
    log FundsWithdrawn(operator=operator, token=token, amount=amount)
    self._push(token, msg.sender, amount)


@external
def release(job: uint256, operator: uint256):
    """
    @notice Gives an operator its reserve back once the job is over and every turn is counted. Anyone may call it.
    """
    role: words.Role = words._unpack_role(state.role_words[job][operator])
    if role.reserve == 0:
        state._refuse("custody: nothing reserved")
    # INVARIANT retention: whoever may still be asked for what it signed for has its reserve here.
    if not state._is_over(job):
        state._refuse("custody: job not over")
    amount: uint256 = role.reserve
    role.reserve = 0
    state.role_words[job][operator] = words._pack_role(role)
    state.funds[state._job(job).token][operator] += amount
    log ReserveReleased(job=job, operator=operator, amount=amount)


@internal
def _pull(token: address, amount: uint256):
    if not extcall IERC20(token).transferFrom(msg.sender, self, amount, default_return_value=True):
        state._refuse("custody: transfer failed")


@internal
def _push(token: address, account: address, amount: uint256):
    if not extcall IERC20(token).transfer(account, amount, default_return_value=True):
        state._refuse("custody: transfer failed")
