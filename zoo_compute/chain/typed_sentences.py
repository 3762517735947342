"""What a typed message (EIP-712) commits its signer to, in words: every field with its unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from zoo_compute.amounts import ZEN, Token
from zoo_compute.chain.sentences import argument_text, named, token_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

# By type. Braces name fields. Of a message with any other type, the fields are listed.
SENTENCES = {
    "Permit": "let {spender} take up to {value} from {owner}, once, until {deadline} (permit {nonce})",
    "Registration": "agree that a sponsor registers {owner} as the owner of an operator of class {gpu_class} with {vram_gb}, hot key {hot}, "
    "endpoint {endpoint}, and pays {stake} of stake, which is then {owner}'s; until {deadline} (consent {nonce})",
    "Receipt": "confirm that operator {server} sent operator {client} {total} in epoch {epoch}",
    "Start": "confirm that you hold the data with which job {job} starts",
    "Inputs": "confirm that you hold what {seats} of job {job} committed in turn {turn}",
    "Checkpoint": "confirm that you hold what the aggregator in seat {seat} of job {job} computed in turn {turn}: {root}, at {cid}",
    "Voucher": "say that channel {channel} owes its operator {total} in all",
}  # fmt: skip
# Where a field's name counts something else elsewhere: an argument that counts the same.
UNITS = {("Voucher", "total"): "voucher_total"}


def typed_sentence(
    chain: Chain, domain: Mapping[str, Any], types: Mapping[str, list[dict[str, str]]], message: Mapping[str, Any]
) -> str:
    """What a signature of the message says, and which contract accepts it.

    domain, types, message: as `sign_typed_data` takes them, with one type.
    """
    ((name, fields),) = types.items()
    contract = str(domain["verifyingContract"])
    money = _token(chain, name, contract, message)
    words = {}
    for each in fields:
        counted = {**each, "name": UNITS.get((name, each["name"]), each["name"])}
        words[each["name"]] = argument_text(chain, money, counted, message[each["name"]])
    template = SENTENCES.get(name)
    said = template.format(**words) if template else f"{name}: {', '.join(f'{k} {v}' for k, v in words.items())}"
    return f"{said}; only {named(chain, contract)} on chain {domain['chainId']} accepts it"


def _token(chain: Chain, name: str, contract: str, message: Mapping[str, Any]) -> Token:
    """What the message's amounts are counted in."""
    if name == "Permit":
        return token_of(chain, contract)
    if name == "Voucher":
        return token_of(chain, chain.channels.channels(message["channel"]).token)
    return ZEN
