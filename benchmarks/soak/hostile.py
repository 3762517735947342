"""Those who want the network's keepers to fail: a peer that serves wrong bytes, and a submitter that posts nonsense and cancels.

A third one asks about true claims: `benchmarks.network.hostile_asker`. Each counts what it did, so that a run shows that it was attacked.
"""

from __future__ import annotations

import dataclasses
import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from keepers.processes.local_network import LocalNetwork
from zoo_compute.chain.generated.bindings.task_registry import Terms as PostedTerms
from zoo_compute.chain.sender import Sender
from zoo_compute.client.client import Client
from zoo_compute.jobs.submission import PreparedJob, posting_deposit
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.params import ZEN
from zoo_compute.store.cid import digest_of
from zoo_compute.subprocesses import LOOPBACK

WRONG_BYTES = 4_096


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A keeper that hangs up on wrong bytes is what is wanted."""


class WrongBytesPeer:
    """A registered operator whose gateway answers every request for a block with other bytes. served: how often."""

    def __init__(self, network: LocalNetwork, name: str) -> None:
        self.served: Counter[str] = Counter()
        served = self.served

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                kind = self.path.split("/")[1].split("?")[0]
                served[kind] += 1
                body = os.urandom(WRONG_BYTES) if kind == "ipfs" else json.dumps({"pinned": True}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_HEAD = do_GET

            def log_message(self, *_: object) -> None: ...

        self._server = _QuietServer((LOOPBACK, 0), Handler)
        chain, stake = network.devnet.chain, network.devnet.chain.params.min_stake
        owner = network.devnet.account(name, zen=stake)
        sender = Sender(chain, owner, folder=network.devnet.folder)
        sender.send(chain.zen.approve(chain.registry.address, stake))
        endpoint = f"http://{LOOPBACK}:{self._server.server_port}"
        receipt = sender.send(chain.registry.register(owner.address, 1, 24, stake, endpoint))
        self.operator = int(receipt.event("OperatorRegistered").args["operator"])

    @contextmanager
    def serving(self) -> Iterator[None]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()


class HostileSubmitter:
    """Posts jobs without files, jobs whose manifest is no manifest, and true jobs that it cancels once operators have bid. done: how many of
    each; jobs: their numbers.
    """

    def __init__(self, network: LocalNetwork, name: str, example: PreparedJob) -> None:
        chain = network.devnet.chain
        account = network.devnet.account(name, coin=1_000 * 10**18, zen=100_000 * ZEN)
        self._client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        self._sender, self._chain, self._example = self._client.sender, chain, example
        self._sender.send(chain.zen.approve(chain.tasks.address, UINT256_MAX))
        self.done: Counter[str] = Counter()
        self.jobs: set[int] = set()
        self._bid_for: list[int] = []  # posted in earnest, to be cancelled
        self._turns = 0

    def post(self) -> None:
        """The next of its kinds."""
        kinds = (self._without_files, self._no_manifest, self._true_one)
        kinds[self._turns % len(kinds)]()
        self._turns += 1

    def cancel(self) -> None:
        """What it posted in earnest and somebody bid for."""
        for job in list(self._bid_for):
            if self._chain.auction.lots(job, 0).revealed or self._chain.tasks.jobs(job).state != 1:
                self._bid_for.remove(job)
                continue
            self._sender.send(self._chain.tasks.cancel(job))
            self._bid_for.remove(job)
            self.done["cancelled"] += 1

    def _without_files(self) -> None:
        self._post("without files", os.urandom(32))

    def _no_manifest(self) -> None:
        cid = self._client.store.add(b'{"rounds": "many", "program": ' + os.urandom(64).hex().encode(), pin=True)
        self._post("no manifest", digest_of(cid))

    def _true_one(self) -> None:
        self._bid_for.append(self._post("to be cancelled", self._example.terms.manifest))

    def _post(self, what: str, manifest: bytes) -> int:
        terms = dataclasses.replace(self._example.terms, manifest=manifest)
        call = self._chain.tasks.post(PostedTerms(**dataclasses.asdict(terms)))
        receipt = self._sender.send(call, value=posting_deposit(self._chain))
        job = int(receipt.event("JobPosted").args["job"])
        self.jobs.add(job)
        self.done[what] += 1
        return job
