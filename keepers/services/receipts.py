"""Bandwidth receipts of one operator: signed for what its processes downloaded, asked for from its clients, redeemed before the epoch ends.

Asking waits for others' machines, so all of it has a thread of its own.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from keepers.decisions.receipts import (
    LAST_LOOKS,
    LOOKS,
    MAX_BYTES,
    Candidate,
    Receipt,
    RunningEpoch,
    Served,
    add_within_link,
    bytes_by_operator,
    is_signed_by,
    sign,
    worth_redeeming,
)
from repops.fields import BadField, parse_json, read
from zoo_compute.amounts import parse_amount
from zoo_compute.atomic import write_atomically
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.event_log import history_of
from zoo_compute.chain.fees import next_base_fee
from zoo_compute.errors import Refusal, ZooError
from zoo_compute.spec.params import ZEN
from zoo_compute.spec.rewards import tier_bytes
from zoo_compute.store.addresses import Scope
from zoo_compute.store.gateway import receipt_path
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed, is_gateway

if TYPE_CHECKING:
    from keepers.config import OperatorConfig
    from keepers.queue.received_bytes import ReceivedBytes
    from zoo_compute.chain.connection import Chain, Head
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.signer import HotKey
    from zoo_compute.store import BlockStore

log = logging.getLogger("zoo.receipts")

FILE = "receipts.json"  # in the operator's folder
ANSWER_S = 3.0  # for one receipt
ASKED_AT_ONCE = 8
REDEEM_GAS = (
    140_000  # of a pair's first receipt in an epoch; later ones take less   tests/integration/test_keepers_receipts.py
)


@dataclass(frozen=True)
class Ledger:
    """Of one epoch. totals: what I sign for, by server. best: the receipts that my clients signed.

    is_whole: this file saw the epoch begin. Otherwise I may have signed more than it says, and I sign nothing until the next one.
    """

    epoch: int
    is_whole: bool
    totals: dict[str, Any] = field(default_factory=dict)
    best: tuple[Receipt, ...] = ()

    @property
    def signed(self) -> dict[int, int]:
        return {int(server): int(total) for server, total in self.totals.items()}


class Receipts:
    """endpoints: by operator, as announced on chain. scope: where these may be."""

    def __init__(
        self,
        config: OperatorConfig,
        chain: Chain,
        sender: Sender,
        account: HotKey,
        store: BlockStore,
        received: ReceivedBytes,
        endpoints: Callable[[], Mapping[int, str]],
        scope: Scope = Scope.ANY,
    ) -> None:
        self._chain, self._sender, self._account = chain, sender, account
        self._operator, self._endpoints, self._scope = config.operator, endpoints, scope
        self._root, self._path, self._received = store.root, config.folder / FILE, received
        self._coin_price = parse_amount(config.coin_price)
        self._epoch_s = chain.params.epoch_s
        self._computed = history_of(chain, names=("ComputeRecorded",), operator=config.operator)
        self._ledger: Ledger | None = self._load()
        self._published: dict[int, int] = {}  # server -> the total of the receipt beside my store
        self.status: dict[str, Any] = {}

    @property
    def pause_s(self) -> float:
        """Between two looks."""
        return self._epoch_s / LOOKS

    def run(self, progressed: Callable[[], None] = lambda: None) -> None:
        while True:
            try:
                self.look()
            except (ZooError, RedisError) as error:
                log.warning("%s; will try again", error)
            except Exception:
                log.exception("unexpected")
            progressed()
            time.sleep(self.pause_s)

    def look(self) -> None:
        """Count what came, sign for it, ask for what others signed; near the epoch's end, redeem."""
        endpoints = self._endpoints()
        if not endpoints:
            return  # the chain's announcements were not read yet
        head = self._chain.head()
        epoch = head.timestamp // self._epoch_s
        ledger = self._begun(epoch)
        ledger = self._count(ledger, head, endpoints)
        ledger = self._ask(ledger, head, endpoints)
        served = self._served(head, epoch)
        if (epoch + 1) * self._epoch_s - head.timestamp <= LAST_LOOKS * self._epoch_s // LOOKS:
            served = self._redeem(ledger, head, served)
        self.status = {
            "epoch": epoch,
            "received_bytes": sum(ledger.signed.values()),
            "receipts": len(ledger.best),
            "receipts_bytes": sum(receipt.total for receipt in ledger.best),
            "redeemed_bytes": served.total,
        }

    # -- the client

    def _begun(self, epoch: int) -> Ledger:
        """The epoch's ledger. A file that I do not have, or that is of a later epoch, cannot say what I signed in this one."""
        ledger = self._ledger
        if ledger is None or ledger.epoch != epoch:
            ledger = Ledger(epoch, is_whole=ledger is not None and ledger.epoch < epoch)
            self._save(ledger)
            for path in (self._root / "receipts").glob("*.json"):
                path.unlink(missing_ok=True)
            self._published.clear()
        return ledger

    def _count(self, ledger: Ledger, head: Head, endpoints: Mapping[int, str]) -> Ledger:
        came = bytes_by_operator(self._received.take(), endpoints, self._operator)
        if not ledger.is_whole:
            return ledger
        totals = add_within_link(ledger.signed, came, self._link(head, ledger.epoch, self._operator))
        ledger = replace(ledger, totals={str(server): total for server, total in totals.items()})
        self._save(ledger)  # before anything is signed: a crash in between signs less, never the same bytes twice
        for server, total in totals.items():
            if self._published.get(server) != total:
                unsigned = Receipt(server, self._operator, ledger.epoch, total)
                content = sign(self._chain, self._account, unsigned).to_bytes()
                write_atomically(receipt_path(self._root, server), content, mode=0o644)
                self._published[server] = total
        return ledger

    # -- the server

    def _ask(self, ledger: Ledger, head: Head, endpoints: Mapping[int, str]) -> Ledger:
        """Keep the best receipt of each client."""
        best = {receipt.client: receipt for receipt in ledger.best}
        asked = {client: url for client, url in endpoints.items() if client != self._operator and is_gateway(url)}
        with ThreadPoolExecutor(ASKED_AT_ONCE) as pool:
            answers = dict(zip(asked, pool.map(self._receipt_at, asked.values()), strict=True))
        news = {
            client: said
            for client, said in answers.items()
            if said is not None
            and (said.server, said.client, said.epoch) == (self._operator, client, ledger.epoch)
            and (client not in best or said.total > best[client].total)
        }
        keys = self._read(head, [Read("registry", "hot_key", (client,)) for client in news])
        signed = {
            client: news[client]
            for client, key in zip(news, keys, strict=True)
            if is_signed_by(self._chain, key, news[client])
        }
        if signed:
            ledger = replace(ledger, best=tuple((best | signed).values()))
            self._save(ledger)
        return ledger

    def _receipt_at(self, url: str) -> Receipt | None:
        client = GatewayClient(url, self._scope)
        request = HttpRequest("GET", f"/receipts/{self._operator}", {})
        try:
            status, body, _ = client.ask(request, deadline=time.monotonic() + ANSWER_S, max_bytes=MAX_BYTES)
            return Receipt.from_bytes(body) if status == 200 else None
        except (PeerFailed, BadField) as error:
            log.debug("no receipt from %s: %s", url, error)
            return None
        finally:
            client.close()

    def _redeem(self, ledger: Ledger, head: Head, served: Served) -> Served:
        if not ledger.best:
            return served
        wei = REDEEM_GAS * (next_base_fee(self._chain.w3) + self._chain.w3.eth.max_priority_fee)
        candidates, running = self._candidates(ledger, head), self._running(head, ledger.epoch, served.counted)
        for receipt in worth_redeeming(candidates, served, running, wei * self._coin_price // ZEN):
            try:
                sent = self._sender.send(self._chain.rewards.redeem(*receipt.args))
            except Refusal as refusal:
                log.info("the receipt of operator %d is refused: %s", receipt.client, refusal.reason)
                continue
            log.info("redeemed %d bytes of operator %d in %s", receipt.total, receipt.client, sent.transaction_hash)
        return self._served(self._chain.head(), ledger.epoch)

    def _candidates(self, ledger: Ledger, head: Head) -> list[Candidate]:
        reads = []
        for receipt in ledger.best:
            reads += [
                Read("rewards", "pairs", (self._operator, receipt.client, ledger.epoch)),
                Read("rewards", "signed", (receipt.client, ledger.epoch)),
                Read("registry", "promised", (receipt.client, ledger.epoch)),
            ]
        answers = iter(self._read(head, reads))
        return [
            Candidate(
                receipt, pair["total"], signed["total"], signed["violated"], tier_bytes(promise["tier"], self._epoch_s)
            )
            for receipt, pair, signed, promise in zip(ledger.best, answers, answers, answers, strict=True)
        ]

    def _running(self, head: Head, epoch: int, counted: int) -> RunningEpoch:
        """The others' bytes: as many as they redeemed so far, or in the last epoch, whichever is more: they redeem late, as I do."""
        events = self._computed.events_until(head)
        self._computed.forget([event for event in events if event.args["epoch"] < epoch])
        jobs = sorted({int(event.args["job"]) for event in events if event.args["epoch"] == epoch})
        mine = self._operator
        total, pool, beats, total_beats, now, before, last, *shares = self._read(
            head,
            [
                Read("rewards", "epochs", (epoch,)),
                Read("rewards", "pool", ()),
                Read("registry", "beats", (mine, epoch)),
                Read("registry", "total_beats", (epoch,)),
                Read("rewards", "total_bytes", (epoch,)),
                Read("rewards", "total_bytes", (epoch - 1,)),
                Read("rewards", "served", (mine, epoch - 1)),
                *(Read("rewards", "shares", (mine, epoch, job)) for job in jobs),
            ],
        )
        return RunningEpoch(
            budget=total["budget"] or min(self._chain.params.emission_per_epoch, pool),
            weight=total["weight"],
            shares=tuple((share["weight"], share["fees"]) for share in shares),
            beats=beats.bit_count(),
            total_beats=total_beats,
            others_bytes=max(now - counted, before - last["counted"]),
        )

    # -- reading

    def _served(self, head: Head, epoch: int) -> Served:
        (served,) = self._read(head, [Read("rewards", "served", (self._operator, epoch))])
        return Served(served["total"], served["counted"], self._link(head, epoch, self._operator))

    def _link(self, head: Head, epoch: int, operator: int) -> int:
        (promise,) = self._read(head, [Read("registry", "promised", (operator, epoch))])
        return tier_bytes(promise["tier"], self._epoch_s)

    def _read(self, head: Head, reads: Iterable[Read]) -> list[Any]:
        return read_all(self._chain, head.number, list(reads))

    def _save(self, ledger: Ledger) -> None:
        if ledger != self._ledger:
            write_atomically(self._path, json.dumps(asdict(ledger)).encode(), mode=0o600)
            self._ledger = ledger

    def _load(self) -> Ledger | None:
        try:
            return read(Ledger, parse_json(self._path.read_bytes(), FILE), FILE)
        except FileNotFoundError:
            return None
        except BadField as error:
            log.warning("what I signed in this epoch cannot be read, so I sign nothing until the next one: %s", error)
            return None
