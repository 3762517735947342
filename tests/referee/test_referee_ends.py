"""Clocks, bonds and the ends of games, specification and contract in step."""

from dataclasses import replace

import pytest

from tests.referee.game_driver import JOB
from tests.support.evm import chain
from zoo_compute.spec.games import Awaits, Game, Kind
from zoo_compute.spec.params import COIN, DEVNET
from zoo_compute.spec.state import ClaimStatus

BOB, DAVE = "bob hot", "dave owner"
REEXECUTE_S = 5  # of the stage's terms
MOVE_S, SIDE_S = DEVNET.move_s + REEXECUTE_S, DEVNET.side_s + REEXECUTE_S


def no(court, cause, function, sender, *args):
    court.no(f"referee: {cause}", "referee", function, sender, *args)


def reveal(court, game):
    return court.committer(game).move(court.game(game))[1][0]


def frame_of(court, game):
    return court.game(game).frame


def owed(court, who, token=COIN):
    return court.world.referee_owed.get((token, court.accounts.get(who, who)), 0)


def status(court, name="bob"):
    return court.world.claims[JOB, court.seats[name], 0].status


# --- clocks


def test_clocks__grow_by_the_reexecution_for_every_game_against_the_operator(court):
    for k in (1, 2, 3):
        game = court.game(court.challenge("bob"))
        extra = k * REEXECUTE_S
        assert game.move_s == DEVNET.move_s + extra
        assert game.committer_left == game.challenger_left == DEVNET.side_s + extra
    assert court.game(court.challenge("alice")).move_s == MOVE_S


@pytest.mark.parametrize("second", [-1, 0, 1])
def test_committer__can_move_until_its_last_second_and_is_out_from_the_next(court, second):
    game = court.challenge("bob")
    assert court.game(game).due == court.now + MOVE_S
    children, claim = reveal(court, game), court.named["bob"]
    court.to(court.game(game).due + second)
    if second <= 0:
        no(court, "time left", "time_out", DAVE, game, claim, frame_of(court, game))
        court.ok("referee", "reveal", BOB, game, children)
    else:
        no(court, "out of time", "reveal", BOB, game, children)
        court.ok("referee", "time_out", "stranger", game, claim, frame_of(court, game))
        assert status(court) == ClaimStatus.CONVICTED


@pytest.mark.parametrize("second", [-1, 0, 1])
def test_challenger__can_move_until_its_last_second_and_is_out_from_the_next(court, second):
    game, claim = court.challenge("bob"), court.named["bob"]
    court.answer(game)
    args = court.pick_args(game, 2)
    court.to(court.game(game).due + second)
    if second <= 0:
        no(court, "time left", "time_out", BOB, game, claim, frame_of(court, game))
        court.ok("referee", "pick", DAVE, *args)
    else:
        no(court, "out of time", "pick", DAVE, *args)
        court.ok("referee", "time_out", "stranger", game, claim, frame_of(court, game))
        assert status(court) == ClaimStatus.PENDING


@pytest.mark.parametrize(("used", "gift"), [(0, 0), (11, 0), (12, MOVE_S), (MOVE_S, MOVE_S)])
def test_a_move_in_the_last_quarter__gives_the_other_side_as_much_again(court, used, gift):
    """The limit is 15 s: its last quarter begins after 11.25."""
    game = court.challenge("bob")
    court.wait(used)
    court.answer(game)
    here = court.game(game)
    assert (here.committer_left, here.challenger_left, here.at) == (SIDE_S - used, SIDE_S + gift, court.now)
    court.wait(used)
    court.pick(game, 2)
    here = court.game(game)
    assert (here.committer_left, here.challenger_left) == (SIDE_S - used + gift, SIDE_S + gift - used)


def test_a_side_that_has_used_its_time__has_less_than_a_move(court):
    """Eleven seconds a move, which is not late: 65 last for five moves and ten seconds."""
    game, moves = court.challenge("bob"), 0
    while court.game(game).committer_left > 11:
        court.wait(11)
        court.answer(game)
        moves += 1
        here = court.game(game)
        if here.awaits == Awaits.PICK:
            court.pick(game, {1: 2, 2: 1, 4: 3}.get(here.phase, 0))
    here = court.game(game)
    assert (moves, here.committer_left, here.due) == (5, 10, court.now + 10)
    move, args = court.committer(game).move(here)
    court.wait(11)
    no(court, "out of time", move, BOB, game, *args)
    court.ok("referee", "time_out", "stranger", game, here.claim, frame_of(court, game))


def test_evidence__is_taken_whoevers_turn_it_is_and_however_late(court):
    game = court.challenge("bob")
    court.answer(game)
    court.to(court.game(game).due + 100)
    court.convict_now(game, 1)
    assert status(court) == ClaimStatus.CONVICTED


# --- bonds


def test_a_lost_bond__half_is_the_committers_owners_half_is_gone(court):
    game, claim = court.challenge("bob"), court.named["bob"]
    bond = court.game(game)
    assert bond.tokens == -(-claim.price // 10)
    assert bond.coin == 2 * 2_000_000 * 10**9
    court.ok("referee", "concede", DAVE, game, claim, frame_of(court, game))
    assert owed(court, "bob owner") == owed(court, "audit pool") == bond.coin // 2
    token = court.world.job(JOB).token
    assert owed(court, "bob owner", token) == bond.tokens // 2
    assert court.world.game_burned[token] == bond.tokens - bond.tokens // 2
    assert owed(court, DAVE) == owed(court, DAVE, token) == 0
    assert status(court) == ClaimStatus.PENDING


def test_coin_beyond_the_bond__is_part_of_it_and_an_odd_one_is_not_the_owners(court):
    court.value = 4 * 10**15 + 1
    game = court.challenge("bob")
    court.ok("referee", "concede", DAVE, game, court.named["bob"], frame_of(court, game))
    assert (owed(court, "bob owner"), owed(court, "audit pool")) == (2 * 10**15, 2 * 10**15 + 1)


def test_a_bond__goes_back_when_the_claim_is_convicted(court):
    game = court.challenge("bob")
    bond, token = court.game(game), court.world.job(JOB).token
    court.convict_now(game)
    assert (owed(court, DAVE), owed(court, DAVE, token)) == (bond.coin, bond.tokens)
    before = chain.balance(court.accounts[DAVE])
    for what in (COIN, token):
        court.ok("referee", "withdraw", "stranger", what, court.accounts[DAVE])
        no(court, "nothing owed", "withdraw", "stranger", what, court.accounts[DAVE])
    assert chain.balance(court.accounts[DAVE]) == before + bond.coin


def test_everything_owed__can_be_withdrawn_and_leaves_what_is_burned(court):
    won, lost = court.challenge("bob"), court.challenge("alice")
    court.ok("referee", "concede", DAVE, lost, court.named["alice"], frame_of(court, lost))
    court.convict_now(won)
    for token, account in [key for key, amount in court.world.referee_owed.items() if amount]:
        court.ok("referee", "withdraw", "stranger", token, account)
    token, referee = court.world.job(JOB).token, court.world.config.referee
    assert court.world.balances[token, referee] == court.world.game_burned[token] > 0
    assert chain.balance(referee) == 0


# --- ends


def test_conviction__every_open_challenger_shares__and_the_other_games_are_settled(court):
    challengers = (DAVE, "submitter", "stranger", DAVE)
    games = [court.challenge("bob", by=who) for who in challengers]
    court.ok("referee", "concede", "submitter", games[1], court.named["bob"], frame_of(court, games[1]))
    court.convict_now(games[2])
    token, shares = court.world.job(JOB).token, court.world.owed
    paid = {who: shares.get((token, court.accounts[who]), 0) for who in challengers}
    assert paid["submitter"] == 0
    assert paid[DAVE] == 2 * paid["stranger"] > 0
    for game in (games[0], games[3]):
        bond = court.game(game)
        before = owed(court, DAVE)
        court.ok("referee", "time_out", "stranger", game, bond.claim, bond.frame)
        assert owed(court, DAVE) == before + bond.coin
        no(court, "no open game", "time_out", "stranger", game, bond.claim, bond.frame)
    assert court.world.open_games[JOB, court.named["bob"]] == ()
    assert court.world.open_against(court.named["bob"].operator) == 0


@pytest.mark.parametrize("end", ["convict", "concede", "time_out"])
@pytest.mark.parametrize("awaits", [Awaits.REVEAL, Awaits.PICK])
def test_late_ends__of_a_claim_convicted_elsewhere__give_the_bond_back(court, end, awaits):
    game = court.challenge("bob")
    if awaits == Awaits.PICK:
        court.answer(game)
    bond = court.game(game)
    court.lose(JOB, bond.claim)
    court.to(bond.due + 1)
    args = {"convict": court.evidence(game)}.get(end, (game, bond.claim, bond.frame))
    court.ok("referee", end, DAVE, *args)
    assert (owed(court, DAVE), court.world.games[game]) == (bond.coin, Game())


def test_ends__need_the_games_own_claim(court):
    game = court.challenge("bob")
    other = court.named["alice"]
    court.to(court.game(game).due + 1)
    no(court, "other claim", "time_out", DAVE, game, other, frame_of(court, game))
    no(court, "other claim", "concede", DAVE, game, replace(court.named["bob"], price=0), frame_of(court, game))


def test_concede__by_anybody_but_the_challenger__is_refused(court):
    game = court.challenge("bob")
    for who in (BOB, "stranger"):
        no(court, "not the challenger", "concede", who, game, court.named["bob"], frame_of(court, game))


def test_a_disputed_claim__is_not_paid_until_its_games_are_over(court):
    game, claim = court.challenge("bob"), court.named["bob"]
    court.to(court.deadline(JOB, claim) + 1)
    court.no("settlement: in dispute", "settlement", "finalise", "stranger", JOB, (claim,))
    court.ok("referee", "concede", DAVE, game, claim, frame_of(court, game))
    court.ok("settlement", "finalise", "stranger", JOB, (claim,))
    assert status(court) == ClaimStatus.PAID


# --- tokens and accounts that refuse


def test_a_token_that_answers_false__moves_no_bond(court):
    game, bad = court.challenge("bob"), court.tokens["bad"]
    court.convict_now(game)
    court.ok("token", "refuse", "deployer", bad, True)
    no(court, "transfer failed", "challenge", DAVE, *court.challenge_args("alice", Kind.TRAINING, 1))
    no(court, "transfer failed", "withdraw", "stranger", bad, court.accounts[DAVE])
    court.ok("token", "refuse", "deployer", bad, False)
    court.ok("referee", "withdraw", "stranger", bad, court.accounts[DAVE])


def test_an_account_that_refuses_coin__keeps_it_owed(court):
    """A token's own address plays: it takes no coin."""
    account = court.tokens["usd"]
    court.ok("token", "transfer", DAVE, court.tokens["bad"], account, 10**6)
    chain.set_balance(account, 10**24)
    court.world.refuses_coin[account] = True
    game = court.challenge("bob", by=account)
    court.convict_now(game)
    no(court, "transfer failed", "withdraw", "stranger", COIN, account)
    assert owed(court, account) == 4 * 10**15
    court.ok("referee", "withdraw", "stranger", court.tokens["bad"], account)
