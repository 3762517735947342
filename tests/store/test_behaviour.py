"""What every store does alike. Run here on the embedded store, alone and over a gateway; tests/integration runs it on IPFS.

Content is added to `writer` and read from `reader`, which is the same store, or another one that must fetch.
"""

import io
from pathlib import Path

import pytest

from tests.store.test_cid import FROM_THE_DAEMON, content_of
from tests.support.waiting import ended
from zoo_compute.store import (
    BadCid,
    BlockStore,
    ContentMissing,
    ContentRefused,
    ContentTampered,
    Gateway,
    Store,
    StoreUnreachable,
    open_store,
    raw_cid,
)

SIZES = [0, 1, 2**18, 2**18 + 1, 45_000_000, 50_000_000]
NOBODY_HAS = raw_cid(b"\x01" * 32)
NOT_HERE = (ContentMissing, StoreUnreachable)


class StoreBehaviour:
    same_store = True

    @pytest.mark.parametrize("size", SIZES)
    def test_content__added_to_one_and_read_from_the_other__is_equal_and_has_the_known_cid(
        self, writer: Store, reader: Store, tmp_path: Path, size: int
    ) -> None:
        content = content_of(size)
        cid = writer.add(content)
        assert cid == FROM_THE_DAEMON[size]
        assert reader.read(cid, max_bytes=size, timeout_s=60) == content
        assert reader.get(cid, tmp_path / "out", timeout_s=60).read_bytes() == content
        with reader.open(cid, timeout_s=60) as stream:
            assert stream.read(10) == content[:10]
            assert stream.read() == content[10:]
        assert reader.has(cid)

    @pytest.mark.parametrize(
        ("start", "end"),
        [(0, 10), (262_140, 262_150), (300_000, 700_000), (45_613_050, 45_613_070), (5, 5), (49_999_990, 60_000_000)],
    )
    def test_read_part__is_what_the_whole_has_there__and_brings_its_blocks_alone(
        self, writer: Store, reader: Store, start: int, end: int
    ) -> None:
        content = content_of(50_000_000)
        cid = writer.add(content)
        assert reader.read_part(cid, start, end, timeout_s=60) == content[start:end]
        assert reader.has(cid) == self.same_store

    def test_add__path_bytes_or_stream__is_the_same_cid(self, writer: Store, tmp_path: Path) -> None:
        content = content_of(300_000)
        (tmp_path / "file").write_bytes(content)
        stream = io.BytesIO(content)
        cids = {writer.add(content), writer.add(tmp_path / "file"), writer.add(stream)}
        assert len(cids) == 1
        assert not stream.closed

    def test_add__what_is_no_source__is_refused(self, writer: Store, tmp_path: Path) -> None:
        with pytest.raises(TypeError, match=r"pathlib\.Path"):
            writer.add("a/file")  # type: ignore[arg-type]
        with pytest.raises(FileNotFoundError):
            writer.add(tmp_path / "absent")
        with pytest.raises(IsADirectoryError):
            writer.add(tmp_path)

    def test_add__stream_that_breaks__tells_the_cause_and_pins_nothing(self, writer: Store) -> None:
        class Broken(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                if self.tell() > 400_000:
                    raise OSError("the disk of the source is gone")
                return super().read(size)

        before = writer.pins()
        with pytest.raises(OSError, match="the disk of the source is gone"):
            writer.add(Broken(content_of(1_000_000)))
        assert writer.pins() == before

    def test_pins__added_pinned_unpinned__are_listed(self, writer: Store) -> None:
        cid, other = writer.add(b"pinned when added"), writer.add(b"not pinned", pin=False)
        assert cid in writer.pins()
        assert other not in writer.pins()
        writer.pin(other)
        writer.pin(other)
        assert other in writer.pins()
        for each in (cid, other, other):
            writer.unpin(each)
        assert not {cid, other} & writer.pins()

    def test_pin__content_of_the_other__fetches_the_whole_of_it(self, writer: Store, reader: Store) -> None:
        cid = writer.add(content_of(777_777))
        assert reader.has(cid) is self.same_store
        reader.pin(cid)
        assert reader.has(cid)
        assert cid in reader.pins()

    def test_garbage__takes_what_no_pin_keeps(self, writer: Store) -> None:
        shared = b"shared" * 43690 + b"last"  # the first leaf of both
        kept, gone = writer.add(shared + b"kept"), writer.add(shared + b"gone", pin=False)
        assert writer.collect_garbage() >= 2
        assert writer.has(kept)
        assert not writer.has(gone)
        writer.unpin(kept)
        assert writer.collect_garbage() >= 3
        assert not writer.has(kept)

    def test_read__content_that_nobody_has__ends_in_time(self, reader: Store, tmp_path: Path) -> None:
        assert not reader.has(NOBODY_HAS)
        for attempt in (
            lambda: reader.read(NOBODY_HAS, max_bytes=10, timeout_s=1),
            lambda: reader.get(NOBODY_HAS, tmp_path / "out", timeout_s=1),
            lambda: reader.open(NOBODY_HAS, timeout_s=1).read(),
            lambda: reader.pin(NOBODY_HAS, timeout_s=1),
        ):
            with pytest.raises(NOT_HERE, match=NOBODY_HAS):
                ended(attempt, within_s=25)  # where nothing is said, a read has 30 s
        assert list(tmp_path.iterdir()) == []
        assert NOBODY_HAS not in reader.pins()

    def test_read__more_than_allowed__is_refused_at_the_bound(
        self, writer: Store, reader: Store, tmp_path: Path
    ) -> None:
        cid = writer.add(content_of(300_000))
        assert len(reader.read(cid, max_bytes=300_000)) == 300_000
        for attempt in (
            lambda: reader.read(cid, max_bytes=299_999),
            lambda: reader.get(cid, tmp_path / "out", max_bytes=299_999),
            lambda: reader.open(cid, max_bytes=299_999),
        ):
            with pytest.raises(ContentRefused, match="300000 bytes"):
                attempt()
        assert not (tmp_path / "out").exists()

    def test_get__over_a_file_that_exists__replaces_it_and_leaves_nothing_else(
        self, writer: Store, reader: Store, tmp_path: Path
    ) -> None:
        (tmp_path / "out").write_bytes(b"old")
        reader.get(writer.add(b"new"), tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == b"new"
        assert [path.name for path in tmp_path.iterdir()] == ["out"]

    def test_every_method__text_that_is_no_cid__is_refused(self, reader: Store, tmp_path: Path) -> None:
        for attempt in (
            lambda: reader.open("x"),
            lambda: reader.get("../x", tmp_path / "out"),
            lambda: reader.read("", max_bytes=1),
            lambda: reader.has("bafy"),
            lambda: reader.pin("x"),
            lambda: reader.unpin("x"),
        ):
            with pytest.raises(BadCid):
                attempt()


class TestEmbedded(StoreBehaviour):
    @pytest.fixture
    def writer(self, tmp_path_factory):
        return open_store(str(tmp_path_factory.mktemp("store")))

    @pytest.fixture
    def reader(self, writer):
        return writer


class TestOverGateway(StoreBehaviour):
    same_store = False

    @pytest.fixture
    def writer(self, tmp_path_factory):
        return BlockStore(tmp_path_factory.mktemp("writer"))

    @pytest.fixture
    def reader(self, writer, tmp_path_factory):
        with Gateway(writer) as gateway:
            yield open_store(str(tmp_path_factory.mktemp("reader")), [gateway.url])

    def test_block_damaged_here__is_fetched_again(self, writer, reader):
        content = content_of(600_000)
        cid = writer.add(content)
        reader.pin(cid)
        for path in (reader.root / "blocks").rglob("baf*"):  # root and leaves alike
            path.write_bytes(b"rotten" + path.read_bytes()[6:])
        assert reader.read(cid, max_bytes=600_000) == content
        reader.set_peers([])
        assert reader.read(cid, max_bytes=600_000) == content

    def test_block_damaged_here__without_peers__is_tampered_once_and_missing_after(self, writer, reader):
        cid = writer.add(content_of(10))
        reader.pin(cid)
        reader.set_peers([])
        next((reader.root / "blocks").rglob(cid)).write_bytes(b"rotten")
        with pytest.raises(ContentTampered, match="removed"):
            reader.read(cid, max_bytes=10)
        with pytest.raises(ContentMissing, match="no peers"):
            reader.read(cid, max_bytes=10)

    def test_block_damaged_while_the_stream_is_read__is_fetched_again(self, writer, reader):
        content = content_of(1_000_000)
        cid = writer.add(content)
        with reader.open(cid) as stream:
            head = stream.read(10)
            for path in (reader.root / "blocks").rglob("bafkrei*"):
                path.write_bytes(b"")
            assert head + stream.read() == content

    def test_stream__that_failed_once__never_looks_like_one_that_ended(self, writer, reader):
        cid = writer.add(content_of(1_000_000))
        with reader.open(cid) as stream:
            stream.read(10)
            reader.set_peers([])
            for path in (reader.root / "blocks").rglob("bafkrei*"):
                path.write_bytes(b"")
            for _ in range(3):
                with pytest.raises(ContentTampered):
                    stream.read()
