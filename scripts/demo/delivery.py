"""The submitter fetches its model from a custodian while the operator that aggregated it is dead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from keepers.processes.daemon import Daemon
from keepers.processes.local_network import LocalNetwork
from zoo_compute.chain.custody import read_custody
from zoo_compute.chain.views import JobView
from zoo_compute.client.results import Result, fetch_result
from zoo_compute.errors import ZooError
from zoo_compute.store import BlockStore, StoreError


@dataclass(frozen=True)
class Delivery:
    """How the model came to its submitter. aggregator: of its checkpoint. aggregator_runs: how many of its processes ran then."""

    custodian: str
    aggregator: str
    aggregator_runs: int
    root: str
    parameters: int
    final: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def aggregator_of(view: JobView, names: Mapping[int, str]) -> str:
    """The operator that posted the newest checkpoint."""
    made = view.checkpoint_of(view.completed_rounds)
    assert made is not None, "no checkpoint is posted yet"
    return names[made.operator]


def cut_power(daemon: Daemon) -> None:
    """Kill all of an operator's processes: nothing decides, signs or serves its store any more, until `restore_power`."""
    for name in daemon.children:
        daemon.kill(name, hold=True)


def restore_power(daemon: Daemon) -> None:
    for name in daemon.children:
        daemon.resume(name)


def deliver(network: LocalNetwork, view: JobView, path: Path) -> Delivery:
    """Fetch the newest checkpoint into a store that holds nothing yet, and write its parameters to `path`."""
    names = network.operators
    custody = read_custody(network.devnet.chain, view)
    assert custody is not None, "the demo's job asks for custodians"
    aggregator = aggregator_of(view, names)
    holders = [names[member.operator] for member in custody.holders.values()]
    urls = {name: network.daemons[name].config.endpoint for name in holders if name != aggregator}
    custodian, result = from_a_custodian(view, urls, path)
    return Delivery(
        custodian=custodian,
        aggregator=aggregator,
        aggregator_runs=sum(child.running for child in network.daemons[aggregator].children.values()),
        root=result.root,
        parameters=result.parameters,
        final=result.final,
    )


def from_a_custodian(view: JobView, urls: Mapping[str, str], path: Path) -> tuple[str, Result]:
    """The first custodian whose store alone delivers the model, checked against the chain. urls: of their gateways, by name."""
    refused = []
    for name, url in urls.items():
        store = BlockStore(path.parent / "delivered" / name, [url])
        try:
            return name, fetch_result(view, store, path)
        except StoreError as error:
            refused.append(f"{name}: {error}")
    raise ZooError(f"no custodian delivered the model of job {view.job}", hint="; ".join(refused))
