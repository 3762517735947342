"""Where a hot key's signer may answer."""

from __future__ import annotations

from urllib.parse import urlsplit

from zoo_compute.errors import ConfigError

CLEF = "clef:"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def check_place(where: str) -> None:
    """Raises ConfigError: what the keeper has signed goes over a connection that only this machine, or TLS, can see."""
    at = where.removeprefix(CLEF)
    if where.startswith(CLEF) and at.startswith("/"):
        return
    try:
        parts = urlsplit(at)
        is_http, is_safe = (
            parts.scheme in ("http", "https"),
            parts.scheme == "https" or parts.hostname in LOOPBACK,
        )
        valid = is_http and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = is_safe = False
    if not valid:
        raise ConfigError(
            f"signer: expected http://127.0.0.1:9000 or https://HOST (web3signer), clef:/PATH/clef.ipc or clef:http://127.0.0.1:8550, got {where!r}"
        )
    if not is_safe:
        raise ConfigError(
            f"signer: http:// to {parts.hostname} is in clear text, and anyone on the way could answer",
            hint="use https://, or an SSH tunnel or WireGuard that ends on 127.0.0.1",
        )
