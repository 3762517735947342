"""What the page asks a browser's wallet to send: the transactions that a command would send, unsigned, in the order to send them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eth_abi.abi import encode
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3.exceptions import TransactionNotFound

from zoo_compute.chain.events import decode
from zoo_compute.chain.roles import address_of
from zoo_compute.chain.simulate import Request, why_reverted
from zoo_compute.chain.tokens import token_at
from zoo_compute.chain.unsigned import NotMinedYet, UnsignedAccount
from zoo_compute.chain.unsigned_forms import to_json
from zoo_compute.client.client import Client
from zoo_compute.errors import UserError
from zoo_compute.operators.account import Operators
from zoo_compute.spec.params import KIND_AGGREGATOR, KIND_SLOTS

if TYPE_CHECKING:
    from zoo_compute.store import Store

KINDS = {"worker": KIND_SLOTS, "aggregator": KIND_AGGREGATOR}
JOB_FILES = ("*.yaml", "*.yml", "*.json")
LARGEST = 2**64 - 1  # number of a job or an operator
HASH_BYTES = 32


@dataclass(frozen=True)
class Plan:
    """transactions: as `to_json` writes them. then: what to do after they are mined; empty if nothing. said: progress and notes."""

    transactions: list[dict[str, Any]]
    then: str
    said: list[str] = field(default_factory=list)


class Wallet:
    """Makes plans. It has no key, sends nothing, and reads job files of one folder alone.

    client: how the page reads the network. jobs: the folder whose job files can be posted; None for none.
    """

    def __init__(self, client: Client, jobs: Path | None) -> None:
        self._client, self._jobs = client, jobs
        self._one = threading.Lock()  # tracing a module takes the machine's memory

    def job_files(self) -> list[str]:
        """Names of the files that can be posted."""
        if self._jobs is None:
            return []
        return sorted({path.name for pattern in JOB_FILES for path in self._jobs.glob(pattern) if path.is_file()})

    def plan(self, request: Mapping[str, str]) -> Plan:
        """What a wallet would send for a request: an `action`, the wallet's `account`, and the action's own words.

        Raises UserError for words that do not fit, Refusal where a contract would refuse, NotFunded, and what the command raises.
        """
        action = ACTIONS.get(request.get("action", ""))
        if action is None:
            raise UserError(f"there is no action {request.get('action')!r}", hint=f"there are {', '.join(ACTIONS)}")
        account, said = UnsignedAccount(address_of(request.get("account", ""), "the wallet")), list[str]()
        store: Store = self._client.store
        client = Client(network=self._client.description, account=account, store=store, say=said.append)
        then = ""
        with self._one:
            try:
                action(self, client, request)
            except NotMinedYet as end:
                then = str(end)
        return Plan([to_json(client.chain, each) for each in account.transactions], then, said)

    def outcome(self, digest: str) -> dict[str, Any]:
        """What became of a transaction: `state` waiting, mined or refused; the job that it posted; why it was refused."""
        chain = self._client.chain
        try:
            wanted = HexBytes(digest)
        except ValueError:
            wanted = HexBytes(b"")
        if len(wanted) != HASH_BYTES:
            raise UserError(f"{digest[:80]!r} is no transaction's hash", hint="it is 0x and 64 hexadecimal digits")
        try:
            receipt = chain.w3.eth.get_transaction_receipt(wanted)
        except TransactionNotFound:
            return {"state": "waiting"}
        block = receipt["blockNumber"]
        if receipt["status"] == 1:
            posted = [event.args["job"] for event in decode(chain, receipt["logs"]) if event.name == "JobPosted"]
            return {"state": "mined", "block": block, "job": posted[0] if posted else None}
        sent: Any = chain.w3.eth.get_transaction(wanted)
        data = "0x" + bytes(sent["input"]).hex()
        why = why_reverted(chain.w3, Request("transaction", sent["from"], sent["to"], data, sent["value"]), block)
        return {"state": "refused", "block": block, "error": str(why), "hint": why.hint}

    # -- actions

    def _post(self, client: Client, request: Mapping[str, str]) -> None:
        name = request.get("file", "")
        if self._jobs is None or name not in self.job_files():
            raise UserError(
                f"there is no job file {name!r} here",
                hint="start `zoo dashboard --jobs FOLDER` with the folder of your job's file",
            )
        client.train(self._jobs / name, request.get("budget") or None)

    def _cancel(self, client: Client, request: Mapping[str, str]) -> None:
        client.job(_number(request, "job")).cancel()

    def _fund_audits(self, client: Client, request: Mapping[str, str]) -> None:
        job = client.job(_number(request, "job"))
        job.fund_audits(token_at(client.chain, job.view().token).parse(request.get("amount", ""), what="the amount"))

    def _fund_custody(self, client: Client, request: Mapping[str, str]) -> None:
        job = client.job(_number(request, "job"))
        job.fund_custody(token_at(client.chain, job.view().token).parse(request.get("amount", ""), what="the amount"))

    def _withdraw(self, client: Client, _: Mapping[str, str]) -> None:
        client.withdraw()
        client.withdraw_coin()

    def _node_withdraw(self, client: Client, request: Mapping[str, str]) -> None:
        operators = Operators(client.chain, client.sender)
        number = operators.check(_number(request, "operator"))
        operators.withdraw(number, operators.token(None), 0, say=client.say)

    def _bid(self, client: Client, request: Mapping[str, str]) -> None:
        job, kind, operator, price, salt = _bid_of(client, request)
        capacity, attempt = _number(request, "capacity"), client.chain.auction.lots(job, kind).attempt
        seal = seal_of(job, kind, attempt, operator, price, capacity, salt)
        client.sender.send(client.chain.auction.bid(job, kind, operator, seal, capacity))

    def _reveal(self, client: Client, request: Mapping[str, str]) -> None:
        client.sender.send(client.chain.auction.reveal(*_bid_of(client, request)))


ACTIONS: dict[str, Callable[[Wallet, Client, Mapping[str, str]], None]] = {
    "post": Wallet._post,
    "cancel": Wallet._cancel,
    "fund_audits": Wallet._fund_audits,
    "fund_custody": Wallet._fund_custody,
    "withdraw": Wallet._withdraw,
    "node_withdraw": Wallet._node_withdraw,
    "bid": Wallet._bid,
    "reveal": Wallet._reveal,
}


def seal_of(job: int, kind: int, attempt: int, operator: int, price: int, capacity: int, salt: bytes) -> bytes:
    """What `Auction.bid` takes (docs/protocol/auction.md)."""
    numbers = (job, kind, attempt, operator, price, capacity)
    return keccak(encode(["uint256"] * len(numbers) + ["bytes32"], [*numbers, salt]))


def _bid_of(client: Client, request: Mapping[str, str]) -> tuple[int, int, int, int, bytes]:
    """Job, kind, operator, price and salt, as `Auction.reveal` takes them."""
    job, operator = client.job(_number(request, "job")).id, _number(request, "operator")
    kind, salt = KINDS.get(request.get("kind", "")), request.get("salt", "")
    if kind is None:
        raise UserError(f"a bid is of a worker or an aggregator, not {request.get('kind')!r}")
    try:
        word = bytes.fromhex(salt.removeprefix("0x"))
    except ValueError:
        word = b""
    if len(word) != HASH_BYTES:
        raise UserError("the salt of a bid is 32 bytes in hex", hint="the browser in which you bid keeps it")
    token = token_at(client.chain, client.chain.tasks.jobs(job).token)
    return job, kind, operator, token.parse(request.get("price", ""), what="the price"), word


def _number(request: Mapping[str, str], name: str) -> int:
    text = request.get(name, "")
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:21]) <= LARGEST):
        raise UserError(f"{name} should be a whole number above zero, not {text[:40]!r}")
    return int(text)
