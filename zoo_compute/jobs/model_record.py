"""What a result needs to become a folder of `transformers`, and no job has on chain: configuration, tokenizer, names of the data.

Kept under `~/.zoo/models` by the job's manifest, on the machine that prepared the job.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo_compute import paths
from zoo_compute.formats.manifest import Manifest
from zoo_compute.huggingface.places import Place
from zoo_compute.huggingface.tokens import has_tokenizer, load_tokenizer
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.data_source import tokenizer_of

NAMES = "job.json"


def record_folder(manifest: Manifest) -> Path:
    return paths.home() / "models" / manifest.digest.hex()[:32]


def record_model(job: ComputeJob, manifest: Manifest) -> None:
    """Keep what the job's result needs, if its module is a model of `transformers`."""
    configs = job.traced.configs
    if not configs:
        return
    folder = record_folder(manifest)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".model-", dir=folder.parent) as temporary:
        made = Path(temporary) / "model"
        made.mkdir()
        for config in configs:
            config.save_pretrained(made)
        tokenizer = _tokenizer(job)
        if tokenizer is not None:
            load_tokenizer(tokenizer).save_pretrained(made)
        (made / NAMES).write_text(json.dumps(_names(job, tokenizer)))
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def names_of(manifest: Manifest) -> Mapping[str, str]:
    """What the submitter called model, data and tokenizer. Empty on another machine."""
    try:
        return json.loads((record_folder(manifest) / NAMES).read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _tokenizer(job: ComputeJob) -> Place | None:
    """The job's; of a job that brings tokens as arrays, its model's."""
    if job.arrays is None:
        return tokenizer_of(job)
    source = job.model.source
    return source if isinstance(source, Place) and has_tokenizer(source) else None


def _names(job: ComputeJob, tokenizer: Place | None) -> dict[str, str]:
    data, source = job.data, job.model.source
    files = [data.path] if data.path else data.paths
    said: dict[str, Any] = {
        "model": _public(source.said) if isinstance(source, Place) else "",
        "data": data.on_hub or data.on_network or ", ".join(map(_public, files)),
        "subset": data.subset,
        "split": data.split,
        "column": data.column,
        "tokenizer": _public(tokenizer.said) if tokenizer else "",
    }
    return {key: str(value) for key, value in said.items() if value}


def _public(said: str) -> str:
    """Without the folders of this machine: the name is for strangers to read."""
    return Path(said).name if Path(said).expanduser().is_absolute() else said
