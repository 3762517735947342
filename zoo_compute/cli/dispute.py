"""`zoo dispute`: list dispute games, show one, replay its moves."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_amount, format_seconds
from zoo_compute.cli.context import NUMBER, Group, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.disputes.revealed import CHALLENGER, COMMITTER
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Head
    from zoo_compute.chain.games import GameView


@click.group(cls=Group)
def dispute() -> None:
    """Dispute games: challenges of claims, decided by the contract."""


@dispute.command("list")
@click.option("--job", type=NUMBER, help="Only games about this job.")
@click.option("--open", "only_open", is_flag=True, help="Only games that are not over.")
@pass_settings
def list_(settings: Settings, job: int | None, only_open: bool) -> None:
    """List games: challenger, challenged claim, outcome."""
    from zoo_compute.chain.games import read_games

    chain = settings.chain()
    head = chain.head()
    games = [game for game in read_games(chain, head, job=job) if game.is_open or not only_open]
    summaries = [_as_json(game, head) for game in games]
    rows = [
        (each["game"], each["job"], _subject_of(each), f"by {each['challenger'][:10]}…", _status_line(each, head))
        for each in summaries
    ]
    header = ("game", "job", "about", "", "")
    settings.emit({"now": head.timestamp, "games": summaries}, table(rows, header=header) or ["there is no game"])


@dispute.command("show")
@click.argument("number", type=NUMBER, metavar="GAME")
@pass_settings
def show(settings: Settings, number: int) -> None:
    """Show the state of a game: bond, whose move is due, and deadline."""
    from zoo_compute.chain.tokens import token_at

    chain = settings.chain()
    head = chain.head()
    game = _required(settings, head, number)
    summary = _as_json(game, head)
    bond = format_amount(game.coin, "coin")
    if game.tokens:  # a game about a trial has a bond in coin alone
        bond += f" and {token_at(chain, chain.tasks.token_of(game.job)).format(game.tokens)}"
    rows = [
        ("about", _subject_of(summary)),
        ("challenger", game.challenger),
        ("bond", bond),
        ("transactions", summary["transactions"]),
        ("state", _status_line(summary, head)),
    ]
    settings.emit(summary, table(rows))


@dispute.command("replay")
@click.argument("number", type=NUMBER, metavar="GAME")
@pass_settings
def replay(settings: Settings, number: int) -> None:
    """Print a game's transcript: step, operator, element, the disputed numbers, and who was wrong.

    Reads every transaction from the chain and checks it again with the game's specification.
    """
    from zoo_compute.client.dispute_transcript import ANYBODY, Transcript, lines_of

    chain = settings.chain()
    head = chain.head()
    game = _required(settings, head, number)
    transcript = Transcript(chain, game)
    answer = {
        **_as_json(game, head),
        "moves": [asdict(move) for move in transcript.moves],
        "verdict": transcript.conviction and {**asdict(transcript.conviction), "text": transcript.conviction.text},
        "gas": {by: sum(m.gas for m in transcript.moves if m.by == by) for by in (COMMITTER, CHALLENGER, ANYBODY)},
    }
    settings.emit(answer, list(lines_of(transcript)))


def _required(settings: Settings, head: Head, number: int) -> GameView:
    from zoo_compute.chain.games import read_games

    games = {game.number: game for game in read_games(settings.chain(), head)}
    if number not in games:
        raise UserError(f"there is no game {number}", hint="`zoo dispute list` lists all games")
    return games[number]


def _as_json(game: GameView, head: Head) -> dict[str, Any]:
    from zoo_compute.client.dispute_transcript import ENDS, KINDS

    state = game.state
    return {
        "game": game.number,
        "job": game.job,
        "operator": game.operator,
        "challenger": game.challenger,
        "kind": KINDS[game.kind],
        "round": game.frame.round,
        "seat": game.frame.seat,
        "slot": game.frame.slot,
        "coin": str(game.coin),
        "tokens": str(game.tokens),
        "transactions": len({event.tx for event in game.events}),
        "outcome": ENDS[game.outcome] if game.outcome is not None else None,
        "phase": state.phase.name.lower() if state else None,
        "awaits": state.awaits.name.lower() if state else None,
        "turn_of": (CHALLENGER if state.is_challengers_turn else COMMITTER) if state else None,
        "due": state.due if state else None,
    }


def _subject_of(each: dict[str, Any]) -> str:
    work = each["kind"] if each["kind"] == "the aggregation" else f"{each['kind']} of slot {each['slot']}"
    return f"{work} in round {each['round']}, claimed by operator {each['operator']}"


def _status_line(each: dict[str, Any], head: Head) -> str:
    if each["outcome"]:
        return str(each["outcome"])
    left_s = each["due"] - head.timestamp
    until = f"{format_seconds(left_s)} left" if left_s >= 0 else "time is over: anyone can end it"
    return f"in {each['phase']}, the {each['turn_of']} owes a move ({each['awaits']}), {until}"
