"""Which contract speaks to which: every address and number that a contract was built with or wired to, against the network file.

A constructor's values are words of the deployed code, so no contract need show them; wired addresses are views.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from eth_utils.address import to_checksum_address

from zoo_compute.chain import artifacts
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.errors import WrongDeployment
from zoo_compute.spec.auditing import lapse_s
from zoo_compute.spec.params import Preset, window_s

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

# Set by `wire` after deployment: views that return the address of the contract of that name.
WIRED: dict[str, tuple[str, ...]] = {
    "registry": ("auction", "settlement", "locks", "tasks", "rewards", "admissions"),
    "tasks": ("auction", "settlement", "locks"),
    "locks": ("settlement", "audit_pool"),
    "rewards": ("settlement", "audits", "datasets"),
    "auction": ("settlement",),
    "settlement": ("referee", "availability", "custody"),
    "audits": ("referee",),
    "credits": ("tasks", "registry"),
    "admissions": ("referee",),
    "serving": ("referee",),
}
GOVERNED = "timelock"
# What another name says in a contract. None: may be anything.
MEANINGS: dict[str, str | None] = {
    "governor": GOVERNED,
    "deployer": None,  # wires once, and may do nothing after that
    "place_bond": "audit_bond",
}
UNCHECKED = {"zen", "timelock"}  # snekmate's: they know no other contract
WORD = 32


@dataclass(frozen=True)
class Miswired:
    """A contract that speaks to another address, or has another number, than the network file says."""

    contract: str  # a name of CONTRACTS
    name: str
    actual: str
    expected: str

    def __str__(self) -> str:
        return f"{CONTRACTS[self.contract]}.{self.name} is {self.actual}, expected {self.expected}"


def miswired(
    addresses: Mapping[str, str],
    params: Preset,
    codes: Mapping[str, bytes],
    wired: Mapping[tuple[str, str], str],
    *,
    devnet: bool,
) -> list[Miswired]:
    """All faults of a deployment. `wired`: the views of WIRED; on a devnet the deployer may govern, time never stops, and nobody needs
    admission."""
    faults = []
    for contract in set(CONTRACTS) - UNCHECKED:
        for name, offset in artifacts.artifact(CONTRACTS[contract])["immutables"].items():
            meaning = MEANINGS.get(name, name)
            if meaning is None or (devnet and meaning in (GOVERNED, "outage_s", "needs_admission")):
                continue
            word = codes[contract][offset : offset + WORD]
            if len(word) < WORD:
                faults.append(Miswired(contract, name, "missing", "the code of this version"))
                continue
            if meaning in CONTRACTS:
                actual, expected = str(to_checksum_address(word[-20:])), addresses[meaning]
            else:
                actual, expected = str(int.from_bytes(word, "big")), str(_number(params, meaning))
            if actual != expected:
                faults.append(Miswired(contract, name, actual, _described(meaning, expected)))
    for contract, names in WIRED.items():
        for name in names:
            actual = str(to_checksum_address(wired[contract, name]))
            if actual != addresses[name]:
                faults.append(Miswired(contract, name, actual, _described(name, addresses[name])))
    return sorted(faults, key=str)


def wiring_faults(chain: Chain) -> list[Miswired]:
    """The faults of the deployment that the network file describes. Two requests: the codes, and the wired addresses."""
    from zoo_compute.chain.batch import Read, read_all
    from zoo_compute.chain.connection import codes_of

    network = chain.network
    reads = [Read(contract, name, ()) for contract, names in WIRED.items() for name in names]
    actual = read_all(chain, chain.head().number, reads)
    wired = {(read.contract, read.function): str(address) for read, address in zip(reads, actual, strict=True)}
    codes = dict(zip(network.contracts, codes_of(chain.w3, list(network.contracts.values())), strict=True))
    return miswired(network.contracts, network.params, codes, wired, devnet=network.preset == "devnet")


def check_wiring(chain: Chain) -> None:
    """Raises WrongDeployment, which lists each fault."""
    faults = wiring_faults(chain)
    if faults:
        raise WrongDeployment(
            f"network {chain.network.name!r} is miswired: " + "; ".join(map(str, faults)),
            hint="do not use it: get the current network file from whoever runs the network, and ask why it differs",
        )


def _number(params: Preset, name: str) -> int:
    if name == "window_s":  # of trials
        return window_s(params, params.benchmark_s, 1)
    if name == "receipt_window_s":
        return window_s(params, params.receipt_s, 1)
    if name == "lapse_s":  # of verdicts
        return lapse_s(params.clocks)
    if name == "needs_admission":
        return 1
    holder = params if name in {item.name for item in fields(params)} else params.clocks
    return int(getattr(holder, name))


def _described(meaning: str, expected: str) -> str:
    if meaning in CONTRACTS:
        return f"{CONTRACTS[meaning]} at {expected}"
    if meaning == "needs_admission":
        return f"{expected}: outside devnets only machines that passed a trial bid"
    return f"{expected}, the preset's {meaning}"
