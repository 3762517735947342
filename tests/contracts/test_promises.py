"""NodeRegistry: tiers, declared hours, heartbeats, and what breaking a promise costs."""

import pytest

from tests.support.evm import chain
from tests.support.protocol_driver import DEVNET, START, ZEN
from zoo_compute.spec.params import PERIODS, STAKE_UNIT, TIERS

EPOCH = DEVNET.epoch_s
ALL = 2**PERIODS - 1
FIRST = START // EPOCH + 1  # the first epoch that begins in a test


@pytest.fixture
def ada(play):
    """A machine that any tier admits."""
    return play.register("ada", gpu_class=3, vram_gb=80)


@pytest.fixture
def declare(kit):
    def call(operator, tier, hours, sender=None):
        kit.registry.declare(operator.id, tier, hours, sender=sender or operator.owner)

    return call


def second_of(epoch, period):
    """The first second of a period."""
    return epoch * EPOCH + -(-period * EPOCH // PERIODS)


def beat(kit, play, operator, epoch, periods):
    for period in periods:
        play.to(second_of(epoch, period))
        kit.registry.heartbeat(operator.id, sender=operator.hot)


# --- tiers


def test_declare__by_others_or_out_of_range__is_refused_in_order(kit, play, ada, declare):
    modest = play.register("modest", gpu_class=2, vram_gb=80)
    small = play.register("small", gpu_class=3, vram_gb=40)
    with play.refused("registry: not the owner"):
        declare(ada, 4, 2**24, sender=ada.hot)
    with play.refused("registry: not the owner"):
        kit.registry.declare(99, 0, 0, sender=play.anyone)
    with play.refused("registry: unknown tier"):
        declare(modest, 4, 2**24)
    with play.refused("registry: hours out of range"):
        declare(modest, 3, 2**24)
    with play.refused("registry: hours out of range"):
        declare(modest, 3, 2**256 - 1)
    with play.refused("registry: class below the tier"):
        declare(modest, 1, 0)
    for tier in (2, 3):
        with play.refused("registry: too little VRAM for the tier"):
            declare(small, tier, 0)
    with play.refused("registry: tier without hours"):
        declare(small, 1, 0)
    declare(small, 1, 1)
    declare(modest, 0, ALL)
    for tier in (1, 2, 3):
        declare(ada, tier, ALL)


def test_reference_price__of_each_tier__is_a_constant(kit):
    prices = [kit.registry.reference_price(tier) for tier in range(5)]
    assert prices == [TIERS[tier].reference_price for tier in range(4)] + [0]
    assert prices[1:4] == [25 * ZEN // 10, 4 * ZEN, 8 * ZEN]


# --- declarations


def test_declare__binds_from_the_next_epoch_and_leaves_the_running_one(kit, play, ada, declare):
    registry = kit.registry
    play.to(FIRST * EPOCH - 1)
    declare(ada, 3, 0b11)
    play.to((FIRST + 1) * EPOCH)
    declare(ada, 2, 0b101)
    declare(ada, 1, 0b111)  # in the same epoch: replaces what was not yet in force
    assert tuple(registry.declarations(ada.id)) == (1, 0b111, FIRST + 2, 3, 0b11, FIRST, 0, 0)
    promised = [tuple(registry.promised(ada.id, FIRST + offset)) for offset in (-1, 0, 1, 2, 1_000)]
    assert promised == [(0, 0), (3, 0b11), (3, 0b11), (1, 0b111), (1, 0b111)]


def test_declare__as_often_as_possible__hides_no_epoch_before_the_next_one_is_over(kit, play, ada, declare):
    """Whoever judges epoch e has all of e + 1 for it."""
    play.to((FIRST - 1) * EPOCH)
    declare(ada, 0, ALL)
    for epoch in range(FIRST, FIRST + 6):
        for second in (epoch * EPOCH, (epoch + 1) * EPOCH - 1):
            play.to(second)
            if (epoch - FIRST) % 2:
                declare(ada, 0, ALL)
            else:
                with play.refused("registry: declared in the last epoch"):
                    declare(ada, 0, ALL)
            if epoch > FIRST:
                with chain.anchor():
                    kit.registry.breach(ada.id, epoch - 1, sender=play.anyone)
    with play.refused("registry: nothing declared"):
        kit.registry.breach(ada.id, FIRST, sender=play.anyone)


# --- heartbeats


def test_heartbeat__counts_each_period_of_an_epoch_once(kit, play, ada):
    registry = kit.registry
    for period in range(PERIODS):
        play.to(second_of(FIRST, period))
        registry.heartbeat(ada.id, sender=ada.hot)
        with play.refused("registry: period already counted"):
            registry.heartbeat(ada.id, sender=ada.hot)
        assert registry.beats(ada.id, FIRST) == 2 ** (period + 1) - 1
    play.to(second_of(FIRST + 1, 0) - 1)
    with play.refused("registry: period already counted"):
        registry.heartbeat(ada.id, sender=ada.hot)
    play.to(play.now + 1)
    registry.heartbeat(ada.id, sender=ada.hot)
    assert (registry.beats(ada.id, FIRST), registry.beats(ada.id, FIRST + 1)) == (ALL, 1)
    assert (registry.total_beats(FIRST), registry.total_beats(FIRST + 1)) == (PERIODS, 1)


def test_heartbeat__of_several_operators__is_counted_together_and_apart(kit, play, ada):
    bob = play.register("bob")
    beat(kit, play, ada, FIRST, (0, 5))
    play.to(second_of(FIRST, 5))
    kit.registry.heartbeat(bob.id, sender=bob.hot)
    assert [kit.registry.beats(each.id, FIRST) for each in (ada, bob)] == [0b100001, 0b100000]
    assert kit.registry.total_beats(FIRST) == 3


# --- breaches


@pytest.mark.parametrize(
    ("tier", "hours", "missed"),
    [(0, ALL, 1), (1, ALL, 1), (2, ALL, 0), (3, ALL, 0), (0, 2**20 - 1, 1), (0, 2**19 - 1, 0), (0, 1, 0)],
)
def test_breach__more_missed_than_the_sla_allows__costs_a_hundredth_of_the_stake(
    kit, play, ada, declare, tier, hours, missed
):
    """`missed` is the most that tier and hours allow: kept with so many, broken with one more."""
    registry = kit.registry
    declare(ada, tier, hours)
    periods = list(range(hours.bit_length()))
    beat(kit, play, ada, FIRST, periods[missed:])
    beat(kit, play, ada, FIRST + 1, periods[missed + 1 :])
    play.to((FIRST + 2) * EPOCH)
    with play.refused("registry: promise kept"):
        registry.breach(ada.id, FIRST, sender=play.anyone)
    registry.breach(ada.id, FIRST + 1, sender=play.anyone)
    assert registry.stake_of(ada.id) == DEVNET.min_stake - DEVNET.min_stake // 100
    assert registry.burned(kit.zen) == DEVNET.min_stake // 100 * 9 // 10
    assert kit.zen.balanceOf(play.anyone) == DEVNET.min_stake // 1_000, "a tenth is the caller's"
    assert tuple(registry.promised(ada.id, FIRST + 2)) == (tier, hours), (
        "receipts of the running epoch are signed by it"
    )
    assert tuple(registry.promised(ada.id, FIRST + 3)) == (0, hours)
    assert registry.is_judged(ada.id, FIRST + 1)
    assert not registry.is_judged(ada.id, FIRST)
    assert registry.beats(ada.id, FIRST + 1) == hours & ~(2 ** (missed + 1) - 1)
    with play.refused("registry: epoch already judged"):
        registry.breach(ada.id, FIRST + 1, sender=play.anyone)


def test_breach__before_the_epoch_is_over_or_without_a_promise__is_refused(kit, play, ada, declare):
    play.to(FIRST * EPOCH)
    declare(ada, 0, ALL)
    play.to((FIRST + 2) * EPOCH - 1)
    for epoch, reason in (
        (FIRST + 1, "registry: epoch not over"),
        (FIRST + 5, "registry: epoch not over"),
        (FIRST, "registry: nothing declared"),  # the epoch in which the first declaration was made
        (0, "registry: nothing declared"),
    ):
        with play.refused(reason):
            kit.registry.breach(ada.id, epoch, sender=play.anyone)
    with play.refused("registry: nothing declared"):
        kit.registry.breach(99, FIRST, sender=play.anyone)
    play.to(play.now + 1)
    kit.registry.breach(ada.id, FIRST + 1, sender=play.anyone)


def test_breach__of_the_epoch_of_a_change__is_by_the_old_hours(kit, play, ada, declare):
    declare(ada, 0, 0b111)
    play.to((FIRST + 1) * EPOCH)
    declare(ada, 0, 0)  # too late for this epoch
    play.to((FIRST + 3) * EPOCH)
    with play.refused("registry: nothing declared"):
        kit.registry.breach(ada.id, FIRST + 2, sender=play.anyone)
    kit.registry.breach(ada.id, FIRST + 1, sender=play.anyone)


def test_breach__periods_outside_the_promise__are_neither_asked_for_nor_count(kit, play, ada, declare):
    declare(ada, 3, 0b1100)
    beat(kit, play, ada, FIRST, (0, 1, 2))
    play.to((FIRST + 1) * EPOCH)
    kit.registry.breach(ada.id, FIRST, sender=play.anyone)


def test_breach__of_a_small_stake__burns_whole_units_only(kit, play, ada, declare):
    registry = kit.registry
    registry.slash_stake(ada.id, 9_999, sender=kit.rewards.address)
    left = registry.stake_of(ada.id)
    registry.slash_stake(ada.id, 9_999, sender=kit.rewards.address)
    declare(ada, 0, 1)
    before = registry.stake_of(ada.id), registry.burned(kit.zen)
    play.to((FIRST + 1) * EPOCH)
    registry.breach(ada.id, FIRST, sender=play.anyone)
    slashed = before[0] - registry.stake_of(ada.id)
    assert left > before[0]
    assert slashed == before[0] // STAKE_UNIT // 100 * STAKE_UNIT
    fee = kit.zen.balanceOf(play.anyone)
    assert fee == slashed // STAKE_UNIT // 10 * STAKE_UNIT
    assert registry.burned(kit.zen) == before[1] + slashed - fee
    assert kit.zen.balanceOf(registry) >= registry.stake_of(ada.id) + registry.burned(kit.zen)


def test_breach__tells_what_was_missed(kit, play, ada, declare):
    declare(ada, 1, 0b1110)
    play.to((FIRST + 1) * EPOCH)
    kit.registry.breach(ada.id, FIRST, sender=chain.account("anyone"))
    (event,) = [each for each in kit.registry.get_logs() if type(each).__name__ == "AvailabilityBreached"]
    assert (event.operator, event.epoch, event.missed) == (ada.id, FIRST, 3)
