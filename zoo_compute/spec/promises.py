"""NodeRegistry's promised hours: tiers, declarations, heartbeats, breaches; whether an operator is what a job asks for; and the
protocol's time, of which a heartbeat is a beat (docs/protocol/node-registry.md).

Epochs and periods are of wall time: people promise hours of the day.
"""

from dataclasses import replace

from zoo_compute.spec import clocks
from zoo_compute.spec.params import BPS, BREACH_BPS, DATACENTER, MAX_STOPPED_EPOCHS, PERIODS, TIERS
from zoo_compute.spec.requirements import Capability, is_met, requirements_of
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Declaration, Message, Operator, Promise, World


def declare(w: World, msg: Message, operator: int, tier: int, hours: int) -> None:
    """Applies from the next epoch on; the current epoch's declaration does not change."""
    record = w.operators.get(operator)
    require(record is not None and msg.sender == record.owner, "registry: not the owner")
    require(tier in TIERS, "registry: unknown tier")
    require(hours < 1 << PERIODS, "registry: hours out of range")
    if tier:
        machine = w.operator(operator)
        require(machine.gpu_class == DATACENTER, "registry: class below the tier")
        require(machine.vram_gb >= TIERS[tier].vram_gb, "registry: too little VRAM for the tier")
        require(hours > 0, "registry: tier without hours")
    since, old = msg.block_time // w.config.preset.epoch_s + 1, w.declarations.get(operator, Declaration())
    require(old.since + 1 != since, "registry: declared in the last epoch")
    if old.since != since:
        old = replace(old, last_tier=old.tier, last_hours=old.hours, last_since=old.since)
    w.declarations[operator] = replace(old, tier=tier, hours=hours, since=since)


def declare_region(w: World, msg: Message, operator: int, region: int) -> None:
    """Applies at once; nobody checks it, and it binds nobody."""
    record = w.operators.get(operator)
    require(record is not None and msg.sender == record.owner, "registry: not the owner")
    require(region < 2**32, "registry: region out of range")
    w.declarations[operator] = replace(w.declarations.get(operator, Declaration()), region=region)


def meets(w: World, operator: int, requirements: int, *, block_time: int) -> bool:
    """Is the operator what a job asks for? A promise counts if it binds in this epoch and in the next."""
    epoch = block_time // w.config.preset.epoch_s
    return is_met(requirements_of(requirements), capability(w, operator, epoch))


def capability(w: World, operator: int, epoch: int) -> Capability:
    """What the registry knows of an operator, in an epoch."""
    record, promises = w.operator(operator), [promised(w, operator, each) for each in (epoch, epoch + 1)]
    return Capability(
        gpu_class=record.gpu_class,
        vram_gb=record.vram_gb,
        is_admitted=record.is_admitted,
        region=w.declarations.get(operator, Declaration()).region,
        tier=min(promise.tier for promise in promises),
        hours=min(promise.hours.bit_count() for promise in promises),
    )


def promised(w: World, operator: int, epoch: int) -> Promise:
    """The declaration for an epoch; empty if there is none, or if it is no longer stored."""
    known = w.declarations.get(operator, Declaration())
    for tier, hours, since in (
        (known.tier, known.hours, known.since),
        (known.last_tier, known.last_hours, known.last_since),
    ):
        if 0 < since <= epoch:
            return Promise(0 if since < known.barred_from <= epoch else tier, hours)
    return Promise()


def heartbeat(w: World, msg: Message, operator: int) -> None:
    """A heartbeat; counts once in each period, and is a beat."""
    record = w.operators.get(operator, Operator())
    require(msg.sender == record.hot, "registry: not the hot key")
    require(record.stake > 0, "registry: nothing staked")
    epoch_s = w.config.preset.epoch_s
    epoch, period = msg.block_time // epoch_s, msg.block_time % epoch_s * PERIODS // epoch_s
    bitmap = beats(w, operator, epoch)
    require(not bitmap >> period & 1, "registry: period already counted")
    w.beats[operator, epoch] = bitmap | 1 << period
    w.total_beats[epoch] = total_beats(w, epoch) + 1
    beat(w, msg)


def beat(w: World, msg: Message) -> None:
    """Anybody's: the chain takes transactions. The running gap becomes a recorded one, so time does not jump."""
    stopped_s = clocks.stopped_after(msg.block_time, w.stopped_s, w.last_beat, w.config.preset.clocks)
    if stopped_s > w.stopped_s:
        epoch_s = w.config.preset.epoch_s
        reached = range(w.last_beat // epoch_s, msg.block_time // epoch_s + 1)[:MAX_STOPPED_EPOCHS]
        w.stopped_epochs.update(dict.fromkeys(reached, True))
    w.last_beat, w.stopped_s = msg.block_time, stopped_s


def protocol_time(w: World, block_time: int) -> int:
    """What all clocks are read in that slash or make something final: seconds in which the chain ran."""
    return clocks.protocol_time_s(block_time, w.stopped_s, w.last_beat, w.config.preset.clocks)


def beats(w: World, operator: int, epoch: int) -> int:
    """Bitmap of the periods with a heartbeat of the operator."""
    return w.beats.get((operator, epoch), 0)


def total_beats(w: World, epoch: int) -> int:
    """Heartbeats of all operators."""
    return w.total_beats.get(epoch, 0)


def breached(w: World, operator: int, epoch: int, block_time: int) -> int:
    """Judge a past epoch; returns the part of the stake that a breach costs, in basis points."""
    require(epoch < block_time // w.config.preset.epoch_s, "registry: epoch not over")
    require(not w.stopped_epochs.get(epoch, False), "registry: time stood still")
    promise = promised(w, operator, epoch)
    require(promise.hours > 0, "registry: nothing declared")
    require(not w.judged.get((operator, epoch), False), "registry: epoch already judged")
    missed = (promise.hours & ~beats(w, operator, epoch)).bit_count()
    allowed = promise.hours.bit_count() * TIERS[promise.tier].slack_bps // BPS
    require(missed > allowed, "registry: promise kept")
    w.judged[operator, epoch] = True
    _take_tier(w, operator, block_time // w.config.preset.epoch_s)
    return BREACH_BPS


def _take_tier(w: World, operator: int, running: int) -> None:
    """From the next epoch on: in the running one receipts are signed by the tier already."""
    known = w.declarations[operator]
    if known.since == running + 1:
        known = replace(known, tier=0)
    if promised(w, operator, running).tier:
        known = replace(known, barred_from=running + 1)
    w.declarations[operator] = known
