"""The dashboard's process: follows the chain in a thread and serves pages on the loopback address until it is stopped."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn

from zoo_compute import paths
from zoo_compute.dashboard.following import Follower
from zoo_compute.dashboard.index import Index
from zoo_compute.dashboard.looking import Looks
from zoo_compute.dashboard.reading import Network, Reader
from zoo_compute.dashboard.server import application
from zoo_compute.dashboard.wallet import Wallet
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.client.client import Client

LOOPBACK = "127.0.0.1"
STOP_S = 1  # open pages keep a connection for events: they are not waited for


@contextmanager
def reading(client: Client, home: Path | None, folder: Path | None = None) -> Iterator[Reader]:
    """An index that follows the client's chain. folder: of the index, the user's by default."""
    chain = client.chain
    network = chain.network
    deployed = sha256("".join(network.contracts.values()).encode()).hexdigest()[:16]
    where = (folder or paths.home() / "dashboard") / f"{network.chain_id}-{deployed}.sqlite"
    index = Index(where, f"{network.chain_id} {deployed}")
    looks = Looks(client, index, home)
    follower = Follower(chain, index, looks.read)
    reader = Reader(
        index, Network(network.name, network.chain_id, network.preset), looks, home, lambda: follower.trouble
    )
    follower.start()
    try:
        yield reader
    finally:
        follower.stop()


def serve(
    client: Client, port: int, home: Path | None, jobs: Path | None, say: Callable[[dict[str, Any], list[str]], None]
) -> None:
    """Until a signal stops it. Raises UserError where the port is taken.

    jobs: the folder whose job files can be posted. say: prints where the page is, as data and as lines.
    """
    try:
        listener = listening(port)
    except OSError as error:
        raise UserError(
            f"port {port} on {LOOPBACK} cannot be used: {error.strerror}",
            hint="another dashboard may run; try --port 0",
        ) from error
    with listener, reading(client, home) as reader:
        url = f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
        say({"url": url, "index": str(reader.index.path)}, [f"the dashboard is at {url} (Ctrl-C stops it)"])
        uvicorn.Server(configured(reader, Wallet(client, jobs))).run(sockets=[listener])


def listening(port: int) -> socket.socket:
    """On the loopback address. port: 0 takes a free one. Raises OSError."""
    listener = socket.create_server((LOOPBACK, port))
    # asyncio sets it on sockets that it makes itself alone; without it each answer waits 40 ms for the browser's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def configured(reader: Reader, wallet: Wallet | None = None) -> uvicorn.Config:
    return uvicorn.Config(
        application(reader, wallet),
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=STOP_S,
        lifespan="off",
    )
