"""The seconds of one game, as the specification counts them. For scripts/generate/figures/pictures.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scripts.generate.figures.svg_sheet import FAINT, INK, LIGHT, RULE, TURN, Sheet
from zoo_compute.spec.frames import Awaits, Game
from zoo_compute.spec.params import MOVE_LATE_PART, PRODUCTION

GAMES, REEXECUTE_S = 1, 1_800
# How long each move takes, in parts of what it may take at most; the last one is not made.
WAITS = (0.10, 0.30, 0.95, 0.20, 0.60, 0.85, 0.40, 0.30, 0.70, 0.20, 0.97, 0.50, 0.60)
PLOT_X, PLOT_W = 130, 760


@dataclass(frozen=True)
class Turn:
    """One move: the game before it, its time, the game after it (None if the move was not made)."""

    before: Game
    at: int
    after: Game | None


def turns() -> Iterator[Turn]:
    extra = GAMES * REEXECUTE_S
    side = PRODUCTION.side_s + extra
    game = Game(awaits=Awaits.REVEAL, move_s=PRODUCTION.move_s + extra, committer_left=side, challenger_left=side)
    for wait in WAITS:
        at = game.at + int(wait * (game.due - game.at))
        after = replace(game.moved(at), awaits=Awaits.REVEAL if game.is_challengers_turn else Awaits.PICK)
        yield Turn(game, at, after)
        game = after
    yield Turn(game, game.due, None)


def hours(seconds: float) -> str:
    return f"{seconds / 3600:.3g} h"


def draw_clocks() -> str:
    played = list(turns())
    end = played[-1].before.due
    sheet = Sheet(930, 470, "The clocks of one game")
    first = played[0].before
    sheet.words(30, 32, "The clocks of one game", size=16, bold=True)
    about = f"Production, {hours(REEXECUTE_S)} for a re-execution: a move within {hours(first.move_s)}, a side within {hours(first.committer_left)} in all."
    sheet.words(30, 54, about, fill=FAINT)
    scale = PLOT_W / end
    for turn in played:
        _draw_turn(sheet, turn, scale)
    _draw_left(sheet, played, scale)
    return sheet.svg()


def _draw_turn(sheet: Sheet, turn: Turn, scale: float) -> None:
    """A bar until the move; what was left of its limit in outline; the last part of the limit darker."""
    game = turn.before
    colour = TURN[game.is_challengers_turn]
    y = 112.0 if game.is_challengers_turn else 78.0
    start, made, due = (PLOT_X + scale * at for at in (game.at, turn.at, game.due))
    late = PLOT_X + scale * (game.at + game.move_s * (MOVE_LATE_PART - 1) / MOVE_LATE_PART)
    sheet.box(start, y, due - start, 22, LIGHT[colour])
    if late < due:
        sheet.box(late, y, due - late, 22, "#f2d675")
    sheet.box(start, y + 5, made - start, 12, colour)
    if turn.after is None:
        sheet.line([(due, y - 4), (due, y + 26)], INK, wide=2)
        sheet.words(due, y + 40, "time_out from here on", anchor="end")


def _draw_left(sheet: Sheet, played: list[Turn], scale: float) -> None:
    """The time that each side has left."""
    low, high = 400.0, 180.0
    most = max(max(turn.before.committer_left, turn.before.challenger_left) for turn in played)
    up = (low - high) / most
    for name, y in (("committer", 93), ("challenger", 127)):
        sheet.words(30, y, name, fill=TURN[name == "challenger"])
    tick = 4 * 3600
    for seconds in range(0, most + 1, tick):
        y = low - up * seconds
        sheet.line([(PLOT_X, y), (PLOT_X + PLOT_W, y)], RULE, wide=1)
        sheet.words(PLOT_X - 8, y + 4, hours(seconds) if seconds else "0", anchor="end", fill=FAINT)
    sheet.words(30, high - 6, "left", fill=FAINT)
    for is_challengers, name in ((False, "committer_left"), (True, "challenger_left")):
        points = []
        for turn in played:
            left, x = getattr(turn.before, name), PLOT_X + scale * turn.before.at
            points.append((x, low - up * left))
            if turn.before.is_challengers_turn == is_challengers:
                left -= turn.at - turn.before.at
            points.append((PLOT_X + scale * turn.at, low - up * left))
        sheet.line(points, TURN[is_challengers], wide=2)
    for turn in played:
        _draw_gift(sheet, turn, scale, low, up)
    sheet.words(PLOT_X, low + 22, "0", anchor="middle", fill=FAINT)
    sheet.words(PLOT_X + PLOT_W, low + 22, hours(played[-1].before.due), anchor="middle", fill=FAINT)
    sheet.box(PLOT_X, low + 36, 14, 14, "#f2d675")
    sheet.words(
        PLOT_X + 22,
        low + 48,
        "the last quarter of a move's limit: who moves there gives the other side the limit more in all",
    )


def _draw_gift(sheet: Sheet, turn: Turn, scale: float, low: float, up: float) -> None:
    game, after = turn.before, turn.after
    name = "committer_left" if game.is_challengers_turn else "challenger_left"
    if after and getattr(after, name) > getattr(game, name):
        x = PLOT_X + scale * turn.at
        gift = getattr(after, name) - getattr(game, name)
        y = low - up * (getattr(after, name) - gift / 2)
        sheet.words(x - 6, y, f"+ {hours(gift)}", anchor="end", size=11, fill=TURN[not game.is_challengers_turn])
