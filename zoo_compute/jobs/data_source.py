"""The examples of a job: from arrays, from text as bytes, or from text in the tokens of a tokenizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from repops.commitments import Array
from zoo_compute.errors import UserError
from zoo_compute.huggingface import tables, tokens
from zoo_compute.huggingface.places import Place, place_of
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.stored_data import rows_of, tokenizer_place
from zoo_compute.training import examples
from zoo_compute.training.examples import Dataset

Say = Callable[[str], None]


def dataset_of(job: ComputeJob, say: Say) -> Dataset:
    """Read, cut and shuffle the job's data; of a map the items as they are, and none held out. Raises UserError."""
    if job.map is not None:
        return Dataset({examples.INPUTS: _items(job, say)}, {})
    sizes = {
        "seed": job.training.seed,
        "wanted": job.examples_wanted,
        "minimum": job.examples_per_round,
        "heldout": job.data.heldout,
        "skip": job.data.skip,
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", examples.RepeatedData)
        try:
            dataset = _dataset(job, sizes, say)
        except UserError:
            raise
        except ValueError as error:
            raise UserError(f"data: {error}") from error
    for warning in caught:
        if issubclass(warning.category, examples.RepeatedData):
            say(f"note: {warning.message}")
    return dataset


def tokenizer_of(job: ComputeJob) -> Place | None:
    """Where the job's tokenizer is; None: text is bytes. Raises UserError."""
    return tokenizer_place(job.data, job.model, job.directory)


def _dataset(job: ComputeJob, sizes: dict[str, Any], say: Say) -> Dataset:
    if job.arrays is not None:
        if job.data.tokenizer:
            raise UserError(f"{tokens.KEY}: the data is arrays, which need none")
        return examples.prepare_arrays(job.arrays, **sizes)
    place, is_table = tokenizer_of(job), _is_table(job)
    if place is None:
        text = "\n".join(_column(job)).encode() if is_table else job.text
        return examples.prepare_text(text, job.context, **sizes)
    tokenizer = tokens.load_tokenizer(place)
    tokens.check_vocabulary(tokenizer, place, job.model.vocabulary)
    texts = _column(job) if is_table else _documents(job)
    say(f"tokenizing {len(texts):,} documents with {place.said}")
    return examples.prepare_tokens(tokens.tokens_of(texts, tokenizer, say), job.context, **sizes)


def _items(job: ComputeJob, say: Say) -> Array:
    """The items of a map, those of text as tokens or bytes, each cut to the context or filled up with 0."""
    if not isinstance(job.items, list):
        return job.items
    place = tokenizer_of(job)
    if place is None:
        rows: list[Sequence[int]] = [line.encode() for line in job.items]
    else:
        tokenizer = tokens.load_tokenizer(place)
        tokens.check_vocabulary(tokenizer, place, job.model.vocabulary)
        rows = tokens.tokens_of_each(job.items, tokenizer)
    cut = sum(len(row) > job.context for row in rows)
    if cut:
        say(f"note: {cut:,} of {len(rows):,} items have more than {job.context:,} tokens, and are cut")
    return rows_of(rows, job.context)


def _is_table(job: ComputeJob) -> bool:
    data = job.data
    if data.on_network is not None:
        return False
    named = data.on_hub or data.column or data.split or data.subset
    if named:
        return True
    return any(path.suffix in tables.SUFFIXES or tables.is_folder_of_tables(path) for path in job.data_paths())


def _column(job: ComputeJob) -> list[str]:
    data = job.data
    source = place_of(data.on_hub, job.directory, "data.dataset", kind="dataset") if data.on_hub else job.data_paths()
    return tables.texts_of(source, data.split, data.subset, data.column)


def _documents(job: ComputeJob) -> list[str]:
    """Each file of text, or the whole text of a dataset of the network."""
    text = job.text
    documents = [text] if isinstance(text, bytes) else examples.read_documents(text)
    try:
        return [document.decode() for document in documents]
    except UnicodeDecodeError as error:
        raise UserError(f"data: the text is not UTF-8 ({error.reason} at byte {error.start:,})") from error
