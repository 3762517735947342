"""TaskRegistry's functions for accounts (docs/protocol/task-registry.md); those for contracts are in `jobs`."""

from dataclasses import replace

from zoo_compute.spec import auction, credits, jobs, requirements
from zoo_compute.spec.guardian import is_paused
from zoo_compute.spec.params import (
    BPS,
    COIN,
    CUSTODIANS_AT,
    MAX_AGGREGATORS,
    MAX_CUSTODIANS,
    MAX_DEPTH,
    MAX_FLOPS,
    MAX_PRICE,
    MAX_ROUNDS,
    MAX_SECONDS,
    MAX_SLOTS,
    MIN_AUDIT_BPS,
    MIN_CUSTODIANS,
    POLICY_CARRIES,
    POLICY_DELAYED,
    POLICY_ROLL_BACK,
    Terms,
    custodians_of,
    escrow,
    least_posting_deposit,
    windows,
)
from zoo_compute.spec.requirements import ADMITTED
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Job, JobLedger, JobState, Message, Phase, World


def allow(w: World, msg: Message, token: str, allowed: bool, window_value: int) -> None:
    """Allows a payment token, and sets from which cost per round on its jobs have longer windows."""
    require(msg.sender == w.config.governor, "tasks: not the governor")
    w.allowed[token] = allowed
    w.window_values[token] = window_value


def post(w: World, msg: Message, terms: Terms) -> int:
    """A new job: pulls the escrow and opens both lots. Where the network needs admission, the job asks for it."""
    require(not is_paused(w, w.config.tasks, msg.block_time), "tasks: intake paused")
    if w.config.needs_admission:
        terms = replace(terms, requirements=terms.requirements | ADMITTED)
    require(w.allowed.get(terms.token, False), "tasks: token not allowed")
    check_terms(terms)
    require(msg.value >= least_posting_deposit(msg.base_fee), "tasks: deposit too small")
    job, amount = len(w.jobs) + 1, escrow(terms)
    w.jobs[job] = Job(
        submitter=msg.sender,
        token=terms.token,
        state=JobState.OPEN,
        escrow=amount,
        work_root=terms.work_root,
        state_root=terms.state_root,
        data_root=terms.data_root,
        manifest=terms.manifest,
    )
    w.terms[job] = terms
    w.windows[job] = windows(terms, w.window_values.get(terms.token, 0))
    w.job_ledgers[job] = JobLedger(escrowed=amount)
    w.deposits[job] = msg.value
    w.posted_coin += msg.value
    auction.open_lots(w, job, terms, now=msg.now)
    if terms.token == w.config.credits:
        credits.require_fresh(w, msg.block_time)
    w.move(terms.token, msg.sender, w.config.tasks, amount, by="tasks")
    return job


def post_permitted(w: World, msg: Message, terms: Terms, deadline: int, v: int, r: bytes, s: bytes) -> int:
    """Like `post`, with a signed permit that lets the registry pull the escrow without a prior approval."""
    return post(w, msg, terms)


def check_terms(terms: Terms) -> None:
    """Refuse terms that the arithmetic does not cover; clients check this before they pay gas."""
    require(1 <= terms.rounds <= MAX_ROUNDS, "tasks: rounds out of range")
    require(1 <= terms.slots <= MAX_SLOTS, "tasks: slots out of range")
    require(1 <= terms.quorum <= terms.slots, "tasks: quorum out of range")
    is_several = 1 < terms.aggregators <= MAX_AGGREGATORS and custodians_of(terms.policy) > 0
    require(terms.aggregators == 1 or is_several, "tasks: aggregators out of range")
    prices = ((terms.reserve, terms.max_price), (terms.aggregator_reserve, terms.aggregator_max_price))
    require(all(1 <= reserve <= most <= MAX_PRICE for reserve, most in prices), "tasks: prices out of range")
    seconds = (terms.slot_s, terms.aggregate_s, terms.reexecute_s)
    require(all(1 <= value <= MAX_SECONDS for value in seconds), "tasks: seconds out of range")
    require(1 <= terms.flops <= MAX_FLOPS, "tasks: flops out of range")
    require(1 <= terms.depth <= MAX_DEPTH, "tasks: depth out of range")
    policy, custodians = terms.policy % (1 << CUSTODIANS_AT), custodians_of(terms.policy)
    is_known = policy <= POLICY_ROLL_BACK | POLICY_DELAYED | POLICY_CARRIES
    is_odd = custodians % 2 == 1 and MIN_CUSTODIANS <= custodians <= MAX_CUSTODIANS
    require(is_known and (custodians == 0 or is_odd), "tasks: unknown policy")
    require(MIN_AUDIT_BPS <= terms.audit_bps <= BPS, "tasks: audit rate out of range")
    require(requirements.is_known(terms.requirements), "tasks: unknown requirements")


def cancel(w: World, msg: Message, job: int) -> None:
    """The submitter cancels a job before its auction starts clearing."""
    record = w.job(job)
    require(job in w.jobs and msg.sender == record.submitter, "tasks: not the submitter")
    require(record.state == JobState.OPEN, "tasks: not open")
    require(all(w.lot(job, kind).phase <= Phase.OPEN for kind in (0, 1)), "tasks: auction is clearing")
    bids = auction.bids_due_compensation(w, job, now=msg.now)
    share = w.deposits[job] // bids if bids else 0
    returned = w.deposits[job] - share * bids
    _cancel(w, job, now=msg.now)
    w.deposits[job] = share
    jobs.owe(w, COIN, record.submitter, returned)


def lapse(w: World, msg: Message, job: int) -> None:
    """Anyone closes a job whose last auction ended LAPSE_S ago; whoever calls keeps the posting deposit."""
    require(w.job(job).state == JobState.OPEN, "tasks: not open")
    require(auction.is_lapsed(w, job, now=msg.now), "tasks: auction not lapsed")
    deposit = w.deposits[job]
    _cancel(w, job, now=msg.now)
    jobs.owe(w, COIN, msg.sender, deposit)


def _cancel(w: World, job: int, *, now: int) -> None:
    """Owes the escrow to the submitter, and leaves nothing of the deposit with the job."""
    w.deposits[job] = 0
    jobs.advance(w, job, JobState.CANCELLED)
    jobs.close(w, job)
    auction.cancelled(w, job, now=now)


def withdraw(w: World, msg: Message, token: str, account: str) -> int:
    """Pays an account what it is owed; anyone may call it."""
    amount = w.owed.get((token, account), 0)
    require(amount > 0, "tasks: nothing owed")
    w.owed[token, account] = 0
    if token == COIN:
        require(not w.refuses_coin.get(account, False), "tasks: transfer failed")
        w.posted_coin -= amount
        return amount
    w.move(token, w.config.tasks, account, amount, by="tasks")
    return amount
