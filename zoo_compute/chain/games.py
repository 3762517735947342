"""Dispute games, read from the Referee's events and views (docs/protocol/referee.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.demands import claim_hash
from zoo_compute.chain.event_log import History
from zoo_compute.chain.events import Event
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec.frames import EMPTY, Awaits, Frame, Game, Kind, Outcome, Phase

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.views import Claim, JobView

GAME_EVENTS = ("GameOpened", "NodeRevealed", "ChildPicked", "FrameFixed", "StateDisputed", "LeafShown", "GameEnded")
OPENING_FIELDS = ("job", "operator", "challenger", "claim_hash", "coin", "tokens")


@dataclass(frozen=True)
class GameView:
    """One game, as of a block. Fields are those of docs/protocol/referee.md.

    outcome: None while it is open. state: its current state without the claim; None once it ended.
    """

    number: int
    job: int = 0
    operator: int = 0
    challenger: str = ""
    claim_hash: bytes = EMPTY
    coin: int = 0  # the bond
    tokens: int = 0
    frame: Frame = field(default_factory=Frame)
    revealed: RevealedState = field(default_factory=RevealedState)
    events: Sequence[Event] = ()
    outcome: Outcome | None = None
    state: Game | None = None

    @property
    def is_open(self) -> bool:
        return self.outcome is None

    @property
    def kind(self) -> Kind:
        return Kind(self.frame.kind)

    def claim_in(self, view: JobView) -> Claim:
        """The disputed claim, from its job's view."""
        return next(claim for claim in reversed(view.claims) if claim_hash(claim) == self.claim_hash)


def read_games(
    chain: Chain, head: Head, *, job: int | None = None, wanted: Callable[[GameView], bool] = lambda game: True
) -> list[GameView]:
    """All games of the network or of a job, in the order they were opened. wanted: a filter, applied before reading states."""
    reader = chain.cached("games", lambda: _GameReader(History(chain, names=GAME_EVENTS)))
    reader.games = reader.games.apply_events(reader.history.events_until(head))
    matching = [game for game in reader.games.by_number.values() if job in (None, game.job) and wanted(game)]
    reads = [Read("referee", "games", (game.number,)) for game in matching if game.is_open]
    revealed = dict(zip((read.args[0] for read in reads), read_all(chain, head.number, reads), strict=True))
    return [replace(game, state=_state(game, revealed[game.number])) if game.is_open else game for game in matching]


@dataclass(frozen=True)
class Games:
    """The games known from events. Only the contract knows the state of an open game."""

    events: Sequence[Event] = ()
    by_number: Mapping[int, GameView] = field(default_factory=dict)

    def apply_events(self, events: Sequence[Event]) -> Games:
        """The games after all `events`. Reuses those of earlier events, unless a reorganisation undid one."""
        known = self if list(events[: len(self.events)]) == list(self.events) else Games()
        by_number = dict(known.by_number)
        for event in events[len(known.events) :]:
            number = int(event.args["game"])
            game = by_number.get(number, GameView(number))
            by_number[number] = replace(game, **_changes_of(game, event), events=(*game.events, event))
        return Games(events, by_number)


@dataclass
class _GameReader:
    """What a connection has read of the games so far."""

    history: History
    games: Games = field(default_factory=Games)


def _changes_of(game: GameView, event: Event) -> dict[str, Any]:
    """The fields that an event changes. A tree's FrameFixed comes before the events of its nodes."""
    args = event.args
    match event.name:
        case "GameOpened":
            return {name: args[name] for name in OPENING_FIELDS}
        case "FrameFixed":
            frame = Frame(**{each.name: args["frame"][each.name] for each in fields(Frame)})
            return {"frame": frame, "revealed": game.revealed.apply_event(frame=frame)}
        case "StateDisputed":
            return {"revealed": game.revealed.apply_event(is_disputed=True)}
        case "NodeRevealed":
            return {"revealed": game.revealed.apply_event(children=tuple(map(bytes, args["children"])))}
        case "LeafShown":
            return {"revealed": game.revealed.apply_event(leaf=bytes(args["data"]))}
        case "GameEnded":
            return {"outcome": Outcome(args["outcome"])}
        case _:
            return {}


def _state(game: GameView, revealed: Mapping[str, Any]) -> Game:
    return Game(
        job=game.job,
        challenger=game.challenger,
        coin=game.coin,
        tokens=game.tokens,
        frame=game.frame,
        node=revealed["node"],
        **_words(revealed["state"]),
    )


STATE_FIELDS = (
    "committer_left",
    "challenger_left",
    "move_s",
    "at",
    "index",
    "count",
    "height",
    "phase",
    "awaits",
    "is_open",
)


def _words(values: Sequence[int]) -> dict[str, Any]:
    words = dict(zip(STATE_FIELDS, values, strict=True))
    return {**words, "phase": Phase(words["phase"]), "awaits": Awaits(words["awaits"])}
