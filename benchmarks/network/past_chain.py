"""An RPC of a chain on which many jobs were posted, trained and closed, made up as it is asked: a process of its own.

    python -m benchmarks.network.past_chain --jobs 100000

Block b has a fifth of a job's EVENTS. A new block comes every `--block-s` seconds; nothing happens in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from zoo_compute.chain.events import signatures
from zoo_compute.chain.network import CONTRACTS, Network

CHAIN_ID = 424_242
BLOCKS_PER_JOB = 5
EVENTS = (
    ("JobPosted", 1), ("LotOpened", 2), ("BidSealed", 4), ("BidRevealed", 4), ("BidsCleared", 2), ("SeatTaken", 4), ("SeatReady", 4),
    ("TurnOpened", 1), ("ResultsCommitted", 4), ("CheckpointPosted", 1), ("ClaimFinalised", 5), ("JobEnded", 1), ("JobClosed", 1),
)  # fmt: skip
PER_JOB = sum(count for _, count in EVENTS)
DATA = "0x" + "ab" * 320
FIRST_BLOCK = 1


def network(url: str) -> Network:
    addresses = {name: "0x" + f"{at + 1:02x}" * 20 for at, name in enumerate(CONTRACTS)}
    return Network("past", "production", CHAIN_ID, (url,), addresses, dict.fromkeys(CONTRACTS, "0x"), FIRST_BLOCK)


def hash_of(block: int) -> str:
    return "0x" + sha256(b"%d" % block).hexdigest()


@dataclass(frozen=True)
class Template:
    """A log of every job, with places for what differs. topics: JOB_ where its job is."""

    topics: list[str]
    text: str

    def matches(self, wanted: list[Any], job: str) -> bool:
        """As `eth_getLogs` has it: by place, one of these words, or null for any."""
        has = [job if topic == "JOB_" else topic for topic in self.topics]
        return len(has) >= len(wanted) and all(words is None or has[at] in words for at, words in enumerate(wanted))


@lru_cache
def templates() -> list[list[Template]]:
    """By block of a job."""
    by_name = {each.name: each for each in signatures()}
    addresses = network("http://past").contracts
    logs: list[Template] = []
    for name, count in EVENTS:
        for each in range(count):
            signature = by_name[name]
            places = {signature.position("job"): "JOB_", signature.position("operator"): f"0x{each + 1:064x}"}
            topics = ["0x" + signature.topic.hex(), *(places[at] for at in (1, 2) if places.get(at))]
            log = {"address": addresses[signature.contract], "topics": topics, "data": DATA, "logIndex": hex(len(logs))}
            text = json.dumps({**log, "blockNumber": "NUMBER_", "blockHash": "HASH_", "transactionHash": "HASH_"})
            logs.append(Template(topics, text))
    share = -(-len(logs) // BLOCKS_PER_JOB)
    return [logs[at : at + share] for at in range(0, len(logs), share)]


class Filter:
    """What a request asks for. Which kinds of log it may match is known before any block is looked at."""

    def __init__(self, topics: list[Any]) -> None:
        self._topics = [None if words is None else frozenset(words) for words in topics]
        kinds = self._topics[0]
        self._parts = [[each for each in part if kinds is None or each.topics[0] in kinds] for part in templates()]

    def logs_of(self, block: int, jobs: int) -> list[str]:
        job, part = divmod(block - FIRST_BLOCK, BLOCKS_PER_JOB)
        if job >= jobs or not self._parts[part]:
            return []
        hash_, number, topic = hash_of(block), hex(block), f"0x{job + 1:064x}"
        return [
            each.text.replace("JOB_", topic).replace("NUMBER_", number).replace("HASH_", hash_)
            for each in self._parts[part]
            if each.matches(self._topics, topic)
        ]


class PastChain(ThreadingHTTPServer):
    """jobs: that were posted and closed. most_logs: in one answer, as hosted RPCs have it."""

    daemon_threads = True

    def __init__(self, jobs: int, block_s: float, most_logs: int = 10_000) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.jobs, self.block_s, self.most_logs, self.began = jobs, block_s, most_logs, time.monotonic()

    @property
    def head(self) -> int:
        return FIRST_BLOCK + self.jobs * BLOCKS_PER_JOB + int((time.monotonic() - self.began) / self.block_s)

    def answer(self, method: str, params: list[Any]) -> str:
        if method == "eth_chainId":
            return f'"result": "{CHAIN_ID:#x}"'
        if method == "eth_getBlockByNumber":
            number = self.head if params[0] == "latest" else int(params[0], 16)
            header = {"number": hex(number), "hash": hash_of(number), "parentHash": hash_of(number - 1)}
            return f'"result": {json.dumps({**header, "timestamp": hex(1_700_000_000 + 12 * number)})}'
        assert method == "eth_getLogs", method
        wanted = params[0]
        if "blockHash" in wanted:
            blocks = range(self.head, self.head + 1)
        else:
            blocks = range(int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16) + 1)
        matching, logs = Filter(wanted["topics"]), list[str]()
        for block in blocks:
            logs += matching.logs_of(block, self.jobs)
            if len(logs) > self.most_logs:
                return '"error": {"code": -32005, "message": "query returned more than 10000 results"}'
        return f'"result": [{",".join(logs)}]'


class _Handler(BaseHTTPRequestHandler):
    server: PastChain
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = (f"[{','.join(map(self._reply, asked))}]" if isinstance(asked, list) else self._reply(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reply(self, question: dict[str, Any]) -> str:
        answer = self.server.answer(question["method"], question["params"])
        return f'{{"jsonrpc": "2.0", "id": {question["id"]}, {answer}}}'

    def log_message(self, *_: object) -> None: ...


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--block-s", type=float, default=12.0)
    arguments = parser.parse_args()
    server = PastChain(arguments.jobs, arguments.block_s)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
