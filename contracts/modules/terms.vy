# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The terms of a job
@license Apache-2.0
@notice What a submitter offers; which terms the arithmetic of the protocol covers; and the words of those that bind
        turns.
"""


from ..interfaces import ITaskRegistry
from . import bits
from . import numbers
from . import requirements


# A window is at most so many times longer for what a round may cost.
MAX_LONGER: constant(uint256) = 3
# A lie is found with chance p = audit_bps / 30,000; 1 / 0.6 = 5 / 3.
AUDITED_ONE_IN: constant(uint256) = 3
LOCK_OF: constant(uint256) = 5
LOCK_PARTS: constant(uint256) = 3
U4: constant(uint256) = 2**4 - 1


struct Terms:
    token: address
    work_root: bytes32
    state_root: bytes32
    data_root: bytes32
    # SHA-256 of the manifest file, the digest in its CID.
    manifest: bytes32
    rounds: uint256
    slots: uint256
    quorum: uint256
    # Per slot-round, in the token's smallest unit.
    reserve: uint256
    max_price: uint256
    # Per round, of each aggregator.
    aggregator_reserve: uint256
    aggregator_max_price: uint256
    # The most seconds a slot, and an aggregation, may take.
    slot_s: uint256
    aggregate_s: uint256
    # Profiled seconds to re-execute a slot-round.
    reexecute_s: uint256
    # Of one slot-round.
    flops: uint256
    # The most turns that may have claims that are not final.
    depth: uint256
    # Bits: 1 a convicted worker's round is done again; 2 slots start one turn behind; 4 they carry private state over. From 16 on
    # the number of custodians: none, or 3, 5, 7 or 9.
    policy: uint256
    # How many of 10,000 slot-rounds and aggregations are drawn for a paid audit: locks are larger the fewer it is.
    audit_bps: uint256
    # Of every operator that bids or takes over a seat: the word of requirements.vy. 0 asks for nothing.
    requirements: uint256
    # How many combine the updates, each of a share of the model's tensors.
    aggregators: uint256


@internal
@pure
def _check(terms: Terms):
    assert terms.rounds >= 1 and terms.rounds <= numbers.MAX_ROUNDS, "tasks: rounds out of range"
    assert terms.slots >= 1 and terms.slots <= numbers.MAX_SLOTS, "tasks: slots out of range"
    assert terms.quorum >= 1 and terms.quorum <= terms.slots, "tasks: quorum out of range"
    # INVARIANT mask: what is combined is the same for all. Custodians fix it; nobody else could before the last of several posted.
    assert (
        terms.aggregators == 1
        or (
            terms.aggregators >= 1
            and terms.aggregators <= numbers.MAX_AGGREGATORS
            and terms.policy >> numbers.CUSTODIANS_AT != 0
        )
    ), "tasks: aggregators out of range"
    assert (
        self._are_prices(terms.reserve, terms.max_price)
        and self._are_prices(terms.aggregator_reserve, terms.aggregator_max_price)
    ), "tasks: prices out of range"
    assert (
        self._are_seconds(terms.slot_s)
        and self._are_seconds(terms.aggregate_s)
        and self._are_seconds(terms.reexecute_s)
    ), "tasks: seconds out of range"
    assert terms.flops >= 1 and terms.flops <= numbers.MAX_FLOPS, "tasks: flops out of range"
    assert terms.depth >= 1 and terms.depth <= numbers.MAX_DEPTH, "tasks: depth out of range"
    custodians: uint256 = terms.policy >> numbers.CUSTODIANS_AT
    assert (
        terms.policy % (1 << numbers.CUSTODIANS_AT) <= numbers.ROLL_BACK | numbers.DELAYED | numbers.CARRIES
        and (
            custodians == 0
            or (
                custodians % 2 == 1
                and custodians >= numbers.LEAST_CUSTODIANS
                and custodians <= numbers.MAX_CUSTODIANS
            )
        )
    ), "tasks: unknown policy"
    assert (
        terms.audit_bps >= numbers.MIN_AUDIT_BPS and terms.audit_bps <= numbers.BPS
    ), "tasks: audit rate out of range"
    assert requirements._is_known(terms.requirements), "tasks: unknown requirements"


@internal
@pure
def _are_prices(reserve: uint256, max_price: uint256) -> bool:
    return reserve >= 1 and reserve <= max_price and max_price <= numbers.MAX_PRICE


@internal
@pure
def _are_seconds(seconds: uint256) -> bool:
    return seconds >= 1 and seconds <= numbers.MAX_SECONDS


@internal
@pure
def _pack_schedule(terms: Terms, windows: uint256) -> uint256:
    # `_check` bounds every field below its width.
    return (
        terms.audit_bps << 240
        | terms.aggregators - 1 << 236
        | windows << 232
        | terms.depth << 224
        | terms.policy << 216
        | terms.rounds << 200
        | terms.slots << 184
        | terms.quorum << 168
        | terms.slot_s << 144
        | terms.aggregate_s << 120
        | terms.reexecute_s << 96
        | terms.flops
    )


@internal
@pure
def _pack_prices(terms: Terms) -> uint256:
    return terms.max_price << 160 | terms.aggregator_max_price << 80 | terms.aggregator_reserve


@internal
@pure
def _aggregator_reserve(prices: uint256) -> uint256:
    return prices & bits.U80


@internal
@pure
def _reexecute_s(schedule: uint256) -> uint256:
    return schedule >> 96 & bits.U24


@internal
@pure
def _unpack_schedule(token: address, word: uint256, prices: uint256, state_root: bytes32) -> ITaskRegistry.Schedule:
    rounds: uint256 = word >> 200 & bits.U16
    return ITaskRegistry.Schedule(
        token=token,
        rounds=rounds,
        slots=word >> 184 & bits.U16,
        quorum=word >> 168 & bits.U16,
        aggregators=self._aggregators(word),
        round_price=self._highest_price(word, prices),
        slot_s=word >> 144 & bits.U24,
        aggregate_s=word >> 120 & bits.U24,
        reexecute_s=self._reexecute_s(word),
        windows=word >> 232 & U4,
        flops=word & bits.U96,
        depth=min(word >> 224 & bits.U8, rounds),
        policy=word >> 216 & bits.U8,
        audit_bps=word >> 240,
        state_root=state_root,
    )


@internal
@pure
def _round_price(terms: Terms) -> uint256:
    """
    @notice What a round costs at most.
    """
    return terms.slots * terms.max_price + terms.aggregators * terms.aggregator_max_price


@internal
@pure
def _windows(terms: Terms, window_value: uint256) -> uint256:
    """
    @notice How many times the usual window the claims of a job can be challenged: once more for each `window_value` that a round
            may cost. 0 lengthens nothing.
    """
    if window_value == 0:
        return 1
    return 1 + min(MAX_LONGER, self._round_price(terms) // window_value)


@internal
@pure
def _lock(price: uint256, audit_bps: uint256) -> uint256:
    """
    @notice What is locked behind a claim of a price: P (1 - p) / (0.6 p), so that a lie that is found with chance p and pays 40 % of
            its lock to the liar's own seal costs what it earns. p is the audit rate by how much of the stake is honest (2/3) and
            how many auditors look (1/2): with all audited, it is 3 1/3 prices.
    """
    parts: uint256 = LOCK_PARTS * audit_bps
    return (LOCK_OF * (AUDITED_ONE_IN * numbers.BPS - audit_bps) * price + parts - 1) // parts


@internal
@pure
def _restitution(word: uint256, prices: uint256, is_aggregation: bool) -> uint256:
    """
    @notice What doing again all that may rest on a lie costs at most; 0 where nothing is done again.
    """
    if not is_aggregation and word >> 216 & numbers.ROLL_BACK == 0:
        return 0
    rounds: uint256 = word >> 200 & bits.U16
    return min(word >> 224 & bits.U8, rounds) * self._highest_price(word, prices)


@internal
@pure
def _highest_price(word: uint256, prices: uint256) -> uint256:
    """
    @notice What a round costs at most.
    """
    return (word >> 184 & bits.U16) * (prices >> 160) + self._aggregators(word) * (prices >> 80 & bits.U80)


@internal
@pure
def _aggregators(schedule: uint256) -> uint256:
    return (schedule >> 236 & U4) + 1


@internal
@pure
def _lock_terms(word: uint256, prices: uint256, is_aggregation: bool) -> ITaskRegistry.LockTerms:
    return ITaskRegistry.LockTerms(
        round_price=self._highest_price(word, prices),
        restitution=self._restitution(word, prices, is_aggregation),
        audit_bps=word >> 240,
    )
