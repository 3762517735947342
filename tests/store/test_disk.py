"""The embedded store on its disk: killed, full, shared between processes, damaged."""

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.test_cid import content_of
from tests.support.waiting import HANG_S
from zoo_compute.store import BlockStore, ContentMissing, ContentRefused, ContentTampered, StoreError, cid_of
from zoo_compute.store.durable_files import locked, replacing

ROOT = Path(__file__).parents[2]


def script(text: str, *arguments: object, through: tuple[str, ...] = (), **options) -> subprocess.Popen:
    """Run Python in a process of its own, which can be killed, or given another disk."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(text)
    command = [*through, sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


def blocks_of(root: Path) -> list[Path]:
    return sorted((root / "blocks").rglob("baf*"))


def assert_sound(root: Path) -> None:
    """Every block is whole, and nothing half-written is left after the store was opened once."""
    BlockStore(root)
    assert list((root / "temp").iterdir()) == []
    for path in blocks_of(root):
        assert (
            BlockStore(root).read(path.name, max_bytes=2**18) == path.read_bytes() if "bafkrei" in path.name else True
        )


ADD_FOREVER = """
    from pathlib import Path
    from zoo_compute.store import BlockStore
    import hashlib, io
    class Endless(io.RawIOBase):
        count = 0
        def read(self, size=-1):
            self.count += 1
            return hashlib.shake_128(b"%d" % self.count).digest(size)
    print("adding", flush=True)
    BlockStore(Path(sys.argv[1])).add(Endless())
"""


@pytest.mark.parametrize("delay_s", [0.02, 0.1, 0.3])
def test_add__killed_in_the_middle__leaves_whole_blocks_and_no_pin(tmp_path, delay_s):
    process = script(ADD_FOREVER, tmp_path)
    assert process.stdout.readline() == "adding\n"
    while len(blocks_of(tmp_path)) < 3:
        assert process.poll() is None
    time.sleep(delay_s)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    left = blocks_of(tmp_path)
    assert left  # the kill came in the middle
    assert_sound(tmp_path)
    store = BlockStore(tmp_path)
    assert store.pins() == set()
    assert store.collect_garbage() >= len(left)
    assert blocks_of(tmp_path) == []


def test_add__killed_at_any_write__leaves_a_store_that_works(tmp_path):
    """Killed before each of the system calls that change the disk, in turn, until one add survives."""
    program = """
        import os, signal
        from pathlib import Path
        from zoo_compute.store import BlockStore, blocks
        blocks._WRITERS = 1
        left = int(sys.argv[2])
        def mortal(name):
            original = getattr(os, name)
            def call(*a, **k):
                global left
                left -= 1
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*a, **k)
            setattr(os, name, call)
        for name in ("fsync", "replace"):
            mortal(name)
        BlockStore(Path(sys.argv[1])).add(b"x" * 300_000)
    """
    for survived in range(40):
        root = tmp_path / str(survived)
        ended = script(program, root, survived).wait()
        assert_sound(root)
        store = BlockStore(root)
        assert all(store.has(pin) for pin in store.pins())
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        assert store.read(store.add(b"x" * 300_000), max_bytes=300_000) == b"x" * 300_000
    assert ended == 0
    assert survived >= 8  # three blocks and a pin, each synced and renamed, at the least


def test_open__temporary_files__of_the_dead_are_removed_and_of_the_living_kept(tmp_path):
    store = BlockStore(tmp_path)
    (tmp_path / "temp" / ".dead.abc.part").write_bytes(b"half")
    with replacing(tmp_path / "pins" / "alive", via=tmp_path / "temp"):
        BlockStore(tmp_path)
        assert [path.name.split(".")[1] for path in (tmp_path / "temp").iterdir()] == ["alive"]
    assert store.pins() == set()


def test_get__killed_in_the_middle__the_next_get_removes_what_it_left(tmp_path):
    store = BlockStore(tmp_path / "store")
    cid = store.add(b"content")
    (tmp_path / ".out.abc.part").write_bytes(b"half")
    store.get(cid, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "store"]


FILL = """
    from pathlib import Path
    from zoo_compute.store import BlockStore, StoreFull
    import hashlib
    store = BlockStore(Path(sys.argv[1]) / "store")
    kept = store.add(hashlib.shake_128(b"kept").digest(300_000))
    try:
        store.add(hashlib.shake_128(b"zoo").digest(20_000_000))
        print("stored?!")
    except StoreFull as error:
        assert "free space" in str(error) and "store" in str(error), error
        assert store.pins() == {kept} and store.has(kept)
        assert list((store.root / "temp").iterdir()) == []
        assert len(store.read(kept, max_bytes=300_000)) == 300_000
        assert store.collect_garbage() > 0
        store.add(b"there is room again" * 1000)
        print("full, and sound")
"""


def test_add__real_disk_full__is_store_full_and_nothing_is_harmed(tmp_path):
    """On a tmpfs of 8 MiB, in a mount namespace that vanishes with the process."""
    mount = ("unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=8m none "$0" && exec "$@"', str(tmp_path))
    if shutil.which("unshare") is None or subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
        pytest.skip(
            "this machine lets nobody mount in a namespace of their own; the limit on file sizes is tested below"
        )
    assert script(FILL, tmp_path, through=mount).communicate(timeout=HANG_S)[0] == "full, and sound\n"


def test_add__file_size_limit__is_store_full_and_leaves_no_temporary_file(tmp_path):
    program = """
        import resource
        from pathlib import Path
        from zoo_compute.store import BlockStore, StoreFull
        store = BlockStore(Path(sys.argv[1]))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            store.add(b"x" * 200_000)
        except StoreFull:
            print(sorted(path.name for path in (store.root / "temp").iterdir()), store.pins(), list(store._blocks))
    """
    assert script(program, tmp_path).communicate(timeout=HANG_S)[0] == "[] set() []\n"


def test_add__same_content_by_several_processes__all_succeed(tmp_path):
    program = """
        from pathlib import Path
        from zoo_compute.store import BlockStore
        from tests.store.test_cid import content_of
        store = BlockStore(Path(sys.argv[1]))
        for _ in range(3):
            cid = store.add(content_of(3_000_000))
        print(cid)
    """
    processes = [script(program, tmp_path) for _ in range(3)]
    cids = {process.communicate(timeout=HANG_S)[0].strip() for process in processes}
    assert cids == {cid_of(content_of(3_000_000))}
    assert_sound(tmp_path)
    assert BlockStore(tmp_path).read(cids.pop(), max_bytes=3_000_000) == content_of(3_000_000)


def test_add__large_file__takes_little_memory(tmp_path):
    program = """
        import resource
        from pathlib import Path
        from zoo_compute.store import BlockStore
        store = BlockStore(Path(sys.argv[1]))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with open("/dev/zero", "rb") as zeros:
            class Bounded:
                left = 200 * 2**20
                def read(self, size):
                    self.left -= size
                    return zeros.read(size) if self.left >= 0 else b""
            store.add(Bounded())
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    assert int(script(program, tmp_path).communicate(timeout=HANG_S)[0]) < 32  # MiB


@pytest.mark.parametrize("damage", ["flip", "cut", "grow", "empty"])
def test_add__over_a_damaged_block__heals_it(tmp_path, damage):
    store = BlockStore(tmp_path)
    cid = store.add(b"content")
    path = blocks_of(tmp_path)[0]
    path.write_bytes({"flip": b"kontent", "cut": b"cont", "grow": b"content" * 2, "empty": b""}[damage])
    assert store.add(b"content") == cid
    assert store.read(cid, max_bytes=7) == b"content"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_read__any_damage_to_any_block__is_tampered_and_never_returned(tmp_path_factory, data):
    store = BlockStore(tmp_path_factory.mktemp("store"))
    content = content_of(2**18 + 100)
    cid = store.add(content)
    path = data.draw(st.sampled_from(blocks_of(store.root)))
    block = bytearray(path.read_bytes())
    block[data.draw(st.integers(0, len(block) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(block)
    with pytest.raises(ContentTampered, match="removed"):
        store.read(cid, max_bytes=len(content))
    assert not path.exists()
    assert not store.has(cid)
    assert not store.is_pinned(cid)


def test_read__block_grown_to_gigabytes__is_not_loaded(tmp_path):
    store = BlockStore(tmp_path)
    cid = store.add(b"content")
    os.truncate(blocks_of(tmp_path)[0], 2**40)  # sparse
    with pytest.raises((ContentTampered, ContentRefused)):
        store.read(cid, max_bytes=7)


def test_garbage__waits_for_an_add_that_is_under_way(tmp_path):
    store = BlockStore(tmp_path)
    lock_taken = threading.Event()

    class Slow:
        def __init__(self):
            self.parts = [b"x" * 2**18, b"end", b""]

        def read(self, size):
            if len(self.parts) == 2:
                lock_taken.wait(HANG_S)
            return self.parts.pop(0)

    cids: list[str] = []
    adder = threading.Thread(target=lambda: cids.append(store.add(Slow())))
    adder.start()
    removed: list[int] = []
    collector = threading.Thread(target=lambda: removed.append(BlockStore(tmp_path).collect_garbage()))
    time.sleep(0.2)
    collector.start()
    collector.join(0.3)
    assert collector.is_alive()
    lock_taken.set()
    adder.join()
    collector.join()
    assert removed == [0]
    assert store.has(cids[0])


def test_garbage__others_never_stop_adding__gives_up_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr("zoo_compute.store.blockstore._GARBAGE_WAIT_S", 0.1)
    store = BlockStore(tmp_path)
    with locked(tmp_path / "lock", fcntl.LOCK_SH), pytest.raises(StoreError, match="collect later"):
        store.collect_garbage()


def test_garbage__a_pin_with_a_hole__removes_nothing_and_says_what_to_do(tmp_path):
    store = BlockStore(tmp_path)
    cid = store.add(content_of(600_000))
    store.add(b"garbage", pin=False)
    next((tmp_path / "blocks").rglob(cid)).unlink()
    before = blocks_of(tmp_path)
    with pytest.raises(ContentMissing, match="unpin it"):
        store.collect_garbage()
    assert blocks_of(tmp_path) == before


def test_pins__of_several_processes__are_all_kept(tmp_path):
    program = """
        from pathlib import Path
        from zoo_compute.store import BlockStore
        store = BlockStore(Path(sys.argv[1]))
        for number in range(20):
            store.add(b"%s %d" % (sys.argv[2].encode(), number))
    """
    for process in [script(program, tmp_path, name) for name in ("one", "two")]:
        assert process.wait(60) == 0
    assert len(BlockStore(tmp_path).pins()) == 40


# -- tags


def blocks_here(store: BlockStore, *cids: str) -> list[bool]:
    return [store.has(cid) for cid in cids]


def test_what_a_tag_alone_keeps__goes_with_it__and_nothing_that_another_pin_keeps(tmp_path):
    store = BlockStore(tmp_path)
    shared, own = os.urandom(2**18), os.urandom(2**18)
    gone = store.add(shared + own + b"gone", tag="job-1-round-2")
    other = store.add(shared + b"other", tag="job-2-round-2")
    mine = store.add(b"mine")
    store.pin(mine, tag="job-1-round-2")
    loose = store.add(b"loose", pin=False)
    freed = store.release_tags("job-1-round-2")
    assert not store.has(gone)
    assert blocks_here(store, other, mine, loose) == [True, True, True]
    assert own_bytes(freed, own), "the shared chunk is not freed"
    assert store.tags() == {"job-2-round-2"}
    assert store.pins() == {other, mine}
    assert store.release_tags("job-1-round-2") == 0
    with pytest.raises(ValueError, match="unpin"):
        store.release_tags("")


def test_tags_that_go_together__keep_nothing_of_each_other(tmp_path):
    store = BlockStore(tmp_path)
    shared = store.add(b"shared", tag="a")
    store.pin(shared, tag="b")
    other = store.add(b"other", tag="c")
    assert store.release_tags("a", "b", "none") == len(b"shared")
    assert store.pins() == {other}
    assert not store.has(shared)


def test_garbage__is_left_while_it_may_still_be_being_fetched(tmp_path):
    store = BlockStore(tmp_path)
    loose, pinned = store.add(b"loose", pin=False), store.add(b"pinned")
    assert store.collect_garbage(older_s=60) == 0
    for block in (tmp_path / "blocks").glob("*/*"):
        os.utime(block, (0, 0))
    fresh = store.add(b"fresh", pin=False)
    assert store.collect_garbage(older_s=60) == 1
    assert blocks_here(store, loose, pinned, fresh) == [False, True, True]


def own_bytes(freed: int, own: bytes) -> bool:
    return len(own) < freed < 2 * len(own)


def test_a_pin_with_a_tag__is_a_pin_to_everybody_else(tmp_path):
    store = BlockStore(tmp_path)
    cid = store.add(b"content", tag="a")
    assert store.is_pinned(cid)
    assert store.is_pinned(cid, tag="a")
    assert not store.is_pinned(cid, tag="b")
    assert not store.is_pinned(cid, tag="")
    assert store.collect_garbage() == 0
    store.pin(cid)
    store.unpin(cid)
    assert not store.is_pinned(cid)
    assert store.collect_garbage() == 1


def test_letting_go__killed_at_any_block__is_done_by_the_next_one(tmp_path, monkeypatch):
    content = [os.urandom(600_000), os.urandom(300_000)]
    for killed_at in range(7):
        store = BlockStore(tmp_path / str(killed_at))
        cids = [store.add(each, tag="t") for each in content]
        kept = store.add(b"kept")
        count, remove = iter(range(100)), store._blocks.remove

        def dies(cid, count=count, remove=remove, killed_at=killed_at):
            if next(count) == killed_at:
                raise KeyboardInterrupt
            remove(cid)

        monkeypatch.setattr(store._blocks, "remove", dies)
        with pytest.raises(KeyboardInterrupt):
            store.release_tags("t")
        BlockStore(store.root).release_tags("t")
        assert [path.name for path in blocks_of(store.root)] == [kept]
        assert blocks_here(store, *cids) == [False, False]


def test_a_tag_that_is_no_name__is_refused(tmp_path):
    with pytest.raises(ValueError, match="lower-case letters"):
        BlockStore(tmp_path).add(b"content", tag="../x")
