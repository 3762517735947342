"""How games end: evidence, silence, surrender; whose the bonds are then (docs/protocol/referee.md)."""

from dataclasses import replace

from zoo_compute.spec import admissions, convictions
from zoo_compute.spec.games import Awaits, Frame, Game, Outcome
from zoo_compute.spec.params import COIN
from zoo_compute.spec.revert import require
from zoo_compute.spec.settlement import known
from zoo_compute.spec.state import Claim, Message, World
from zoo_compute.spec.trials import TRIALS


def convict(w: World, msg: Message, number: int, claim: Claim, frame: Frame, evidence: int, data: bytes) -> None:
    """Anybody may show that the claim is false."""
    game = _require_open_game(w, number, claim, frame)
    require(not game.is_beyond, "referee: no such leaf")
    w.config.judge(evidence, frame, game.position, data)
    _end(w, msg, number, committer_loses=True)


def concede(w: World, msg: Message, number: int, claim: Claim, frame: Frame) -> None:
    game = _require_open_game(w, number, claim, frame)
    require(msg.sender == game.challenger, "referee: not the challenger")
    _end(w, msg, number, committer_loses=False)


def time_out(w: World, msg: Message, number: int, claim: Claim, frame: Frame) -> None:
    """The silent side loses; where the claim was convicted elsewhere nobody does, at any time."""
    game = _require_open_game(w, number, claim, frame)
    require(msg.now > game.due or not is_pending(w, game.job, claim), "referee: time left")
    _end(w, msg, number, committer_loses=not game.is_challengers_turn)


def withdraw(w: World, msg: Message, token: str, account: str) -> int:
    amount = w.referee_owed.get((token, account), 0)
    require(amount > 0, "referee: nothing owed")
    w.referee_owed[token, account] = 0
    if token == COIN:
        require(not w.refuses_coin.get(account, False), "referee: transfer failed")
    else:
        w.move(token, w.config.referee, account, amount, by="referee")
    return amount


def _end(w: World, msg: Message, number: int, *, committer_loses: bool) -> Outcome:
    """The bonds find their owners; Settlement hears of it. Of a claim that is not pending any more, nobody loses."""
    game = w.games[number]
    claim, job = game.claim, game.job
    assert claim is not None, "a game without its claim"
    outcome = Outcome.SETTLED
    if is_pending(w, job, claim):
        outcome = Outcome.CONVICTED if committer_loses else Outcome.DISMISSED
    games = w.open_games[job, claim]
    challengers = tuple(w.games[each].challenger for each in games) if outcome == Outcome.CONVICTED else ()
    w.open_games[job, claim] = tuple(each for each in games if each != number)
    w.games[number] = Game()
    token = w.job(job).token
    if outcome == Outcome.DISMISSED:
        owner = w.operator(claim.operator).owner
        _owe(w, COIN, owner, game.coin // 2)
        _owe(w, COIN, w.config.audit_pool, game.coin - game.coin // 2)
        _owe(w, token, owner, game.tokens // 2)
        w.game_burned[token] = w.game_burned.get(token, 0) + game.tokens - game.tokens // 2
    else:
        _owe(w, COIN, game.challenger, game.coin)
        _owe(w, token, game.challenger, game.tokens)
    as_referee = replace(msg, sender=w.config.referee)
    close_dispute = admissions.close_dispute if job == TRIALS else convictions.close_dispute
    close_dispute(w, as_referee, job, claim, outcome == Outcome.CONVICTED, challengers)
    return outcome


def is_pending(w: World, job: int, claim: Claim) -> bool:
    """Where the claim is kept: trials are Admissions'."""
    return (admissions.known(w, claim) if job == TRIALS else known(w, job, claim)) is not None


def _owe(w: World, token: str, account: str, amount: int) -> None:
    w.referee_owed[token, account] = w.referee_owed.get((token, account), 0) + amount


def _require_open_game(w: World, number: int, claim: Claim, frame: Frame) -> Game:
    game = w.games.get(number, Game())
    require(game.awaits != Awaits.NOTHING, "referee: no open game")
    require(game.frame == frame, "referee: other frame")
    require(game.claim == claim, "referee: other claim")
    return game
