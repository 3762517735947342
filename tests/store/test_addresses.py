"""Which addresses are asked for blocks: a stranger's URL is no way into this machine's network."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepers.config import from_dict
from keepers.peer_directory import scope_of
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.store.addresses import Scope, may_ask, resolve
from zoo_compute.store.errors import StoreUnreachable
from zoo_compute.store.peers import GatewayClient, HttpRequest, PeerFailed


@pytest.mark.parametrize(
    ("address", "far", "near"),
    [
        ("203.0.114.7", True, True),
        ("2606:4700::1", True, True),
        ("127.0.0.1", False, True),
        ("::1", False, True),
        ("::ffff:127.0.0.1", False, True),
        *((private, False, False) for private in (
            "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255",
            "::", "fe80::1%eth0", "fd00::1", "ff02::1", "::ffff:10.0.0.1", "2002:0a00:0001::1", "64:ff9b::a00:1", "2001:0::1",
        )),
    ],
)  # fmt: skip
def test_only_public_addresses_are_tried__and_loopback_ones_where_all_is_one_machine(
    address: str, far: bool, near: bool
) -> None:
    assert (may_ask(address, Scope.PUBLIC), may_ask(address, Scope.LOOPBACK)) == (far, near)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "fd00::1", "::ffff:10.0.0.1", "127.0.0.1", "203.0.114.7"],
)
def test_private_addresses_are_asked__where_the_operator_allows_it(address: str) -> None:
    assert may_ask(address, Scope.PRIVATE)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "::ffff:169.254.169.254"],
)
def test_a_clouds_own_address__is_asked_by_nobody(address: str) -> None:
    assert not may_ask(address, Scope.PRIVATE)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(BlockStore(tmp_path / "serving")) as gateway:
        yield gateway


def test_a_store__asks_only_peers_in_its_scope(serving: Gateway, tmp_path: Path) -> None:
    content = b"x" * 1_000
    cid = BlockStore(tmp_path / "serving").add(content)
    reader = BlockStore(tmp_path / "reader")
    reader.set_peers([serving.url], Scope.PUBLIC)
    with pytest.raises(StoreUnreachable, match="is not asked: it has an address that is not public"):
        reader.read(cid, max_bytes=2_000, timeout_s=30)
    reader.set_peers([serving.url], Scope.PRIVATE)
    assert reader.read(cid, max_bytes=2_000, timeout_s=30) == content


def test_a_name_with_one_private_address__is_not_asked(serving: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    port, looked_up = int(serving.url.rpartition(":")[2]), list[str]()

    def addresses(*answers: str) -> None:
        def look_up(host: str, *_: Any, **__: Any) -> list[Any]:
            looked_up.append(host)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port)) for answer in answers]

        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    def ask() -> int:
        client = GatewayClient(f"http://rebinding.example:{port}", Scope.PUBLIC)
        return client.ask(HttpRequest("GET", "/health", {}), deadline=time.monotonic() + 30, max_bytes=100)[0]

    for answers in (("203.0.114.7", "127.0.0.1"), ("127.0.0.1",), ("169.254.169.254",)):
        addresses(*answers)
        with pytest.raises(PeerFailed, match="not public"):
            ask()
    assert looked_up == ["rebinding.example"] * 3, (
        "one look-up each: the address that was checked is the one that is asked"
    )
    addresses("127.0.0.1")
    assert resolve("rebinding.example", port, Scope.LOOPBACK) == "127.0.0.1"


@pytest.mark.parametrize(
    ("settings", "preset", "scope"),
    [
        ({}, "production", Scope.PUBLIC),
        ({"private_peers": True}, "production", Scope.PRIVATE),
        ({}, "devnet", Scope.PRIVATE),
    ],
)
def test_a_keeper_asks_private_peers__on_a_devnet_or_where_its_operator_allows_it(
    settings: dict[str, Any], preset: str, scope: Scope, tmp_path: Path
) -> None:
    config = from_dict({"name": "a", "network": "n", "operator": 1, **settings}, tmp_path)
    assert scope_of(config, preset) is scope
