"""The protocol's numbers: presets, constants, and what follows from a job's terms (docs/protocol/numbers.md)."""

from dataclasses import dataclass
from enum import IntEnum

from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import ClockPreset

ZEN: int = 10**18  # smallest units of one ZEN: 18 decimals


@dataclass(frozen=True, slots=True)
class Preset:
    """The numbers that are smaller on a devnet, so that a whole job fits in a test; all others are equal everywhere."""

    name: str
    bid_window_s: int  # sealed bids are accepted
    reveal_window_s: int  # bids are opened
    ready_window_s: int  # holders confirm that they have the inputs and timed a step; silent custodians are replaced
    min_window_s: int  # least challenge window
    window_value: int  # ZEN smallest units: a round's cost from which on windows are longer
    exit_delay_s: int  # from exit request to withdrawal of stake
    epoch_s: int  # network reward epoch
    min_stake: int  # ZEN smallest units: least stake
    emission_per_epoch: int  # ZEN smallest units: most network rewards an epoch pays
    weight_per_fee: int  # most weight of verified compute that counts per smallest unit of its fee
    answer_s: int  # a demand for data is answered
    audit_bond: int  # ZEN smallest units: bond of a place among the auditors
    draw_blocks: int  # that bury the block an audit draws from
    benchmark_s: int  # a trial is answered, from its entry on
    receipt_s: int  # the steps of a receipt are run again
    pause_s: int  # a guardian's pause lasts, and the least from its end to the next
    timelock_s: int  # delay of what governors decide
    notice_s: int  # from a client's notice until it takes back what its channel's operator has no voucher for
    mint_per_epoch: int  # ZEN smallest units: most that an epoch mints for work paid in credits
    rate_step_s: int  # between two rates of the poster, at least
    rate_stale_s: int  # after which a rate is stale
    clocks: ClockPreset  # of disputes


DEVNET = Preset(
    name="devnet",
    bid_window_s=12,
    reveal_window_s=6,
    ready_window_s=20,
    min_window_s=10,
    window_value=1_000_000_000 * ZEN,
    exit_delay_s=30,
    epoch_s=60,
    min_stake=100 * ZEN,
    emission_per_epoch=1_000 * ZEN,
    weight_per_fee=10**12,
    answer_s=3,
    audit_bond=10 * ZEN,
    draw_blocks=2,
    benchmark_s=10,
    receipt_s=5,
    pause_s=60,
    timelock_s=10,
    notice_s=10,
    mint_per_epoch=1_000 * ZEN,
    rate_step_s=5,
    rate_stale_s=604_800,
    clocks=clocks.DEVNET,
)
PRODUCTION = Preset(
    name="production",
    bid_window_s=3_600,
    reveal_window_s=1_800,
    ready_window_s=4_500,
    min_window_s=7_200,
    window_value=1_000 * ZEN,
    exit_delay_s=604_800,
    epoch_s=86_400,
    min_stake=1_000 * ZEN,
    emission_per_epoch=10_000 * ZEN,
    weight_per_fee=16,
    answer_s=1_800,
    audit_bond=500 * ZEN,
    draw_blocks=32,
    benchmark_s=1_800,
    receipt_s=120,
    pause_s=604_800,
    timelock_s=172_800,
    notice_s=86_400,
    mint_per_epoch=10_000 * ZEN,
    rate_step_s=3_600,
    rate_stale_s=86_400,
    clocks=clocks.PRODUCTION,
)
PRESETS: dict[str, Preset] = {preset.name: preset for preset in (DEVNET, PRODUCTION)}

BPS: int = 10_000  # basis points in the whole
FEE_BPS: int = 500  # of every payment, to the treasury: 5 % pays development, audits and grants
SLASH_BPS: int = 1_000  # of a slot's lock, for a timeout or a decline: hurts, without ruining who lost power once
MAX_SET_ASIDE: int = 900  # points of reputation that set aside a part of that: a good record pays a hundredth of a lock
MIN_AUDIT_BPS: int = 200  # of a job's slot-rounds and aggregations: with less, locks would be too large
DEFAULT_AUDIT_BPS: int = 500  # of them, unless the job says otherwise
MAX_DEPTH: int = 64  # turns that may be unfinal at once: a bit each of which were rolled back
# A lie is found if its result is drawn, its auditor is honest (a third of the stake may be hostile), and its auditor looks (half do).
HONEST_PARTS, HONEST_OF = 2, 3
DILIGENT_PARTS, DILIGENT_OF = 1, 2
VACANT_GROWTH_BPS: int = 1_000  # of a vacant seat's price, each turn: the first operator that it suits takes it
AGGREGATION_STEPS: int = 16  # of that growth within `aggregate_s`: no turn ends without an aggregator
FINDER_BPS: int = 4_000  # of what a conviction leaves after restitution, to the oldest seal: hunting lies pays
AUDITS_BPS: int = 1_000  # of the same: lies pay for the audits that find them
RESERVE_GROWTH_BPS: int = 2_500  # of the reserve, at a re-opening: an empty auction finds its price in a few attempts
MAX_REPUTATION: int = 1_000  # points; also the greatest discount in bps (10 %), so newcomers can still win
REPUTATION_FEE: int = ZEN  # to the treasury, for a point: reputation costs what it counts, and a job at dust gives none
REPUTATION_PARTS: int = 1_000  # of a point, in which it is counted
HALVING_EPOCHS: int = 90  # in which a reputation halves: a season of work counts, an older one half
STANDARD_CAP_BIDDERS: int = 3  # from so many revealed bids on, nobody wins more than a third, or what fills the lot
UNITS_PER_STAKE: int = 16  # of a lot, that the least stake covers in a bid: two machines of eight GPUs
MAX_ROUNDS: int = 10_000  # of a job: bounds escrow and every sum over rounds
MAX_SLOTS: int = 16_384  # of a job: 128 seats of 128 slots
MAX_SEATS: int = 128  # of slots: half a word of missing seats leaves room for the rest of a turn
AGGREGATOR_SEAT: int = MAX_SEATS  # the first aggregator's number: one past the last seat of slots
MAX_AGGREGATORS: int = 16  # of a job: their signers fill a word, and a path leads past each of their roots
MAX_PRICE: int = 2**80 - 1  # smallest units per slot-round: no product of the protocol can overflow
MAX_SECONDS: int = 604_800  # of any clock in a job's terms: one week
MAX_FLOPS: int = 2**96 - 1  # of one slot-round
MAX_VRAM_GB: int = 65_535  # 16 bits in the operator's word
MAX_ONCE: int = 2**96 - 1  # of what a bid locks besides its units: shares a word with the token
MAX_WINNERS: int = 64  # of a lot: a bid is for at least a 64th of it, so that seats suffice
MAX_LOSING_RUNS: int = 128  # that price a lot's winners: bounds the gas of an award
RING: int = 256  # places an operator has for bids of a kind; job n uses place n mod RING
STAKE_UNIT: int = 10**12  # smallest units of ZEN: stake is counted in these, so that it fits beside the hot key
PERIODS: int = 24  # of an epoch: a heartbeat counts once in each
MAX_STOPPED_EPOCHS: int = 64  # of one halt that nobody is judged for: bounds the gas of the beat that ends it
BREACH_BPS: int = 100  # of the stake, for an epoch in which more promised periods were missed than the SLA allows
BREACH_FEE_BPS: int = 1_000  # of that, to whoever shows it: more than gas, far less than showing oneself costs
MAX_LONGER_WINDOWS: int = 3  # usual windows by which a claim's window can be longer, for the cost of a round
ANSWER_GAS: int = 300_000  # an answer's transaction: measured below it
LEAST_BASE_FEE: int = 10**9  # wei: what a chain's base fee counts as at least, so that no demand is free
LANE_DEMANDS: int = 4  # of one claim: what its author answers is bounded, and nobody uses up what others may ask
SUBMITTER_LANE: int = AGGREGATOR_SEAT + MAX_AGGREGATORS  # lanes below are the seats'
STRANGERS_LANE: int = SUBMITTER_LANE + 1
VERDICT_WORDS: int = 65  # of a bitmap of units: MAX_AGGREGATORS aggregations and 16,384 slots
MAX_PLACES: int = 32  # of auditors, in one call: bounds its gas
PLACE_CHANGES_READ: int = 256  # of a place, back from the newest: each costs a bond for a time, and gas
AUDIT_CANDIDATES: int = 4  # places that a unit's ticket names: nobody audits its own work, or replaces itself
RESERVED_FEES: int = 50  # of a verdict: "clean" without a look loses where one unit in fifty is a lie that is shown
BOUNTY_FEES: int = 10  # more for "false" before the first ask, at most: a real find pays for what looking costs
BOUNTY_OF_LOCK: int = 2  # and at most one in so many parts of what the conviction took: no lie for its bounty
VERDICT_CLAIMS: int = 32  # settled in one call
MIN_CUSTODIANS: int = 3  # of a job: with fewer there is no majority that outvotes one
MAX_CUSTODIANS: int = 9  # of a job: their places are bits of a turn's word
MAX_CUSTODY_OFFERS: int = 32  # of a job: bounds the gas of a draw; the one with the least stake makes room
MAX_CUSTODY_SIZE: int = 2**50  # bytes of a round
CUSTODY_LAPSE_BPS: int = 100  # of a custodian's reserve, for a turn in which too few signed and it did not
SIGNED_BYTES: int = 2 * 2**30  # the price is per GiB and round, and a round takes two signatures
MAX_WORKLOADS: int = 16  # VRAM sizes that have one: bounds the search for an operator's
MAX_STEPS: int = 65_536  # of a workload
FALSE_TRIAL_BPS: int = 2_000  # of the stake: the least stake is no longer enough to bid
LAPSE_BPS: int = 100  # of the stake, for a recall that was not answered: a promise not kept, as missed hours are
RECALLER_BPS: int = 5_000  # of that, to whoever recalled; the rest burns, so nobody recalls itself for nothing
RECALL_BPS: int = 1_000  # of the admitted, in an epoch: each is shown again every ten epochs
COIN: str = "0x" + 40 * "0"  # the native coin, in place of a token's address
WORD_BYTES: int = 4  # of a tensor's element
WORDS_A_LEAF: int = 128  # of a committed tensor
MAX_SPAN: int = 6  # levels that one answer goes down at most: 64 children
MAX_COUNT: int = 2**48  # leaves or words of one tree of a claim: 48 bits of a node's position
LIST_LIMIT: int = 64  # operators or claims in one call: bounds its gas

POST_GAS: int = 2_000_000  # a posting deposit's worth: eight bidders' bids, reveals and reclaims
LAPSE_S: int = 2_592_000  # from the end of an auction that nobody clears or opens again until anyone may close the job

KIND_SLOTS: int = 0  # the lot of a job's slots
KIND_AGGREGATOR: int = 1  # the lot of a job's aggregators' seats

POLICY_TOLERATE: int = 0  # a convicted worker's update stays in the checkpoints after it
POLICY_ROLL_BACK: int = 1  # a bit: the round of a convicted worker is done again
POLICY_DELAYED: int = 2  # a bit: slots start from what the turn before started from
POLICY_CARRIES: int = 4  # a bit: slots carry private state over, so a claim is judged with the one before it
CUSTODIANS_AT: int = 4  # from this bit on: the number of custodians, 0 for none


def custodians_of(policy: int) -> int:
    """How many custodians a job has by its terms."""
    return policy >> CUSTODIANS_AT


class Flow(IntEnum):
    """The work that network rewards pay for."""

    COMPUTE = 0
    UPTIME = 1
    BANDWIDTH = 2
    VERIFICATION = 3
    DATA = 4


# Of an epoch's budget, by flow: work first; they sum to the whole.
REWARD_FLOW_BPS: dict[Flow, int] = {
    Flow.COMPUTE: 5_000,
    Flow.UPTIME: 2_000,
    Flow.BANDWIDTH: 1_000,
    Flow.VERIFICATION: 1_000,
    Flow.DATA: 1_000,
}
# Of a job's fee, at most: compute's covers uptime and bandwidth too. They sum to the whole, so farming never pays.
REWARD_CAP_BPS: dict[Flow, int] = {Flow.COMPUTE: 7_000, Flow.VERIFICATION: 2_000, Flow.DATA: 1_000}
CLAIM_EPOCHS: int = 90  # after its own, in which an epoch's rewards can be claimed: a quarter of a year in production
VIOLATION_BPS: int = 100  # of the stake of who signed for more bytes than a link carries
LINK_GBPS: dict[int, int] = {0: 1, 1: 100, 2: 200, 3: 400}  # by tier, declared
PAIR_BYTES: int = 2**40  # of an epoch that count of one pair: two operators alone cannot take the flow
SERVER_BYTES: int = 2**43  # of an epoch that count of one server
DOLLAR: int = 10**18  # smallest units of a dollar, in rates and prices
LEAST_RATE: int = 10**12  # dollars' smallest units for a ZEN: a millionth of a dollar
MOST_RATE: int = 10**24  # a million dollars
MOST_DOLLARS: int = 2**96 - 1  # smallest units that one call buys: no product can overflow
RATE_STEP_BPS: int = 1_000  # of the rate before, by which the next may differ: a stolen key moves it slowly
YEAR_S: int = 31_536_000  # 365 days, for a yearly rate
CITED_LIMIT: int = 8  # datasets a job may cite: their numbers fill one word
MAX_DATASET_BYTES: int = 2**64 - 1
BEST_SCORE: int = 100  # of a dataset


@dataclass(frozen=True, slots=True)
class GpuClass:
    """A class of machine: its minimum memory, and the weight of its verified compute."""

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
class Tier:
    """A tier: machine and availability. The operator declares GPUs, RAM and bandwidth; nobody checks them."""

    id: int
    name: str
    gpus: str
    vram_gb: int  # least, of a worker
    ram_gb: int
    bandwidth_gbps: int
    slack_bps: int  # of the declared periods that may be missed: what the SLA leaves of the whole
    reference_price: int  # ZEN smallest units of a GPU-hour; binds nobody


TIERS: dict[int, Tier] = {
    0: Tier(0, "none", "", 0, 0, 0, 500, 0),
    1: Tier(1, "bronze", "4x A100-40", 40, 256, 100, 500, 5 * ZEN // 2),
    2: Tier(2, "silver", "8x A100-80", 80, 512, 200, 100, 4 * ZEN),
    3: Tier(3, "gold", "8x H100-80", 80, 1_024, 400, 50, 8 * ZEN),
}
DATACENTER: int = 3  # the class that a tier needs
# The reference GPU converts work to GPU-hours, and GPU-hours to a price. It is a guide only; no contract knows it.
# A quarter of the 19.5 TFLOP/s float32 peak of its data sheet, rounded: benchmarks/network/cost.py says how a share of a peak is measured.
REFERENCE_GPU: str = "A100-40"
REFERENCE_FLOPS: int = 5 * 10**12  # FLOP/s that it sustains in the network's programs
LEAST_PRICE: int = ZEN  # of a slot-round, as a default reserve: what an operator asks unless it decides otherwise
MAXIMUM_MULTIPLE: int = 2  # of the reserve, as a default maximum: five auctions find a price up to it
UNSHOWN_PERCENT: int = 100  # the most that compute weighs of an operator that is not admitted: a consumer's


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms that a submitter posts (docs/protocol/task-registry.md); the arithmetic does not interpret roots and token."""

    token: str
    work_root: bytes
    state_root: bytes
    data_root: bytes
    manifest: bytes
    rounds: int
    slots: int
    quorum: int
    reserve: int  # per slot-round
    max_price: int  # per slot-round
    aggregator_reserve: int  # per round, of each aggregator
    aggregator_max_price: int  # likewise
    slot_s: int
    aggregate_s: int
    reexecute_s: int
    flops: int  # of one slot-round
    depth: int  # turns that may have claims that are not final
    policy: int  # POLICY_TOLERATE, or the bits of POLICY_ROLL_BACK, POLICY_DELAYED and POLICY_CARRIES
    audit_bps: int  # how many of 10,000 slot-rounds and aggregations are drawn for a paid audit
    requirements: int = 0  # of each operator: the word of `spec.requirements`; 0 asks for nothing
    aggregators: int = 1  # that combine the updates, each of a share of the model's tensors


def escrow(terms: Terms) -> int:
    """The escrow that the submitter pays in: every round at the highest prices."""
    return escrow_of(terms.rounds, terms.slots, terms.max_price, terms.aggregator_max_price, terms.aggregators)


def escrow_of(rounds: int, slots: int, max_price: int, aggregator_max_price: int, aggregators: int) -> int:
    """`escrow`, from its parts, before there are terms."""
    return (max_price * slots + aggregator_max_price * aggregators) * rounds


def least_posting_deposit(base_fee: int) -> int:
    """What `post` takes of the chain's coin, at least."""
    return POST_GAS * max(base_fee, LEAST_BASE_FEE)


def turns_at_risk(terms: Terms) -> int:
    """Turns that may depend on a claim that is not final."""
    return min(terms.rounds, terms.depth)


def round_price(terms: Terms) -> int:
    """The most that one round can cost."""
    return terms.slots * terms.max_price + terms.aggregators * terms.aggregator_max_price


def restitution(terms: Terms) -> int:
    """The most that it can cost to repeat all rounds that depend on an operator's false claims."""
    return turns_at_risk(terms) * round_price(terms)


def lock_of(price: int, audit_bps: int) -> int:
    """Collateral behind a claim of this price, so that a lie costs what it earns: P (1 - p) / (0.6 p), rounded up.

    p is the chance that a lie is found: the audit rate, by how much of the stake is honest and how many auditors look. 0.6 is
    what a judgement takes of a lock from a liar that pays the finder's share to itself.
    """
    parts = HONEST_PARTS * DILIGENT_PARTS * audit_bps  # p = parts / whole
    whole = HONEST_OF * DILIGENT_OF * BPS
    return -(-price * (whole - parts) * BPS // ((BPS - FINDER_BPS) * parts))


def bounty_of(fee: int, taken: int) -> int:
    """What a verdict of "false" earns besides its fee. taken: the unit's part of what the lie's conviction took of its lock."""
    return min(BOUNTY_FEES * fee, taken // BOUNTY_OF_LOCK)


def lock_once(terms: Terms) -> int:
    """What a worker locks besides, once in the job: the restitution of a rollback, if the job rolls back."""
    return restitution(terms) if terms.policy & POLICY_ROLL_BACK else 0


def vacant_price(price: int, steps: int, most: int) -> int:
    """What a vacant seat pays whoever takes it: a tenth more for each step, rounded up, and never more than its auction's reserve."""
    for _ in range(steps):
        if price >= most:
            break
        price = -(-price * (BPS + VACANT_GROWTH_BPS) // BPS)
    return min(price, most)


def windows(terms: Terms, window_value: int) -> int:
    """The challenge window in multiples of the usual one; `window_value` is the token's, 0 for no extension."""
    return 1 + (min(MAX_LONGER_WINDOWS, round_price(terms) // window_value) if window_value else 0)


def window_s(preset: Preset, reexecute_s: int, windows: int) -> int:
    """The challenge window of a job's claims, in seconds."""
    return windows * max(preset.min_window_s, 3 * reexecute_s)


def fee_of(amount: int) -> int:
    """The treasury's fee of a payment: the rest after the payee's `amount * 9,500 // 10,000`."""
    return amount - amount * (BPS - FEE_BPS) // BPS


def slash_of(lock: int) -> int:
    """The part of a lock that a timeout or a decline takes."""
    return lock * SLASH_BPS // BPS


def set_aside_of(slashed: int, reputation: int) -> int:
    """What of it an operator has back, if its seat costs nobody anything: a thousandth a point, up to nine tenths."""
    return slashed * min(reputation, MAX_SET_ASIDE) // MAX_REPUTATION


def share_of_stake(stake: int, bps: int, share_bps: int) -> int:
    """What somebody has of a part of a stake, both in whole units."""
    return stake // STAKE_UNIT * bps // BPS * share_bps // BPS * STAKE_UNIT


def gpu_seconds(flops: int) -> float:
    """Seconds that the reference GPU takes for this much work."""
    return flops / REFERENCE_FLOPS


def reference_price(flops: int) -> int:
    """The value of work in ZEN at Bronze's price of a GPU-hour: about 0.139 ZEN per PFLOP. At least 1 unit."""
    return -(-TIERS[1].reference_price * flops // (3_600 * REFERENCE_FLOPS))


def default_reserve(flops: int) -> int:
    """The default reserve of a slot-round in ZEN: the value of its work, and at least LEAST_PRICE.

    A small job is worth next to nothing, but nobody works for that: operators ask a price per slot-round, 1 ZEN unless they
    decide otherwise. From a reserve of its worth the auction would have to be re-opened dozens of times (+25 % each) before the
    first of them could bid; a part of the budget would have a lone operator paid the budget instead of what it asked.
    """
    return max(LEAST_PRICE, reference_price(flops))


def grown_reserve(reserve: int, max_reserve: int) -> int:
    """The reserve of the next attempt of a lot with too few bids."""
    return min(max_reserve, reserve * (BPS + RESERVE_GROWTH_BPS) // BPS)
