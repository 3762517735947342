"""The usual job of contract tests: three slots of three operators, and an aggregator."""

from tests.support.job_driver import Offer

LOCK = 2 * 2_000 * 3  # of a slot, in the kit's default terms


def offers(cast):
    ada, bob, cy, agg = cast
    return {ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)}


def rounds_played(play, job, cast, count):
    ada, bob, cy, agg = cast
    for _ in range(count):
        play.round(job, [ada, bob, cy], agg)
