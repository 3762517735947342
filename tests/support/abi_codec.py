"""Arguments and results of contracts, encoded and decoded along plans that are made once for each function.

`eth_abi` walks a tree of objects for every word, which took half the time of a call in tests. The plans here cover the
plain cases and refuse everything else; `contract.Function` then asks `eth_abi`, which decides and says what is wrong.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from eth_utils.address import is_address, to_canonical_address, to_checksum_address

WORD = 32
WORD_TYPE = re.compile(r"(uint|int|bytes)(\d+)")
ARRAY = re.compile(r"(.*)\[(\d*)\]")

Part = dict[str, Any]  # of an ABI: an argument, a result, or a member of a struct
checksummed = cache(to_checksum_address)


class NotPlain(Exception):
    """A value, an encoding or a type that no plan here covers."""


class Codec(NamedTuple):
    """Of one type. size: bytes in its frame's head.

    write: a value, as the head has it, or the tail where the type is dynamic.
    read: from the data, at an offset, at which `size` bytes, or a dynamic type's first word, are known to be.
    """

    size: int
    is_dynamic: bool
    write: Callable[[Any], bytes]
    read: Callable[[bytes, int], Any]


def codec_of(part: Part) -> Codec:
    """Raises NotPlain for a type that has none."""
    kind: str = part["type"]
    if array := ARRAY.fullmatch(kind):
        each = codec_of({**part, "type": array[1]})
        return _array(each, int(array[2])) if array[2] else _list(each)
    if kind == "tuple":
        names = tuple(each["name"] for each in part["components"])
        return _struct(part["components"], struct_type(names)._make)
    if kind in PLAIN:
        return PLAIN[kind]
    if word := WORD_TYPE.fullmatch(kind):
        return WORDS[word[1]](int(word[2]))
    raise NotPlain(kind)


def values_codec(parts: Sequence[Part]) -> Codec:
    """Of all arguments or all results together."""
    return _struct(parts, tuple)


@cache
def struct_type(names: tuple[str, ...]) -> Any:
    return namedtuple("Struct", names, rename=True)


# --- one word


def _unsigned(bits: int) -> Codec:
    limit, from_bytes = 1 << bits, int.from_bytes

    def write(value: Any) -> bytes:
        if not isinstance(value, int) or value is True or value is False or not 0 <= value < limit:
            raise NotPlain
        return value.to_bytes(WORD, "big")

    def read(data: bytes, at: int) -> int:
        value = from_bytes(data[at : at + WORD], "big")
        if value >= limit:
            raise NotPlain
        return value

    return Codec(WORD, False, write, read)


def _signed(bits: int) -> Codec:
    limit = 1 << (bits - 1)

    def write(value: Any) -> bytes:
        if not isinstance(value, int) or value is True or value is False or not -limit <= value < limit:
            raise NotPlain
        return value.to_bytes(WORD, "big", signed=True)

    def read(data: bytes, at: int) -> int:
        value = int.from_bytes(data[at : at + WORD], "big", signed=True)
        if not -limit <= value < limit:
            raise NotPlain
        return value

    return Codec(WORD, False, write, read)


def _short_bytes(size: int) -> Codec:
    padding = bytes(WORD - size)

    def write(value: Any) -> bytes:
        if not isinstance(value, bytes) or len(value) > size:
            raise NotPlain
        return bytes(value.ljust(WORD, b"\0"))

    def read(data: bytes, at: int) -> bytes:
        if data[at + size : at + WORD] != padding:
            raise NotPlain
        return data[at : at + size]

    return Codec(WORD, False, write, read)


def _write_bool(value: Any) -> bytes:
    if value is not True and value is not False:
        raise NotPlain
    return value.to_bytes(WORD, "big")


def _read_bool(data: bytes, at: int) -> bool:
    value = int.from_bytes(data[at : at + WORD], "big")
    if value > 1:
        raise NotPlain
    return value == 1


@cache
def _address_word(text: str) -> bytes:
    if not is_address(text):
        raise NotPlain
    return to_canonical_address(text).rjust(WORD, b"\0")


def _write_address(value: Any) -> bytes:
    """A contract or a key stands for its address."""
    text = getattr(value, "address", value)
    if not isinstance(text, str):
        raise NotPlain
    return _address_word(text)


@cache
def _address_text(word: bytes) -> str:
    if any(word[:12]):
        raise NotPlain
    return checksummed(word[12:])


def _read_address(data: bytes, at: int) -> str:
    return _address_text(data[at : at + WORD])


# --- several words


def _length(data: bytes, at: int) -> int:
    if at + WORD > len(data):
        raise NotPlain
    return int.from_bytes(data[at : at + WORD], "big")


def _offset(data: bytes, at: int, size: int) -> int:
    """Of what is dynamic: behind the heads."""
    offset = int.from_bytes(data[at : at + WORD], "big")
    if offset < size:
        raise NotPlain
    return offset


def _write_bytes(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise NotPlain
    return len(value).to_bytes(WORD, "big") + value + bytes(-len(value) % WORD)


def _read_bytes(data: bytes, at: int) -> bytes:
    size = _length(data, at)
    start = at + WORD
    end = start + size + -size % WORD
    if end > len(data) or any(data[start + size : end]):
        raise NotPlain
    return data[start : start + size]


def _write_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise NotPlain
    return _write_bytes(value.encode())


def _read_text(data: bytes, at: int) -> str:
    try:
        return _read_bytes(data, at).decode()
    except UnicodeDecodeError:
        raise NotPlain from None


def _frame(members: Sequence[Codec]) -> tuple[int, Callable[[Sequence[Any]], bytes], Callable[[bytes, int], list[Any]]]:
    """Of members side by side: the size of their heads, and how they are written and read.

    What is dynamic has an offset in the head, from the frame's beginning, and follows behind.
    """
    size = sum(WORD if each.is_dynamic else each.size for each in members)
    writers = [(each.write, each.is_dynamic) for each in members]
    readers, at = [], 0
    for each in members:
        readers.append((each.read, at, each.is_dynamic))
        at += WORD if each.is_dynamic else each.size

    def write(values: Sequence[Any]) -> bytes:
        heads, tails, end = [], [], size
        for (write_each, is_dynamic), value in zip(writers, values, strict=True):
            written = write_each(value)
            if is_dynamic:
                heads.append(end.to_bytes(WORD, "big"))
                tails.append(written)
                end += len(written)
            else:
                heads.append(written)
        return b"".join(heads + tails)

    def read(data: bytes, start: int) -> list[Any]:
        if start + size > len(data):
            raise NotPlain
        return [
            read_each(data, start + _offset(data, start + at, size) if is_dynamic else start + at)
            for read_each, at, is_dynamic in readers
        ]

    return size, write, read


def _struct(parts: Sequence[Part], make: Callable[[list[Any]], Any]) -> Codec:
    members = [codec_of(each) for each in parts]
    size, write_all, read_all = _frame(members)

    def write(value: Any) -> bytes:
        if not isinstance(value, (list, tuple)) or len(value) != len(members):
            raise NotPlain
        return write_all(value)

    return Codec(size, any(each.is_dynamic for each in members), write, lambda data, at: make(read_all(data, at)))


def _array(each: Codec, count: int) -> Codec:
    """Of a length that the type says."""
    size, write_all, read_all = _frame([each] * count)

    def write(value: Any) -> bytes:
        if not isinstance(value, (list, tuple)) or len(value) != count:
            raise NotPlain
        return write_all(value)

    return Codec(size, each.is_dynamic, write, read_all)


def _list(each: Codec) -> Codec:
    """Its length comes first."""
    step = WORD if each.is_dynamic else each.size
    frame = cache(lambda count: _frame([each] * count))

    def write(value: Any) -> bytes:
        if not isinstance(value, (list, tuple)):
            raise NotPlain
        return len(value).to_bytes(WORD, "big") + frame(len(value))[1](value)

    def read(data: bytes, at: int) -> list[Any]:
        count = _length(data, at)
        if at + WORD + count * step > len(data):
            raise NotPlain
        return frame(count)[2](data, at + WORD)

    return Codec(WORD, True, write, read)


WORDS: dict[str, Callable[[int], Codec]] = {
    "uint": cache(_unsigned),
    "int": cache(_signed),
    "bytes": cache(_short_bytes),
}
PLAIN = {
    "bool": Codec(WORD, False, _write_bool, _read_bool),
    "address": Codec(WORD, False, _write_address, _read_address),
    "bytes": Codec(WORD, True, _write_bytes, _read_bytes),
    "string": Codec(WORD, True, _write_text, _read_text),
}
