"""Rewards: network rewards by epochs, from a funded pool (docs/protocol/rewards.md).

Five flows share an epoch's budget. A job's fee limits the rewards for it, in three parts: the workers' room, and allowances for
verification and for data.
"""

from dataclasses import replace

from zoo_compute.spec import bits, node_registry, promises
from zoo_compute.spec.params import (
    BPS,
    CLAIM_EPOCHS,
    LINK_GBPS,
    PAIR_BYTES,
    REWARD_CAP_BPS,
    REWARD_FLOW_BPS,
    SERVER_BYTES,
    VIOLATION_BPS,
    YEAR_S,
    Flow,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import (
    CalledFees,
    Earned,
    Message,
    Receipt,
    Share,
    Signed,
    Traffic,
    World,
)

BYTES_PER_GBPS: int = 125_000_000  # a second


def epoch_of(w: World, now: int) -> int:
    return now // w.config.preset.epoch_s


def fund(w: World, msg: Message, amount: int) -> None:
    require(amount > 0, "rewards: zero amount")
    w.pool += amount
    w.move(w.config.zen, msg.sender, w.config.rewards, amount, by="rewards")


def reserved(w: World, now: int) -> int:
    """What the budgets still to be fixed may take of the pool."""
    newest = epoch_of(w, now)
    return w.config.preset.emission_per_epoch * sum(
        _has_work(w, epoch) and w.epoch(epoch).budget == 0 for epoch in range(newest - CLAIM_EPOCHS, newest + 1)
    )


def _has_work(w: World, epoch: int) -> bool:
    total, flows = w.epoch(epoch), (Flow.VERIFICATION, Flow.DATA)
    return bool(total.weight or total.fees or any(w.called.get((flow, epoch)) for flow in flows))


def move_pool(w: World, msg: Message, successor: str, amount: int) -> None:
    """The governor moves ZEN of the pool to the next version's; what open epochs may pay stays."""
    require(msg.sender == w.config.treasury_governor, "rewards: not the governor")
    require(amount > 0, "rewards: zero amount")
    require(w.pool >= amount + reserved(w, msg.block_time), "rewards: reserved for epochs")
    w.pool -= amount
    w.move(w.config.zen, w.config.rewards, successor, amount, by="rewards")


# What the protocol's contracts record -------------------------------------------------------------------------------


def record(w: World, job: int, operator: int, weight: int, fee: int, *, now: int) -> None:
    """For Settlement: verified compute of a job, and its fee, which limits the weight of declared work."""
    epoch, weight = epoch_of(w, now), min(weight, w.config.preset.weight_per_fee * fee)
    total, share = w.epoch(epoch), w.share(operator, epoch, job)
    w.epochs[epoch] = replace(total, weight=total.weight + weight, fees=total.fees + fee)
    w.shares[operator, epoch, job] = Share(share.weight + weight, share.fees + fee)
    fees = w.fees_of(job)
    w.job_fees[job] = replace(fees, fees=fees.fees + fee)


def record_verification(w: World, auditor: int, job: int, weight: int, *, now: int) -> None:
    """For Audits: records an auditor's work on a job."""
    fees = w.fees_of(job)
    fresh = fees.fees * REWARD_CAP_BPS[Flow.VERIFICATION] // BPS - fees.verification
    w.job_fees[job] = replace(fees, verification=fees.verification + fresh)
    _call(w, Flow.VERIFICATION, auditor, job, weight, weight, fresh, now=now)


def record_data(w: World, contributor: str, job: int, weight: int, most: int, *, now: int) -> None:
    """For Datasets: records the score of a contributor's data in a job."""
    fees = w.fees_of(job)
    fresh = fees.fees * REWARD_CAP_BPS[Flow.DATA] // BPS - fees.data
    w.job_fees[job] = replace(fees, data=fees.data + fresh)
    _call(w, Flow.DATA, contributor, job, weight, most, fresh, now=now)


def _call(w: World, flow: Flow, who: int | str, job: int, weight: int, most: int, fresh: int, *, now: int) -> None:
    """Calls the rest of a job's allowance into the current epoch, for accounts with weight in it."""
    epoch = epoch_of(w, now)
    call = w.reward_calls.get((flow, job, epoch), CalledFees())
    w.reward_calls[flow, job, epoch] = CalledFees(call.called + fresh, call.weight + most)
    w.called[flow, epoch] = w.called.get((flow, epoch), 0) + fresh
    w.works[flow, who, job, epoch] = w.works.get((flow, who, job, epoch), 0) + weight


# Receipts -----------------------------------------------------------------------------------------------------------


def link_bytes(w: World, operator: int, epoch: int) -> int:
    """The bytes that an operator's link carries in an epoch, by its declared tier."""
    return tier_bytes(promises.promised(w, operator, epoch).tier, w.config.preset.epoch_s)


def tier_bytes(tier: int, epoch_s: int) -> int:
    """The bytes that the link of a tier carries in an epoch."""
    return LINK_GBPS[tier] * BYTES_PER_GBPS * epoch_s


def redeem(w: World, msg: Message, server: int, client: int, epoch: int, total: int, receipt: Receipt) -> int:
    """Redeems a client's receipt for the bytes that a server sent it in this epoch; returns the bytes that newly count."""
    require(msg.sender == w.operator(server).hot, "rewards: not the hot key")
    require(epoch == epoch_of(w, msg.block_time), "rewards: not the current epoch")
    require(server != client, "rewards: own receipt")
    signed = w.signed.get((client, epoch), Signed())
    require(not signed.violated, "rewards: signer has violated")
    is_signed = receipt == Receipt(w.operator(client).hot, server, client, epoch, total)
    require(client in w.operators and is_signed, "rewards: receipt not signed")
    pair, served = w.pairs.get((server, client, epoch), Traffic()), w.served.get((server, epoch), Traffic())
    require(total > pair.total, "rewards: nothing new")
    fresh = total - pair.total
    require(served.total + fresh <= link_bytes(w, server, epoch), "rewards: beyond the server's link")
    is_violation = signed.total + fresh > link_bytes(w, client, epoch)
    w.signed[client, epoch] = Signed(signed.total + fresh, is_violation)
    if is_violation:
        more = -pair.counted
    else:
        more = min(min(total, PAIR_BYTES) - min(pair.total, PAIR_BYTES), SERVER_BYTES - served.counted)
    w.pairs[server, client, epoch] = Traffic(total, pair.counted + more)
    w.served[server, epoch] = Traffic(served.total + fresh, served.counted + more)
    w.total_bytes[epoch] = w.total_bytes.get(epoch, 0) + more
    if is_violation:
        node_registry.slash_stake(w, client, VIOLATION_BPS)
        if total > link_bytes(w, client, epoch):
            node_registry.slash_stake(w, server, VIOLATION_BPS)
    return max(0, more)


# Claims -------------------------------------------------------------------------------------------------------------


def budget_of(w: World, epoch: int) -> int:
    """The most that an epoch pays, fixed at its first claim."""
    return w.epoch(epoch).budget or min(w.config.preset.emission_per_epoch, w.pool)


def flow_budget(w: World, flow: Flow, epoch: int) -> int:
    return budget_of(w, epoch) * REWARD_FLOW_BPS[flow] // BPS


def room_of(share: Share) -> int:
    """The most that a job's fee allows its operator."""
    return share.fees * REWARD_CAP_BPS[Flow.COMPUTE] // BPS


def compute_of(w: World, operator: int, epoch: int, job: int) -> int:
    """An operator's part of the compute flow for one job, limited by the job's room."""
    share = w.share(operator, epoch, job)
    if share.weight == 0:
        return 0
    part = flow_budget(w, Flow.COMPUTE, epoch) * share.weight // w.epoch(epoch).weight
    return min(part, room_of(share))


def extra_of(w: World, operator: int, epoch: int) -> int:
    """An operator's reward for uptime and bandwidth in an epoch, before limits."""
    beats, counted = promises.beats(w, operator, epoch), w.served.get((operator, epoch), Traffic()).counted
    extra = 0
    if beats:
        total = promises.total_beats(w, epoch)
        extra += flow_budget(w, Flow.UPTIME, epoch) * bits.popcount(beats) // total
    if counted:
        extra += flow_budget(w, Flow.BANDWIDTH, epoch) * counted // w.total_bytes[epoch]
    return extra


def claim(w: World, msg: Message, operator: int, epoch: int, jobs: tuple[int, ...]) -> int:
    """Pays compute for these jobs, plus uptime and bandwidth within their rooms; each job once."""
    _require_claimable(w, epoch, now=msg.block_time)
    earned = w.earned.get((operator, epoch), Earned())
    due, amount, filled = extra_of(w, operator, epoch) - earned.extra, 0, 0
    for job in dict.fromkeys(jobs):
        computed = compute_of(w, operator, epoch, job)
        more = min(due - filled, room_of(w.share(operator, epoch, job)) - computed)
        filled, amount = filled + more, amount + computed + more
    _spend(w, epoch, amount)
    for job in jobs:
        w.shares.pop((operator, epoch, job), None)
    w.earned[operator, epoch] = Earned(earned.extra + filled, earned.paid + amount)
    w.move(w.config.zen, w.config.rewards, w.operators[operator].owner, amount, by="rewards")
    return amount


def claim_verification(w: World, msg: Message, auditor: int, job: int, epoch: int) -> int:
    """Pays an auditor's part of the job's allowance."""
    _require_claimable(w, epoch, now=msg.block_time)
    amount = _granted(w, Flow.VERIFICATION, auditor, job, epoch)
    earned = w.earned.get((auditor, epoch), Earned())
    w.earned[auditor, epoch] = replace(earned, paid=earned.paid + amount)
    w.move(w.config.zen, w.config.rewards, w.operators[auditor].owner, amount, by="rewards")
    return amount


def claim_data(w: World, msg: Message, contributor: str, job: int, epoch: int) -> int:
    """Pays a contributor's part of the job's allowance."""
    _require_claimable(w, epoch, now=msg.block_time)
    amount = _granted(w, Flow.DATA, contributor, job, epoch)
    w.move(w.config.zen, w.config.rewards, contributor, amount, by="rewards")
    return amount


def _granted(w: World, flow: Flow, who: int | str, job: int, epoch: int) -> int:
    """Consumes a weight, and returns its reward."""
    call, total = w.reward_calls.get((flow, job, epoch), CalledFees()), w.called.get((flow, epoch), 0)
    weight = w.works.get((flow, who, job, epoch), 0)
    amount = 0
    if weight and call.called:
        grant = min(flow_budget(w, flow, epoch), total) * call.called // total
        amount = grant * weight // call.weight
    _spend(w, epoch, amount)
    del w.works[flow, who, job, epoch]
    return amount


def _require_claimable(w: World, epoch: int, *, now: int) -> None:
    require(epoch_of(w, now) > epoch, "rewards: epoch not over")
    require(epoch_of(w, now) - epoch <= CLAIM_EPOCHS, "rewards: epoch expired")


def _spend(w: World, epoch: int, amount: int) -> None:
    """Pays a reward from the epoch's budget; the first payment moves the budget out of the pool."""
    require(amount > 0, "rewards: nothing to claim")
    total, budget = w.epoch(epoch), budget_of(w, epoch)
    if total.budget == 0:
        w.pool -= budget
    w.epochs[epoch] = replace(total, budget=budget, paid=total.paid + amount)


def recycle(w: World, msg: Message, epoch: int) -> int:
    """Returns an expired epoch's unpaid budget to the pool."""
    require(epoch_of(w, msg.block_time) > epoch + CLAIM_EPOCHS, "rewards: claims still open")
    total = w.epoch(epoch)
    unspent = total.budget - total.paid
    require(unspent > 0, "rewards: nothing to recycle")
    w.epochs[epoch] = replace(total, budget=total.paid)
    w.pool += unspent
    return unspent


def return_bps(w: World, operator: int, epoch: int) -> int:
    """An operator's claimed rewards of an epoch, as a yearly rate on its stake."""
    stake = w.operator(operator).stake
    if stake == 0:
        return 0
    return w.earned.get((operator, epoch), Earned()).paid * BPS * (YEAR_S // w.config.preset.epoch_s) // stake
