"""What the index does not have, read from chain and store for what somebody looks at: losses, locks, transcripts, what a node needs."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from zoo_compute.dashboard.index import Index
from zoo_compute.dashboard.mapped import MappedJob
from zoo_compute.dashboard.views import DisputeLook, JobLook, MapLook, Numbers, OperatorLook
from zoo_compute.errors import UserError, ZooError
from zoo_compute.store.errors import StoreError

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Head
    from zoo_compute.client.client import Client
    from zoo_compute.client.dispute_transcript import ConvictionDetail, Transcript
    from zoo_compute.client.job import Job

log = logging.getLogger("zoo.dashboard")
T = TypeVar("T")

LOOKED_AT_S = 60.0  # after the last request for it
MOST = 16  # looked at together
NEEDS_EVERY_S = 30.0


class Looks:
    """The follower's thread reads; requests say what somebody looks at. home: the operator's folder on this machine."""

    def __init__(self, client: Client, index: Index, home: Path | None) -> None:
        self._client, self._chain, self._index, self._home = client, client.chain, index, home
        self._wanted: dict[str, float] = {}  # name of a look -> when it was asked for
        self._lock = threading.Lock()
        self._jobs: dict[int, Job] = {}
        self._maps: dict[int, MappedJob | None] = {}  # None: a job that trains
        self._seen: dict[str, object] = {}  # name -> as of what it was read
        self._needs_at = 0.0
        self.needs: list[str] = []

    def want(self, name: str, type_: type[T]) -> T | None:
        """The newest look, and read it again. name: `job 3`, `operator 4` or `dispute 3:0:1`."""
        with self._lock:
            self._wanted[name] = time.monotonic()
            while len(self._wanted) > MOST:
                del self._wanted[min(self._wanted, key=lambda each: self._wanted[each])]
        row = self._index.db.execute("SELECT look FROM looks WHERE name = ?", (name,)).fetchone()
        return TypeAdapter(type_).validate_json(row[0]) if row else None

    def read(self, head: Head) -> None:
        """All that somebody looks at. Raises what the chain raises."""
        with self._lock:
            since = time.monotonic() - LOOKED_AT_S
            self._wanted = {name: at for name, at in self._wanted.items() if at >= since}
            names = list(self._wanted)
        self._jobs = {number: job for number, job in self._jobs.items() if f"job {number}" in names}
        self._read_tokens()
        for name in names:
            kind, _, which = name.partition(" ")
            reader: Callable[[str, Head], Any] = {
                "job": self._job,
                "operator": self._operator,
                "dispute": self._dispute,
            }[kind]
            try:
                look = reader(which, head)
            except (UserError, StoreError):
                continue  # there is no such thing, or not yet
            if look is not None:
                self._keep(name, look)
        if self._home is not None and time.monotonic() - self._needs_at > NEEDS_EVERY_S:
            self._read_needs(self._home)

    def _keep(self, name: str, look: Any) -> None:
        """Only where something but the block has changed: pages are drawn again then."""
        plain = {**asdict(look), "block": 0}
        if self._seen.get(f"kept {name}") == plain:
            return
        self._seen[f"kept {name}"] = plain
        self._index.keep("INSERT OR REPLACE INTO looks VALUES (?, ?)", (name, json.dumps(asdict(look))))

    def _job(self, which: str, head: Head) -> JobLook | None:
        number = int(which)
        closed = self._index.db.execute("SELECT closed_at FROM jobs WHERE job = ?", (number,)).fetchone()
        if closed is None:
            return None
        job = self._jobs.get(number) or self._client.job(number)
        self._jobs[number] = job
        progress = job.progress()
        mapped = self._mapped(number, job, progress.final_rounds)
        if closed[0] is not None and (mapped is not None or not any(loss is None for loss in progress.losses)):
            with self._lock:
                self._wanted.pop(f"job {number}", None)  # nothing will change
        losses = [None if loss is None else float(loss) for loss in progress.losses]
        return JobLook(
            progress.block, progress.state, progress.loss, losses, progress.waiting_for, list(progress.advice), mapped
        )

    def _mapped(self, number: int, job: Job, final_rounds: int) -> MapLook | None:
        """Of a map; None for a job that trains, or whose files nobody has now."""
        if number not in self._maps:
            self._client.use_peers()
            try:
                self._maps[number] = MappedJob(job.view(), self._client.store)
            except UserError:
                self._maps[number] = None
            except StoreError:
                return None
            while len(self._maps) > MOST:
                del self._maps[next(iter(self._maps))]
        mapped = self._maps[number]
        return None if mapped is None else mapped.look(final_rounds, job.view)

    def picture(self, job: int) -> bytes:
        """The picture of a rendering that somebody looks at, as PNG; empty where there is none."""
        mapped = self._maps.get(job)
        return b"" if mapped is None else mapped.picture

    def _operator(self, which: str, head: Head) -> OperatorLook:
        from zoo_compute.chain.snapshot import read_operator
        from zoo_compute.operators.balances import OperatorBalances

        view = read_operator(self._chain, int(which), head)
        money = OperatorBalances(view, self._chain.network.contracts["zen"])
        return OperatorLook(
            head.number, str(money.collateral), str(money.locked), str(money.owed), view.locks, view.reputation,
            view.multiplier_percent, view.eligible,
        )  # fmt: skip

    def _dispute(self, which: str, head: Head) -> DisputeLook | None:
        from zoo_compute.client.dispute_transcript import Transcript
        from zoo_compute.client.disputes import dispute_named

        asks = self._index.db.execute("SELECT COUNT(*) FROM steps").fetchone()[0]
        if self._seen.get(f"dispute {which}") == asks:
            return None
        look = _transcribed(Transcript(self._chain, dispute_named(self._chain, head, which)))
        self._seen[f"dispute {which}"] = asks
        return look

    def _read_tokens(self) -> None:
        """Symbols and decimals of tokens that jobs are paid in, each once."""
        from zoo_compute.chain.tokens import token_at

        query = "SELECT DISTINCT token FROM jobs WHERE token NOT IN (SELECT address FROM tokens)"
        unknown = [token for (token,) in self._index.db.execute(query)]
        for address in {*unknown, self._chain.network.contracts["zen"]} - self._seen.keys():
            self._seen[address] = True
            try:
                token = token_at(self._chain, address)
            except UserError:
                continue  # its contract answers nothing that can be shown
            self._index.keep("INSERT OR REPLACE INTO tokens VALUES (?,?,?)", (address, token.symbol, token.decimals))

    def _read_needs(self, home: Path) -> None:
        """As `zoo node status`, but whether peers reach the endpoint: that asks them."""
        from zoo_compute.operators.readiness import inspect_node

        self._needs_at = time.monotonic()
        try:
            needs = [str(need) for need in inspect_node(home).needs]
        except ZooError as error:
            needs = [f"needs you: {error}: {error.hint or 'see `zoo node status`'}"]
        if needs != self.needs:
            self.needs = needs
            self._index.changes += 1


def _transcribed(transcript: Transcript) -> DisputeLook:
    detail = transcript.conviction
    return DisputeLook(transcript.entries, transcript.conclusion, _numbers(detail) if detail else None, transcript.gas)


def _numbers(detail: ConvictionDetail) -> Numbers:
    from zoo_compute.client.dispute_transcript import format_word

    def words(word: int | None) -> str | None:
        return None if word is None else format_word(word, detail.is_float)

    inputs = [format_word(word, detail.is_float) for word in detail.inputs[:64]]
    return Numbers(
        detail.text, detail.step, detail.node, detail.operator, detail.element, inputs, words(detail.committed), words(detail.right)
    )  # fmt: skip
