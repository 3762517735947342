"""What an asker of a dispute pays and places before it asks; and which mismatches of the verifier call for asks."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO

from eth_abi.abi import encode
from eth_utils.crypto import keccak

from keepers.monitoring.logs import rotated
from keepers.services.retries import Backoff, Troubles
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.tokens import set_allowance, token_at
from zoo_compute.chain.views import Claim
from zoo_compute.disputes.exploration import Call
from zoo_compute.errors import NeedsOperator, UserError
from zoo_compute.spec import state
from zoo_compute.spec.clocks import asks_end, heavy_fee
from zoo_compute.spec.disputed_claims import price_of, unit_of
from zoo_compute.spec.exploration import UNIT_BYTES

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.sender import Sender

log = logging.getLogger("zoo.disputes")

# Of a dispute: kind, slot, and the slot's result if an answer on chain shows it; as a report's `dispute`.
Place = dict[str, Any]
Challenge = Callable[[int, Claim, Sequence[Place]], object]
BASE_FEES = 2  # of the newest block, that an ask's fee is reckoned with: it may rise so much until the ask is mined
APPROVED = 4  # re-executions that the Referee may take at once: a path has few heavy asks
UNREADABLE_S = 30.0  # after which a report is read again whose job could not be read
SPARE_S = 60  # of the askers' clock, that a seal leaves at least


def seal_of(account: str, id: bytes, salt: bytes) -> bytes:
    """What the Referee takes as a seal of the step that is asked for under this id (docs/protocol/referee.md)."""
    unit = int.from_bytes(unit_of(id).ljust(32, b"\0"), "big")
    return keccak(encode(["address", "uint256", "bytes32"], [account, unit, salt]))


def salt_of(secret: bytes, key: bytes, id: bytes) -> bytes:
    """Nobody else can guess it, and it is the same every time: a restart needs no file."""
    return keccak(secret + key + unit_of(id))


def unit_id(word: int) -> bytes:
    """The part of a verdict or an origin that names a step, as an id."""
    return word.to_bytes(32, "big")[:UNIT_BYTES].ljust(32, b"\0")


class Asking:
    """Prepays asks from one account. secret: of its seals; without one nothing is sealed."""

    def __init__(self, chain: Chain, sender: Sender, secret: bytes = b"") -> None:
        self._chain, self._sender, self._secret = chain, sender, secret
        self._approving = Lock()  # asks are sent side by side

    def value(self, call: Call) -> int:
        """Coin to send along, with room for a rise of the base fee. What is too much comes back, or is the answerer's."""
        return call.value(next_base_fee(self._chain.w3) * BASE_FEES) if call.gas else 0

    def is_ready(self, head: Head, dispute: DisputeView, call: Call) -> bool:
        """Whether a heavy ask can be made now: its step is sealed, and the seal is old enough or there is no time for one."""
        if not call.is_heavy or not self._secret:
            return True
        lead_s = self._chain.params.clocks.seal_lead_s
        last = _last_second(dispute, call)
        if last is not None and self._chain.time(head) + lead_s + min(SPARE_S, lead_s) > last:
            return True
        seal = seal_of(self._sender.address, call.id, salt_of(self._secret, dispute.key, call.id))
        placed = self._chain.referee.seals(seal)
        if not placed:
            self._sender.send(self._chain.referee.seal(seal))
            return False
        return self._chain.time(head) >= placed + lead_s

    def provide(self, job: int, claim: state.Claim) -> None:
        """Let the Referee take what a heavy ask prepays in the job's token. Raises NeedsOperator where it is not there."""
        address, reserve = self._chain.tasks.reexecution_price(job, claim.is_aggregation)
        price = heavy_fee(price_of(claim), reserve)
        if not price:
            return
        contract, referee = self._chain.token(address), self._chain.referee.address
        balance = contract.balanceOf(self._sender.address)
        if balance < price:
            token = token_at(self._chain, address)
            raise NeedsOperator(
                f"a heavy ask in job {job} prepays {token.format(price)}; "
                f"{self._sender.address} has {token.format(balance)}",
                hint="send it the tokens; they come back when the claim is convicted",
            )
        with self._approving:
            if contract.allowance(self._sender.address, referee) < price:
                set_allowance(self._sender, address, referee, APPROVED * price)


def _last_second(dispute: DisputeView, call: Call) -> int | None:
    """In which this ask is accepted; None while that is not known, because the claim's turn is open."""
    if not dispute.deadline:
        return None
    if call.name == "ask_claim":
        return dispute.deadline
    return asks_end(dispute.picture.nodes[call.args[0]].record.clocks, dispute.deadline)


class MismatchReports:
    """The verifier's reports that call for asks, each until its claim can be asked about no more."""

    def __init__(self, chain: Chain, path: Path, challenge: Challenge) -> None:
        self._chain, self._path, self._challenge = chain, path, challenge
        self._read, self._file = (
            0,
            0,
        )  # bytes of the file, and its number: another one is in its place once it was rotated
        self._left: dict[str, dict[str, Any]] = {}  # by name: not handed over yet, as its job could not be read
        self._failing = Backoff[str](UNREADABLE_S, UNREADABLE_S)
        self._troubles = Troubles[str]()

    def read(self) -> None:
        """Hand over what is new. After a restart that is every report again: the chain says which claims are still pending."""
        self._left |= {report["name"]: report for report in self._new()}
        for name, report in [each for each in self._left.items() if self._failing.is_due(each[0])]:
            with self._troubles.contained(name, name, failed=partial(self._failing.failed, name)):
                try:
                    self._hand_over(report)
                except UserError as error:
                    log.info("%s: %s", name, error)
                del self._left[name]
                self._failing.succeeded(name)

    @property
    def trouble(self) -> list[str]:
        return self._troubles.texts

    def _hand_over(self, report: Mapping[str, Any]) -> None:
        view = read_job(self._chain, report["job"])
        place = (report["turn"], report["seat"], report["root"])
        claims = [c for c in view.claims if (c.turn, c.seat, c.root.hex()) == place]
        for claim in claims[-1:]:
            self._challenge(view.job, claim, [report["dispute"]])

    def _new(self) -> Iterator[dict[str, Any]]:
        """Reports written since the last look; the last line may still be being written."""
        if not self._path.exists():
            return
        if (
            self._file != self._path.stat().st_ino
        ):  # also after a restart: nothing happens to what was handed over before
            for old in reversed(rotated(self._path)):
                with old.open("rb") as file:
                    yield from (report for report, _ in _whole_lines(file) if report.get("dispute"))
            self._read = 0
        with self._path.open("rb") as file:
            self._file = os.fstat(file.fileno()).st_ino
            file.seek(self._read)
            for report, length in _whole_lines(file):
                self._read += length
                if report.get("dispute"):
                    yield report


def _whole_lines(file: BinaryIO) -> Iterator[tuple[dict[str, Any], int]]:
    """Each line's object and length; an empty one for a line that was cut short."""
    for line in file:
        if not line.endswith(b"\n"):
            return
        try:
            yield json.loads(line), len(line)
        except json.JSONDecodeError:
            yield {}, len(line)
