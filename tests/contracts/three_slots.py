"""The usual job of contract tests: three slots of three operators, and an aggregator."""

from tests.support.job_driver import Offer
from zoo_compute.spec.params import lock_of

LOCK = lock_of(1_000, 500)  # of a slot at its price, in the kit's default terms


def offers(cast):
    ada, bob, cy, agg = cast
    return {ada: Offer(10), bob: Offer(20), cy: Offer(30)}, {agg: Offer(5)}


def rounds_played(play, job, cast, count):
    ada, bob, cy, agg = cast
    for _ in range(count):
        play.round(job, [ada, bob, cy], agg)
