"""One account on one network: the connection, the signer, the store. What `Client` and `Job` share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from zoo_compute import paths
from zoo_compute.chain import network as network_file
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.events import scan
from zoo_compute.chain.sender import Sender
from zoo_compute.store import BlockStore, Store, open_store

PEERS_KEPT_S = 30.0


def _silent(_: str) -> None:
    """Discard messages."""


class Session:
    """Connects, unlocks and opens only when first used. Parameters: see `Client`."""

    def __init__(
        self,
        network: str | Path | network_file.Network | None = None,
        account: Any = None,
        passphrase: str | None = None,
        api_key: str | None = None,
        store: Store | str | None = None,
        *,
        say: Callable[[str], None] = _silent,
    ) -> None:
        self._network_path: Path | None = None
        if isinstance(network, network_file.Network):
            self.description = network
        else:
            self._network_path = paths.find_network_file(network)
            self.description = network_file.load(self._network_path)
        self._account, self._passphrase, self._store = account, passphrase, store
        self._api_key = api_key or os.environ.get("ZOO_API_KEY") or None
        self.say = say
        self._peers: tuple[float, tuple[str, ...]] = (0.0, ())

    @cached_property
    def chain(self) -> Chain:
        return connect(self.description, self._api_key)

    @cached_property
    def signer(self) -> Any:
        """The account that signs. Raises ConfigError, WrongPassphrase, NoPassphrase."""
        if self._account is not None and not isinstance(self._account, (str, Path)):
            return self._account
        if self._account is None and self._api_key and self.description.signer:
            from zoo_compute.chain.signer import RemoteSigner

            return RemoteSigner(self.description, self._api_key)
        from zoo_compute.chain import keystore

        path = paths.find_keystore(None if self._account is None else str(self._account), self._network_path)
        passphrase = self._passphrase or keystore.find_passphrase(
            f"the account {path.stem}", os.environ, file=paths.passphrase_file(path)
        )
        return keystore.unlock(path, passphrase)

    @cached_property
    def sender(self) -> Sender:
        return Sender(self.chain, self.signer)

    @cached_property
    def store(self) -> Store:
        if self._store is not None and not isinstance(self._store, str):
            return self._store
        return open_store(paths.store_location(self._store, self._network_path), tuple(self.description.storage))

    def use_peers(self) -> None:
        """Let the store fetch from the network's gateways and from those that operators announced."""
        if not isinstance(self.store, BlockStore):
            return
        at, peers = self._peers
        if not peers or time.monotonic() - at > PEERS_KEPT_S:
            peers = tuple(dict.fromkeys([*self.description.storage, *self.endpoints().values()]))
            self._peers = (time.monotonic(), peers)
            self.store.set_peers(peers)

    def endpoints(self) -> dict[int, str]:
        """The URL at which each operator's store serves blocks, as last announced."""
        names = ("OperatorRegistered", "EndpointAnnounced")
        events = scan(self.chain, self.description.first_block, self.chain.head().number, names=names)
        newest = {int(e.args["operator"]): str(e.args["endpoint"]) for e in events}
        return {operator: url for operator, url in newest.items() if url}
