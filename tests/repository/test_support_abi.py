"""The codec of the tests' contracts beside `eth_abi`, on every function and event that the contracts have."""

from __future__ import annotations

import random
from typing import Any

import pytest
from eth_abi.decoding import ContextFramesBytesIO
from eth_abi.exceptions import DecodingError, EncodingError
from eth_abi.registry import registry

from tests.support import sources
from tests.support.abi_codec import ARRAY, NotPlain, values_codec
from tests.support.contract import Values, plain, read_value, type_of

CONTRACTS = sorted(path.stem for path in sources.CONTRACTS.glob("*.vy"))
MORE = [
    [{"name": "x", "type": kind, "components": [{"name": "a", "type": "string"}, {"name": "b", "type": "int128"}]}]
    for kind in ("tuple[]", "tuple[2]", "tuple[2][]", "tuple[][3]", "tuple")
]
MORE += [[{"name": "x", "type": kind}] for kind in ("bytes[]", "bool[3][]", "int8", "bytes1[][2]", "string[2]")]


def lists_of_parts(name: str) -> list[list[dict[str, Any]]]:
    entries = sources.load(name).abi
    return [entry[side] for entry in entries for side in ("inputs", "outputs") if entry.get(side)]


def drawn(rng: random.Random, part: dict[str, Any]) -> Any:
    """A value of the type, often one at its edge."""
    kind: str = part["type"]
    if array := ARRAY.fullmatch(kind):
        count = int(array[2]) if array[2] else rng.choice((0, 1, 3))
        return [drawn(rng, {**part, "type": array[1]}) for _ in range(count)]
    if kind == "tuple":
        return tuple(drawn(rng, each) for each in part["components"])
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "address":
        text = rng.randbytes(20).hex()
        return rng.choice(("0x" + text, "0x" + 40 * "0"))
    if kind in ("bytes", "string"):
        size = rng.choice((0, 1, 31, 32, 33, 100))
        return rng.randbytes(size) if kind == "bytes" else "é"[: size % 2] + "x" * size
    if kind.startswith("bytes"):
        return rng.randbytes(int(kind[5:]))
    bits = int(kind.lstrip("uint"))
    low, high = (0, 2**bits) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return rng.choice((low, high - 1, rng.randrange(low, high)))


def expected_of(parts: list[dict[str, Any]], data: bytes) -> tuple[Any, ...]:
    values = registry.get_decoder(f"({','.join(map(type_of, parts))})")(ContextFramesBytesIO(data))
    return tuple(read_value(each, value) for each, value in zip(parts, values, strict=True))


@pytest.mark.parametrize("every", [lists_of_parts(name) for name in CONTRACTS] + [MORE], ids=[*CONTRACTS, "more"])
def test_codec__of_every_function__writes_and_reads_as_eth_abi_does__and_refuses_what_it_refuses(every):
    rng, accepted, refused = random.Random(7), 0, 0
    for parts in every:
        codec, encoder = values_codec(parts), registry.get_encoder(f"({','.join(map(type_of, parts))})")
        values = [drawn(rng, each) for each in parts]
        data = encoder(plain(values))
        assert codec.write(values) == data
        assert repr(codec.read(data, 0)) == repr(expected_of(parts, data))
        for _ in range(6):
            changed = bytearray(data)
            changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            for wrong in (bytes(changed), data[: rng.randrange(len(data))]):
                try:
                    found = codec.read(wrong, 0)
                except NotPlain:
                    refused += 1
                    continue
                assert repr(found) == repr(expected_of(parts, wrong))
                accepted += 1
    assert accepted
    assert refused


WRONG = {
    "uint8": (256, -1, True, "1", None),
    "int8": (128, -129, False),
    "bool": (1, 0, None),
    "bytes4": (b"12345", "abcd"),
    "bytes": ("text", 7),
    "string": (b"bytes", 7),
    "address": ("0x12", 7),
    "uint8[]": (7, [256], "ab"),
    "uint8[2]": ([1], [1, 2, 3]),
}


@pytest.mark.parametrize("kind", WRONG)
def test_values__that_do_not_fit__are_refused_by_eth_abi(kind):
    codec = values_codec([{"name": "x", "type": kind}])
    for value in WRONG[kind]:
        with pytest.raises(NotPlain):
            codec.write([value])
        with pytest.raises(EncodingError):
            Values([{"name": "x", "type": kind}]).encode([value])


def test_values__of_a_type_that_the_codec_lacks__are_eth_abis():
    parts = [{"name": "x", "type": "fixed128x10"}]
    with pytest.raises(NotPlain):
        values_codec(parts)
    values = Values(parts)
    assert values.decode(values.encode([3])) == (3,)


def test_values__cut_short__are_refused():
    with pytest.raises(DecodingError):
        Values([{"name": "x", "type": "uint256"}]).decode(bytes(31))
