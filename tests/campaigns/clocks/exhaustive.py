"""The exhaustive part: which trees are played in which settings, and the bound that each must reach and never pass.

python -m tests.campaigns.clocks.exhaustive     # all of it: trees, states and plays counted
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, combinations

from tests.campaigns.clocks.model import Model, Played, Rules, Setting, Side, Violation
from tests.campaigns.clocks.trees import Tree, claims, height, level_sizes, with_heavy, with_lies

SETTINGS = (
    Setting(),
    Setting(slots=2, counted=2),
    Setting(committer_s=1, asker_s=2, counted=2),
    Setting(deadline=2, committer_s=1, reexecute_s=2),
)
PROMPT = tuple(
    Setting(own_s=0, slots=slots, counted=2) for slots in (1, 2)
)  # an honest committer without delay of its own


@dataclass
class Totals:
    """What a part of the exhaustive model played."""

    trees: int = 0  # claims with their heavy levels and lies, in one setting
    states: int = 0
    plays: int = 0
    bounds_reached: int = 0

    def add(self, played: Played) -> None:
        self.trees += 1
        self.states += played.states
        self.plays += played.plays


def heavy_levels(tree: Tree) -> Iterator[tuple[int, ...]]:
    """Every set of levels whose asks may be heavy."""
    levels = range(1, height(tree))
    return chain.from_iterable(combinations(levels, number) for number in range(len(levels) + 1))


def most_counted(tree: Tree, levels: tuple[int, ...], setting: Setting) -> int | None:
    """The most re-executions that a path of the tree can add; None where several levels are heavy and none fills the cap."""
    sizes = level_sizes(tree)
    one = [min(setting.counted, -(-sizes[level - 1] // setting.slots)) for level in levels]
    if max(one, default=0) == setting.counted or len(levels) <= 1:
        return max(one, default=0)
    return None


def play_free(tree: Tree, levels: tuple[int, ...], setting: Setting, rules: Rules, totals: Totals) -> None:
    """Anyone does anything: the bound of this tree is reached, and not passed."""
    played = Model(with_heavy(tree, levels), setting, Side.FREE, rules).play()
    totals.add(played)
    if (counted := most_counted(tree, levels, setting)) is None:
        return
    reached = setting.deadline + setting.committer_s + setting.asker_s + counted * setting.reexecute_s
    if played.until != reached:
        raise Violation(f"the last second with anything to do is {played.until}; the formula says {reached}")
    totals.bounds_reached += 1


def play_true(tree: Tree, levels: tuple[int, ...], setting: Setting, rules: Rules, totals: Totals) -> None:
    """An honest committer: never convicted, and delayed by no more and no less than the formula says."""
    played = Model(with_heavy(tree, levels), setting, Side.TRUE, rules).play()
    totals.add(played)
    sizes = level_sizes(tree)
    if setting.own_s != 0 or len(levels) > 1:
        return
    counted = max((-(-sizes[level - 1] // setting.slots) for level in levels), default=0)
    if counted > setting.counted:
        return  # more than the rules promise to serve: its operator may be convicted
    delayed = setting.deadline + setting.asker_s + counted * setting.reexecute_s
    if played.final_at != delayed + 1:
        raise Violation(f"askers delay an honest claim until {played.final_at - 1}; the formula says {delayed}")
    totals.bounds_reached += 1


def play_lie(tree: Tree, levels: tuple[int, ...], setting: Setting, rules: Rules, totals: Totals) -> None:
    """Every choice of lies: one honest asker convicts."""
    for lied in with_lies(with_heavy(tree, levels)):
        totals.add(Model(lied, setting, Side.LIE, rules).play())


PLAYERS = {Side.FREE: play_free, Side.LIE: play_lie, Side.TRUE: play_true}


def play_all(places: int, settings: tuple[Setting, ...] = SETTINGS, rules: Rules | None = None) -> dict[Side, Totals]:
    """Every tree up to that size, every set of heavy levels, every setting, each side honest. Raises Violation."""
    return {side: play_side(side, places, settings, rules) for side in Side}


def play_side(side: Side, places: int, settings: tuple[Setting, ...], rules: Rules | None = None) -> Totals:
    """The same with one side honest."""
    totals = Totals()
    for tree in claims(places):
        for levels in heavy_levels(tree):
            for setting in (*settings, *PROMPT) if side is Side.TRUE else settings:
                PLAYERS[side](tree, levels, setting, rules or Rules(), totals)
    return totals


def main() -> None:
    """Play everything and print what was counted."""
    started = time.process_time()
    for size, settings in ((3, SETTINGS), (4, SETTINGS[:1])):
        for side, totals in play_all(size, settings).items():
            print(
                f"{size} places, {len(settings)} settings, {side.value}: {totals.trees:,} trees, {totals.states:,} states,"
                f" {totals.plays:,} plays, {totals.bounds_reached:,} bounds reached"
            )
    print(f"{time.process_time() - started:.0f} s")


if __name__ == "__main__":
    main()
