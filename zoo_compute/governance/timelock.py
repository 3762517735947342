"""Calls that only the timelock may make: scheduled, public during its delay, then executed. Rerun a command to resume."""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from eth_utils.address import to_checksum_address

from zoo_compute.amounts import format_seconds
from zoo_compute.chain.addresses import HINT, is_address
from zoo_compute.chain.call import Call, functions_of
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.errors import UserError
from zoo_compute.spec.bits import UINT256_MAX

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender

NO_PREDECESSOR = bytes(32)
UNKNOWN, DONE = 0, 1  # what the timelock returns instead of a time
POLL_S = 2.0


@dataclass(frozen=True)
class ScheduledCall:
    """The progress of a call. state: `scheduled` (executable from `ready_at` on) or `executed`."""

    state: str
    operation: str
    ready_at: int
    transaction: str | None  # of this run; None if it sent nothing

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def send_through_timelock(
    sender: Sender, call: Call, *, again: bool = False, wait: bool = False, say: Callable[[str], None]
) -> ScheduledCall:
    """Schedule the call, or execute it once its delay is over. Repeats an executed call only with `again`.

    The call and a number identify an operation, so that a second run finds what the first one scheduled. Raises UserError if
    it was executed already; Refusal for an account without the role.
    """
    chain, timelock = sender.chain, sender.chain.timelock
    args, name = (call.address, 0, call.encode(), NO_PREDECESSOR), f"{call.contract}.{call.function}"
    for number in count():
        salt = number.to_bytes(32, "big")
        operation = timelock.hash_operation(*args, salt)
        ready_at = timelock.get_timestamp(operation)
        if ready_at != DONE:
            break
    transaction = None
    if ready_at == UNKNOWN:
        if number and not again:
            raise UserError(
                f"this {name} was executed already, {number} time{'s' * (number > 1)}",
                hint="--again schedules it once more",
            )
        receipt = sender.send(timelock.schedule(*args, salt, timelock.get_minimum_delay()))
        transaction, ready_at = receipt.transaction_hash, timelock.get_timestamp(operation)
        say(f"{name} is scheduled: operation 0x{operation.hex()}")
    left = ready_at - chain.now()
    if left > 0:
        sender.needs_mined(f"run the same command again {format_seconds(left)} after it is mined, to execute it")
    if left > 0 and not wait:
        return ScheduledCall("scheduled", "0x" + operation.hex(), ready_at, transaction)
    if left > 0:
        say(f"waiting for the timelock, {format_seconds(left)}")
    while chain.now() < ready_at:
        time.sleep(POLL_S if left > 60 else POLL_S / 4)
    receipt = sender.send(timelock.execute(*args, salt))
    return ScheduledCall("executed", "0x" + operation.hex(), ready_at, receipt.transaction_hash)


def governed_call(chain: Chain, target: str, args: Sequence[str]) -> Call:
    """The call `CONTRACT.FUNCTION` with arguments as a command line has them. Raises UserError for what is no such call."""
    contract, _, function = target.partition(".")
    if contract not in CONTRACTS:
        raise UserError(f"there is no contract {contract!r}", hint=f"choose one of {', '.join(CONTRACTS)}")
    entries = functions_of(CONTRACTS[contract])
    entry = entries.get(function)
    if entry is None or entry["stateMutability"] in ("view", "pure"):
        near = difflib.get_close_matches(function, entries, n=1)
        hint = f"did you mean {contract}.{near[0]}?" if near else f"docs/protocol/ lists the functions of {contract}"
        raise UserError(f"{CONTRACTS[contract]} has no function {function!r} to send", hint=hint)
    inputs = entry["inputs"]
    signature = ", ".join(f"{each['name']}: {each['type']}" for each in inputs)
    if len(args) != len(inputs):
        raise UserError(
            f"{target} takes {len(inputs)} argument{'s' * (len(inputs) != 1)}, got {len(args)}",
            hint=f"pass ({signature})",
        )
    values = tuple(_argument(each, text) for each, text in zip(inputs, args, strict=True))
    return Call(CONTRACTS[contract], chain.network.contracts[contract], function, values, entry)


def _argument(each: Mapping[str, Any], text: str) -> Any:
    """A value; of a struct all its values, with commas between them."""
    if each["type"] != "tuple":
        return _value(each["type"], text, each["name"])
    fields, texts = each["components"], text.split(",")
    if len(texts) != len(fields):
        names = ",".join(field["name"].upper() for field in fields)
        raise UserError(f"{each['name']} takes {len(fields)} values, got {len(texts)}", hint=f"write {names}")
    return tuple(_argument(field, part.strip()) for field, part in zip(fields, texts, strict=True))


def _value(kind: str, text: str, name: str) -> Any:
    if kind not in _READERS:
        raise UserError(
            f"{name} takes {kind}, which this command cannot read", hint="encode the call with another tool"
        )
    try:
        return _READERS[kind](text)
    except (ValueError, KeyError):
        hint = HINT if kind == "address" else "numbers are below 2^256, bytes begin with 0x"
        raise UserError(f"{name} takes {kind}, not {text!r}", hint=hint) from None


def _address(text: str) -> str:
    if not is_address(text):
        raise ValueError
    return str(to_checksum_address(text))


def _number(text: str) -> int:
    number = int(text, 0)
    if not 0 <= number <= UINT256_MAX:
        raise ValueError
    return number


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.removeprefix("0x"))


def _word(text: str) -> bytes:
    word = _bytes(text)
    if len(word) != 32:
        raise ValueError
    return word


_READERS: dict[str, Callable[[str], Any]] = {
    "address": _address,
    "bool": lambda text: {"true": True, "false": False}[text.lower()],
    "bytes": _bytes,
    "bytes32": _word,
    "uint256": _number,
}  # of arguments, by their kind; each raises ValueError or KeyError


def intakes(chain: Chain) -> dict[str, int]:
    """Until when each intake is paused, by the contract's name: before that second it takes nothing new."""
    return {
        "registry": chain.registry.paused_until(),
        "tasks": chain.tasks.paused_until(),
        "auction": chain.auction.paused_until(),
    }


def calls_for_multisigs(chain: Chain, call: Call) -> dict[str, dict[str, str]]:
    """What a proposer, an executor and a canceller enter in their multisig: target and calldata of each, by role."""
    timelock = chain.timelock
    args, salt = (call.address, 0, call.encode(), NO_PREDECESSOR), _free_salt(chain, call)
    operation = timelock.hash_operation(*args, salt)
    steps = {
        "proposer": timelock.schedule(*args, salt, timelock.get_minimum_delay()),
        "executor": timelock.execute(*args, salt),
        "canceller": timelock.cancel(operation),
    }
    return {role: {"to": step.address, "data": "0x" + step.encode().hex()} for role, step in steps.items()}


def _free_salt(chain: Chain, call: Call) -> bytes:
    """The first that no executed operation of this call has: what is scheduled already is printed again."""
    for number in count():
        salt = number.to_bytes(32, "big")
        operation = chain.timelock.hash_operation(call.address, 0, call.encode(), NO_PREDECESSOR, salt)
        if chain.timelock.get_timestamp(operation) != DONE:
            return salt
    raise AssertionError("unreachable")


def send_as_governor(
    sender: Sender, governor: str, call: Call, *, again: bool, wait: bool, say: Callable[[str], None]
) -> ScheduledCall:
    """Make the call as its contract's governor: the account itself (on a devnet), or the timelock. Raises UserError."""
    if governor == sender.address:
        receipt = sender.send(call)
        return ScheduledCall("executed", "", sender.chain.now(), receipt.transaction_hash)
    if governor == sender.chain.timelock.address:
        return send_through_timelock(sender, call, again=again, wait=wait, say=say)
    raise UserError(
        f"only {governor} may call {call.contract}.{call.function}; this account is {sender.address}",
        hint="choose its account with --account; on a devnet it is `deployer`",
    )
