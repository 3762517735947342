"""`zoo verify JOB [--challenge]`: do a job's work again, say who lied, and have the contract convict it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keepers.challenging import challenge
from keepers.disputing import Disputing
from keepers.requests import verify_request
from keepers.work import WorkStatus
from zoo_compute import home
from zoo_compute.chain.events import scan
from zoo_compute.chain.games import read_games
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Commit, JobView
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.output import StatusLine
from zoo_compute.errors import ConfigError
from zoo_compute.transcript import ENDS

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.store import Store

LIES_FOUND = 3  # exit code
POLL_S = 0.5


@dataclass(frozen=True)
class Checked:
    """One slot-round of one claim, done again."""

    commit: Commit
    slot: int
    report: Mapping[str, Any]

    @property
    def agrees(self) -> bool:
        return bool(self.report["agrees"])

    @property
    def text(self) -> str:
        where = f"turn {self.commit.turn}, slot {self.slot}, operator {self.commit.operator}"
        return f"{where}: agrees" if self.agrees else f"{where}: FALSE: {self.report['message']}"

    def to_dict(self) -> dict[str, Any]:
        names = ("agrees", "field", "message", "segments", "seconds")
        told = {name: self.report[name] for name in names if name in self.report}
        at = {name: getattr(self.commit, name) for name in ("turn", "round", "seat", "operator")}
        return {**at, "slot": self.slot, **told}


@click.command("verify", cls=Command)
@click.argument("number", type=click.IntRange(min=1), metavar="JOB")
@click.option("--all", "every", is_flag=True, help="Claims that are paid or convicted too, not only those still open.")
@click.option("--turn", type=click.IntRange(min=0), help="Of one turn.")
@click.option("--slot", type=click.IntRange(min=0), help="Of one slot.")
@click.option("--challenge", "challenges", is_flag=True, help="Open a game about each false claim, and play it to its end.")  # fmt: skip
@click.option("--device", help="cpu, cuda, cuda:N or mps; the best there is by default.")
@click.option("--store", metavar="DIR|kubo:URL", help="Where content is kept. [env ZOO_STORE]")
@pass_settings
def verify(
    settings: Settings,
    number: int,
    every: bool,
    turn: int | None,
    slot: int | None,
    challenges: bool,
    device: str | None,
    store: str | None,
) -> int:
    """Do again what a job's operators committed, and say who lied.

    Also names auditors who attested a state that is false. With --challenge it opens a game about every false claim whose
    window is open: that takes a bond, which comes back with a share of the liar's lock when the contract convicts it.
    Exit code: 0 when all agrees, 3 when a lie was found.
    """
    chain, kept = settings.chain(), settings.store(store)
    sender = settings.sender() if challenges else None
    view = read_job(chain, number)
    todo = list(_todo(view, every, turn, slot))
    line, checked = StatusLine(), []
    for at, (commit, slot_) in enumerate(todo):
        line.show(f"{at} of {len(todo)} slot-rounds done; turn {commit.turn}, slot {slot_}")
        checked.append(_check(view, commit, slot_, kept, device))
        line.note(checked[-1].text)
    line.end()
    liars = list(_lying_auditors(chain, view, checked))
    games: list[dict[str, Any]] = []
    if sender is not None:
        games = _convict(settings, number, [each for each in checked if not each.agrees], kept, device)
    lines = [f"{sum(c.agrees for c in checked)} of {len(checked)} slot-rounds agree"]
    lines += [f"auditor {each['auditor']} attested a lie: turn {each['turn']}, slot {each['slot']}" for each in liars]
    lines += [f"game {each['game']} against operator {each['operator']}: {each['outcome']}" for each in games]
    told = {"job": number, "checked": [c.to_dict() for c in checked], "auditors": liars, "games": games}
    settings.emit(told, lines)
    return 0 if all(c.agrees for c in checked) and not liars else LIES_FOUND


def _todo(view: JobView, every: bool, turn: int | None, slot: int | None) -> Iterator[tuple[Commit, int]]:
    for commit in sorted(view.commits, key=lambda c: (c.turn, c.first)):
        if (every or not commit.final) and turn in (None, commit.turn):
            yield from ((commit, each) for each in commit.slots if slot in (None, each))


def _check(view: JobView, commit: Commit, slot: int, store: Store, device: str | None) -> Checked:
    try:
        from node import worker
    except ImportError as error:
        raise ConfigError(f"torch is needed to do the work again: {error}", hint="pip install 'zoo-compute[node]'") from None  # fmt: skip
    request = verify_request(view, commit, slot)
    return Checked(commit, slot, worker.run_verification({**request, "device": device} if device else request, store))


def _lying_auditors(chain: Chain, view: JobView, checked: list[Checked]) -> Iterator[dict[str, Any]]:
    """Who revealed another state for a segment than the one that comes out."""
    segments = chain.audits.plans(view.job).segments
    own = {(c.commit.turn, c.slot): c.report.get("states", []) for c in checked}
    events = (
        scan(chain, view.posted_block, view.block, names=("AttestationRevealed",), job=view.job) if segments else ()
    )
    for event in events:
        slot, segment = divmod(event.args["unit"], segments)
        states = own.get((event.args["turn"], slot), [])
        if segment + 1 < len(states) and bytes.fromhex(states[segment + 1]) != bytes(event.args["root"]):
            place = {"turn": event.args["turn"], "slot": slot, "segment": segment}
            yield {"auditor": event.args["operator"], **place}


def _convict(
    settings: Settings, job: int, false: list[Checked], store: Store, device: str | None
) -> list[dict[str, Any]]:
    """Open the games and play them to their end; Ctrl-C leaves them where they stand, and the same command goes on."""
    from keepers.worker import TASKS

    chain, sender = settings.chain(), settings.sender()
    opened: dict[int, Checked] = {}
    for each in false:
        if each.report.get("dispute") is None:
            settings.say(f"{each.text}: the data is what is wrong, which is Availability's: `zoo job demands`")
            continue
        number = challenge(chain, sender, read_job(chain, job), each.commit, each.report["dispute"])
        opened[number] = each
        settings.say(f"game {number} is about turn {each.commit.turn}, slot {each.slot}")

    def ask(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        given = {**request, "device": device} if device else request
        return WorkStatus("done", result=TASKS[task](given, store))

    folder = Path(home.home()) / "verify"
    lane = Disputing(chain, sender, ask, operator=0, folder=folder)
    line = StatusLine()
    while True:
        left = [game for game in lane.look() if game.number in opened]
        if not left:
            break
        line.show("; ".join(f"game {g.number}: {g.state.phase.name.lower()}, {len(g.events)} events" for g in left if g.state))  # fmt: skip
        time.sleep(POLL_S)
    line.end()
    ended = {game.number: game for game in read_games(chain, chain.head(), job=job)}
    return [
        {"game": number, "operator": each.commit.operator, "slot": each.slot, "outcome": ENDS[outcome]}
        for number, each in opened.items()
        if (outcome := ended[number].outcome) is not None
    ]
