"""Calls that only the timelock may make: scheduled, public during its delay, then executed. Rerun a command to resume."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from zoo_compute.amounts import format_seconds
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.chain.call import Call
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
    if left > 0 and not wait:
        return ScheduledCall("scheduled", "0x" + operation.hex(), ready_at, transaction)
    if left > 0:
        say(f"waiting for the timelock, {format_seconds(left)}")
    while chain.now() < ready_at:
        time.sleep(POLL_S if left > 60 else POLL_S / 4)
    receipt = sender.send(timelock.execute(*args, salt))
    return ScheduledCall("executed", "0x" + operation.hex(), ready_at, receipt.transaction_hash)


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
