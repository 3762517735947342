"""Hostile plays against one honest claim before the contract: it is never convicted, final in time, and its operator never pays.

A hundred accounts ask at random places and show true openings as evidence of every place that is answered. How the play goes:

    at once       everything is answered in the block of the ask
    last second   asks come from the deadline's second on, each answer in its clock's last second
    dear gas      the base fee is four times as high whenever the committer acts
    author asleep a stranger answers what a hash determines, when it is paid for that

Whoever earned the most by its answers closes the claim, since nobody is paid before that; everybody settles and withdraws its own.
The coin and tokens of the operator and of the stranger are counted at the end, less the gas of all these calls. Of dear gas: less
that of the answers alone. A base fee that rose fourfold takes all that a fee leaves over, and few asks then do not pay for
the end of their claim (docs/design/referee.md, "Not closed here").
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed
from node.disputes.trees import Trees
from tests.support.evm import chain, reverts
from tests.support.explorations.exploration_board import (
    BASE_FEE,
    JOB,
    NOBODY,
    REEXECUTE_S,
    Board,
    aggregation_claim,
    board_of,
    training_claim,
    update_claim,
)
from tests.support.explorations.lying_jobs import Case
from tests.support.explorations.sybils import Hostile, Sybils
from zoo_compute.disputes.exploration import Call, account_of, values
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.frames import Kind

PLAYS = ("at once", "last second", "dear gas", "author asleep")
ACCOUNTS = 100
RISE = 4  # of the base fee: a fee prepays four


def survive(
    case: Case, kind: Kind, rng: random.Random, asks: int, trees: Mapping[Kind, Trees], *, play: str = "at once"
) -> Counter[int]:
    """One play. trees: of the claim's slot. How often each kind of evidence was refused."""
    about, accuser, mine = _honest(case, kind, trees)
    with board_of(case, about.claim) as board:
        if play == "last second":
            chain.timestamp = board.deadline - 1
        game = _Play(board, about, accuser, mine, play)
        sybils = Sybils(accuser, about, game.author, rng, ACCOUNTS, patience=0)
        hostile, seen, tried = Hostile(accuser, about, rng), set[bytes](), Counter[int]()
        for _ in range(asks // sybils.each_time):
            sybils(board)
            game.answer_all()
            for node in list(board.picture.nodes.values()):
                if node.id not in seen and node.frame.kind == about.kind and node.is_answered:
                    seen.add(node.id)
                    tried.update(hostile.accuse(board, node))
        assert Asker(accuser, about).next(board.picture, chain.timestamp) is None
        if sybils.asked:
            game.end()
    return tried


def _honest(case: Case, kind: Kind, trees: Mapping[Kind, Trees]) -> tuple[Disputed, Trees, Mapping[Kind, Trees]]:
    if kind == Kind.AGGREGATION:
        mine = Trees(case.aggregated())
        about = aggregation_claim(case, mine)
        return about, Trees(case.aggregated(claim=about.claim)), {kind: mine}
    updated = update_claim(case, trees[Kind.UPDATE])
    # Sybils ask about training and update alike: both are right.
    about = updated if kind == Kind.UPDATE else training_claim(case, trees[Kind.TRAINING], updated.result)
    return about, trees[kind], trees


class _Play:
    """The committer's side of one play, and what it costs."""

    def __init__(self, board: Board, about: Disputed, accuser: Trees, mine: Mapping[Kind, Trees], how: str) -> None:
        self.board, self.about, self.how = board, about, how
        results = {about.slot: about.result} if about.result else {}
        self.author, self.stranger = (
            Answerer(
                about.claim, lambda of, slot: mine[Kind(of)], PRODUCTION, result_of=results.get, is_author=is_author
            )
            for is_author in (True, False)
        )

    def answer_all(self) -> None:
        board = self.board
        while board.picture.open_asks:
            if self.how == "last second":
                chain.timestamp = board.picture.open_asks[0].due
            if self.how == "author asleep":
                chain.timestamp += PRODUCTION.exclusive_s
                board.answers(self.stranger, "stranger")
            chain.base_fee = BASE_FEE * (RISE if self.how == "dear gas" else 1)
            board.answers(self.author)
            chain.base_fee = BASE_FEE

    def end(self) -> None:
        """Final in the first second that the clocks allow, and nobody honest has paid."""
        board, claim = self.board, values(self.about.claim)
        ends = [clocks.asks_end(each.record.clocks, board.deadline) for each in board.picture.nodes.values()]
        chain.timestamp = max(board.deadline + PRODUCTION.asker_s, *ends)
        assert chain.timestamp <= clocks.bound(board.deadline, REEXECUTE_S, PRODUCTION), "later than any play may be"
        # Of the fees, NOBODY's are the owner's; of an answer after `exclusive_s` the hot key has them.
        sides = {account_of(board.account(name)): (name, name) for name in ("hot", "stranger")}
        sides[NOBODY] = ("hot", "owner")
        earned = board.picture.earned
        closer, _ = sides[max(earned, key=lambda answerer: earned[answerer])]
        with reverts("referee: not final"):
            board.send(Call("close", (JOB, claim)), closer)
        chain.timestamp += 1
        before_the_end = board.spent.copy()
        board.send(Call("close", (JOB, claim)), closer)
        assert board.picture.end == End.FINAL
        for answerer in earned:
            board.settle_own(*sides[answerer], answerer)
        for names in ({"hot", "owner"}, {"stranger"}):
            coin, tokens = board.gained(*names)
            paid_for = before_the_end if self.how == "dear gas" else board.spent
            spent = sum(paid_for[name] for name in names)
            assert coin >= spent, f"{names} earned {coin} and spent {spent} in {self.how!r}"
            assert tokens >= 0, f"{names} lost {-tokens} tokens"
