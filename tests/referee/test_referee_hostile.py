"""Hostile plays before the Referee, each call in step with the specification: who pays, who waits, and that nobody honest is convicted."""

from dataclasses import replace

import pytest

from tests.referee.exploration_driver import AHEAD_S, JOB, PRICE, REEXECUTE_S, TRAINER
from tests.support.evm import chain
from zoo_compute.spec.clocks import PRODUCTION, End, bound
from zoo_compute.spec.disputed_claims import claim_key, fee_of
from zoo_compute.spec.exploration import Status
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.params import COIN

GWEI = 10**9


def word(exploring, name="bob"):
    return exploring.world.claims[claim_key(JOB, exploring.claims[name])]


def owed(exploring, name, token=COIN):
    return exploring.world.owed.get((token, exploring.accounts[name]), 0)


def settle_all(exploring, explorer, name="bob"):
    """What everybody prepaid, in calls of at most thirty-two nodes."""
    ids = [id for id, each in explorer.known.items() if each[0] == name]
    for at in range(0, len(ids), 32):
        some = ids[at : at + 32]
        known = [explorer.known[id] for id in some]
        exploring.call("settle", "eve", tuple(some), tuple(each[1] for each in known), tuple(each[2] for each in known))


def traces(explorer, slots=(4, 5, 6)):
    """Every step of these slots, opened."""
    for slot in slots:
        for leaf in (1, 2):
            steps = explorer.answer(explorer.first("bob", slot=slot, leaf=leaf))
            for step in (1, 2, 3):
                yield explorer.answer(explorer.ask(steps, step))
        yield explorer.answer(explorer.first("bob", slot=slot, leaf=3))


def nodes_of(explorer, trace, by):
    """Asks for the nodes of a program: eight groups, then each node of it."""
    for group in range(9):
        children = explorer.answer(explorer.ask(trace, group, by))
        for place in range(8 if group < 8 else 6):
            yield explorer.ask(children, place, by)


def sybil_asks(explorer, count):
    """So many asks that are open at once, by one attacker under many names."""
    made = []
    for trace in traces(explorer):
        for id in nodes_of(explorer, trace, "mallory"):
            made.append(id)
            if len(made) == count:
                return made
    raise AssertionError("not so many nodes")


@pytest.mark.parametrize("count", [10, 100, pytest.param(1_000, marks=pytest.mark.long)])
def test_sybil_askers__of_an_honest_claim__pay_for_every_answer_and_delay_it_no_longer_than_one(
    exploring, explorer, count
):
    asks = sybil_asks(explorer, count)
    fees = [explorer.known[id][1].payment.fee for id in asks]
    assert [fee // fees[0] for fee in fees] == [*range(1, count + 1)]  # the k-th open ask prepays k answers
    exploring.wait(PRODUCTION.committer_s)
    for id in asks:
        explorer.answer(id)
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    assert chain.timestamp <= bound(exploring.deadline, REEXECUTE_S, PRODUCTION)
    exploring.call("close", "mallory", JOB, exploring.claims["bob"])
    assert word(exploring).end == End.FINAL
    settle_all(exploring, explorer)
    everything = sum(each[1].payment.fee for each in explorer.known.values()) * GWEI
    assert owed(exploring, "owner") + owed(exploring, "hot") == everything
    assert owed(exploring, "mallory") == 0


@pytest.mark.parametrize("count", [10, 100, pytest.param(1_000, marks=pytest.mark.long)])
def test_sybil_askers__of_a_lie__do_not_keep_one_honest_party_from_convicting_it(exploring, explorer, count):
    asks = sybil_asks(explorer, count)
    shown = explorer.answer(explorer.down(explorer.answer(explorer.first("bob", Kind.UPDATE, 4)), 0))
    explorer.convict(shown, 0)
    assert word(exploring).end == End.JUDGED
    assert exploring.world.heavy[JOB, TRAINER] == 0
    function, args = explorer.answer_args(asks[0])
    exploring.no("referee: not pending", function, "hot", *args)


def test_sybil_askers__of_another_job_of_the_operator__change_no_clock_and_no_price(exploring, explorer):
    """A worker a job answers: each job counts its own heavy asks, each claim its own open ones."""
    bob, other = exploring.claims["bob"], replace(exploring.claims["bob"], turn=9)
    exploring.keep("bob", other, 3, exploring.deadline, job=2)
    exploring.job = 2
    for slot in (4, 5, 6):
        explorer.first("bob", Kind.UPDATE, slot, by="mallory")
    sybil_asks(explorer, 40)
    exploring.job, exploring.claims["bob"] = JOB, bob
    trace = explorer.first("bob", Kind.UPDATE, 5)
    node = explorer.known[trace][1]
    assert node.clocks.committer_left_s == PRODUCTION.committer_s + REEXECUTE_S
    assert node.payment.fee * GWEI == fee_of(node.position, 1, exploring.base_fee)
    assert (exploring.world.heavy[JOB, TRAINER], exploring.world.heavy[2, TRAINER]) == (1, 3)
    explorer.convict(explorer.answer(explorer.down(explorer.answer(trace), 0)), 0)
    assert (exploring.world.heavy[JOB, TRAINER], exploring.world.heavy[2, TRAINER]) == (0, 3)


def test_liar__that_asks_itself_for_traces__burns_half_of_each_off_the_convicting_path(exploring, explorer):
    own = [explorer.first("bob", Kind.UPDATE, slot, by="mallory") for slot in (4, 5, 6)]
    trace = explorer.first("bob", leaf=3)
    # Four heavy asks are open for three slots: two re-executions are added, not four.
    assert explorer.known[trace][1].clocks.committer_left_s == PRODUCTION.committer_s + 2 * REEXECUTE_S
    explorer.convict(explorer.answer(explorer.down(explorer.answer(trace), 2)), 0)
    settle_all(exploring, explorer)
    token = exploring.token.address
    assert owed(exploring, "mallory", token) == len(own) * (PRICE - PRICE // 2)
    assert exploring.world.burned[token] == len(own) * (PRICE // 2)
    assert owed(exploring, "dave", token) == PRICE


def test_liar__that_explored_its_own_prefix_slowly__has_no_time_left_against_the_next_asker(exploring, explorer):
    trace = explorer.first("bob", leaf=3, by="mallory")
    exploring.wait(PRODUCTION.committer_s + REEXECUTE_S - 1)
    explorer.answer(trace)
    clocks = explorer.known[trace][1].clocks
    assert (clocks.committer_left_s, clocks.asker_left_s) == (1, PRODUCTION.asker_s)
    below = explorer.ask(trace, 0)
    exploring.wait(2)
    node = explorer.known[below][1]
    exploring.call("expire", "eve", JOB, exploring.claims["bob"], below, node)
    assert word(exploring).end == End.SILENT


def test_path__of_late_answers_and_late_asks__ends_at_the_bound(exploring, explorer):
    """Both sides use every second that they have: no play of this tree is longer, however many asks it has."""
    exploring.to(exploring.deadline)
    id = explorer.first("bob", leaf=3)
    assert word(exploring).slots == 3
    exploring.wait(PRODUCTION.committer_s + REEXECUTE_S - 10)
    explorer.answer(id)
    exploring.wait(PRODUCTION.asker_s)
    id = explorer.ask(id, 0)
    exploring.wait(9)
    explorer.answer(id)
    id = explorer.ask(id, 2)
    exploring.wait(1)
    explorer.answer(id)
    assert explorer.known[id][1].clocks.committer_left_s == explorer.known[id][1].clocks.asker_left_s == 0
    exploring.wait(1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    assert chain.timestamp == exploring.deadline + PRODUCTION.committer_s + PRODUCTION.asker_s + REEXECUTE_S + 1
    assert chain.timestamp <= bound(exploring.deadline, REEXECUTE_S, PRODUCTION) + 1


@pytest.mark.parametrize("by", ["mallory", "hot"])
def test_answer__copied_by_a_stranger__pays_the_owner_while_the_author_is_awake(exploring, explorer, by):
    root = explorer.first("bob")
    function, args = explorer.answer_args(root)
    exploring.wait(PRODUCTION.exclusive_s - 1)
    explorer.answer(root, by=by)
    exploring.no("referee: other node", function, "hot", *args)
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    settle_all(exploring, explorer)
    assert owed(exploring, "owner") == explorer.known[root][1].payment.fee * GWEI
    assert owed(exploring, "mallory") == 0


def test_answer__that_a_stranger_gave_first__leaves_the_author_the_same_node(exploring, explorer):
    root = explorer.first("bob")
    exploring.wait(PRODUCTION.exclusive_s)
    function, args = explorer.answer_args(root)
    explorer.answer(root, by="mallory")
    exploring.no("referee: other node", function, "hot", *args)
    explorer.ask(root, 2)


def test_two_askers__of_one_node_in_one_block__the_second_is_refused_and_keeps_its_coin(exploring, explorer):
    root = explorer.answer(explorer.first("bob"))
    args = explorer.ask_args(root, 2)
    explorer.ask(root, 2)
    before = chain.balance(exploring.accounts["eve"])
    exploring.no("referee: asked already", "ask", "eve", *args, value=10**18)
    assert chain.balance(exploring.accounts["eve"]) == before


def test_asker__that_leaves_half_way__is_replaced_by_another_with_what_it_left(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    exploring.to(exploring.deadline + PRODUCTION.asker_s - 60)
    below = explorer.ask(trace, 0, by="eve")
    assert explorer.known[below][1].clocks.asker_left_s == 60
    node = explorer.answer(explorer.ask(explorer.answer(below), 2, by="mallory"))
    explorer.convict(node, 1, by="eve")
    settle_all(exploring, explorer)
    for name in ("dave", "eve", "mallory"):
        asked = [
            each[1].payment for each in explorer.known.values() if each[1].payment.asker == exploring.accounts[name]
        ]
        assert owed(exploring, name) == sum(each.fee for each in asked) * GWEI > 0


def test_true_claim__whose_committer_died__is_defended_by_a_stranger_who_is_paid(exploring, explorer):
    trace = explorer.answer(explorer.first("bob", leaf=3))
    hash_determined = [
        explorer.first("bob"),
        explorer.first("bob", leaf=0),
        explorer.ask(trace, 0),
        explorer.ask(trace, 3),
    ]
    exploring.wait(PRODUCTION.exclusive_s)
    for id in hash_determined:
        explorer.answer(id, by="eve")
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    settle_all(exploring, explorer)
    assert owed(exploring, "eve") == sum(explorer.known[id][1].payment.fee for id in hash_determined) * GWEI
    spent = 200_000 * exploring.base_fee  # more than any of these answers takes
    assert owed(exploring, "eve") > len(hash_determined) * spent


def test_base_fee__that_rises_a_hundredfold_during_a_path__raises_the_next_asks_price_alone(exploring, explorer):
    exploring.base_fee = GWEI
    root = explorer.first("bob")
    cheap = explorer.known[root][1].payment.fee
    exploring.base_fee = 100 * GWEI
    explorer.answer(root)
    args = explorer.ask_args(root, 2)
    exploring.no("referee: fee too small", "ask", "dave", *args, value=4 * cheap * GWEI)
    leaf = explorer.ask(root, 2)
    stage, children = 260_000, 60_000 + 4 * 1_600
    assert explorer.known[leaf][1].payment.fee * children == 100 * cheap * stage
    explorer.answer(leaf)
    assert word(exploring).open == 0


def test_exhausted_operator__is_slashed_by_what_its_attacker_burned(exploring, explorer):
    """One slot, thirty-three heavy asks open: silence on the last one ends as exhausted, and half of all burn."""
    for turn in (3, 4):
        claim = replace(exploring.claims["bob"], turn=turn)
        exploring.keep("bob", claim, 1, exploring.deadline)
        made = []
        for slot in (4, 5, 6):
            made.append(explorer.first("bob", Kind.UPDATE, slot, by="mallory"))
            made.append(explorer.first("bob", slot=slot, leaf=3, by="mallory"))
            for leaf in (1, 2):
                steps = explorer.answer(explorer.first("bob", slot=slot, leaf=leaf, by="mallory"))
                made += [explorer.ask(steps, step, by="mallory") for step in (1, 2, 3)]
        if turn == 3:
            assert not any(explorer.known[id][1].clocks.exhausted for id in made)
    assert exploring.world.heavy[JOB, TRAINER] == 48
    last = made[-1]
    node = explorer.known[last][1]
    assert node.clocks.exhausted
    assert node.clocks.committer_left_s == PRODUCTION.committer_s + 32 * REEXECUTE_S
    exploring.to(node.clocks.since + node.clocks.committer_left_s + 1)
    exploring.call("expire", "eve", JOB, exploring.claims["bob"], last, node)
    assert exploring.court.calls[-1][2:] == (End.EXHAUSTED, 0, 24 * (PRICE // 2))
    assert exploring.world.heavy[JOB, TRAINER] == 24  # those of the other turn's claim


def test_committer__whose_claim_is_judged__cannot_end_it_first_by_silence_on_its_own_ask(exploring, explorer):
    """A liar asks itself and stays silent, to lose by silence: nobody is rewarded then, but it waits out its whole clock."""
    own = explorer.first("bob", Kind.UPDATE, 5, by="mallory")
    shown = explorer.answer(explorer.down(explorer.answer(explorer.first("bob", leaf=3)), 2))
    node = explorer.known[own][1]
    exploring.no("referee: time left", "expire", "mallory", JOB, exploring.claims["bob"], own, node)
    explorer.convict(shown, 0)
    assert word(exploring).end == End.JUDGED
    assert explorer.known[own][2] == Status.ASKED
    assert PRODUCTION.committer_s < AHEAD_S
