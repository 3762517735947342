"""Addresses as people type them."""

from __future__ import annotations

from eth_utils.address import is_checksum_address, is_checksum_formatted_address, is_hex_address

HINT = "an address is 0x and 40 hexadecimal digits; capitals among them are a checksum, which notices a mistyped one"


def is_address(text: str) -> bool:
    """Whether it can be one: 40 digits, and a right checksum where capitals and small letters are mixed."""
    return is_hex_address(text) and (not is_checksum_formatted_address(text) or is_checksum_address(text))
