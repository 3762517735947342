"""Hostile play before the contracts that judge, by programs and players as they are; what dispute games could not withstand."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import pytest

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Wait
from node.disputes.trees import Trees
from tests.support.evm import Reverted, chain
from tests.support.explorations.exploration_board import (
    BASE_FEE,
    JOB,
    PRICE,
    REEXECUTE_S,
    Board,
    aggregation_claim,
    board_of,
    training_claim,
)
from tests.support.explorations.lying_jobs import LyingAggregation, mlp
from tests.support.explorations.sybils import explore_alone
from zoo_compute.disputes.exploration import Call, values
from zoo_compute.spec import clock_costs, clocks
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.disputed_claims import answer_gas
from zoo_compute.spec.exploration import Tree, id_below, segments_position
from zoo_compute.spec.frames import Kind

STEP = 3
HOUR_S = 3_600


def lie():
    """About a word of a node that comes about in several parts: the longest path of this program."""
    liar = mlp().lying()
    graph = liar.graph
    node = next(at for at, made in enumerate(graph.nodes) if made.op == "dot" and made.elements > 1)
    liar.elements, liar.bit, liar.states = {(STEP, node): 1}, 7, {STEP: 0}
    theirs = Trees(liar)
    return training_claim(mlp(), theirs), theirs, Trees(mlp().honest)


def true_claim():
    trees = Trees(mlp().honest)
    return training_claim(mlp(), trees), trees


def author(about, trees):
    results = {about.slot: about.result} if about.result else {}
    return Answerer(about.claim, lambda kind, slot: trees, PRODUCTION, result_of=results.get, is_author=True)


def play(board, asker, answerer, before_ask=lambda call: None, before_answers=lambda: None, held=()):
    """To the conviction. held: asks that the liar leaves open. The seconds at which the asker acted."""
    acted = []
    while board.picture.end is None:
        step = asker.next(board.picture, chain.timestamp)
        assert step is not None, "nothing is left to ask"
        if isinstance(step, Wait):
            before_answers()
            assert board.answers(answerer, skipped=held), "the liar is silent"
            continue
        before_ask(step)
        if board.picture.end is None and asker.next(board.picture, chain.timestamp) == step:
            board.send(step, "asker")
        acted.append(chain.timestamp)
    return acted


def open_first(board, about, trees, by="sybil"):
    """The ask for the last segment's one step: a heavy one, below the root of the segments."""
    work = about.work
    root = segments_position(work.inner_steps, work.segment_steps)
    board.send(Asker(trees, about)._ask_claim(board.picture, Kind.TRAINING, about.result, root), by)
    board.answers(author(about, trees))
    (node,) = [each for each in board.picture.nodes.values() if each.position.tree == Tree.SEGMENTS]
    board.send(board.picture.ask(node, len(node.children) - 1), by)
    return list(board.picture.nodes.values())[-1]


def path_of(about, theirs, mine):
    """The places that an asker comes to."""
    with board_of(mlp(), about.claim) as board:
        play(board, Asker(mine, about), author(about, theirs))
        return set(board.picture.nodes)


def hold(board, answerer, asks, left_alone):
    """The liar asks where nobody else will, and answers no more of it than it takes to have so many asks open."""
    done = set()
    while len(board.picture.open_asks) < asks:
        node = next((each for each in board.picture.nodes.values() if each.children and each.id not in done), None)
        if node is None:
            board.send(next(answerer.calls(board.picture, chain.timestamp)), "hot")
            continue
        done.add(node.id)
        for place in range(len(node.children)):
            below = id_below(node.id, node.record.origin.unit, node.child(place)[0], place)
            if below not in left_alone and len(board.picture.open_asks) < asks:
                with suppress(Reverted):
                    board.send(board.picture.ask(node, place), "liar")
    return {each.id for each in board.picture.open_asks}


@pytest.mark.parametrize("asks", [16, 100])
def test_asks_of_the_liar_itself__keep_no_honest_party_out(asks):
    """`sixteen.py`: sixteen games of the committer took all places, and the lie became final for 0.12 of the coin.

    The liar leaves its own asks open for as long as the honest path lasts.
    """
    about, theirs, mine = lie()
    path = path_of(about, theirs, mine)
    with board_of(mlp(), about.claim) as board:
        chain.timestamp = board.deadline
        answerer = author(about, theirs)
        explore_alone(board, Asker(mine, about), answerer, 3)
        board.answers(answerer)
        held = hold(board, answerer, asks, path)
        assert len(held) == asks
        play(board, Asker(mine, about), answerer, held=held)
        assert board.picture.end == End.JUDGED
        assert held <= {each.id for each in board.picture.nodes.values() if not each.is_answered}


def test_a_false_checkpoint__is_asked_about_up_to_the_last_second_of_its_window():
    """`sixteen.py` again: the aggregation that its own sybil had bid for at one smallest unit."""
    case = mlp()
    liar = case.aggregated(LyingAggregation)
    liar.states = {0: 0}
    theirs = Trees(liar)
    about = aggregation_claim(case, theirs)
    mine = Trees(case.aggregated(claim=about.claim))
    with board_of(case, about.claim) as board:
        chain.timestamp = board.deadline
        play(board, Asker(mine, about), author(about, theirs))
        assert board.picture.end == End.JUDGED


def test_a_liar_that_answers_in_its_last_second__is_convicted_within_the_bound():
    about, theirs, mine = lie()
    with board_of(mlp(), about.claim) as board:
        chain.timestamp = board.deadline

        def wait():
            chain.timestamp = board.picture.open_asks[0].due

        play(board, Asker(mine, about), author(about, theirs), before_answers=wait)
        assert board.picture.end == End.JUDGED
        assert chain.timestamp == board.deadline + PRODUCTION.committer_s + REEXECUTE_S
        assert chain.timestamp <= clocks.bound(board.deadline, REEXECUTE_S, PRODUCTION)


def test_an_asker_that_blocks_exclude_for_an_hour__convicts_all_the_same():
    about, theirs, mine = lie()
    with board_of(mlp(), about.claim) as board:
        chain.timestamp = board.deadline
        excluded = iter([0, HOUR_S, *[0] * 20])

        def wait(call):
            chain.timestamp += next(excluded)

        play(board, Asker(mine, about), author(about, theirs), before_ask=wait)
        assert board.picture.end == End.JUDGED
        assert chain.timestamp == board.deadline + HOUR_S


def test_a_committer_that_blocks_exclude_for_an_hour__answers_in_time():
    about, trees = true_claim()
    with board_of(mlp(), about.claim) as board:
        open_first(board, about, trees)
        for _ in range(2):
            chain.timestamp += HOUR_S
            assert board.answers(author(about, trees))
            node = list(board.picture.nodes.values())[-1]
            board.send(board.picture.ask(node, 0), "sybil")
        assert board.picture.open_asks[0].record.clocks.committer_left_s > PRODUCTION.committer_s - 2 * HOUR_S


def test_asks_that_a_copier_sends_first__convict_all_the_same_and_cost_the_copied_nothing():
    about, theirs, mine = lie()
    with board_of(mlp(), about.claim) as board:
        asker = Asker(mine, about)

        def copy(call):
            board.send(call, "copier")
            if call.name != "judge":
                with pytest.raises(Reverted, match="asked already"):
                    board.send(call, "asker")

        play(board, asker, author(about, theirs), before_ask=copy)
        assert board.picture.end == End.JUDGED
        board.settle("copier")
        assert board.gained("asker") == (0, 0)


def test_a_base_fee_a_hundredfold_by_the_answer__costs_no_more_than_the_formula_and_nothing_to_who_waits():
    about, trees = true_claim()
    for rise in (1, 4, 100):
        with board_of(mlp(), about.claim) as board:
            node = open_first(board, about, trees)
            chain.base_fee = BASE_FEE * rise
            board.answers(author(about, trees))
            chain.base_fee = BASE_FEE
            chain.timestamp = board.deadline + PRODUCTION.asker_s + 1
            board.send(Call("close", (JOB, values(about.claim))), "anyone")
            board.settle("anyone")
            coin, tokens = board.gained("owner", "hot")
            assert tokens == PRICE  # the re-execution is paid whatever the chain's coin does
            missing = board.spent["hot"] - coin
            most = clock_costs.shortfall(1, answer_gas(node.position), BASE_FEE, rise)
            assert missing <= most if rise > 4 else missing <= 0


def test_all_claims_of_an_operator__asked_about_at_once__delay_each_no_longer_than_its_bound():
    about, trees = true_claim()
    later = [replace(about, claim=replace(about.claim, turn=turn, round=turn)) for turn in (1, 2, 3)]
    with board_of(mlp(), about.claim) as board:
        boards = [board, *(Board(mlp(), each.claim) for each in later)]
        for each in boards[1:]:
            each.accounts = board.accounts
        board.at.double.set_operator(about.claim.operator, board.account("owner"), board.account("hot"))
        claims = list(zip(boards, [about, *later], strict=True))
        asked = [open_first(each, of, trees) for each, of in claims]
        lefts = [node.record.clocks.committer_left_s for node in asked]
        assert lefts == [PRODUCTION.committer_s + n * REEXECUTE_S for n in (1, 2, 3, 4)]
        assert [node.record.payment.fee for node in asked] == [asked[0].record.payment.fee] * 4
        for each, of in claims:
            chain.timestamp = each.picture.open_asks[0].due
            assert each.answers(author(of, trees))
            chain.timestamp = max(chain.timestamp, each.deadline) + PRODUCTION.asker_s + 1
            each.send(Call("close", (JOB, values(of.claim))), "anyone")
            assert each.picture.end == End.FINAL
        board.settle("anyone")


def test_self_asking_at_an_hour_a_reexecution__lasts_two_days_at_most():
    """`stall.py`, `stall_bonds.py`: 128 games of the committer against itself stretched a game to 64 days and more."""
    longest = clocks.bound_s(HOUR_S, PRODUCTION)
    assert longest == 46 * HOUR_S
    for heavy in (1, 128, 10_000):
        assert clock_costs.delay_s(PRODUCTION.committer_s, heavy, 1, HOUR_S, PRODUCTION) <= longest


def test_sniping_an_operator_that_is_offline__pays_nobody():
    """`economics.py`: a game paid once P(silent) > 3 %. Silence gives no share now: the scenario of Settlement has the balances."""
    about, trees = true_claim()
    with board_of(mlp(), about.claim) as board:
        open_first(board, about, trees, by="asker")
        ask = board.picture.open_asks[0]
        chain.timestamp = ask.due + 1
        board.send(board.picture.expire(JOB, about.claim, ask), "asker")
        assert board.picture.end == End.SILENT
        board.settle("anyone")
        assert board.gained("asker") == (0, 0)
        with pytest.raises(Reverted, match="nothing to reward"):
            board.send(Call("reward", (JOB, values(about.claim))), "asker")
