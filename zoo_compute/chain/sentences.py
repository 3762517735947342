"""What a transaction does, in words: contract, function, and every argument with its unit. For whoever signs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address

from zoo_compute.amounts import ZEN, Token, format_amount, format_count, format_seconds
from zoo_compute.chain.argument_units import BYTES, COUNTS, DOLLARS, MOMENTS, MONEY, PERCENT, SECONDS, WORDS
from zoo_compute.chain.call import Call, functions_of, input_types, selector
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.tokens import token_at
from zoo_compute.errors import ZooError
from zoo_compute.gpus import TIERS, format_hours
from zoo_compute.requirement_words import described, format_region
from zoo_compute.spec.bits import slots_in
from zoo_compute.spec.params import COIN, GPU_CLASSES, KIND_AGGREGATOR, KIND_SLOTS, Terms, escrow
from zoo_compute.spec.treasury import AUDITS, DEVELOPMENT, GRANTS

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.unsigned import UnsignedTransaction

# The sentence of each function that commands and the page send. Braces name arguments. Others are named with all their arguments.
SENTENCES = {
    "ZenToken.approve": "let {spender} take up to {amount} from your account",
    "ZenToken.transfer": "send {amount} to {to}",
    "TaskRegistry.post": "post a job and pay its escrow: {terms}",
    "TaskRegistry.post_permitted": "post a job and pay its escrow with a signed allowance: {terms}",
    "TaskRegistry.cancel": "cancel job {job}, which is not awarded yet; its escrow is then owed to its submitter",
    "TaskRegistry.withdraw": "send what is owed to {account} in {token} to that account",
    "TaskRegistry.allow": "accept {token} for new jobs: {allowed}; rounds that cost {window_value} or more get longer windows",
    "NodeRegistry.register": "register an operator of class {gpu_class} with {vram_gb} and {stake} at stake; its hot key is {hot}",
    "NodeRegistry.register_for": "register an operator for its owner {owner}, of class {gpu_class} with {vram_gb}, and pay {stake} of stake",
    "NodeRegistry.declare": "promise that operator {operator} is available in {hours}, at tier {tier}",
    "NodeRegistry.declare_region": "declare that the machines of operator {operator} are in {region}",
    "NodeRegistry.set_hot": "make {hot} the hot key of operator {operator}; the old key can then do nothing",
    "NodeRegistry.announce": "announce that operator {operator} serves its store at {endpoint}",
    "NodeRegistry.allow_answers": "let {account} answer in disputes for operator {operator}: {allowed}",
    "NodeRegistry.offer_owner": "offer operator {operator} to {account}, which must accept it",
    "NodeRegistry.accept_owner": "become the owner of operator {operator}",
    "NodeRegistry.add_stake": "add {amount} to the stake of operator {operator}",
    "NodeRegistry.deposit": "add {amount} to the collateral of operator {operator}",
    "NodeRegistry.withdraw": "take {amount} of collateral of operator {operator} back to its owner",
    "NodeRegistry.request_exit": "request the exit of operator {operator}: it takes no new work, and its stake is free after a delay",
    "NodeRegistry.withdraw_stake": "take the stake of operator {operator} back to its owner",
    "NodeRegistry.beat": "say that the chain takes transactions, so that the protocol's time goes on",
    "Rewards.claim": "claim the network rewards of operator {operator} for epoch {epoch}, jobs {jobs}",
    "Credits.buy": "burn ZEN worth {dollars} for credits, at most {most}",
    "Credits.post_rate": "post the rate of a ZEN: {next_rate}",
    "Credits.set_rate": "set the rate of a ZEN: {next_rate}",
    "Credits.pledge": "pledge {amount} ZEN as collateral of operator {operator} in credits",
    "Credits.claim": "claim the share of {account} in the mint of epoch {epoch}",
    "Rewards.claim_data": "claim what datasets of {contributor} earned in job {job}, epoch {epoch}",
    "Audits.deposit": "deposit {amount} for audits of operator {operator}",
    "Audits.offer": "take {count} places among the auditors for operator {operator}",
    "Audits.leave": "leave the auditor places {places} of operator {operator}",
    "Audits.pay_out": "take {amount} of the audit deposit of operator {operator} back",
    "Audits.fund": "pay {amount} for audits of job {job}",
    "Audits.refund": "book what no verdict has reserved of the audit budget of job {job} for its submitter",
    "Audits.withdraw": "send what audits owe to {account} in {token} to that account",
    "Custody.deposit": "deposit {amount} for custody of operator {operator}",
    "Custody.withdraw": "take {amount} of the custody deposit of operator {operator} back",
    "Custody.request": "ask for custodians of job {job}, who earn {price} a signature for up to {size}",
    "Custody.fund": "pay {amount} for custodians of job {job}",
    "Custody.refund": "send what custodians of job {job} did not earn to its submitter",
    "Datasets.contribute": "record a dataset of {size} named {name}, root {root}; your account is its contributor for good",
    "Datasets.cite": "record that job {job} uses the datasets {cited}",
    "Datasets.score": "score the datasets that job {job} cites: {qualities} of 100",
    "Channels.open": "open a channel to operator {operator} with {amount}, which vouchers of {signer} spend",
    "Channels.open_permitted": "open a channel to operator {operator} with {amount}, which vouchers of {signer} spend, by a signed allowance",
    "Channels.add": "add {amount} to channel {channel}",
    "Channels.redeem": "redeem a voucher of {voucher_total} of channel {channel} for its operator's owner",
    "Channels.close": "close channel {channel} with a voucher of {voucher_total}: the rest goes to its client",
    "Channels.leave": "give notice for channel {channel}, so that its rest can be taken back",
    "Channels.refund": "take back what is left in channel {channel} to its client",
    "Channels.withdraw": "send what channels owe to {account} in {token} to that account",
    "AuditPool.collect": "move the audits' part of convictions, in {token}, to the treasury",
    "Treasury.collect": "split the fees that arrived in {token} among the treasury's buckets",
    "Treasury.spend": "pay {amount} from the treasury's bucket {bucket} to {to}",
    "Timelock.schedule": "schedule through the timelock, for {delay} from now on: {payload}",
    "Timelock.execute": "execute through the timelock: {payload}",
    "Auction.bid": "seal a bid of operator {operator} on job {job}, as {kind}, for up to {capacity} lots",
    "Auction.reveal": "open the bid of operator {operator} on job {job}, as {kind}: {price} a slot-round",
}  # fmt: skip
BUCKETS = {DEVELOPMENT: "development", AUDITS: "audits", GRANTS: "grants"}
KINDS = {KIND_SLOTS: "worker", KIND_AGGREGATOR: "aggregator"}
OF_A_JOB = ("Audits", "Custody", "Auction")  # their amounts are in the job's token


def sentence_of(chain: Chain, transaction: UnsignedTransaction) -> str:
    """One sentence: what the transaction does, in which contract, and how much coin it sends along."""
    value = format_amount(transaction.value, "coin")
    if transaction.call is None:
        return f"send {value} to {named(chain, transaction.to)}"
    along = f"; sends {value} along" if transaction.value else ""
    return f"{describe(chain, transaction.call)}{along} ({_name(chain, transaction.call)} at {transaction.to})"


def describe(chain: Chain, call: Call) -> str:
    """The sentence of a call, without where it is sent."""
    words = {each["name"]: each["text"] for each in arguments_of(chain, call)}
    template = SENTENCES.get(f"{call.contract}.{call.function}")
    if template is not None:
        return template.format(**words)
    listed = ", ".join(f"{name} {text}" for name, text in words.items())
    return f"call {call.contract}.{call.function}{' with ' if listed else ''}{listed}"


def arguments_of(chain: Chain, call: Call) -> list[dict[str, Any]]:
    """Name, type, value and text of each argument. Big numbers and bytes are text, as JSON needs."""
    money = _token_of_call(chain, call)
    made = []
    for entry, value in zip(call.abi["inputs"], call.args, strict=True):
        text = _payload(chain, call, value) if entry["name"] == "payload" else argument_text(chain, money, entry, value)
        made.append({"name": entry["name"], "type": entry["type"], "value": _plain(value), "text": text})
    return made


def named(chain: Chain, address: str) -> str:
    """An address, with the contract's name where it is one of the network's."""
    if address == COIN:
        return "coin"
    address = str(to_checksum_address(address))
    names = {chain.network.contracts[name]: CONTRACTS[name] for name in chain.network.contracts}
    return f"{names[address]} ({address})" if address in names else address


def _name(chain: Chain, call: Call) -> str:
    """`TaskRegistry.post`; of another token than ZEN `USDC.approve`."""
    if call.contract == CONTRACTS["zen"] and call.address != chain.network.contracts["zen"]:
        return f"{token_of(chain, call.address).symbol}.{call.function}"
    return f"{call.contract}.{call.function}"


def token_of(chain: Chain, address: str) -> Token:
    """The token at an address; one of its smallest units, where there is none to ask."""
    try:
        return token_at(chain, address)
    except ZooError:
        return Token(f"units of {address}", 0, address)


def _token_of_call(chain: Chain, call: Call) -> Token:
    """What the call's amounts are counted in."""
    arguments = {entry["name"]: value for entry, value in zip(call.abi["inputs"], call.args, strict=True)}
    if "terms" in arguments:
        return token_of(chain, _fields(call.abi["inputs"][0], arguments["terms"])["token"])
    if "token" in arguments:
        is_coin = arguments["token"] == COIN
        return Token("coin", ZEN.decimals) if is_coin else token_of(chain, str(arguments["token"]))
    if call.contract == CONTRACTS["zen"]:
        return token_of(chain, call.address)
    if "channel" in arguments:
        return token_of(chain, chain.channels.channels(arguments["channel"]).token)
    if call.contract in OF_A_JOB and "job" in arguments:
        return token_of(chain, chain.tasks.jobs(arguments["job"]).token)
    return Token("coin", ZEN.decimals) if call.contract == "Timelock" else ZEN


def _fields(entry: Mapping[str, Any], value: Any) -> dict[str, Any]:
    return {part["name"]: each for part, each in zip(entry["components"], value, strict=True)}


def argument_text(chain: Chain, money: Token, entry: Mapping[str, Any], value: Any) -> str:
    """A value as text with its unit. money: what amounts are counted in. entry: name and type, as an ABI has them."""
    kind, name = entry["type"], entry["name"]
    if name == "terms":
        return _terms_text(money, _fields(entry, value))
    if kind == "tuple":
        parts = zip(entry["components"], value, strict=True)
        return ", ".join(f"{part['name']} {argument_text(chain, money, part, each)}" for part, each in parts)
    if kind.endswith("]"):
        element = {**entry, "type": kind[: kind.rindex("[")]}
        return ", ".join(argument_text(chain, money, element, each) for each in value) or "none"
    if kind == "address":
        if name == "token" and value != COIN:
            return f"{token_of(chain, value).symbol} ({to_checksum_address(value)})"
        return named(chain, value)
    if kind == "bool":
        return "yes" if value else "no"
    if kind == "string":
        return f"{value!r}" if value else "none"
    if kind.startswith("bytes"):
        return _bytes_text(name, bytes(value))
    return _number_text(money, name, int(value))


def _terms_text(money: Token, terms: Mapping[str, Any]) -> str:
    """The money and the size of a job. Its roots are in the arguments' values."""
    seat, lead = (money.format(terms[name]) for name in ("max_price", "aggregator_max_price"))
    return (
        f"{terms['rounds']} rounds of {terms['slots']} slots, each for at most {seat} a round, and an aggregator for at most {lead} "
        f"a round; {money.format(escrow(Terms(**terms)))} in escrow, of which what is not spent comes back; manifest 0x{terms['manifest'].hex()}"
    )


def _number_text(money: Token, name: str, value: int) -> str:
    readers: dict[str, Callable[[int], str]] = {
        **dict.fromkeys(MONEY, lambda units: money.format(units)),
        **dict.fromkeys(DOLLARS, lambda units: format_amount(units, "dollars")),
        **dict.fromkeys(SECONDS, format_seconds),
        **dict.fromkeys(MOMENTS, lambda at: datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")),
        **dict.fromkeys(PERCENT, lambda bps: f"{bps / 100:g} %"),
        **dict.fromkeys(BYTES, lambda size: format_count(size, "B")),
        **WORD_READERS,
    }
    assert name in readers or name in COUNTS, f"argument_units.py does not say what {name} counts"
    return readers[name](value) if name in readers else f"{value:,}"


WORD_READERS: dict[str, Callable[[int], str]] = {
    "gpu_class": lambda number: GPU_CLASSES[number].name if number in GPU_CLASSES else str(number),
    "vram_gb": lambda size: f"{size} GB",
    "hours": lambda bits: format_hours(list(slots_in(bits))),
    "tier": lambda number: next((name for name, each in TIERS.items() if each == number), str(number)),
    "region": lambda word: format_region(word) or "no region",
    "bucket": lambda number: BUCKETS.get(number, str(number)),
    "kind": lambda number: KINDS.get(number, str(number)),
    "requirements": lambda word: ", ".join(described(word)) or "none",
    "seats": lambda bits: f"seats {', '.join(map(str, slots_in(bits)))}",
}
assert set(WORD_READERS) == set(WORDS)


def _bytes_text(name: str, value: bytes) -> str:
    if name == "name":
        return repr(value.rstrip(b"\0").decode(errors="replace")) if value.strip(b"\0") else "nothing"
    return "0x" + value.hex() if len(value) <= 32 else f"{len(value)} bytes 0x{value[:8].hex()}…"


def _payload(chain: Chain, call: Call, payload: bytes) -> str:
    """What the timelock will call."""
    target = next(
        value for entry, value in zip(call.abi["inputs"], call.args, strict=True) if entry["name"] == "target"
    )
    inner = call_of(chain, str(target), bytes(payload))
    return f"{describe(chain, inner)} ({_name(chain, inner)})" if inner else _bytes_text("payload", bytes(payload))


def call_of(chain: Chain, to: str, data: bytes) -> Call | None:
    """The call that the data makes, where `to` is a contract of the network and the data is one of its functions'."""
    to = str(to_checksum_address(to))
    for name, address in chain.network.contracts.items():
        if address != to:
            continue
        for entry in functions_of(CONTRACTS[name]).values():
            if selector(entry) == data[:4]:
                try:
                    return Call(CONTRACTS[name], to, entry["name"], tuple(decode(input_types(entry), data[4:])), entry)
                except DecodingError:
                    return None
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return "0x" + bytes(value).hex()
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (bool, str)) else str(value)
