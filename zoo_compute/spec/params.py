"""The protocol's numbers: presets, constants, and what follows from a job's terms (docs/protocol.md, "Numbers")."""

from dataclasses import dataclass

ZEN: int = 10**18  # smallest units of one ZEN: 18 decimals


@dataclass(frozen=True, slots=True)
class Preset:
    """The numbers that shrink on a devnet so that a whole job fits a test; all else is equal everywhere."""

    name: str
    bid_window_s: int  # sealed bids are accepted
    reveal_window_s: int  # bids are opened
    ready_window_s: int  # holders confirm that they hold the inputs and timed a step
    min_window_s: int  # least challenge window
    exit_delay_s: int  # from exit request to withdrawal of stake
    epoch_s: int  # network reward epoch
    min_stake: int  # ZEN smallest units: least stake
    emission_per_epoch: int  # ZEN smallest units: most network rewards an epoch pays
    timelock_s: int  # delay of treasury spending


DEVNET = Preset(
    name="devnet",
    bid_window_s=12,
    reveal_window_s=6,
    ready_window_s=20,
    min_window_s=10,
    exit_delay_s=30,
    epoch_s=60,
    min_stake=100 * ZEN,
    emission_per_epoch=1_000 * ZEN,
    timelock_s=10,
)
PRODUCTION = Preset(
    name="production",
    bid_window_s=3_600,
    reveal_window_s=1_800,
    ready_window_s=3_600,
    min_window_s=7_200,
    exit_delay_s=604_800,
    epoch_s=86_400,
    min_stake=1_000 * ZEN,
    emission_per_epoch=10_000 * ZEN,
    timelock_s=172_800,
)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in (DEVNET, PRODUCTION)}

BPS: int = 10_000  # basis points in the whole
FEE_BPS: int = 500  # of every payment, to the treasury: 5 % pays development, audits and grants
SLASH_BPS: int = 1_000  # of a slot's lock, for a timeout or a decline: hurts, without ruining who lost power once
DEPTH: int = 4  # rounds that may be unfinal at once: what a lock must cover
LOCK_MULTIPLE: int = 2  # a slot's lock over the price at risk: twice, so that a lie costs more than it earns
RESERVE_GROWTH_BPS: int = 2_500  # of the reserve, at a re-opening: an empty auction finds its price in a few attempts
MAX_REPUTATION: int = 1_000  # points; also the greatest discount in bps (10 %), so newcomers can still win
STANDARD_CAP_BIDDERS: int = 3  # from so many revealed bids on, nobody wins more than a third
MAX_ROUNDS: int = 10_000  # of a job: bounds escrow and every sum over rounds
MAX_SLOTS: int = 256  # of a job: a bitmap of slots is one word
MAX_PRICE: int = 2**80 - 1  # smallest units per slot-round: no product of the protocol can overflow
MAX_SECONDS: int = 604_800  # of any clock in a job's terms: one week
MAX_FLOPS: int = 2**96 - 1  # of one slot-round
MAX_VRAM_GB: int = 65_535  # 16 bits in the operator's word
AGGREGATION_KEY: int = 256  # the claim key of an aggregation: one past the last slot
LIST_LIMIT: int = 64  # operators or claims in one call: bounds its gas

KIND_SLOTS: int = 0  # the lot of a job's slots
KIND_AGGREGATOR: int = 1  # the lot of a job's aggregator seat


@dataclass(frozen=True, slots=True)
class GpuClass:
    """A class of machine: what it must have, and what its verified compute weighs."""

    id: int
    name: str
    least_vram_gb: int
    multiplier_percent: int


GPU_CLASSES: dict[int, GpuClass] = {
    1: GpuClass(1, "consumer", 8, 100),
    2: GpuClass(2, "professional", 16, 150),
    3: GpuClass(3, "datacenter", 40, 300),
    4: GpuClass(4, "apple silicon", 8, 80),
}


@dataclass(frozen=True, slots=True)
class Terms:
    """What a submitter posts (docs/protocol.md, "TaskRegistry"); roots and token are opaque to the arithmetic."""

    token: str
    program_root: bytes
    state_root: bytes
    data_root: bytes
    manifest: bytes
    rounds: int
    slots: int
    quorum: int
    reserve: int  # per slot-round
    max_price: int  # per slot-round
    aggregator_reserve: int  # per round
    aggregator_max_price: int  # per round
    slot_s: int
    aggregate_s: int
    reexecute_s: int
    flops: int  # of one slot-round


def escrow(terms: Terms) -> int:
    """What the submitter pays in: every round at the highest prices."""
    return escrow_of(terms.rounds, terms.slots, terms.max_price, terms.aggregator_max_price)


def escrow_of(rounds: int, slots: int, max_price: int, aggregator_max_price: int) -> int:
    """`escrow`, before there are terms."""
    return (max_price * slots + aggregator_max_price) * rounds


def lock_per_slot(terms: Terms) -> int:
    """Collateral behind one slot: `LOCK_MULTIPLE` times the price at risk over the unfinal rounds."""
    return LOCK_MULTIPLE * terms.max_price * min(terms.rounds, DEPTH)


def aggregator_lock(terms: Terms) -> int:
    """Collateral behind the aggregator's seat: all slots' price over the unfinal rounds."""
    return terms.slots * terms.max_price * min(terms.rounds, DEPTH)


def window_s(preset: Preset, reexecute_s: int) -> int:
    """How long a claim of a job stands open to challenge."""
    return max(preset.min_window_s, 3 * reexecute_s)


def fee_of(amount: int) -> int:
    """The treasury's part of a payment: what is left of it after the payee's `amount * 9,500 // 10,000`."""
    return amount - amount * (BPS - FEE_BPS) // BPS


def slash_of(lock: int) -> int:
    """What a timeout or a decline takes of a lock."""
    return lock * SLASH_BPS // BPS


def grown_reserve(reserve: int, max_reserve: int) -> int:
    """The reserve of the next attempt of a lot that found too few bids."""
    return min(max_reserve, reserve * (BPS + RESERVE_GROWTH_BPS) // BPS)
