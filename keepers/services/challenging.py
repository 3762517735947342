"""Opening a dispute game: what it costs, that it is not opened twice, and which mismatches of the verifier call for one."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo_compute.amounts import Token, format_amount
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.demands import claim_hash
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.chain.games import GameView, read_games
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.tokens import token_at
from zoo_compute.chain.views import Claim, JobView
from zoo_compute.errors import NeedsOperator, UserError, ZooError
from zoo_compute.json_codec import decode
from zoo_compute.spec import state
from zoo_compute.spec.referee import bond

log = logging.getLogger("zoo.disputes")


@dataclass(frozen=True)
class Bond:
    """What a game costs whoever loses it: wei of the chain's coin, and units of the job's token."""

    coin: int
    tokens: int

    def describe(self, token: Token) -> str:
        return f"{format_amount(self.coin, 'coin')} and {token.format(self.tokens)}"


def bond_of(chain: Chain, claim: Claim, games: int) -> Bond:
    """Of the next game against a claim whose operator has so many open, with room for the base fee to rise by an eighth."""
    fields: tuple[Any, ...] = claim.fields
    return Bond(*bond(state.Claim(*fields), games, next_base_fee(chain.w3)))


def challenge(chain: Chain, sender: Sender, view: JobView, claim: Claim, dispute: Mapping[str, Any]) -> int:
    """Open a game about a claim, unless this account has one open already: one conviction is enough. The game's number.

    dispute: as a worker's verification answers it. Raises UserError (too late), NeedsOperator (a bond is not there), Refusal.
    """
    games = [game for game in read_games(chain, chain.head(), job=view.job) if game.claim_hash == claim_hash(claim)]
    kind, slot = int(dispute["kind"]), int(dispute["slot"])
    known = [game.number for game in games if _is_mine(game, sender, kind, slot)]
    if known:
        return known[-1]
    if claim.final or view.now > claim.deadline:
        raise UserError(
            f"the claim of operator {claim.operator} in turn {claim.turn} cannot be challenged any more",
            hint="a claim is challenged while its window is open; `zoo job show` has the deadline",
        )
    needed = bond_of(chain, claim, chain.referee.open_against(claim.operator))
    token = token_at(chain, view.token)
    _provide(chain, sender, view, token, needed.tokens)
    log.warning("job %d: challenging operator %d's turn %d, slot %d for %s", view.job, claim.operator, claim.turn, slot, needed.describe(token))  # fmt: skip
    args: Any = (claim.fields, kind, slot, decode(dispute["work"]), decode(dispute["result"]))
    call = chain.referee.challenge(view.job, *args)
    return int(sender.send(call, value=needed.coin).event("GameOpened").args["game"])


def _is_mine(game: GameView, sender: Sender, kind: int, slot: int) -> bool:
    """Open, or about the very same: what was lost once is not tried again."""
    is_same = (game.frame.kind, game.frame.slot) == (kind, slot)
    return game.challenger == sender.address and (game.is_open or is_same)


def _provide(chain: Chain, sender: Sender, view: JobView, token: Token, amount: int) -> None:
    """Let the referee take the bond's tokens."""
    contract, referee = chain.token(token.address), chain.referee.address
    balance = contract.balanceOf(sender.address)
    if balance < amount:
        raise NeedsOperator(
            f"a challenge in job {view.job} needs a bond of {token.format(amount)}; "
            f"{sender.address} has {token.format(balance)}",
            hint="send it the tokens; they come back when the claim is convicted",
        )
    if contract.allowance(sender.address, referee) < amount:
        sender.send(contract.approve(referee, amount))


class MismatchReports:
    """The verifier's reports that call for a game, each until it was opened or can be no more."""

    def __init__(self, chain: Chain, sender: Sender, path: Path) -> None:
        self._chain, self._sender, self._path = chain, sender, path
        self._read = 0  # bytes of the file
        self._open: list[dict[str, Any]] = []

    def challenge(self) -> None:
        """Open what is to be opened. What cannot be done now is tried again at the next look."""
        self._open += self._new()
        left = []
        for report in self._open:
            try:
                self._challenge(report)
            except UserError as error:
                log.error("%s: %s", report["name"], error)
            except ZooError as error:
                log.error("%s: %s (%s)", report["name"], error, error.hint)
                left.append(report)
            except Exception:
                log.exception("%s: unexpected", report["name"])
                left.append(report)
        self._open = left

    def _challenge(self, report: Mapping[str, Any]) -> None:
        view = read_job(self._chain, report["job"])
        place = (report["turn"], report["seat"], report["root"])
        claims = [c for c in view.claims if (c.turn, c.seat, c.root.hex()) == place]
        for claim in claims[-1:]:
            number = challenge(self._chain, self._sender, view, claim, report["dispute"])
            log.info("%s: game %d", report["name"], number)

    def _new(self) -> Iterator[dict[str, Any]]:
        """Reports written since the last look; the last line may still be being written."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read += len(line)
                try:
                    report = json.loads(line)
                except json.JSONDecodeError:
                    continue
                if report.get("dispute"):
                    yield report
