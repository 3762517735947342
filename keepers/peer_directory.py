"""The stores that this operator's processes ask for content, and the announcement of its own."""

from __future__ import annotations

from collections.abc import Mapping

from keepers.config import OperatorConfig
from keepers.services.precompute import Prefetcher
from keepers.services.retention import CheckpointRetention
from keepers.services.statements import Statements
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import scan
from zoo_compute.chain.sender import Sender
from zoo_compute.store import BlockStore, Store
from zoo_compute.store.addresses import Scope
from zoo_compute.store.peers import is_gateway
from zoo_compute.store.probe import save_endpoints

DEVNET = "devnet"  # its operators share a machine
ENDPOINT_EVENTS = ("OperatorRegistered", "EndpointAnnounced")


class PeerDirectory:
    """urls: the network's storage, then of the operators that announced one on chain. scope: where they may be."""

    def __init__(
        self,
        config: OperatorConfig,
        chain: Chain,
        sender: Sender,
        store: Store,
        prefetcher: Prefetcher,
        retention: CheckpointRetention,
        statements: Statements,
    ) -> None:
        self.urls: list[str] = []
        self._config = config
        self._chain = chain
        self._sender = sender
        self._store = store
        self._prefetcher = prefetcher
        self._retention = retention
        self._statements = statements
        self.scope = Scope.PRIVATE if config.private_peers or chain.network.preset == DEVNET else Scope.PUBLIC
        self._endpoints: dict[int, str] = {}  # operator -> where its store serves blocks
        self._next_block = chain.network.first_block  # whose announcements are read next

    def refresh(self) -> None:
        """Read new announcements, announce my own endpoint if it changed, and pass the list on."""
        head, config = self._chain.head().number, self._config
        for event in (
            scan(self._chain, self._next_block, head, names=ENDPOINT_EVENTS) if self._next_block <= head else ()
        ):
            self._endpoints[int(event.args["operator"])] = str(event.args["endpoint"])
        self._next_block = head + 1
        mine = config.operator
        if mine and config.endpoint and self._endpoints.get(mine) != config.endpoint:
            self._sender.send(self._chain.registry.announce(mine, config.endpoint))
        others = [url for operator, url in self._endpoints.items() if operator != mine and is_gateway(url)]
        self.use(list(dict.fromkeys([*self._chain.network.storage, *others])), self._endpoints)

    def use(self, urls: list[str], endpoints: Mapping[int, str]) -> None:
        """Have the store and the lanes ask these. endpoints: by operator."""
        self.urls = urls
        if isinstance(self._store, BlockStore):
            self._store.set_peers(self.urls, self.scope)
            save_endpoints(self._store.root, filter(is_gateway, endpoints.values()))
        self._prefetcher.set_peers(self.urls, endpoints, self.scope)
        self._retention.endpoints, self._retention.scope = dict(endpoints), self.scope
        self._statements.endpoints, self._statements.scope = dict(endpoints), self.scope
