"""Which addresses a peer may have. Anyone can announce any URL on chain, also one inside the network of whoever asks it."""

from __future__ import annotations

import ipaddress
import socket
from enum import Enum

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class Scope(Enum):
    """Addresses that may be asked. None but ANY has link-local ones, where clouds serve their machines' credentials."""

    PUBLIC = "public"
    LOOPBACK = "loopback"  # and public
    PRIVATE = "private"  # and loopback, and public
    ANY = "any"  # of a URL that this machine's owner chose


class AddressRefused(OSError):
    """The URL's host has an address outside the scope."""


def resolve(host: str, port: int, scope: Scope) -> str:
    """The address to connect to. One outside the scope among several refuses them all. Raises OSError.

    Whoever connects to the address, and not to the name, cannot be sent elsewhere by a second look-up.
    """
    records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in records]
    if not addresses or not all(may_ask(address, scope) for address in addresses):
        raise AddressRefused(f"an address that is not {scope.value}")
    return addresses[0]


def may_ask(address: str, scope: Scope) -> bool:
    """Whether an address is in the scope."""
    if scope is Scope.ANY:
        return True
    ip: IpAddress = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            ip = ip.ipv4_mapped
        elif ip.sixtofour or ip.teredo or ip in _NAT64:  # an embedded IPv4 address
            return False
    if ip.is_loopback:
        return scope is not Scope.PUBLIC
    if ip.is_multicast or ip.is_link_local or ip.is_unspecified or ip.is_reserved:
        return False
    return ip.is_global or scope is Scope.PRIVATE


def is_loopback(host: str) -> bool:
    """Whether a server on `host` serves only this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
