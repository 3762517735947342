"""`zoo store`: content-addressed files."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Any

import click

from zoo_compute.cli.context import Group, Settings, pass_settings
from zoo_compute.errors import ConfigError

_location = click.option(
    "--store", "location", metavar="LOCATION", help="PATH or kubo:http://HOST:PORT. [env ZOO_STORE; ~/.zoo/store]"
)
_timeout = click.option("--timeout", "timeout_s", default=30.0, show_default=True, help="Seconds to wait for a peer.")


@click.group("store", cls=Group)
def store() -> None:
    """Content-addressed files: add, get, pin, list, serve."""


@store.command()
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_location
@pass_settings
def add(settings: Settings, path: Path, location: str | None) -> None:
    """Add a file and pin it; print its CID."""
    cid = settings.store(location).add(path, pin=True)
    settings.emit({"cid": cid}, cid)


@store.command()
@click.argument("cid")
@click.option("--out", type=click.Path(path_type=Path), help="File to write; ./CID by default.")
@_location
@_timeout
@pass_settings
def get(settings: Settings, cid: str, out: Path | None, location: str | None, timeout_s: float) -> None:
    """Fetch content, verify every block, and write it to a file."""
    destination = out or Path(cid)
    written = settings.store(location).get(cid, destination, timeout_s=timeout_s)
    settings.emit({"cid": cid, "path": str(written), "bytes": written.stat().st_size}, str(written))


@store.command()
@click.argument("cid")
@_location
@_timeout
@pass_settings
def pin(settings: Settings, cid: str, location: str | None, timeout_s: float) -> None:
    """Fetch content and pin it."""
    settings.store(location).pin(cid, timeout_s=timeout_s)
    settings.emit({"cid": cid, "pinned": True}, f"pinned {cid}")


@store.command()
@click.argument("cid")
@_location
@pass_settings
def unpin(settings: Settings, cid: str, location: str | None) -> None:
    """Unpin content. The next garbage collection removes it."""
    settings.store(location).unpin(cid)
    settings.emit({"cid": cid, "pinned": False}, f"unpinned {cid}")


@store.command()
@_location
@pass_settings
def ls(settings: Settings, location: str | None) -> None:
    """List pinned content."""
    pins = sorted(settings.store(location).pins())
    settings.emit({"pins": pins}, pins or ["nothing is pinned"])


@store.command()
@_location
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=0, show_default=True, help="Port to listen on; 0 for a free one.")
@pass_settings
def serve(settings: Settings, location: str | None, host: str, port: int) -> None:
    """Serve a folder's blocks to other hosts as a trustless gateway, until Ctrl-C."""
    from zoo_compute.store import BlockStore, Gateway

    opened = settings.store(location)
    if not isinstance(opened, BlockStore):
        raise ConfigError("only a folder can be served", hint="an IPFS daemon serves its own content")
    gateway: Any = Gateway(opened, host=host, port=port)
    gateway.start()
    settings.emit(
        {"url": gateway.url, "store": settings.store_location(location)},
        f"serving {settings.store_location(location)} at {gateway.url}",
    )
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    try:
        stopped.wait()
    except KeyboardInterrupt:
        settings.say("stopped")
    finally:
        gateway.stop()
