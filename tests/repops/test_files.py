"""Canonical safetensors: equal tensors make equal bytes, others can read them, and hostile files are refused."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from repops import files
from repops.commitments import tensor_roots
from repops.files import FileRefused


def some_state() -> dict[str, np.ndarray]:
    return {
        "b/é": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.array([True, False, True]),
        "step": np.array(7, dtype=np.int64),
        "none": np.zeros((0, 4), dtype=np.int32),
        "bytes": np.arange(5, dtype=np.uint8),
    }


def raw_file(header: Any, data: bytes = b"", *, pad: bool = True) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 if pad else 0)
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: object = "U8", shape: object = (4,), offsets: object = (0, 4)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_files__round_trip_whatever_the_order_of_names(tmp_path: Path) -> None:
    state = some_state()
    files.save_state(tmp_path / "a.safetensors", state)
    files.save_state(tmp_path / "b.safetensors", dict(reversed(state.items())))
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    loaded = files.load_state(tmp_path / "a.safetensors")
    assert list(loaded) == sorted(state, key=lambda n: n.encode())
    for name, array in state.items():
        assert loaded[name].dtype == array.dtype
        assert loaded[name].shape == array.shape
        assert loaded[name].tobytes() == array.tobytes()
        loaded[name].flags.writeable or pytest.fail("a loaded tensor must be writable")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]


def test_files__the_safetensors_library_reads_them(tmp_path: Path) -> None:
    files.save_state(tmp_path / "x.safetensors", some_state())
    theirs = load_file(tmp_path / "x.safetensors")
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in theirs.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in some_state().items()
    }


def test_files__nan_payloads_make_no_difference() -> None:
    odd = {"x": np.array([0xFFC00001], dtype=np.uint32).view(np.float32)}
    assert files.state_bytes(odd) == files.state_bytes({"x": np.float32([np.nan])})


def test_files__vector_made_by_hand() -> None:
    text = b'{"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}  '
    assert files.state_bytes({"w": np.float32([1.0])}) == struct.pack("<Q", 56) + text + b"\x00\x00\x80\x3f"


def test_load__larger_than_allowed__is_refused_before_it_is_read(tmp_path: Path) -> None:
    with (tmp_path / "big").open("wb") as file:
        file.truncate(2**40)  # sparse: reading it would fail
    with pytest.raises(FileRefused, match="exceed the 1000 expected"):
        files.load_state(tmp_path / "big", max_bytes=1000)
    with pytest.raises(FileRefused, match="exceed the 10 expected"):
        files.parse_state(bytes(11), max_bytes=10)


HOSTILE = {
    "empty": (b"", "too few"),
    "header longer than the file": (struct.pack("<Q", 2**63) + b"{}", "exceeds the file"),
    "header of 17 MiB": (struct.pack("<Q", 17 * 2**20) + bytes(18 * 2**20), "exceeds the file"),
    "not JSON": (raw_file(b"{oops  }"), "not JSON"),
    "not UTF-8": (raw_file(b'{"\xff":1}'), "not JSON"),
    "deeply nested": (raw_file(b"[" * 100_000 + b"]" * 100_000), "not JSON"),
    "a list": (raw_file([]), "not an object"),
    "a name twice": (raw_file(b'{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"a":{}}'), "twice"),
    "metadata": (raw_file({"__metadata__": {"a": "b"}}), "no name of a tensor"),
    "no name": (raw_file({"": entry()}, bytes(4)), "no name of a tensor"),
    "a surrogate in a name": (raw_file(b'{"\\ud800":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "not text"),
    "an unknown dtype": (raw_file({"a": entry("F64", [1], [0, 8])}, bytes(8)), "'F64'"),
    "a dtype that is no text": (raw_file({"a": entry(["U8"])}, bytes(4)), "expected one of"),
    "an extra key": (raw_file({"a": entry() | {"x": 1}}, bytes(4)), "exactly dtype"),
    "a missing key": (raw_file({"a": {"dtype": "U8", "shape": [4]}}, bytes(4)), "exactly dtype"),
    "a negative dimension": (raw_file({"a": entry(shape=[-4])}, bytes(4)), "dimension -4"),
    "a dimension that is a float": (raw_file({"a": entry(shape=[4.0])}, bytes(4)), "dimension 4.0"),
    "a dimension that is a bool": (raw_file({"a": entry(shape=[True, 4])}, bytes(4)), "dimension True"),
    "dimensions that overflow": (raw_file({"a": entry(shape=[2**32, 2**32, 0])}, b""), "more elements"),
    "rank 300": (raw_file({"a": entry(shape=[1] * 300)}, bytes(1)), "no shape"),
    "offsets that overlap": (
        raw_file({"a": entry(shape=[4], offsets=[0, 4]), "b": entry(shape=[4], offsets=[2, 6])}, bytes(6)),
        "not canonical",
    ),
    "a gap": (raw_file({"a": entry(shape=[4], offsets=[4, 8])}, bytes(8)), "not canonical"),
    "offsets that do not match the shape": (raw_file({"a": entry(shape=[3])}, bytes(4)), "not canonical"),
    "offsets of text": (raw_file({"a": entry(offsets="04")}, bytes(4)), "not canonical"),
    "names out of order": (
        raw_file({"b": entry(shape=[1], offsets=[0, 1]), "a": entry(shape=[1], offsets=[1, 2])}, bytes(2)),
        "not canonical",
    ),
    "spaces in the header": (raw_file(json.dumps({"a": entry()}).encode(), bytes(4)), "not canonical"),
    "an unpadded header": (raw_file({"a": entry()}, bytes(4), pad=False), "not canonical"),
    "too little data": (raw_file({"a": entry()}, bytes(3)), "describes"),
    "trailing data": (raw_file({"a": entry()}, bytes(5)), "describes"),
    "a bool of 2": (raw_file({"a": entry("BOOL", [2], [0, 2])}, b"\x01\x02"), "neither 0 nor 1"),
    "a NaN with a payload": (raw_file({"a": entry("F32", [1])}, struct.pack("<I", 0x7FC00001)), "NaN"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_parse__hostile_file__is_refused_with_its_reason(name: str) -> None:
    data, reason = HOSTILE[name]
    with pytest.raises(FileRefused, match=reason):
        files.parse_state(data)


def test_parse__every_prefix_and_every_flipped_byte__is_refused_or_reads_as_what_it_is() -> None:
    good = files.state_bytes({"a": np.arange(4, dtype=np.float32), "b": np.array([True])})
    for length in range(len(good)):
        with pytest.raises(FileRefused):
            files.parse_state(good[:length])
    for at in range(len(good)):
        changed = bytearray(good)
        changed[at] ^= 0xFF
        try:
            state = files.parse_state(bytes(changed))
        except FileRefused:
            continue
        assert files.state_bytes(state) == bytes(changed)


def test_a_header_that_describes_more_than_is_expected__is_refused_before_memory_is_taken() -> None:
    data = raw_file({"a": entry(shape=(2**50,), offsets=(0, 2**50))})
    for expected in (len(data), 2**30):
        with pytest.raises(FileRefused, match="its header describes"):
            next(files.read_tensors(io.BytesIO(data), max_bytes=expected))


def test_a_streamed_state__holds_one_tensor_at_a_time_and_refuses_what_a_whole_one_would() -> None:
    data = files.state_bytes(some_state())
    assert b"".join(files.state_pieces(some_state())) == data
    opened: list[int] = []

    def read() -> Iterator[tuple[str, np.ndarray]]:
        opened.append(1)
        return files.read_tensors(io.BytesIO(data), max_bytes=len(data))

    roots, shapes = files.roots_and_shapes(read())
    assert roots == tensor_roots(some_state())
    assert {name: (array.shape, array.dtype) for name, array in shapes.items()} == {
        name: (array.shape, array.dtype) for name, array in some_state().items()
    }
    stream = files.TensorStream(read, shapes)
    for name in stream:
        assert stream[name].tobytes() == some_state()[name].tobytes()
        assert stream[name] is stream[name]
    assert len(opened) == 2, "for the roots, and once in order"
    assert stream[next(iter(stream))].tobytes() == some_state()["a"].tobytes()
    assert len(opened) == 3, "it cannot go back"
    for broken, why in ((data[:-1], "header describes"), (data + b"x", "more bytes")):
        with pytest.raises(FileRefused, match=why):
            list(files.read_tensors(io.BytesIO(broken), max_bytes=len(data)))


def test_a_state_that_cannot_be_committed__is_refused_before_a_byte_of_its_file() -> None:
    with pytest.raises(TypeError, match="cannot be committed"):
        next(files.state_pieces({"a": np.zeros(3, np.float32), "b": np.zeros(3, np.complex64)}))
