"""Reads the contracts' events in a range of blocks. `event_log.py` caches them and handles reorganisations."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from eth_typing import ABIEvent
from eth_utils.abi import abi_to_signature
from eth_utils.crypto import keccak
from web3.exceptions import Web3RPCError
from web3.types import LogReceipt

from zoo_compute.chain import artifacts
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.errors import Unreachable

if TYPE_CHECKING:
    from web3.contract.contract import ContractEvent

    from zoo_compute.chain.connection import Chain

_log = logging.getLogger("zoo.events")

BLOCKS_PER_REQUEST = 5_000  # halved while an RPC rejects it


@dataclass(frozen=True)
class Event:
    """One event of one of the network's contracts; `args` by the names of docs/protocol/, structs as dicts."""

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
    """The layout of an event in a log."""

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
    server: int | None = None,
    client: int | None = None,
) -> Iterator[Event]:
    """Events in ascending (block, log index), filtered by the RPC. Blocks are inclusive on both sides.

    With `job`, `operator`, `server` or `client`: only events that have this indexed argument, with this value; of an address the number.
    """
    wanted = {"job": job, "operator": operator, "server": server, "client": client}
    queries = _queries(chain, None if names is None else frozenset(names), wanted)
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
    """The events of the network's contracts among these logs. Skips other logs."""
    events = []
    for log in logs:
        contract = _by_address(chain).get(log["address"])
        signature = contract and log["topics"] and _by_topic().get((contract, bytes(log["topics"][0])))
        if not signature:
            continue
        try:
            args = _decoder(chain, signature).process_log(log)["args"]
        except UnicodeDecodeError:
            _log.warning("%s in %s is not valid text and is skipped", signature.name, log["transactionHash"].hex())
            continue  # anyone can announce an endpoint that is not valid text
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


def _decoder(chain: Chain, signature: Signature) -> ContractEvent:
    """From the event's own ABI: a contract with all its functions takes a hundred times as long to make."""
    abi = {"type": "event", "name": signature.name, "inputs": signature.inputs, "anonymous": False}
    key = ("event", signature.contract, signature.name)
    return chain.cached(key, lambda: chain.w3.eth.contract(abi=[abi]).events[signature.name]())


def _queries(chain: Chain, names: frozenset[str] | None, wanted: Mapping[str, int | None]) -> list[dict[str, Any]]:
    """One `eth_getLogs` filter for each layout of indexed arguments in the query."""
    if names is not None and (unknown := names - {signature.name for signature in signatures()}):
        raise ValueError(f"no contract has an event {', '.join(sorted(unknown))}")
    layouts: dict[tuple, list[Signature]] = {}
    for signature in signatures():
        positions = {argument: signature.position(argument) for argument, value in wanted.items() if value is not None}
        if (names is None or signature.name in names) and None not in positions.values():
            layouts.setdefault(tuple(positions.items()), []).append(signature)
    queries = []
    for layout, alike in layouts.items():
        topics: list[Any] = [["0x" + s.topic.hex() for s in alike], None, None, None]
        for argument, position in layout:
            topics[position] = "0x" + (wanted[argument] or 0).to_bytes(32, "big").hex()
        while topics[-1] is None:
            topics.pop()
        addresses = sorted({chain.network.contracts[s.contract] for s in alike})
        queries.append({"address": addresses, "topics": topics})
    return queries


def _by_address(chain: Chain) -> dict[str, str]:
    return {address: name for name, address in chain.network.contracts.items()}


@lru_cache
def _by_topic() -> dict[tuple[str, bytes], Signature]:
    return {(signature.contract, signature.topic): signature for signature in signatures()}


def _named(entry: Mapping[str, Any], value: Any) -> Any:
    """A struct as a dict of its fields; other values unchanged, with plain bytes."""
    if entry.get("components") and entry["type"] == "tuple":
        fields = value.values() if isinstance(value, Mapping) else value
        return {part["name"]: _named(part, item) for part, item in zip(entry["components"], fields, strict=True)}
    return bytes(value) if isinstance(value, bytes) else value
