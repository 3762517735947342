"""What the review of money broke, played again on today's contracts: the scripts that no other test covers (docs/design/economics.md)."""

from __future__ import annotations

from tests.contracts.disputes import JUDGED
from tests.support.evm import chain
from tests.support.job_driver import Offer
from tests.support.rewards_driver import GBPS, RewardsStage
from zoo_compute.spec.params import DEVNET, lock_of

STRANGERS = 145  # their lane
ANSWER_S = DEVNET.answer_s


def demand(kit, play, job, claim, lane=STRANGERS, sender=None):
    chain.set_balance(sender or play.anyone, 10**20)
    args = (job, claim, lane, claim[4] >> 16, 0, 0)
    kit.availability.demand(*args, sender=sender or play.anyone, value=kit.availability.least_deposit())


def test_a_coalition_that_has_every_slot_and_did_no_work__is_paid_nothing(kit, play):
    """a_certificate: three names bid 1 and take all slots at the losers' price. Nobody outside has a byte of what they claim."""
    x, y, z, agg, honest, rival = play.register_all(6)
    slots = {x: Offer(1, 2), y: Offer(1, 2), z: Offer(1, 2), honest: Offer(800, 2)}
    job = play.running(slots, {agg: Offer(1), rival: Offer(400)}, slots=6, quorum=4, rounds=1, depth=1)
    attackers = [each for each in (x, y, z) if play.seats_of(job, each)]
    claims = [play.commit(job, each) for each in attackers]  # roots of nothing
    play.post_checkpoint(job, agg)
    owed = sum(kit.tasks.owed(kit.zen, each.owner) for each in attackers)
    for claim in claims:  # whoever asks first is not kept out by anything that the attackers signed
        demand(kit, play, job, claim)
    play.to(play.now + ANSWER_S + 1)
    for claim in claims:
        kit.availability.close(job, claim, STRANGERS, sender=play.anyone)
    assert sum(kit.tasks.owed(kit.zen, each.owner) for each in attackers) == owed
    assert all(kit.locks.stakes(job, each.id, False).locked == 0 for each in attackers)
    assert kit.registry.burned(kit.zen) > 0


def test_finder__of_one_lie__has_what_looking_at_dozens_of_slot_rounds_costs(kit, play):
    """b_many, B: sixteen names diluted the honest one's share to a twentieth of a slot-round. Now the oldest seal has 40 % alone."""
    liar, b, c, agg, other = play.register_all(5)
    job = play.running({liar: Offer(10), b: Offer(20), c: Offer(30)}, {agg: Offer(5), other: Offer(9)})
    claim = play.commit(job, liar)
    price = claim[5]
    kit.settlement.open_dispute(job, claim, sender=kit.referee)
    kit.settlement.close_dispute(job, claim, JUDGED, 0, 0, sender=kit.referee)
    kit.settlement.reward_finder(job, claim, play.anyone, sender=kit.referee)
    share = kit.tasks.owed(kit.zen, play.anyone)
    assert share == lock_of(price, 500) * 4 // 10
    assert share > 39 * price


def test_whoever_gives_its_seats_up_twice__ends_nobodys_job(kit, play):
    """c_more, E: two names win at a bid of 1, decline, take over as their own standbys at 1 and decline again. A loser takes the seats."""
    x, y, honest, loser, agg = play.register_all(5)
    for each in (x, y, honest, loser):
        play.fund(each.owner, 10**9, kit.registry)
        kit.registry.deposit(each.id, kit.zen, 10**9, sender=each.owner)
    slots = {x: Offer(1, 2), y: Offer(1, 2), honest: Offer(500, 2), loser: Offer(700, 4)}
    job = play.awarded(slots, {agg: Offer(5)}, slots=6, quorum=4, rounds=10_000)
    before = sum(kit.registry.collateral(each.id, kit.zen).balance for each in (x, y))
    price, seats = kit.settlement.seats(job, play.seat_of(job, x)).price, [play.seat_of(job, each) for each in (x, y)]
    for each, seat in zip((x, y), seats, strict=True):
        kit.settlement.decline(job, seat, 2, sender=each.hot)
        kit.settlement.take_over(job, seat, each.id, 2, 5, sender=each.hot)
        with play.refused("settlement: already committed"):
            kit.settlement.decline(job, seat, 2, sender=each.hot)
    play.ready(job, honest)
    for each, seat in zip((x, y), seats, strict=True):
        kit.settlement.decline(job, seat, 2, sender=each.hot)
        kit.settlement.take_over(job, seat, loser.id, 2, 5, sender=loser.hot)
        assert kit.settlement.seats(job, seat).price == price, "in the turn it was left it costs what it did"
    cost = before - sum(kit.registry.collateral(each.id, kit.zen).balance for each in (x, y))
    assert cost == 4 * (lock_of(2 * price, 500) // 10)
    play.commit_all(job)
    play.post_checkpoint(job, agg)
    assert kit.settlement.runs(job).round == 1


def test_receipt_of_a_client__whose_tier_a_breach_takes_in_the_same_epoch__is_no_violation():
    """test_e_link: the honest server that redeemed it was slashed."""
    s = RewardsStage()
    with chain.anchor():
        client = s.register(gpu_class=3)
        server = s.register(gpu_class=3)
        for node in (client, server):
            s.registry.declare(node.id, 3, 2**24 - 1, sender=node.owner)
        s.to_epoch(s.epoch + 1)  # bound; the client gives no sign of life in it
        s.to_epoch(s.epoch + 1)
        total = 2 * GBPS
        signature = s.sign(client, server, s.epoch, total)
        s.registry.breach(client.id, s.epoch - 1, sender=s.anyone)
        before = s.registry.stake_of(server.id)
        assert s.redeem(server, client, total, signature=signature) > 0
        assert s.registry.stake_of(server.id) == before
