"""Asks gateways whether they pin a file; each store counts once."""

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from zoo_compute.store.addresses import Scope
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
