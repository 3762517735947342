"""Asks peers whether they can fetch from this operator's announced endpoint (docs/design/decisions/0022)."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

from zoo_compute.operators.needs import Reachability
from zoo_compute.store import Store
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed, is_gateway
from zoo_compute.store.probe import MAX_BYTES, PROBE_S

PEERS_ASKED = 4  # random peers each time, so that one false or offline peer does not decide alone
BLOCK_BYTES = 64
ANSWER_BYTES = 4096


def reach(endpoint: str, store: Store, peers: Sequence[str]) -> Reachability:
    """Put a random block into `store` and let peers fetch it from `endpoint`. If no peer answers, try from this machine.

    One peer that reports "served" is enough: a false report gains it nothing.
    """
    cid = store.add(secrets.token_bytes(BLOCK_BYTES))
    try:
        others = [url for url in dict.fromkeys(peers) if is_gateway(url) and url != endpoint]
        drawn = secrets.SystemRandom().sample(others, min(PEERS_ASKED, len(others)))
        with ThreadPoolExecutor(PEERS_ASKED) as pool:
            said = [
                answer for answer in pool.map(lambda peer: _ask_peer(peer, endpoint, cid), drawn) if answer is not None
            ]
        if said:
            served = any(said)
            return Reachability(served, said.count(served), endpoint)
        return Reachability(_from_here(endpoint, cid), 0, endpoint)
    finally:
        store.unpin(cid)


def _ask_peer(peer: str, endpoint: str, cid: str) -> bool | None:
    """The peer's answer; None if it does not answer or does not know the endpoint yet."""
    client = GatewayClient(peer)
    request = HttpRequest("GET", "/reach?" + urlencode({"endpoint": endpoint, "cid": cid}), {})
    try:
        status, body, _ = client.ask(request, deadline=time.monotonic() + 2 * PROBE_S, max_bytes=ANSWER_BYTES)
        served = json.loads(body)["served"] if status == 200 else None
    except (PeerFailed, ValueError, KeyError, TypeError, RecursionError):
        return None
    finally:
        client.close()
    return served if isinstance(served, bool) else None


def _from_here(endpoint: str, cid: str) -> bool:
    if not is_gateway(endpoint):
        return False
    client = GatewayClient(endpoint)
    request = HttpRequest("GET", f"/ipfs/{cid}?format=raw", {"Accept": "application/vnd.ipld.raw"})
    try:
        status, body, _ = client.ask(request, deadline=time.monotonic() + PROBE_S, max_bytes=MAX_BYTES)
    except PeerFailed:
        return False
    finally:
        client.close()
    return status == 200 and Cid.parse(cid).matches(body)
