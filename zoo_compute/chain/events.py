"""Reading the contracts' events: `scan` a range of blocks, or `Follower` for everything new, reorganisations included."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from eth_typing import ABIEvent
from eth_utils.abi import abi_to_signature
from eth_utils.crypto import keccak
from web3.exceptions import Web3RPCError
from web3.types import LogReceipt

from zoo_compute.chain import artifacts
from zoo_compute.chain.network import CONTRACTS, write_atomically
from zoo_compute.errors import ConfigError, Unreachable

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain, Head

BLOCKS_PER_REQUEST = 5_000  # halved while an RPC finds it too many
HEADS_KEPT = 256  # polled heads remembered to find the fork point of a reorganisation


@dataclass(frozen=True)
class Event:
    """One event of one of the network's contracts; `args` by the names of docs/protocol.md, structs as dicts."""

    name: str
    contract: str  # a name of CONTRACTS, "settlement"
    block: int
    log_index: int
    tx: str
    block_hash: bytes = field(repr=False)
    args: Mapping[str, Any]

    @property
    def job(self) -> int | None:
        return self.args.get("job")

    @property
    def operator(self) -> int | None:
        return self.args.get("operator")


@dataclass(frozen=True)
class Signature:
    """How one event lies in a log."""

    contract: str
    name: str
    topic: bytes
    inputs: Sequence[Mapping[str, Any]]

    def position(self, argument: str) -> int | None:
        """The topic index (1..3) of an indexed argument."""
        indexed = [entry["name"] for entry in self.inputs if entry["indexed"]]
        return indexed.index(argument) + 1 if argument in indexed else None


@lru_cache
def signatures() -> tuple[Signature, ...]:
    """Every event of every contract."""
    return tuple(
        Signature(contract, entry["name"], keccak(text=abi_to_signature(cast(ABIEvent, entry))), entry["inputs"])
        for contract, type_ in CONTRACTS.items()
        for entry in artifacts.abi(type_)
        if entry["type"] == "event"
    )


def scan(
    chain: Chain,
    from_block: int,
    to_block: int,
    names: Iterable[str] | None = None,
    job: int | None = None,
    operator: int | None = None,
) -> Iterator[Event]:
    """Events in ascending (block, log index), filtered by the RPC. Blocks are inclusive on both sides.

    With `job` or `operator`: only events that have this indexed argument, with this value.
    """
    queries = _queries(chain, None if names is None else frozenset(names), job, operator)
    step, start = BLOCKS_PER_REQUEST, from_block
    while start <= to_block:
        end = min(to_block, start + step - 1)
        try:
            logs = [log for query in queries for log in chain.w3.eth.get_logs({**query, "fromBlock": start, "toBlock": end})]  # type: ignore[typeddict-item]  # fmt: skip
        except Web3RPCError as error:
            if end == start:
                raise Unreachable(f"the RPC refuses the events of block {start}: {error.message}") from error
            step = max(1, (end - start + 1) // 2)
            continue
        yield from sorted(decode(chain, logs), key=lambda event: (event.block, event.log_index))
        start = end + 1


def decode(chain: Chain, logs: Iterable[LogReceipt]) -> list[Event]:
    """The events among some logs that come from the network's contracts; others are passed over."""
    events = []
    for log in logs:
        contract = _by_address(chain).get(log["address"])
        signature = contract and log["topics"] and _by_topic().get((contract, bytes(log["topics"][0])))
        if not signature:
            continue
        args = chain.contracts[signature.contract].events[signature.name]().process_log(log)["args"]
        values = {entry["name"]: _named(entry, args[entry["name"]]) for entry in signature.inputs}
        events.append(
            Event(
                name=signature.name,
                contract=signature.contract,
                block=log["blockNumber"],
                log_index=log["logIndex"],
                tx="0x" + log["transactionHash"].hex(),
                block_hash=bytes(log["blockHash"]),
                args=values,
            )
        )
    return events


def _queries(chain: Chain, names: frozenset[str] | None, job: int | None, operator: int | None) -> list[dict[str, Any]]:
    """One `eth_getLogs` filter for each layout of indexed arguments that is asked for."""
    if names is not None and (unknown := names - {signature.name for signature in signatures()}):
        raise ValueError(f"no contract has an event {', '.join(sorted(unknown))}")
    wanted = {"job": job, "operator": operator}
    layouts: dict[tuple, list[Signature]] = {}
    for signature in signatures():
        positions = {argument: signature.position(argument) for argument, value in wanted.items() if value is not None}
        if (names is None or signature.name in names) and None not in positions.values():
            layouts.setdefault(tuple(positions.items()), []).append(signature)
    queries = []
    for layout, found in layouts.items():
        topics: list[Any] = [["0x" + s.topic.hex() for s in found], None, None]
        for argument, position in layout:
            topics[position] = "0x" + (wanted[argument] or 0).to_bytes(32, "big").hex()
        while topics[-1] is None:
            topics.pop()
        addresses = sorted({chain.network.contracts[s.contract] for s in found})
        queries.append({"address": addresses, "topics": topics})
    return queries


def _by_address(chain: Chain) -> dict[str, str]:
    return {address: name for name, address in chain.network.contracts.items()}


@lru_cache
def _by_topic() -> dict[tuple[str, bytes], Signature]:
    return {(signature.contract, signature.topic): signature for signature in signatures()}


def _named(entry: Mapping[str, Any], value: Any) -> Any:
    """A struct as a dict of its fields; anything else as it is, bytes plain."""
    if entry.get("components") and entry["type"] == "tuple":
        fields = value.values() if isinstance(value, Mapping) else value
        return {part["name"]: _named(part, item) for part, item in zip(entry["components"], fields, strict=True)}
    return bytes(value) if isinstance(value, bytes) else value


@dataclass(frozen=True)
class Batch:
    """What a poll found. When `rolled_back_to` is set, everything told of later blocks is void: those blocks are gone."""

    events: Sequence[Event]
    head: int
    rolled_back_to: int | None = None

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)


class Follower:
    """Yields each event once, `confirmations` blocks behind the head, and again after a reorganisation moved it.

    With a cursor file a restart goes on where `commit` was last called: call it after a batch is handled, then each
    event is handled at least once whatever is killed.
    """

    def __init__(
        self,
        chain: Chain,
        from_block: int | None = None,
        cursor: Path | None = None,
        confirmations: int = 0,
        names: Iterable[str] | None = None,
        job: int | None = None,
        operator: int | None = None,
    ) -> None:
        self.chain = chain
        self.first = chain.network.first_block if from_block is None else from_block
        self.cursor = cursor
        self.confirmations = confirmations
        self._filter: dict[str, Any] = {"names": None if names is None else tuple(names), "job": job, "operator": operator}  # fmt: skip
        self._heads: list[tuple[int, bytes]] = self._load()

    @property
    def position(self) -> int:
        """The next block to read."""
        return self._heads[-1][0] + 1 if self._heads else self.first

    def poll(self) -> Batch:
        """New events up to the newest block that is deep enough. Raises Unreachable; a failed poll changes nothing."""
        head = self.chain.head()
        if self.confirmations:
            head = self.chain.head(max(0, head.number - self.confirmations))
        heads = self._common(head)
        rolled_back = len(heads) < len(self._heads)
        start = heads[-1][0] + 1 if heads else self.first
        events = list(scan(self.chain, start, head.number, **self._filter)) if start <= head.number else []
        if self.chain.head(head.number).hash != head.hash:
            raise Unreachable(f"block {head.number} was replaced while it was read", hint="poll again")
        if head.number >= start:
            heads.append((head.number, head.hash))
        self._heads = heads[-HEADS_KEPT:]
        return Batch(events, head.number, rolled_back_to=start - 1 if rolled_back else None)

    def commit(self) -> None:
        """Remember, across restarts, that everything polled so far is handled."""
        if self.cursor is not None:
            heads = [[number, digest.hex()] for number, digest in self._heads]
            document = {"deployment": self._deployment, "first": self.first, "heads": heads}
            write_atomically(self.cursor, json.dumps(document).encode(), mode=0o600)

    def _common(self, head: Head) -> list[tuple[int, bytes]]:
        """The remembered heads that are still part of the chain, newest last.

        Heads above `head` are kept while the newest one below it stands: the RPC is behind, or the chain was cut
        short, which shows as soon as it has grown again.
        """
        heads = list(self._heads)
        while heads:
            below = next((entry for entry in reversed(heads) if entry[0] <= head.number), None)
            if below is None or self.chain.head(below[0]).hash == below[1]:
                break
            heads = heads[: heads.index(below)]
        return heads

    @property
    def _deployment(self) -> str:
        return f"{self.chain.network.chain_id}:{self.chain.network.contracts['settlement']}"

    def _load(self) -> list[tuple[int, bytes]]:
        if self.cursor is None or not self.cursor.exists():
            return []
        try:
            document = json.loads(self.cursor.read_text())
            heads = [(int(number), bytes.fromhex(digest)) for number, digest in document["heads"]]
            deployment, first = document["deployment"], int(document["first"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigError(f"{self.cursor}: not a cursor file: {error}", hint="delete it: events are read again") from None  # fmt: skip
        if deployment != self._deployment:
            raise ConfigError(f"{self.cursor}: a cursor of another deployment ({deployment})", hint="delete it")
        self.first = first
        return heads
