"""Blocks as files: ROOT/blocks/XY/CID, where XY are the two characters of the CID before its last."""

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from zoo_compute.store.durable_files import remove_abandoned, replacing, sync_folder
from zoo_compute.store.errors import BadCid, ContentTampered, full_disk_becomes_store_full
from zoo_compute.store.multiformats import Cid
from zoo_compute.store.unixfs import MAX_BLOCK

_WRITERS = 8  # threads that wait for the disk


class Blocks:
    """`get` returns only blocks that hash to their CID. It removes any other block, so that it is fetched again."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "blocks"
        self._temp = root / "temp"
        with full_disk_becomes_store_full(root):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._temp.mkdir(exist_ok=True)
        remove_abandoned(self._temp)

    def path(self, cid: Cid) -> Path:
        return self._folder / cid.text[-3:-1] / cid.text

    def put(self, cid: Cid, block: bytes) -> Path:
        """Store a block that the caller has hashed; replaces a damaged one. Returns its folder, which the caller must sync."""
        path = self.path(cid)
        if not _holds(path, block):
            with full_disk_becomes_store_full(self._folder):
                path.parent.mkdir(exist_ok=True)
            with replacing(path, via=self._temp) as stream:
                stream.write(block)
        return path.parent

    @contextmanager
    def writing(self) -> Iterator[Callable[[Cid, bytes], None]]:
        """A `put` that works in the background, a few blocks at a time. On exit, all blocks and their names are on disk."""
        waiting: deque[Future[Path]] = deque()
        folders: set[Path] = set()
        with ThreadPoolExecutor(_WRITERS) as pool:

            def put(cid: Cid, block: bytes) -> None:
                waiting.append(pool.submit(self.put, cid, block))
                if len(waiting) > 2 * _WRITERS:
                    folders.add(waiting.popleft().result())

            try:
                yield put
                folders.update(future.result() for future in waiting)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
            for _ in pool.map(sync_folder, folders):
                pass

    def sync(self, cids: Iterable[Cid]) -> None:
        """Make the names of these blocks survive a power loss; `put` has already synced their content."""
        for folder in {self.path(cid).parent for cid in cids}:
            sync_folder(folder)

    def get(self, cid: Cid) -> bytes | None:
        """The block, or None if it is not stored. If a block does not match its CID, removes it and raises ContentTampered."""
        try:
            block = _read(self.path(cid))
        except FileNotFoundError:
            return None
        if cid.matches(block):
            return block
        self._quarantine(cid)
        raise ContentTampered(
            f"the stored block {cid} was damaged or tampered with and has been removed; "
            "read it again with a peer that has it, or add the file again"
        )

    def size(self, cid: Cid) -> int | None:
        try:
            return self.path(cid).stat().st_size
        except FileNotFoundError:
            return None

    def age_s(self, cid: Cid) -> float:
        """Seconds since a block was written; 0 if it is not stored, or the clock was set back."""
        try:
            return max(0.0, time.time() - self.path(cid).stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    def remove(self, cid: Cid) -> None:
        with suppress(FileNotFoundError):
            self.path(cid).unlink()

    def __iter__(self) -> Iterator[Cid]:
        for folder in self._folder.iterdir():
            for path in folder.iterdir():
                with suppress(BadCid):
                    yield Cid.parse(path.name)

    def _quarantine(self, cid: Cid) -> None:
        """Remove the bad block, but not a good one that another process has put there in the meantime."""
        aside = self._temp / f".{cid}.bad.{os.getpid()}.part"
        with suppress(FileNotFoundError):
            os.replace(self.path(cid), aside)
            if cid.matches(_read(aside)):
                os.replace(aside, self.path(cid))
            else:
                aside.unlink()


def _read(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(MAX_BLOCK + 1)  # a block that grew beyond this cannot match; do not load it all


def _holds(path: Path, block: bytes) -> bool:
    try:
        return path.stat().st_size == len(block) and path.read_bytes() == block
    except FileNotFoundError:
        return False
