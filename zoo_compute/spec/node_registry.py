"""NodeRegistry: operators, stake, collateral and its slashing (docs/protocol/node-registry.md).

Promised hours and heartbeats are in `promises`, re-exported here.
"""

from dataclasses import replace

from zoo_compute.spec.guardian import is_paused
from zoo_compute.spec.params import (
    BPS,
    BREACH_FEE_BPS,
    GPU_CLASSES,
    HALVING_EPOCHS,
    MAX_REPUTATION,
    MAX_VRAM_GB,
    REPUTATION_FEE,
    REPUTATION_PARTS,
    STAKE_UNIT,
    UNITS_PER_STAKE,
    UNSHOWN_PERCENT,
)
from zoo_compute.spec.promises import (
    beat,
    beats,
    breached,
    declare,
    declare_region,
    heartbeat,
    meets,
    promised,
    protocol_time,
    total_beats,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import ZERO_ADDRESS, Collateral, Consent, Message, Operator, SlashLedger, World

__all__ = [
    "beat",
    "beats",
    "declare",
    "declare_region",
    "heartbeat",
    "meets",
    "promised",
    "protocol_time",
    "total_beats",
]


def reputation_parts(w: World, operator: int, now: int) -> int:
    """What is left of an operator's reputation, in thousandths of a point: all halve together, every HALVING_EPOCHS epochs."""
    record, span = w.operator(operator), HALVING_EPOCHS * w.config.preset.epoch_s
    return record.reputation >> (now // span - record.rated_at // span)


def reputation(w: World, operator: int, now: int) -> int:
    """Whole points."""
    return reputation_parts(w, operator, now) // REPUTATION_PARTS


def discount_bps(w: World, operator: int, *, now: int) -> int:
    """The discount on an operator's score: its reputation, in basis points."""
    return reputation(w, operator, now)


def is_eligible(w: World, operator: int, hot: str) -> bool:
    """May this key bid for this operator?"""
    record = w.operator(operator)
    return record.hot == hot and record.exit_at == 0 and record.stake >= w.config.preset.min_stake


def multiplier_of(w: World, operator: int) -> int:
    """The weight of the operator's verified compute, in percent: its class's, once it is admitted."""
    record = w.operators[operator]
    percent = GPU_CLASSES[record.gpu_class].multiplier_percent
    return percent if record.is_admitted else min(percent, UNSHOWN_PERCENT)


def register(w: World, msg: Message, hot: str, gpu_class: int, vram_gb: int, stake: int, endpoint: str) -> int:
    """A new operator, owned by the sender; its stake is pulled."""
    _require_machine(w, msg, hot, gpu_class, vram_gb, stake)
    operator = Operator(owner=msg.sender, stake=stake, hot=hot, gpu_class=gpu_class, vram_gb=vram_gb)
    return _register(w, msg, operator)


def register_for(
    w: World,
    msg: Message,
    owner: str,
    hot: str,
    gpu_class: int,
    vram_gb: int,
    stake: int,
    endpoint: str,
    deadline: int,
    owner_consent: Consent,
    hot_consent: Consent,
) -> int:
    """A new operator for an owner who signed for it, as its hot key did; the sender pays the stake."""
    _require_machine(w, msg, hot, gpu_class, vram_gb, stake)
    require(msg.block_time <= deadline, "registry: consent expired")
    nonce = w.nonces.get(owner, 0)
    due = Consent(owner, owner, hot, gpu_class, vram_gb, stake, endpoint, nonce, deadline)
    require(owner_consent == due and owner != ZERO_ADDRESS, "registry: owner did not sign")
    require(hot_consent == replace(due, signer=hot), "registry: hot key did not sign")
    w.nonces[owner] = nonce + 1
    return _register(w, msg, Operator(owner=owner, stake=stake, hot=hot, gpu_class=gpu_class, vram_gb=vram_gb))


def announce(w: World, msg: Message, operator: int, endpoint: str) -> None:
    """Announces the URL of the operator's store: an event, without state."""
    record = w.operator(operator)
    require(msg.sender in (record.owner, record.hot), "registry: not the operator")


def set_hot(w: World, msg: Message, operator: int, hot: str) -> None:
    _require_owner(w, msg, operator)
    require(hot != ZERO_ADDRESS, "registry: zero hot key")
    w.operators[operator] = replace(w.operators[operator], hot=hot)


def allow_answers(w: World, msg: Message, operator: int, account: str, allowed: bool) -> None:
    """Lets an account answer asks in disputes about the operator's claims, or no longer."""
    _require_owner(w, msg, operator)
    w.answer_keys[operator, msg.sender, account] = allowed


def may_answer(w: World, operator: int, account: str) -> bool:
    """Is it the operator's hot key, or one that its owner allowed to answer?"""
    record = w.operator(operator)
    return account == record.hot or w.answer_keys.get((operator, record.owner, account), False)


def offer_owner(w: World, msg: Message, operator: int, account: str) -> None:
    """Offers the operator to a new owner; the zero address takes the offer back."""
    _require_owner(w, msg, operator)
    w.offered_owners[operator] = account


def accept_owner(w: World, msg: Message, operator: int) -> None:
    """The account that was offered the operator becomes its owner."""
    require(msg.sender == w.offered_owners.get(operator, ZERO_ADDRESS), "registry: not the offered owner")
    w.offered_owners[operator] = ZERO_ADDRESS
    w.operators[operator] = replace(w.operators[operator], owner=msg.sender)


def add_stake(w: World, msg: Message, operator: int, amount: int) -> None:
    require(operator in w.operators, "registry: unknown operator")
    require(amount > 0, "registry: zero amount")
    require(amount % STAKE_UNIT == 0, "registry: stake has dust")
    record = w.operators[operator]
    w.operators[operator] = replace(record, stake=record.stake + amount)
    w.move(w.config.zen, msg.sender, w.config.registry, amount, by="registry")


def request_exit(w: World, msg: Message, operator: int) -> None:
    _require_owner(w, msg, operator)
    record = w.operators[operator]
    require(record.exit_at == 0, "registry: exit already requested")
    w.operators[operator] = replace(record, exit_at=msg.now + w.config.preset.exit_delay_s)


def withdraw_stake(w: World, msg: Message, operator: int) -> None:
    """Pays the whole stake to the owner; the operator stays registered and can stake again."""
    _require_owner(w, msg, operator)
    record = w.operators[operator]
    require(record.exit_at != 0, "registry: exit not requested")
    require(msg.now >= record.exit_at, "registry: exit delay runs")
    require(record.locks == 0, "registry: collateral is locked")
    w.operators[operator] = replace(record, stake=0, exit_at=0, is_admitted=False)
    w.move(w.config.zen, w.config.registry, record.owner, record.stake, by="registry")


def deposit(w: World, msg: Message, operator: int, token: str, amount: int) -> None:
    require(operator in w.operators, "registry: unknown operator")
    require(amount > 0, "registry: zero amount")
    _add(w, operator, token, balance=amount)
    w.move(token, msg.sender, w.config.registry, amount, by="registry")


def withdraw(w: World, msg: Message, operator: int, token: str, amount: int) -> None:
    """Pays free collateral to the owner."""
    _require_owner(w, msg, operator)
    require(amount > 0, "registry: zero amount")
    require(amount <= w.deposit_of(operator, token).free, "registry: amount exceeds free collateral")
    _add(w, operator, token, balance=-amount)
    w.move(token, w.config.registry, msg.sender, amount, by="registry")


def breach(w: World, msg: Message, operator: int, epoch: int) -> None:
    """If too many declared periods of a past epoch were missed, slashes a hundredth of the stake and removes the tier. The sender has
    a tenth of that."""
    slash_for(w, operator, breached(w, operator, epoch, msg.block_time), BREACH_FEE_BPS, msg.sender)


def lock(w: World, operator: int, token: str, amount: int, *, new: bool) -> None:
    """For Auction and Locks: free collateral becomes locked; `new` opens a lock in one more lot."""
    require(amount <= w.deposit_of(operator, token).free, "registry: amount exceeds free collateral")
    _add(w, operator, token, locked=amount)
    if new:
        _count_locks(w, operator, 1)


def lock_bid(w: World, operator: int, hot: str, token: str, amount: int, units: int, *, block_time: int) -> bool:
    """For Auction: `lock` if the key may bid for so many units; False if it may not, or if bidding is paused."""
    if is_paused(w, w.config.auction, block_time) or not is_eligible(w, operator, hot):
        return False
    if w.operator(operator).stake < w.config.preset.min_stake * units // UNITS_PER_STAKE:
        return False
    lock(w, operator, token, amount, new=True)
    return True


def unlock(w: World, operator: int, token: str, amount: int, *, last: bool) -> None:
    """For Auction and Locks: the reverse of `lock`."""
    _add(w, operator, token, locked=-amount)
    if last:
        _count_locks(w, operator, -1)


def slash(w: World, operator: int, token: str, amount: int, *, convicted: bool) -> None:
    """For Auction and Locks: locked collateral goes to the token's pot; reputation is halved, or cleared."""
    _add(w, operator, token, balance=-amount, locked=-amount)
    w.pots[token] = w.pots.get(token, 0) + amount
    record = w.operators[operator]
    w.operators[operator] = replace(record, reputation=0 if convicted else record.reputation // 2)
    _note_slash(w, token, amount)


def slash_stake(w: World, operator: int, bps: int) -> int:
    """For Rewards: burns part of a stake, in whole units."""
    return slash_for(w, operator, bps, 0, ZERO_ADDRESS)[0]


def slash_for(w: World, operator: int, bps: int, share_bps: int, account: str) -> tuple[int, int]:
    """For Admissions: `slash_stake`, and of the part a share to an account; without one it stays in the pot. Returns both."""
    record, zen = w.operators[operator], w.config.zen
    units = record.stake // STAKE_UNIT * bps // BPS
    slashed, share = units * STAKE_UNIT, units * share_bps // BPS * STAKE_UNIT
    w.operators[operator] = replace(record, stake=record.stake - slashed)
    w.burned[zen] = w.burned.get(zen, 0) + slashed - share
    w.pots[zen] = w.pots.get(zen, 0) + share
    _note_slash(w, zen, slashed)
    if account != ZERO_ADDRESS:
        pay_share(w, account, share)
    return slashed, share


def pay_share(w: World, account: str, amount: int) -> None:
    """For Admissions: from the pot to an account; without one it burns."""
    zen = w.config.zen
    if account == ZERO_ADDRESS:
        burn(w, zen, amount)
        return
    _take_from_pot(w, zen, amount)
    ledger = w.slash_ledgers.get(zen, SlashLedger())
    w.slash_ledgers[zen] = replace(ledger, paid_out=ledger.paid_out + amount)
    w.move(zen, w.config.registry, account, amount, by="registry")


def set_admitted(w: World, operator: int, admitted: bool) -> None:
    """For Admissions: whether the operator earns its class's multiplier."""
    w.operators[operator] = replace(w.operators[operator], is_admitted=admitted)


def pay_out(w: World, token: str, amount: int) -> None:
    """For Locks: from the pot to TaskRegistry, which books to whom it is owed."""
    _take_from_pot(w, token, amount)
    ledger = w.slash_ledgers.get(token, SlashLedger())
    w.slash_ledgers[token] = replace(ledger, paid_out=ledger.paid_out + amount)
    w.move(token, w.config.registry, w.config.tasks, amount, by="registry")


def burn(w: World, token: str, amount: int) -> None:
    """For Auction and Locks: burns from the pot."""
    _take_from_pot(w, token, amount)
    w.burned[token] = w.burned.get(token, 0) + amount


def reward_outcome(w: World, operator: int, fee: int, *, now: int) -> str:
    """For Settlement: a point of reputation for every REPUTATION_FEE of ZEN to the treasury; returns the owner, who is paid."""
    earned = fee * REPUTATION_PARTS // REPUTATION_FEE
    if earned:
        parts = min(MAX_REPUTATION * REPUTATION_PARTS, reputation_parts(w, operator, now) + earned)
        w.operators[operator] = replace(w.operators[operator], reputation=parts, rated_at=now)
    return w.operators[operator].owner


def _require_machine(w: World, msg: Message, hot: str, gpu_class: int, vram_gb: int, stake: int) -> None:
    require(not is_paused(w, w.config.registry, msg.block_time), "registry: intake paused")
    require(hot != ZERO_ADDRESS, "registry: zero hot key")
    require(gpu_class in GPU_CLASSES, "registry: unknown class")
    require(vram_gb >= GPU_CLASSES[gpu_class].least_vram_gb, "registry: too little VRAM for the class")
    require(vram_gb <= MAX_VRAM_GB, "registry: VRAM out of range")
    require(stake >= w.config.preset.min_stake, "registry: stake below the minimum")
    require(stake % STAKE_UNIT == 0, "registry: stake has dust")


def _register(w: World, msg: Message, operator: Operator) -> int:
    number = len(w.operators) + 1
    w.operators[number] = operator
    w.move(w.config.zen, msg.sender, w.config.registry, operator.stake, by="registry")
    return number


def _note_slash(w: World, token: str, amount: int) -> None:
    ledger = w.slash_ledgers.get(token, SlashLedger())
    w.slash_ledgers[token] = replace(ledger, slashed=ledger.slashed + amount)


def _require_owner(w: World, msg: Message, operator: int) -> None:
    require(operator in w.operators and msg.sender == w.operators[operator].owner, "registry: not the owner")


def _add(w: World, operator: int, token: str, *, balance: int = 0, locked: int = 0) -> None:
    before = w.deposit_of(operator, token)
    after = Collateral(before.balance + balance, before.locked + locked)
    assert 0 <= after.locked <= after.balance, "collateral underflows"
    w.collateral[operator, token] = after


def _count_locks(w: World, operator: int, change: int) -> None:
    record = w.operators[operator]
    assert record.locks + change >= 0, "locks underflow"
    w.operators[operator] = replace(record, locks=record.locks + change)


def _take_from_pot(w: World, token: str, amount: int) -> None:
    left = w.pots.get(token, 0) - amount
    assert left >= 0, "pot underflows"
    w.pots[token] = left
