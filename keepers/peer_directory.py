"""The stores that this operator's processes ask for content, and the announcement of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from keepers.config import OperatorConfig
from keepers.services.precompute import Prefetcher
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.event_log import history_of
from zoo_compute.chain.sender import Sender
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.peers import is_gateway
from zoo_compute.store.probe import save_endpoints

DEVNET = "devnet"  # its operators share a machine
ENDPOINT_EVENTS = ("OperatorRegistered", "EndpointAnnounced")


class Asker(Protocol):
    """Asks operators' gateways. endpoints: by operator. scope: where they may be."""

    endpoints: Mapping[int, str]
    scope: Scope


class PeerDirectory:
    """urls: the network's storage, then of the operators that announced one on chain. scope: where they may be."""

    def __init__(
        self,
        config: OperatorConfig,
        chain: Chain,
        sender: Sender,
        store: Store,
        prefetcher: Prefetcher,
        askers: Sequence[Asker],
    ) -> None:
        self.urls: list[str] = []
        self.endpoints: Mapping[int, str] = {}  # of all operators, as announced
        self._config = config
        self._chain = chain
        self._sender = sender
        self._store = store
        self._prefetcher = prefetcher
        self._askers = askers
        self.scope = scope_of(config, chain.network.preset)
        self._endpoints: dict[int, str] = {}  # operator -> where its store serves blocks
        self._announcements = history_of(chain, names=ENDPOINT_EVENTS)

    def refresh(self) -> None:
        """Read new announcements, announce my own endpoint if it changed, and pass the list on."""
        config = self._config
        announced = self._announcements.events_until(self._chain.head())
        self._endpoints = {int(event.args["operator"]): str(event.args["endpoint"]) for event in announced}
        mine = config.operator
        if mine and config.endpoint and self._endpoints.get(mine) != config.endpoint:
            self._sender.send(self._chain.registry.announce(mine, config.endpoint))
        others = [url for operator, url in self._endpoints.items() if operator != mine and is_gateway(url)]
        self.use(list(dict.fromkeys([*self._chain.network.storage, *others])), self._endpoints)

    def use(self, urls: list[str], endpoints: Mapping[int, str]) -> None:
        """Have the store and the lanes ask these. endpoints: by operator."""
        self.urls, self.endpoints = urls, dict(endpoints)
        if isinstance(self._store, BlockStore):
            self._store.set_peers(self.urls, self.scope)
            save_endpoints(self._store.root, filter(is_gateway, endpoints.values()))
        self._prefetcher.set_peers(self.urls, endpoints, self.scope)
        for asker in self._askers:
            asker.endpoints, asker.scope = dict(endpoints), self.scope


def scope_of(config: OperatorConfig, preset: str) -> Scope:
    """Where the operators of a network with this preset may be, as far as this operator asks them."""
    return Scope.PRIVATE if config.private_peers or preset == DEVNET else Scope.PUBLIC
