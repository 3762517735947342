"""Check that a network runs this repository's contracts, and publish their sources.

    ape run verify_sources network.json                       compiles each contract and compares it with the code on chain
    ape run verify_sources network.json --out sources         also writes the compiler's input of each, for an explorer's form
    ape run verify_sources network.json --submit https://...  also sends each to a Sourcify server, which explorers read

You need not trust who deployed: the command compares the code on chain with what this machine's vyper makes of the sources.
`zoo network check` checks the addresses and numbers that the constructors were given.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import requests
from vyper import __long_version__
from vyper.compiler.output import build_solc_json
from web3 import HTTPProvider, Web3

from scripts.generate.compiled import Compiled, compile_contract
from zoo_compute.chain.network import CONTRACTS, Network, load

TIMEOUT_S = 30
POLL_S, POLLS = 3.0, 40  # of a server that compiles


@dataclass(frozen=True)
class Source:
    """A contract at its address. equal: the code there is what its sources compile to."""

    name: str  # in the network file
    contract: str
    address: str
    equal: bool
    input: dict[str, Any]  # the compiler's standard JSON, with all that the contract imports

    @property
    def target(self) -> str:
        """As Sourcify names a contract: file and name."""
        (path,) = self.input["settings"]["outputSelection"]
        return f"{path}:{self.contract}"


def is_code_of(made: Compiled, code: bytes) -> bool:
    """Whether `code`, as the chain has it, is what the sources compile to; the constructor's values, behind it, are not compared."""
    runtime = bytes(made.data.bytecode_runtime)
    return len(code) == made.deployed_bytes and code[: len(runtime)] == runtime


def sources_of(network: Network, w3: Web3) -> Iterator[Source]:
    """Compiles for two minutes in all."""
    for name, contract in CONTRACTS.items():
        made = compile_contract(contract)
        address = network.contracts[name]
        code = bytes(w3.eth.get_code(Web3.to_checksum_address(address)))
        yield Source(name, contract, address, is_code_of(made, code), input_of(made))


def input_of(made: Compiled) -> dict[str, Any]:
    """The compiler's standard JSON. Vyper writes search paths in which it does not find the contract itself: that is in "."."""
    parsed: dict[str, Any] = json.loads(json.dumps(build_solc_json(made.data)))
    parsed["settings"]["search_paths"].insert(0, ".")
    return parsed


def submit(source: Source, server: str, chain_id: int, *, poll_s: float = POLL_S) -> str:
    """Send one contract to a Sourcify server and wait for its answer: "exact_match", "match" or what failed. Raises requests.RequestException."""
    sent = requests.post(
        f"{server}/v2/verify/{chain_id}/{source.address}",
        json={
            "stdJsonInput": {key: source.input[key] for key in ("language", "sources", "settings")},
            "compilerVersion": __long_version__,
            "contractIdentifier": source.target,
        },
        timeout=TIMEOUT_S,
    )
    if sent.status_code == requests.codes.conflict:
        return "exact_match"  # somebody published it before
    sent.raise_for_status()
    for _ in range(POLLS):
        asked = requests.get(f"{server}/v2/verify/{sent.json()['verificationId']}", timeout=TIMEOUT_S)
        asked.raise_for_status()
        job = asked.json()
        if job["isJobCompleted"]:
            return str(job["contract"]["match"] or job.get("error", {}).get("message", "no match"))
        time.sleep(poll_s)
    return "no answer yet; run the command again"


@click.command()
@click.argument("network_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder for the compiler's input of each contract.",
)
@click.option(
    "--submit", "server", metavar="URL", help="A Sourcify server; https://sourcify.dev/server is the public one."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cli(network_file: Path, out: Path | None, server: str | None, as_json: bool) -> None:
    """Compare the code of the network in NETWORK_FILE with this repository's sources. Exit code 1: they differ, or a server refused one."""
    network = load(network_file)
    w3 = Web3(HTTPProvider(network.rpcs[0]))
    results, failed = [], False
    for source in sources_of(network, w3):
        result: dict[str, Any] = {
            "name": source.name,
            "contract": source.contract,
            "address": source.address,
            "equal": source.equal,
        }
        if out:
            out.mkdir(parents=True, exist_ok=True)
            (out / f"{source.contract}.json").write_text(json.dumps(source.input, indent=1))
        if server and source.equal:
            result["published"] = submit(source, server.rstrip("/"), network.chain_id)
            failed |= result["published"] not in ("match", "exact_match")
        failed |= not source.equal
        results.append(result)
        if not as_json:
            says = "as its sources" if source.equal else "NOT what this repository's sources compile to"
            published = f"; {result['published']}" if "published" in result else ""
            click.echo(f"{source.contract:<18}{source.address}  {says}{published}")
    if as_json:
        click.echo(json.dumps({"chain_id": network.chain_id, "contracts": results}))
    raise SystemExit(failed)
