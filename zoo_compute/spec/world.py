"""One step of the protocol: a call by an account, applied to the whole state (docs/protocol/).

`apply` is a pure function: it never changes its argument, and raises `Refused` for a refused call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from zoo_compute.spec import (
    admissions,
    auction,
    audit_ends,
    audits,
    availability,
    channels,
    convictions,
    court,
    credits,
    custody,
    custody_turns,
    datasets,
    guardian,
    locks,
    node_registry,
    referee,
    rewards,
    serving,
    settlement,
    task_registry,
    treasury,
    verdicts,
)
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.params import LIST_LIMIT
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.state import Message, World

__all__ = ["EXTERNAL", "PROTOCOL_ONLY", "WIRED", "Call", "World", "apply"]


@dataclass(frozen=True, slots=True)
class Call:
    """A transaction: `args` in the order of docs/protocol/; structs are records of `state` or `params.Terms`. `now` is block time."""

    contract: str
    function: str
    sender: str
    now: int
    args: tuple[Any, ...] = ()
    value: int = 0
    base_fee: int = 0
    block: int = 0


def transfer(w: World, msg: Message, token: str, to: str, amount: int) -> None:
    """A plain ERC-20 transfer, as a donation to a contract would be."""
    w.move(token, msg.sender, to, amount, by="token")
    w.donations[token, to] = w.donations.get((token, to), 0) + amount


def refuse(w: World, msg: Message, token: str, refuses: bool) -> None:
    """Makes a mock token hostile, or normal again: a hostile one's transfers return `false` and move nothing."""
    w.false_tokens[token] = refuses


def _named(*functions: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {function.__name__: function for function in functions}


def _of_disputes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Of the referee: works on what it keeps, and the world is its court."""

    @wraps(function)
    def on_world(w: World, msg: Message, *args: Any) -> Any:
        return function(court.disputes_at(w, msg), msg, *args)

    return on_world


EXTERNAL: dict[str, dict[str, Callable[..., Any]]] = {
    "guardian": _named(guardian.pause, guardian.resume, guardian.govern, guardian.appoint),
    "registry": _named(
        node_registry.register,
        node_registry.register_for,
        node_registry.announce,
        node_registry.set_hot,
        node_registry.allow_answers,
        node_registry.offer_owner,
        node_registry.accept_owner,
        node_registry.add_stake,
        node_registry.request_exit,
        node_registry.withdraw_stake,
        node_registry.deposit,
        node_registry.withdraw,
        node_registry.declare,
        node_registry.declare_region,
        node_registry.heartbeat,
        node_registry.beat,
        node_registry.breach,
    ),
    "tasks": _named(
        task_registry.allow,
        task_registry.post,
        task_registry.post_permitted,
        task_registry.cancel,
        task_registry.lapse,
        task_registry.withdraw,
    ),
    "auction": _named(
        auction.bid,
        auction.reveal,
        auction.reopen,
        auction.clear,
        auction.award,
        auction.reclaim,
    ),
    "referee": {
        function.__name__: _of_disputes(function)
        for function in (
            referee.ask_claim,
            referee.ask,
            referee.ask_stage,
            referee.answer,
            referee.answer_words,
            referee.answer_stage,
            verdicts.judge,
            verdicts.expire,
            verdicts.close,
            verdicts.settle,
            verdicts.withdraw,
            verdicts.seal,
            verdicts.open_seal,
            verdicts.reward,
        )
    },
    "settlement": _named(
        settlement.ready,
        settlement.decline,
        settlement.expire,
        settlement.commit,
        settlement.time_out,
        settlement.take_over,
        settlement.post_checkpoint,
        settlement.abandon,
        settlement.finalise,
        convictions.open_dispute,
        convictions.close_dispute,
        convictions.reward_finder,
    ),
    "locks": _named(locks.release, locks.return_set_aside),
    "rewards": _named(
        rewards.fund,
        rewards.move_pool,
        rewards.redeem,
        rewards.claim,
        rewards.claim_verification,
        rewards.claim_data,
        rewards.recycle,
    ),
    "datasets": _named(datasets.contribute, datasets.cite, datasets.score),
    "channels": _named(
        channels.open,
        channels.open_permitted,
        channels.add,
        channels.redeem,
        channels.close,
        channels.leave,
        channels.refund,
        channels.withdraw,
    ),
    "availability": _named(
        availability.demand,
        availability.demand_of_signer,
        availability.answer,
        availability.close,
        availability.withdraw,
    ),
    "audits": _named(
        audits.fund,
        audits.refund,
        audits.deposit,
        audits.pay_out,
        audits.offer,
        audits.leave,
        audits.draw_units,
        audits.give_verdicts,
        audit_ends.settle_verdicts,
        audit_ends.lapse_verdicts,
        audits.withdraw,
    ),
    "custody": _named(
        custody.request,
        custody.fund,
        custody.refund,
        custody.deposit,
        custody.withdraw,
        custody.note_stake,
        custody.offer,
        custody.retire,
        custody.schedule,
        custody.draw,
        custody.note_key,
        custody.resign,
        custody_turns.hold_start,
        custody_turns.hold_inputs,
        custody_turns.leave_out,
        custody_turns.post_checkpoint,
        custody_turns.hold_turn,
        custody_turns.count,
        custody.lapse,
        custody.forfeit,
        custody.expel,
        custody.release,
    ),
    "admissions": _named(
        admissions.set_workload,
        admissions.enter,
        admissions.answer,
        admissions.open_dispute,
        admissions.close_dispute,
        admissions.reward_finder,
        admissions.settle,
        admissions.schedule,
        admissions.recall,
        admissions.lapse,
    ),
    "serving": _named(
        serving.take,
        serving.offer,
        serving.leave,
        serving.release,
        serving.admit,
        serving.drop,
        serving.open_dispute,
        serving.close_dispute,
        serving.reward_finder,
    ),
    "credits": _named(
        credits.appoint,
        credits.set_rate,
        credits.post_rate,
        credits.buy,
        credits.pledge,
        credits.claim,
        credits.recycle,
        credits.fund,
        credits.move_pool,
    ),
    "treasury": _named(treasury.collect, treasury.fund, treasury.spend),
    "pool": {"collect": treasury.collect_audits},
    "token": _named(transfer, refuse),
}

# Functions that only the protocol's own contracts may call.
PROTOCOL_ONLY: dict[str, dict[str, str]] = {
    "registry": {"pause": "registry: not the guardian"}
    | dict.fromkeys(
        (
            "lock",
            "lock_bid",
            "pause_bids",
            "unlock",
            "slash",
            "slash_stake",
            "slash_for",
            "pay_share",
            "pay_out",
            "burn",
            "reward_outcome",
            "set_admitted",
        ),
        "registry: not a protocol contract",
    ),
    "tasks": {
        "pause": "tasks: not the guardian",
        **dict.fromkeys(
            ("advance", "pay", "restore", "close", "compensate", "forsake"), "tasks: not a protocol contract"
        ),
    },
    "auction": {
        "pause": "auction: not the guardian",
        "open": "auction: not the task registry",
        "cancelled": "auction: not the task registry",
    },
    "settlement": {
        **dict.fromkeys(("seat", "begin"), "settlement: not a protocol contract"),
        **dict.fromkeys(("void", "hold", "resume"), "settlement: not a protocol contract"),
        **dict.fromkeys(("start", "note_custody", "leave_out"), "settlement: not a protocol contract"),
    },
    "locks": dict.fromkeys(
        ("award", "take", "vacate", "convict", "reward_finder", "burn"), "locks: not the settlement"
    ),
    "credits": {"record": "credits: not the task registry"},
    "rewards": {
        "record": "rewards: not the settlement",
        "record_verification": "rewards: not the audits",
        "record_data": "rewards: not the datasets",
    },
}

# Contracts that are wired at deployment to contracts deployed after them.
WIRED: tuple[str, ...] = (
    "registry",
    "tasks",
    "auction",
    "settlement",
    "locks",
    "rewards",
    "audits",
    "admissions",
    "serving",
    "credits",
)


def apply(world: World, call: Call) -> tuple[World, Any]:
    """The world after the call, and the return value. Raises Refused; `world` never changes."""
    _check_encodable(call.args)
    if call.function in PROTOCOL_ONLY.get(call.contract, {}):
        raise Refused(PROTOCOL_ONLY[call.contract][call.function])
    if call.function == "wire" and call.contract in WIRED:
        require(call.sender == world.config.deployer, f"{call.contract}: not the deployer")
        raise Refused(f"{call.contract}: already wired")
    function = EXTERNAL[call.contract][call.function]
    after = world.fork()
    now = node_registry.protocol_time(after, call.now)
    message = Message(call.sender, now, call.value, call.base_fee, call.block, block_time=call.now)
    result = function(after, message, *call.args)
    return after, result


def _check_encodable(args: tuple[Any, ...]) -> None:
    """Arguments that the ABI cannot encode are the caller's mistake, not a refusal by the protocol."""
    for arg in args:
        if isinstance(arg, tuple):
            if len(arg) > LIST_LIMIT:
                raise ValueError(f"at most {LIST_LIMIT} elements fit a list, got {len(arg)}: split the call")
            _check_encodable(arg)
        elif isinstance(arg, int) and not 0 <= arg <= UINT256_MAX:
            raise ValueError(f"{arg} is not a uint256: pass 0 .. 2**256 - 1")
