"""The datasets of a network, by name or number: read from the chain, fetched, and checked against their root before use.

Names are first come, first served and prove nothing; the root identifies the data (docs/protocol.md, Datasets).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from repops import files
from repops.commitments import Array, state_root
from zoo_compute.amounts import format_count
from zoo_compute.errors import UserError
from zoo_compute.store import ContentTampered, Store
from zoo_compute.store.cid import file_cid

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain

NAME_BYTES = 32
_NAME = re.compile(rf"[a-z][a-z0-9._-]{{0,{NAME_BYTES - 1}}}")
NAMES = f"a name has 1 to {NAME_BYTES} of a-z, 0-9, '.', '_' and '-', and begins with a letter"
_PART = 1 << 20
_LEAST_S = 600.0
_SLOWEST = 250_000  # bytes a second


class DatasetRecord(NamedTuple):
    """A dataset on chain. name: may be empty. root, cid: of its file."""

    number: int
    name: str
    contributor: str
    root: bytes
    size: int
    cid: str

    @property
    def label(self) -> str:
        return f"dataset {self.number}" + (f" ({self.name})" if self.name else "")


def is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def encode_name(name: str) -> bytes:
    """The name as the contract stores it, 32 bytes; empty text for no name. Raises UserError."""
    if name and not is_name(name):
        raise UserError(f"{name!r} is not a valid dataset name", hint=NAMES)
    return name.encode().ljust(NAME_BYTES, b"\0")


def decode_name(word: bytes) -> str:
    """The inverse. A word that is not a valid name becomes hex, so it cannot imitate one."""
    text = bytes(word).rstrip(b"\0").decode("ascii", "replace")
    return text if not text or is_name(text) else "0x" + bytes(word).hex()


def read(chain: Chain, number: int) -> DatasetRecord:
    record = chain.datasets.datasets(number)
    cid = file_cid(record.cid, record.size)
    return DatasetRecord(number, decode_name(record.name), record.contributor, bytes(record.root), record.size, cid)


def list_datasets(chain: Chain) -> list[DatasetRecord]:
    """All datasets, oldest first."""
    return [read(chain, number) for number in range(1, chain.datasets.dataset_count() + 1)]


def find_dataset(chain: Chain, which: str | int) -> DatasetRecord:
    """The dataset with this name or number. Raises UserError, with the nearest name."""
    if isinstance(which, str) and which.isdecimal():
        which = int(which)
    if isinstance(which, int):
        count = chain.datasets.dataset_count()
        if not 1 <= which <= count:
            newest = f"the newest is {count}" if count else "there is none yet"
            raise UserError(f"there is no dataset {which} on {chain.network.name}: {newest}", hint="`zoo dataset list`")
        return read(chain, which)
    number = chain.datasets.named(encode_name(which)) if is_name(which) else 0
    if number:
        return read(chain, number)
    names = [each.name for each in list_datasets(chain) if each.name]
    near = difflib.get_close_matches(which, names, 1)
    there = (
        f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:20])}" if names else "there is none yet"
    )
    raise UserError(
        f"there is no file or folder {which!r} here, and no dataset of that name on {chain.network.name}: {there}",
        hint=f"give the path of your data, or a name from `zoo dataset list`; `zoo dataset contribute FILE --name {which if is_name(which) else 'NAME'}` creates it",
    )


def fetch(dataset: DatasetRecord, store: Store, say: Callable[[str], None]) -> dict[str, Array]:
    """Its arrays; text is one array named `bytes`. Raises ContentTampered for another root; the store's errors pass."""
    what, parts, done, reported = dataset.label, [], 0, 0
    say(f"fetching {what}: {format_count(dataset.size, 'B')}, {dataset.cid}")
    timeout_s = max(_LEAST_S, dataset.size / _SLOWEST)
    with store.open(dataset.cid, timeout_s=timeout_s, max_bytes=dataset.size) as stream:
        while part := stream.read(_PART):
            parts.append(part)
            done += len(part)
            if done * 10 // dataset.size > reported and done < dataset.size:
                reported = done * 10 // dataset.size
                say(f"fetched {format_count(done, 'B')} of {format_count(dataset.size, 'B')}")
    try:
        arrays = files.parse_state(b"".join(parts))
    except files.FileRefused as error:
        raise ContentTampered(f"{what} ({dataset.cid}) is not a file of arrays: {error}") from error
    root = state_root(arrays)
    if root != dataset.root:
        raise ContentTampered(f"{what} ({dataset.cid}) has the root {root.hex()}, the chain says {dataset.root.hex()}")
    say(f"{what} matches the chain: root 0x{root.hex()}")
    return arrays
