"""Datasets: who contributed which data, and how submitters score it (docs/protocol/datasets.md)."""

from dataclasses import replace

from zoo_compute.spec import rewards
from zoo_compute.spec.params import BEST_SCORE, CITED_LIMIT, MAX_DATASET_BYTES
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import EMPTY_BYTES32, Citation, Dataset, JobState, Message, World


def contribute(w: World, msg: Message, root: bytes, cid: bytes, size: int, name: bytes) -> int:
    require(root != EMPTY_BYTES32, "datasets: zero root")
    require(0 < size <= MAX_DATASET_BYTES, "datasets: size out of range")
    require(name not in w.dataset_names, "datasets: name taken")
    dataset = len(w.datasets) + 1
    w.datasets[dataset] = Dataset(msg.sender, root, size, cid, name)
    if name != EMPTY_BYTES32:
        w.dataset_names[name] = dataset
    return dataset


def cite(w: World, msg: Message, job: int, cited: tuple[int, ...]) -> None:
    """A job names the datasets it uses, once, before it is over."""
    if len(cited) > CITED_LIMIT:
        raise ValueError(f"a job cites at most {CITED_LIMIT} datasets, got {len(cited)}")
    record = w.job(job)
    require(msg.sender == record.submitter, "datasets: not the submitter")
    require(record.state < JobState.ENDED, "datasets: job is over")
    require(job not in w.citations, "datasets: already cited")
    require(len(cited) > 0, "datasets: nothing cited")
    for index, dataset in enumerate(cited):
        require(dataset in w.datasets, "datasets: unknown dataset")
        require(index == 0 or dataset > cited[index - 1], "datasets: out of order")
    w.citations[job] = Citation(cited)


def score(w: World, msg: Message, job: int, qualities: tuple[int, ...]) -> None:
    """Scores each cited dataset, once, after the whole job is paid."""
    record, citation = w.job(job), w.citations.get(job, Citation())
    require(msg.sender == record.submitter, "datasets: not the submitter")
    require(citation.cited != (), "datasets: nothing cited")
    require(not citation.scored, "datasets: already scored")
    require(record.state == JobState.ENDED and record.escrow == 0, "datasets: job not settled")
    require(len(qualities) == len(citation.cited), "datasets: one score each")
    require(all(quality <= BEST_SCORE for quality in qualities), "datasets: score out of range")
    w.citations[job] = replace(citation, scored=True)
    for number, quality in zip(citation.cited, qualities, strict=True):
        dataset = w.datasets[number]
        weight, most = quality * dataset.size, BEST_SCORE * dataset.size
        rewards.record_data(w, dataset.contributor, job, weight, most, now=msg.block_time)
