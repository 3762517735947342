"""Wrong rules of the clocks, each of which the model must notice. The text says what the wrong rule does."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.campaigns.clocks.model import Rules
from zoo_compute.spec import clocks as c
from zoo_compute.spec.clocks import ClockPreset, PathClocks
from zoo_compute.spec.revert import require

GRACE_S = 1


def counts(count: Callable[[int, int], int], capped: bool = True, spent: bool = True) -> Rules:
    """`asked` with another number of re-executions for a heavy ask."""

    def asked(
        clocks: PathClocks,
        now: int,
        deadline: int,
        heavy: bool,
        open_heavy: int,
        slots: int,
        reexecute_s: int,
        preset: ClockPreset,
    ) -> PathClocks:
        right = c.asked(clocks, now, deadline, False, open_heavy, slots, reexecute_s, preset)
        if not heavy:
            return right
        counted = count(open_heavy, slots)
        counted = min(counted, clocks.counted_left) if capped else counted
        left = max(0, clocks.counted_left - counted) if spent else clocks.counted_left
        return replace(right, committer_left_s=right.committer_left_s + counted * reexecute_s, counted_left=left)

    return Rules(asked=asked)


def changed_ask(**changes: Callable[..., int]) -> Rules:
    """`asked` whose result is changed: each change gets (result, clocks above, now, deadline, preset)."""

    def asked(clocks: PathClocks, now: int, deadline: int, *rest: Any) -> PathClocks:
        right = c.asked(clocks, now, deadline, *rest)
        return replace(right, **{name: of(right, clocks, now, deadline, rest[-1]) for name, of in changes.items()})  # type: ignore[arg-type]

    return Rules(asked=asked)


def no_clock_before_deadline() -> Rules:
    def is_askable(clocks: PathClocks, now: int, deadline: int) -> bool:
        return now <= min(clocks.since, deadline) + clocks.asker_left_s

    return Rules(is_askable=is_askable)


def with_grace() -> Rules:
    """Six hours for strangers in the prototype: anew for each ask."""

    def is_expired(clocks: PathClocks, now: int) -> bool:
        return now > clocks.since + clocks.committer_left_s + GRACE_S

    def answered(clocks: PathClocks, now: int) -> PathClocks:
        require(not is_expired(clocks, now), "clocks: the committer's time is over")
        return replace(
            clocks, since=now, committer_left_s=max(0, clocks.committer_left_s - now + clocks.since), exhausted=False
        )

    return Rules(is_expired=is_expired, answered=answered)


def answered_later(clocks: PathClocks, now: int) -> PathClocks:
    """The askers' clock runs while they wait for the answer."""
    right = c.answered(clocks, now)
    return replace(right, asker_left_s=max(0, right.asker_left_s - (now - clocks.since)))


def answered_anew(clocks: PathClocks, now: int) -> PathClocks:
    """An answer gives the committer's time back."""
    return replace(c.answered(clocks, now), committer_left_s=clocks.committer_left_s)


def answered_keeps_since(clocks: PathClocks, now: int) -> PathClocks:
    return replace(c.answered(clocks, now), since=clocks.since)


MUTANTS: dict[str, Rules] = {
    "every ask gives the committer its whole time": changed_ask(
        committer_left_s=lambda r, a, n, d, p: p.committer_s + 1
    ),
    "every ask gives the askers their whole time": changed_ask(asker_left_s=lambda r, a, n, d, p: p.asker_s),
    "strangers have a time of grace at each ask": with_grace(),
    "an answer gives the committer its time back": Rules(answered=answered_anew),
    "re-executions are capped for an ask, not along the path": counts(lambda n, k: -(-n // k), spent=False),
    "re-executions are not capped": counts(lambda n, k: -(-n // k), capped=False),
    "re-executions over slots are rounded down": counts(lambda n, k: n // k),
    "a heavy ask does not count itself": counts(lambda n, k: -(-(n - 1) // k)),
    "a heavy ask adds nothing": counts(lambda n, k: 0),
    "a heavy ask adds one re-execution, however many are open": counts(lambda n, k: 1),
    "heavy asks are not divided by slots": counts(lambda n, k: n),
    "an ask takes a second from the committer": changed_ask(
        committer_left_s=lambda r, a, n, d, p: max(0, r.committer_left_s - 1)
    ),
    "an ask is the askers' second": changed_ask(asker_left_s=lambda r, a, n, d, p: max(0, r.asker_left_s - 1)),
    "the askers' clock runs before the deadline": changed_ask(
        asker_left_s=lambda r, a, n, d, p: (
            max(0, a.asker_left_s - max(0, n - min(a.since, d) + d - n)) if n < d else r.asker_left_s
        )
    ),
    "what was answered early cannot be asked about after the deadline": no_clock_before_deadline(),
    "the askers' clock runs while they wait for an answer": Rules(answered=answered_later),
    "an answer does not start the askers' clock": Rules(answered=answered_keeps_since),
    "silence convicts in the last second": Rules(
        is_expired=lambda clocks, now: now >= clocks.since + clocks.committer_left_s
    ),
    "silence convicts a second late, and answers are accepted so long": Rules(
        is_expired=lambda clocks, now: now > clocks.since + clocks.committer_left_s + 1,
        answered=lambda clocks, now: replace(
            c.answered(clocks, min(now, clocks.since + clocks.committer_left_s)), since=now
        ),
    ),
    "a first ask comes too late at the deadline": Rules(can_begin=lambda now, deadline: now < deadline),
    "a child is asked about too late in the last second": Rules(
        is_askable=lambda clocks, now, deadline: now < max(clocks.since, deadline) + clocks.asker_left_s
    ),
    "final while asks are open": Rules(is_final=lambda now, deadline, latest, opened: now > max(deadline, latest)),
    "never final": Rules(is_final=lambda now, deadline, latest, opened: False),
    "final in the last second": Rules(
        is_final=lambda now, deadline, latest, opened: opened == 0 and now >= max(deadline, latest)
    ),
    "final at the deadline, whatever was answered": Rules(
        is_final=lambda now, deadline, latest, opened: opened == 0 and now > deadline
    ),
    "the last answer alone says when a claim is final": Rules(
        latest=lambda before, clocks, deadline: c.latest(0, clocks, deadline)
    ),
    "a claim is final a second late": Rules(
        latest=lambda before, clocks, deadline: c.latest(before, clocks, deadline) + 1
    ),
    "an answer adds nothing to when a claim is final": Rules(
        latest=lambda before, clocks, deadline: max(before, clocks.since)
    ),
}
