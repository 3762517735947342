"""Updates as files: exact for any words, small for sparse ones, and safe to read from anybody."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repops.commitments import Array, sorted_names
from tests.support.waiting import ended
from zoo_compute import codec
from zoo_compute.codec import BadUpdateFile, FileHeader, kernel
from zoo_compute.codec.layout import LEAST_CHUNK, MOST_CHUNK

ODD = [0x80000000, 0x7F800000, 0xFF800001, 0x7FC00000, 0x7FFFFFFF, 1, 0x807FFFFF, 0x00800000, 0x7F7FFFFF]


def state_of(words: dict[str, Any]) -> dict[str, Array]:
    return {name: np.asarray(array, np.uint32).view(np.float32) for name, array in words.items()}


def shapes(state: dict[str, Array]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in state.items()}


def same(one: dict[str, Array], other: dict[str, Array]) -> bool:
    return shapes(one) == shapes(other) and all(one[name].tobytes() == other[name].tobytes() for name in one)


def sparse(shape: tuple[int, ...], kept: int = 64, levels: int = 2, seed: int = 0) -> Array:
    """So many of each 4096 words at uniform places, with signs and magnitudes of bfloat16s that differ from chunk to chunk."""
    draw, flat = np.random.default_rng(seed), np.zeros(int(np.prod(shape)), np.float32)
    for start in range(0, flat.size, 4096):
        chunk = flat[start : start + 4096]
        places = draw.permutation(chunk.size)[: max(1, kept * chunk.size // 4096)]
        magnitudes = np.sort(draw.uniform(0.1, 0.11, levels)).astype(np.float32)
        chunk[places] = magnitudes[draw.integers(0, levels, places.size)] * draw.choice([-1, 1], places.size)
    return (flat.view(np.uint32) & 0xFFFF0000).view(np.float32).reshape(shape)


def int8(shape: tuple[int, ...], *, half: bool = False, seed: int = 0) -> Array:
    """Whole multiples of a bfloat16 a chunk, or odd multiples of a half of it."""
    draw, count = np.random.default_rng(seed), int(np.prod(shape))
    scale = np.repeat(2.0 ** draw.integers(-9, -5, -(-count // 4096)) * 1.0078125, 4096)[:count]
    level = np.clip(np.rint(draw.normal(0, 35, count)), -127, 127) + (0.5 if half else 0)
    return (level * scale + 0.0).astype(np.float32).reshape(shape)


@pytest.fixture(params=["native", "numba"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numba":
        monkeypatch.setattr(kernel, "library", lambda: None)
    return request.param


CASES: dict[str, dict[str, Array]] = {
    "nothing": {},
    "no words": {"a": np.zeros((0, 3), np.float32), "b": np.float32(-0.0).reshape(())},
    "zeros": {"a": np.zeros((300, 200), np.float32), "z": np.zeros(3, np.float32)},
    "odd words": state_of({"a": ODD * 9, "b": np.reshape(ODD * 500, (-1, 3))}),
    "one odd word among many zeros": state_of({"a": [0] * 8000 + ODD[:1] + [0] * 9000}),
    "dense": {"a": np.random.default_rng(1).normal(size=(50, 200)).astype(np.float32)},
    "sparse": {"a": sparse((100, 192)), "b": sparse((5,)), "c": sparse((3, 3, 3, 700))},
    "of four levels": {"a": sparse((100, 192), levels=4), "b": sparse((7, 7000), kept=700, levels=8)},
    "int8": {"a": int8((128, 100)), "b": int8((9, 1000), half=True), "c": int8((40,))},
    "mixed": {"a": np.concatenate([sparse((4096,)), int8((4096,)), np.ones(100, np.float32)])},
    "steps that are no normal numbers": state_of({"a": [0, 0x00800000, 0x00800001, 0x00800003] * 999}),
    "the largest": state_of({"a": [0, 0x7F7F0000, 0x7F7E0000, 0x7F000000, 0xFF7F0000] * 999}),
    "a whole palette": state_of({"a": np.arange(255 * 17) % 255 + 0x3F000000}),
    "one more than a palette": state_of({"a": np.arange(256 * 16) % 256 * 77 + 0x3F000001}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_file__holds_every_word_as_it_was(case: str, library: str) -> None:
    state = CASES[case]
    for chunk in (MOST_CHUNK, 1000, 1):
        data = codec.encode(state, FileHeader(chunk))
        assert same(codec.decode(data, shapes(state)), state)
        assert len(data) <= codec.max_file_bytes(shapes(state), 0)


@pytest.mark.parametrize("case", CASES)
def test_the_native_library_and_numba__write_the_same_bytes(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    native = codec.encode(CASES[case])
    assert kernel.library() is not None
    monkeypatch.setattr(kernel, "library", lambda: None)
    assert codec.encode(CASES[case]) == native


words = st.one_of(
    st.sampled_from(ODD),
    st.integers(0, 2**32 - 1),
    st.integers(0, 7).map(lambda at: 0x3F800000 + (at << 18)),
    st.just(0),
)


@st.composite
def states(draw: st.DrawFn) -> dict[str, Array]:
    made = {}
    for name in draw(st.lists(st.text(min_size=1, max_size=3), max_size=4, unique=True)):
        shape = draw(st.lists(st.integers(0, 40), max_size=3))
        few = draw(st.lists(words, min_size=1, max_size=12))
        random = np.random.default_rng(draw(st.integers(0, 2**32)))
        share = draw(st.sampled_from([0.0, 0.01, 0.3, 1.0]))
        array = random.choice(np.array(few, np.uint32), shape) * (random.random(shape) < share)
        made[name] = array.astype(np.uint32).view(np.float32)
    return made


@settings(max_examples=300, deadline=None)
@given(states(), st.integers(1, 5000))
def test_any_state__comes_back_to_the_bit(state: dict[str, Array], chunk: int) -> None:
    assert same(codec.decode(codec.encode(state, FileHeader(chunk)), shapes(state)), state)


@settings(max_examples=100, deadline=None)
@given(states())
def test_any_state__is_written_alike_by_both_kernels(state: dict[str, Array]) -> None:
    native, kept = codec.encode(state), kernel.library
    try:
        kernel.library = lambda: None  # type: ignore[assignment]
        assert codec.encode(state) == native
        assert same(codec.decode(native, shapes(state)), state)
    finally:
        kernel.library = kept


def test_two_bits_and_64_of_4096__take_less_than_a_two_hundredth() -> None:
    """Places at random, signs and levels alike: there is nothing to learn but how many there are."""
    state = {f"layer {at}": sparse((256, 192), seed=at) for at in range(20)}
    assert 4 * 20 * 256 * 192 / len(codec.encode(state)) > 205


def test_places_that_keep_to_some_rows_and_columns__take_less() -> None:
    draw, busy = np.random.default_rng(0), np.zeros((512, 256), np.float32)
    busy[:, :32] = sparse((512, 32), kept=512)
    spread = draw.permutation(busy.reshape(-1)).reshape(busy.shape)
    assert len(codec.encode({"a": busy})) < 0.8 * len(codec.encode({"a": spread}))


@pytest.mark.parametrize("half", [False, True])
def test_int8__takes_little_more_than_its_entropy(half: bool) -> None:
    state = {"a": int8((256, 512), half=half)}
    _, count = np.unique(np.rint(np.random.default_rng(0).normal(0, 35, 10**6)), return_counts=True)
    entropy = -np.sum(count / 1e6 * np.log2(count / 1e6))
    assert 8 * len(codec.encode(state)) / (256 * 512) < 1.04 * entropy


def test_what_no_code_shortens__takes_its_own_bytes_and_one_more() -> None:
    noise = np.random.default_rng(0).integers(0, 2**32, 10_000, np.uint32)
    assert len(codec.encode(state_of({"a": noise}))) == 4 * 10_000 + 7 + 1


def test_a_tensor_that_is_none_of_float32__is_refused() -> None:
    with pytest.raises(TypeError, match="'a' is int32, expected float32"):
        codec.encode({"a": np.zeros(3, np.int32)})


# -- a tensor at a time


def test_tensors__are_written_and_read_as_they_come() -> None:
    state = {f"{at:02}": sparse((64, 100), seed=at) for at in range(5)}
    taken: list[str] = []

    def tensors() -> Any:
        for name in sorted_names(state):
            taken.append(name)
            yield name, state[name]

    pieces = codec.encode_tensors(tensors(), FileHeader())
    first = next(pieces) + next(pieces)
    assert taken == ["00"], "nothing is read ahead"
    whole = first + b"".join(pieces)
    assert whole == codec.encode(state)
    stream = io.BytesIO(whole)
    parts = codec.decode_tensors(stream, shapes(state), codec.read_head(stream, 0).chunk)
    name, array = next(parts)
    assert name == "00"
    assert array.tobytes() == state["00"].tobytes()
    assert stream.tell() == len(first), "nothing is read ahead"


# -- what strangers send


GOOD = {"a": sparse((40, 192)), "b": int8((100, 30)), "c": np.ones((3, 5), np.float32)}
HEAD = FileHeader(4096, (b"\0" * 32, b"\1" * 32), b"elsewhere")
FILE = codec.encode(GOOD, HEAD)
FIRST = 3 + 2 + 1 + 1 + 64 + 9  # where the first tensor begins


def read(data: bytes) -> tuple[FileHeader, dict[str, Array]]:
    return codec.unpack(io.BytesIO(data), shapes(GOOD), 2)


def test_hashes_and_note__come_back() -> None:
    head, state = read(FILE)
    assert same(state, GOOD)
    assert head == HEAD
    for wrong in (FileHeader(hashes=(b"short",)), FileHeader(hashes=(bytes(32),) * 65), FileHeader(note=bytes(65))):
        with pytest.raises(ValueError, match="at most 64 hashes of 32 bytes and 64 of a note"):
            codec.encode(GOOD, wrong)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "ends within its head"),
        (b"ZV" + FILE[2:], "begins with 5a5601"),
        (FILE[:3] + b"\x01\x00" + FILE[5:], "chunks of 1 words"),
        (FILE[:3] + b"\x01\x10" + FILE[5:], "chunks of 4097 words"),
        (FILE[:5] + b"\x03" + FILE[6:], "3 hashes and a note of 9 bytes, expected 2"),
        (FILE[:6] + b"\x41" + FILE[7:], "a note of 65 bytes"),
        (FILE[:60], "ends within the hashes"),
        (FILE[: FIRST - 1], "ends within the note"),
        (FILE[:FIRST], "ends within the length of 'a'"),
        (FILE[:FIRST] + b"\x80" * 9, "the length of 'a' has no end"),
        (FILE[:FIRST] + b"\xff\xff\xff\x0f", "'a' takes 33554430 bytes, its words 30720"),
        (FILE[:FIRST] + b"\x00" + b"\x01" * 9, "ends within 'a'"),
        (FILE[:-1], "ends within"),
        (FILE + b"\0", "bytes after its 3 tensors"),
    ],
)
def test_a_file_of_another_form__is_refused_with_where_and_why(data: bytes, why: str, library: str) -> None:
    with pytest.raises(BadUpdateFile, match=why):
        read(data)


def with_code(code: bytes) -> bytes:
    return b"ZU\x01\x00\x10\x00\x00" + bytes([len(code) + 1]) + code


def test_a_code_of_another_length__is_refused(library: str) -> None:
    state = {"a": sparse((16, 16))}
    code = codec.encode(state)[8:]
    assert same(codec.decode(with_code(code), shapes(state)), state)
    for wrong in (code + b"\1\1\1\1\1", code[:-6]):
        with pytest.raises(BadUpdateFile, match="end before the bytes do"):
            codec.decode(with_code(wrong), shapes(state))


def test_codes_that_say_what_cannot_be__are_refused_for_each_reason(library: str) -> None:
    """Random codes: each reason that a reader can stop for is met."""
    draw, causes = np.random.default_rng(0), set()
    for _ in range(300):
        try:
            codec.decode(with_code(draw.bytes(int(draw.integers(0, 100)))), {"a": (50, 10)})
        except BadUpdateFile as refused:
            causes.add(str(refused).rpartition(": ")[2])
    assert causes == {
        "a chunk holds more words than it has",
        "a palette that cannot be",
        "its words end before the bytes do, or behind",
    }


CHANGES = 2_000


def test_changed_files__are_read_or_refused() -> None:
    """Thousands of changes of single bytes, runs and lengths. Each ends."""
    draw, refused = np.random.default_rng(0), 0
    for seen in range(CHANGES):
        data = bytearray(FILE)
        at = int(draw.integers(0, len(data)))
        how = seen % 4
        if how == 0:
            data[at] ^= 1 << int(draw.integers(0, 8))
        elif how == 1:
            data[at : at + 8] = draw.bytes(8)
        elif how == 2:
            del data[at:]
        else:
            data[at:at] = draw.bytes(int(draw.integers(1, 9)))
        try:
            _, state = read(bytes(data))
            assert shapes(state) == shapes(GOOD)
        except BadUpdateFile:
            refused += 1
    assert refused > CHANGES / 4


def test_the_slowest_codes__are_read() -> None:
    """Every word of a million for itself, and every chunk with a palette: the slowest codes there are."""
    noise = np.random.default_rng(0).integers(0, 2**32, 250_000, np.uint32)
    listed = (np.arange(250_000, dtype=np.uint32) % 253 * 65537 * 7) | 0x01000000
    for state in (state_of({"a": noise}), state_of({"a": listed})):
        data = codec.encode(state, FileHeader(LEAST_CHUNK))
        assert same(ended(lambda data=data, state=state: codec.decode(data, shapes(state))), state)


def test_chunks__are_those_of_the_compression() -> None:
    """81,680 words are twenty chunks of 4,084 to it. In chunks of another length the magnitudes of two would be mixed."""
    chunks = [sparse((4084,), seed=at) for at in range(20)]
    scaled = [chunk * np.float32(2.0 ** (at % 3)) for at, chunk in enumerate(chunks)]
    state = {"a": np.concatenate(scaled)}
    assert len(codec.encode(state, FileHeader(4096))) < 0.95 * len(codec.encode(state, FileHeader(3000)))
