"""What delaying, exhausting and defending a claim costs, in closed form (docs/design/clocks.md).

Nothing here is executed on chain: these are the formulas that a quote, a benchmark and a keeper's estimate use. Money in the
coin and money in a job's payment token are never added.
"""

from dataclasses import dataclass

from zoo_compute.spec.clocks import (
    BURNED_SHARE,
    SILENCE_FLOOR,
    ClockPreset,
    End,
    answer_fee,
    silence_slash,
)


def counted_reexecutions(open_heavy: int, slots: int, preset: ClockPreset) -> int:
    """Re-executions that the last of `open_heavy` heavy asks adds to its path (`clocks.asked`)."""
    return min(preset.counted_reexecutions, -(-open_heavy // max(slots, 1)))


def delay_s(own_s: int, open_heavy: int, slots: int, reexecute_s: int, preset: ClockPreset) -> int:
    """Seconds after its deadline in which askers can keep a true claim open.

    own_s: what the committer uses of its own clock along a path, without re-executions; committer_s at most.
    A path that begins in the deadline's second costs own_s of answers, asker_s of the askers' waiting, and the re-executions
    before its own. Paths run at the same time, so their number adds nothing. With own_s = committer_s and all
    re-executions counted this is `clocks.bound_s`.
    """
    return own_s + preset.asker_s + counted_reexecutions(open_heavy, slots, preset) * reexecute_s


@dataclass(frozen=True, slots=True)
class Cost:
    """An amount of the chain's coin and one of the job's payment token, in smallest units."""

    coin: int
    token: int


def attack_cost(pairs: int, open_heavy: int, answer_gas: int, base_fee: int, reexecution: int) -> Cost:
    """What askers prepay to delay a true claim by `delay_s`, and lose to the committer when it is final.

    One path of `pairs` asks, each answered before the next; `open_heavy` heavy asks are open at once, one of them on the path.
    The k-th of these prepays k times: n (n + 1) / 2 answers. reexecution: `clocks.heavy_fee`. Gas of their own
    transactions comes on top. An asker that is the committer itself gets all of it back: delaying one's own claim costs
    gas alone, and one's own payment waits.
    """
    one = answer_fee(1, answer_gas, base_fee)
    return Cost(
        coin=one * (pairs - min(1, open_heavy)) + one * open_heavy * (open_heavy + 1) // 2,
        token=open_heavy * reexecution,
    )


def attack_cost_per_hour(cost: Cost, delayed_s: int) -> Cost:
    """The same for an hour of delay, rounded down."""
    return Cost(cost.coin * 3_600 // delayed_s, cost.token * 3_600 // delayed_s)


def defence_cost(pairs: int, open_heavy: int, answer_gas: int, base_fee: int) -> int:
    """What the committer pays in the coin for the gas of the same answers, at the base fee at which it answers."""
    return (pairs - min(1, open_heavy) + open_heavy) * answer_gas * base_fee


def shortfall(unanswered: int, answer_gas: int, base_fee: int, rise: int) -> int:
    """What answering `unanswered` asks costs beyond their fees, in the coin, if the base fee is `rise` times as high by then.

    The n-th ask of n prepaid n times four base fees, so the sum of fees is 2 n (n + 1) against n `rise` of gas:
    nothing is missing from n = rise / 2 - 1 on, nor at any n up to a rise of 4. The worst n is about (rise - 2) / 4
    and misses (rise - 2)^2 / 8 answers' gas at the old base fee; the attacker loses as much in fees. Any later ask
    prepays by the new base fee, and a committer may wait within its clock until the base fee falls.
    """
    fees = sum(answer_fee(k, answer_gas, base_fee) for k in range(1, unanswered + 1))
    return max(0, unanswered * answer_gas * base_fee * rise - fees)


def capital_to_ask(open_asks: int, answer_gas: int, base_fee: int) -> Cost:
    """What an honest asker prepays at most for its next ask where strangers keep `open_asks` open without an answer.

    To make it prepay n + 1 answers, strangers must have prepaid n (n + 1) / 2: with C coins they raise it to about
    sqrt(2 C g) coins, g an answer's fee. It is returned when the claim is convicted.
    """
    return Cost(answer_fee(open_asks + 1, answer_gas, base_fee), 0)


def exhausting_asks(slots: int, reexecute_s: int, preset: ClockPreset) -> int:
    """The fewest heavy asks, open at once, that an awake operator with a worker a slot cannot all answer in time.

    Oldest first, the n-th is computed after ceil(n / slots) re-executions; its clock is committer_s and at most
    counted_reexecutions. Up to counted_reexecutions a slot it does not touch committer_s at all.
    """
    return slots * (preset.counted_reexecutions + preset.committer_s // reexecute_s) + 1


@dataclass(frozen=True, slots=True)
class Exhaustion:
    """What convicting by exhaustion costs both sides, in the payment token."""

    attacker: int  # burned of the askers' fees
    operator: int  # slashed of its lock


def exhaustion(heavy_asks: int, reexecution: int, lock: int) -> Exhaustion:
    """The cost of an expired exhausted ask on a claim that has `heavy_asks` heavy asks.

    Where the lock is small or large enough for neither limit to bind, the operator loses twice what the attacker does.
    """
    burned = heavy_asks * (reexecution // BURNED_SHARE)
    return Exhaustion(burned, silence_slash(lock, burned, End.EXHAUSTED))


def liar_loses(heavy_asks: int, reexecution: int, lock: int) -> int:
    """What a liar loses that exhausts itself: at least `judgement_costs`, however many asks it makes."""
    cost = exhaustion(heavy_asks, reexecution, lock)
    return cost.attacker + cost.operator


def judgement_costs(lock: int) -> int:
    """What a judgement costs a liar that placed the oldest seal itself: the lock less 40 %."""
    numerator, denominator = SILENCE_FLOOR
    return lock * numerator // denominator


def stranger_defence_s(pairs: int, committer_left_s: int, preset: ClockPreset) -> int:
    """Seconds of the committer's clock that remain if its author is dead and others answer `pairs` asks at once when they may."""
    for _ in range(pairs):
        committer_left_s -= min(preset.exclusive_s, committer_left_s // 2)
    return committer_left_s
