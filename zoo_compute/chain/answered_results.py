"""A claim's results, from the calldata of answers on chain: enough to challenge an operator that serves no files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hexbytes import HexBytes
from web3.exceptions import Web3RPCError
from web3.types import RPCEndpoint

from zoo_compute.chain.demands import Demand
from zoo_compute.spec import availability, watching
from zoo_compute.spec.frames import Result
from zoo_compute.spec.state import Claim
from zoo_compute.spec.watching import Opening

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.views import Commit, JobView

_log = logging.getLogger("zoo.answers")


def answered_demands(view: JobView, commit: Commit, slot: int) -> list[Demand]:
    """The demands for a slot's update of which the bytes were shown, newest first."""
    matching = (d for d in view.demands if d.has_bytes and d.slot == slot and d.claim.fields == commit.fields)
    return list(matching)[::-1]


def published_result(chain: Chain, view: JobView, commit: Commit, slot: int) -> Result | None:
    """A slot's result with its path to the claim's root, from an answer on chain; None if there is none."""
    claim = Claim(*commit.fields)  # type: ignore[arg-type]
    for demand in answered_demands(view, commit, slot):
        asked = watching.Demand(slot=slot, tensor=demand.tensor, group=demand.group)
        for opening in _openings(chain, demand.help_tx or demand.end_tx):
            if availability.has_chunk(claim, asked, opening):
                roots = (opening.segment_root, opening.end_root, availability.data_root(asked, opening))
                return Result(*roots, opening.result_path)
    return None


def _openings(chain: Chain, tx: str) -> Iterator[Opening]:
    """The openings that a transaction passed to `Availability.answer`."""
    contract = chain.contract("availability")
    for data in _inputs(chain, tx, contract.address):
        try:
            function, args = contract.decode_function_input(data)
        except ValueError:
            continue
        if function.fn_name == "answer":
            opening = args["opening"]
            values: Any = opening.values() if isinstance(opening, Mapping) else opening
            yield Opening(*map(_plain, values))


def _plain(value: Any) -> Any:
    return tuple(map(bytes, value)) if isinstance(value, (list, tuple)) else bytes(value)


def _inputs(chain: Chain, tx: str, address: str) -> list[bytes]:
    """The calldata of every call to a contract in a transaction. Calls through other contracts need a trace."""
    transaction = chain.w3.eth.get_transaction(HexBytes(tx))
    if transaction.get("to") == address:
        return [bytes(transaction["input"])]
    try:
        call = chain.w3.manager.request_blocking(RPCEndpoint("debug_traceTransaction"), [tx, {"tracer": "callTracer"}])
    except Web3RPCError as error:
        _log.warning("%s answers a demand through another contract, and the RPC cannot trace it: %s", tx, error)
        return []
    return [bytes(HexBytes(each["input"])) for each in _calls(call) if each.get("to", "").lower() == address.lower()]


def _calls(call: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """A traced call and its inner calls, without reverted ones."""
    if "error" not in call:
        yield call
        for each in call.get("calls", ()):
            yield from _calls(each)
