"""Asks gateways whether they pin a file, each store counts once; and whether they serve a block of it that they cannot foresee."""

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from zoo_compute.store import dag, unixfs
from zoo_compute.store.addresses import Scope
from zoo_compute.store.errors import StoreError
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed

_MAX_ANSWER = 4096  # bytes


def confirmations(cid: str, gateways: Sequence[str], *, timeout_s: float = 5, scope: Scope = Scope.ANY) -> list[str]:
    """The gateways, in the order given, that report `cid` as pinned and serve its root block. A store with several URLs counts once.

    A gateway that is down, slow or answers nonsense does not confirm. Raises BadCid, and ValueError for a malformed URL.
    """
    wanted = Cid.parse(cid)
    clients = list({client.url: client for client in (GatewayClient(url, scope) for url in gateways)}.values())
    if not clients:
        return []
    deadline = time.monotonic() + timeout_s
    with ThreadPoolExecutor(min(len(clients), 16)) as pool:
        names = pool.map(lambda client: _keeper(wanted, client, deadline), clients)
    confirmed: dict[str, str] = {}
    for client, name in zip(clients, names, strict=True):
        if name is not None:
            confirmed.setdefault(name, client.url)
    return list(confirmed.values())


def _keeper(cid: Cid, client: GatewayClient, deadline: float) -> str | None:
    """The name of the store behind this gateway if it pins `cid` (its URL if it has no name), else None."""
    try:
        status, body, headers = client.ask(
            HttpRequest("GET", f"/pins/{cid}", {}), deadline=deadline, max_bytes=_MAX_ANSWER
        )
        if status != 200 or json.loads(body) != {"cid": cid.text, "pinned": True}:
            return None
        client.block(cid, deadline=deadline, local_only=True)
    except (PeerFailed, ValueError, RecursionError):
        return None
    finally:
        client.close()
    return headers.get("X-Store-Id") or client.url


def serving(
    cids: Sequence[str], places: Mapping[str, int], *, timeout_s: float = 5, scope: Scope = Scope.ANY
) -> set[str]:
    """The gateways that serve one leaf of every file from their own store, with the nodes above it. places: by URL, a number that chooses
    the leaf: its byte, modulo the file's size.

    A gateway that is down, slow or answers nonsense does not serve. Raises BadCid, and ValueError for a malformed URL.
    """
    wanted = [Cid.parse(cid) for cid in cids]
    clients = {url: GatewayClient(url, scope) for url in places}
    deadline = time.monotonic() + timeout_s
    with ThreadPoolExecutor(max(1, min(len(clients), 16))) as pool:
        served = pool.map(lambda url: _serves(wanted, clients[url], places[url], deadline), clients)
        return {url for url, is_served in zip(clients, served, strict=True) if is_served}


def _serves(cids: Sequence[Cid], client: GatewayClient, place: int, deadline: float) -> bool:
    @cache
    def fetch(cid: Cid) -> bytes:
        return client.block(cid, deadline=deadline, local_only=True)

    try:
        for cid in cids:
            link = dag.root_of(cid, fetch)
            at = place % max(1, link.size)
            while link.depth:
                for child in unixfs.links_of(link, fetch(link.cid)):
                    if at < child.size:
                        break
                    at -= child.size
                link = child
            dag.fetch_chunk(link, fetch)
    except (PeerFailed, StoreError):
        return False
    finally:
        client.close()
    return True
