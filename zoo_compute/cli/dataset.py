"""`zoo dataset`, `zoo job cite` and `zoo job score`: which datasets a job uses, and how useful they were."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_count
from zoo_compute.cli.context import DATASET, JOB, Group, Settings, pass_settings
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from repops.commitments import Array
    from zoo_compute.client.datasets import DatasetRecord

_which = click.argument("which", metavar="NAME|NUMBER")
_job = click.argument("number", type=JOB, metavar="JOB")


@click.group("dataset", cls=Group)
def dataset() -> None:
    """Datasets that jobs train on and cite."""


@dataset.command(cls=Sending)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--name", default="", metavar="NAME", help="Name for jobs to use. Unique on the network and permanent.")
@click.option(
    "--store", "location", metavar="LOCATION", help="Store to keep the file in. [env ZOO_STORE; ~/.zoo/store]"
)
@pass_settings
def contribute(settings: Settings, path: Path, name: str, location: str | None) -> None:
    """Contribute FILE (.npz or safetensors arrays, or text): store and pin it, and record its root on chain.

    Your account is its contributor permanently. Serve the store so that jobs can use the data. Names are first come,
    first served and prove nothing: publish the root that this prints.
    """
    from repops.commitments import state_root
    from repops.files import state_bytes
    from zoo_compute.client.datasets import encode_name
    from zoo_compute.store.cid import file_digest

    word = encode_name(name)
    arrays = _arrays(path)
    try:
        data, root = state_bytes(arrays), state_root(arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path}: cannot commit to its content: {error}") from error
    cid = settings.store(location).add(data)
    receipt = settings.sender().send(settings.chain().datasets.contribute(root, file_digest(cid), len(data), word))
    number = int(receipt.event("DatasetContributed").args["dataset"])
    answer = {"dataset": number, "name": name or None, "root": "0x" + root.hex(), "cid": cid, "size": len(data)}
    settings.emit(
        {**answer, "transaction": receipt.transaction_hash},
        [
            f"dataset {number}{f' ({name})' if name else ''}: {len(data):,} bytes, {cid}",
            f"root 0x{root.hex()}",
            f"to train on it, write `data: {{dataset: {name or number}}}` in a job; serve it with `zoo store serve`",
        ],
    )


@dataset.command("list")
@pass_settings
def list_(settings: Settings) -> None:
    """List the datasets of the network, oldest first."""
    from zoo_compute.client.datasets import list_datasets

    records = list_datasets(settings.chain())
    rows = [
        (
            str(each.number),
            each.name or "-",
            format_count(each.size, "B"),
            each.contributor,
            f"0x{each.root.hex()[:16]}…",
        )
        for each in records
    ]
    lines = (
        table(rows, header=("number", "name", "size", "contributor", "root"))
        if records
        else ["there is no dataset yet"]
    )
    settings.emit({"datasets": [_as_json(each) for each in records]}, lines)


@dataset.command()
@_which
@pass_settings
def show(settings: Settings, which: str) -> None:
    """Show a dataset: contributor, root and CID of its file. A name proves nothing; the root identifies the data."""
    from zoo_compute.client.datasets import find_dataset

    record = _as_json(find_dataset(settings.chain(), which))
    rows = [
        (key, f"{value:,} bytes" if key == "size" else str(value)) for key, value in record.items() if value is not None
    ]
    settings.emit(record, table(rows))


@dataset.command()
@_which
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write.")
@click.option("--store", "location", metavar="LOCATION", help="Store to fetch into. [env ZOO_STORE; ~/.zoo/store]")
@pass_settings
def fetch(settings: Settings, which: str, out: Path, location: str | None) -> None:
    """Fetch a dataset and check it against its root. Text is written unchanged, arrays as a safetensors file."""
    from repops.files import state_bytes
    from zoo_compute.atomic import write_atomically
    from zoo_compute.client import datasets
    from zoo_compute.training.examples import TEXT

    client = settings.client(store=location, with_account=False)
    record = datasets.find_dataset(client.chain, which)
    if not client.store.has(record.cid):
        client.use_peers()
    arrays = datasets.fetch(record, client.store, settings.say)
    write_atomically(out, arrays[TEXT].tobytes() if TEXT in arrays else state_bytes(arrays), mode=0o644)
    settings.emit({**_as_json(record), "path": str(out)}, str(out))


def _as_json(each: DatasetRecord) -> dict[str, Any]:
    return {
        "dataset": each.number,
        "name": each.name or None,
        "contributor": each.contributor,
        "root": "0x" + each.root.hex(),
        "cid": each.cid,
        "size": each.size,
    }


def _arrays(path: Path) -> dict[str, Array]:
    """Arrays by name. Text becomes one array of bytes named `bytes`."""
    import numpy as np

    from zoo_compute.training.examples import ARRAY_SUFFIXES, TEXT, read_arrays, read_text

    if path.suffix in ARRAY_SUFFIXES:
        return read_arrays(path)
    return {TEXT: np.frombuffer(read_text(path), dtype=np.uint8)}


@dataset.command("claim", cls=Sending)
@click.option(
    "--contributor", metavar="ADDRESS", help="Contributor to pay; your account by default. Anyone can send the claim."
)
@pass_settings
def claim_(settings: Settings, contributor: str | None) -> None:
    """Claim what your datasets earned in past epochs. Running it again claims only what is left."""
    from eth_utils.address import to_checksum_address

    from zoo_compute.amounts import ZEN
    from zoo_compute.chain.addresses import HINT, is_address
    from zoo_compute.cli.output import table
    from zoo_compute.client.contributions import claim

    if contributor is not None and not is_address(contributor):
        raise UserError(f"--contributor takes an address, not {contributor!r}", hint=HINT)
    sender = settings.sender()
    who = str(to_checksum_address(contributor or sender.address))
    shares = claim(sender, who)
    total = sum(share.amount or 0 for share in shares)
    rows = [
        (f"job {s.job}", f"epoch {s.epoch}", s.state, ZEN.format(s.amount) if s.amount is not None else "")
        for s in shares
    ]
    claims = [{**vars(s), "amount": None if s.amount is None else str(s.amount)} for s in shares]
    settings.emit(
        {"contributor": who, "amount": str(total), "claims": claims},
        [f"{ZEN.format(total)} went to {who}", *table(rows)] if shares else f"nothing left to claim for {who}",
    )


@click.command(cls=Sending)
@_job
@click.argument("datasets", type=DATASET, nargs=-1, required=True, metavar="DATASET...")
@pass_settings
def cite(settings: Settings, number: int, datasets: tuple[int, ...]) -> None:
    """Record which datasets (at most eight) your job uses. Possible once, before the job ends."""
    cited = sorted(set(datasets))
    receipt = settings.sender().send(settings.chain().datasets.cite(number, _at_most_eight(cited)))
    settings.emit(
        {"job": number, "cited": cited, "transaction": receipt.transaction_hash},
        f"job {number} cites {', '.join(map(str, cited))}; score them with `zoo job score` when it is settled",
    )


@click.command(cls=Sending)
@_job
@click.argument("qualities", type=click.IntRange(0, 100), nargs=-1, required=True, metavar="QUALITY...")
@pass_settings
def score(settings: Settings, number: int, qualities: tuple[int, ...]) -> None:
    """Score the datasets that your settled job cites: 0 to 100 each, in ascending order of dataset number."""
    chain, scores = settings.chain(), list(qualities)
    receipt = settings.sender().send(chain.datasets.score(number, _at_most_eight(scores)))
    cited = chain.datasets.citations(number).cited
    settings.emit(
        {"job": number, "cited": list(cited), "qualities": scores, "transaction": receipt.transaction_hash},
        [f"dataset {each}: {quality}" for each, quality in zip(cited, scores, strict=True)],
    )


def _at_most_eight(numbers: list[int]) -> list[int]:
    if len(numbers) > 8:
        raise UserError(f"a job cites at most 8 datasets, got {len(numbers)}")
    return numbers


JOB_COMMANDS = (cite, score)
