"""Settlement keeps what a delayed job's turns start from, at every depth, through rollbacks over all that is pending."""

import pytest

from tests.contracts.disputes import convict
from tests.support.job_driver import Offer
from tests.support.protocol_driver import AGGREGATION

FIRST = b"s" * 32  # the initial state, in the kit's default terms
RUNNING, ENDED = 3, 4


@pytest.mark.parametrize("depth", [1, 2, 16])
def test_a_delayed_job__of_any_depth__starts_from_what_was_known_when_the_turn_before_began(kit, play, depth):
    ada, agg, heir = play.register_all(3)
    bids = {ada: Offer(10, 3)}, {agg: Offer(5), heir: Offer(6)}
    job = play.running(*bids, rounds=2 * depth + 3, quorum=3, depth=depth, policy=2)
    made, posted = [FIRST], []

    def turn(aggregator, start):
        claim = play.commit(job, ada)
        assert claim[6] == start
        posted.append(play.post_checkpoint(job, aggregator))
        made.append(posted[-1][7])

    for number in range(depth + 2):
        if kit.settlement.runs(job).opened_at == 0:
            play.finalise(job)  # which refuses a claim that starts from anything else
        turn(agg, made[max(0, number - 1)])
    play.finalise(job)
    for number in range(depth + 2, 2 * depth + 2):
        turn(agg, made[number - 1])
    assert kit.settlement.runs(job).opened_at == 0, "as many turns are pending as can be"

    lie = posted[depth + 2]
    convict(kit, job, lie)
    play.refs[job].remove(lie)
    play.finalise(job)
    run, start = kit.settlement.runs(job), made[depth + 2]
    assert (run.state, run.round, run.start_root) == (RUNNING, depth + 2, start)
    kit.settlement.take_over(job, AGGREGATION, heir.id, 1, 10, sender=heir.hot)
    made.clear()
    for _ in range(depth + 1):
        if kit.settlement.runs(job).opened_at == 0:
            play.finalise(job)
        turn(heir, [start, start, *made][len(made)])
    assert kit.settlement.runs(job).state == ENDED
    play.finalise(job)
    play.release(job, ada, heir)
