"""Every key of a job's file with a value that is no default, and the place where a posted job has it.

The keys come from the sections themselves, so that a new one without a place fails `test_every_key__has_a_place`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from zoo_compute.jobs.sections import SECTIONS
from zoo_compute.models import ARCHITECTURES

Sections = dict[str, Any]

TOKEN = "0x" + "ab" * 20
MODELS = {field.name for section in ARCHITECTURES.values() for field in fields(section)} | {"name"}
KEYS = [
    *(f"{name}.{each.name}" for name, section in SECTIONS.items() if name != "model" for each in fields(section)),
    *(f"model.{key}" for key in MODELS),
]

# Every key that a value can be given for, none of them a default. What excludes each other is in the second job.
ADAMW: Sections = {
    "model": {"architecture": "gpt", "layers": 1, "heads": 2, "width": 8, "context": 14, "vocab": 128, "tied": False},
    "data": {"path": "one.txt", "paths": ["two.txt"], "heldout": 9, "skip": 5, "context": 12},
    "training": {
        "batch_size": 4,
        "inner_steps": 6,
        "rounds": 3,
        "slots": 5,
        "quorum": 3,
        "segment_steps": 2,
        "warmup_steps": 3,
        "lr_scheduler_type": "constant",
        "clip_norm": 0.5,
        "accumulate": 2,
        "outer_learning_rate": 0.6,
        "outer_momentum": 0.8,
        "carry_rounds": 2,
        "delay": 1,
        "outer_optimizer": "adamw",
        "outer_beta2": 0.99,
        "outer_epsilon": 1e-6,
        "outer_weight_decay": 0.01,
        "seed": 7,
        "learning_rate": 0.002,
        "beta1": 0.8,
        "beta2": 0.9,
        "epsilon": 1e-7,
        "weight_decay": 0.1,
    },
    "compression": {"chunk": 64, "keep": 8, "bits": 4, "decay": 0.5},
    "aggregation": {"rule": "trimmed_mean", "hostile": 2, "mixing": "nearest", "part_size": 4_096},
    "market": {
        "reserve": "1.5",
        "max_price": 2,
        "aggregator_reserve": "0.5",
        "aggregator_max_price": "1.25",
        "custody_price": "0.25",
        "token": TOKEN,
        "decimals": 6,
    },
    "limits": {
        "slot_s": 100,
        "aggregate_s": 50,
        "reexecute_s": 70,
        "depth": 3,
        "policy": "roll back",
        "audit_bps": 2_000,
    },
    "checkpoint": {"interval": 12, "storage": "ipfs", "redundancy": 3},
    "requirements": {
        "gpu_class": ["professional", "datacenter"],
        "vram_gb": 24,
        "admitted": True,
        "tier": "bronze",
        "hours": 12,
        "region": "EU-DE",
    },
}
SGD: Sections = {
    "model": {"layers": 1, "heads": 2, "width": 8, "context": 12},
    "data": {"path": "tokens.npz", "heldout": 6},
    "training": {
        "batch_size": 2,
        "inner_steps": 2,
        "rounds": 2,
        "slots": 2,
        "learning_rate": 0.1,
        "optimizer": "sgd",
    },
    "aggregation": {"aggregators": 2},
    "checkpoint": {"redundancy": 3},
    "market": {"max_price": 3},
}
LLAMA: Sections = {
    "model": {"name": "llama-100k", "heads": 2, "width": 8, "context": 12, "hidden": 6, "kv_heads": 1, "theta": 500.0, "norm_epsilon": 0.001},
    "data": {"path": "one.txt", "heldout": 6},
    "training": {"batch_size": 2, "inner_steps": 2, "rounds": 2, "slots": 2},
    "market": {"max_price": 3},
}  # fmt: skip
JOBS = {"adamw": ADAMW, "sgd": SGD, "llama": LLAMA}

# Keys that are in the terms or the manifest as they are written: (where, the posted value where it differs).
PLAIN: dict[str, tuple[str, ...]] = {
    **{
        f"training.{key}": (key,)
        for key in ("batch_size", "accumulate", "inner_steps", "segment_steps", "rounds", "slots", "quorum", "delay", "seed")
    },
    "training.carry_rounds": ("carry",),
    "training.outer_learning_rate": ("outer", "lr"),
    "training.outer_momentum": ("outer", "momentum"),
    "training.outer_optimizer": ("outer", "kind"),
    "training.outer_beta2": ("outer", "beta2"),
    "training.outer_epsilon": ("outer", "epsilon"),
    "training.outer_weight_decay": ("outer", "weight_decay"),
    **{f"compression.{key}": ("compression", key) for key in ("chunk", "keep", "bits", "decay")},
    **{f"aggregation.{key}": ("aggregation", key) for key in ("rule", "hostile", "mixing", "part_size", "aggregators")},
    **{f"limits.{key}": (key,) for key in ("slot_s", "aggregate_s", "reexecute_s", "depth", "policy", "audit_bps")},
    "checkpoint.redundancy": ("redundancy",),
}  # fmt: skip
IN_TERMS = {
    "market.reserve": "reserve",
    "market.max_price": "max_price",
    "market.aggregator_reserve": "aggregator_reserve",
    "market.aggregator_max_price": "aggregator_max_price",
    "market.token": "token",
}
# Keys of which a file's root follows: it is not the same without them (the key -> the file, and another value).
IN_FILES: dict[str, tuple[str, Any]] = {
    "model.layers": ("program", 2),
    "model.heads": ("program", 1),
    "model.width": ("program", 4),
    "model.context": ("program", 13),
    "model.vocab": ("program", 256),
    "model.tied": ("program", True),
    "data.path": ("data", ""),
    "data.paths": ("data", []),
    "data.heldout": ("heldout", 8),
    "data.skip": ("data", 7),
    "data.context": ("program", None),
    "training.warmup_steps": ("program", 0),
    "training.clip_norm": ("program", 0.0),
    "training.learning_rate": ("program", 0.001),
    "training.beta1": ("program", None),
    "training.beta2": ("program", None),
    "training.epsilon": ("program", None),
    "training.weight_decay": ("program", None),
}
IN_FILES_OF_SGD = {"training.optimizer": ("program", None)}
IN_FILES_OF_LLAMA: dict[str, tuple[str, Any]] = {
    "model.name": ("program", "llama-1m"),
    "model.hidden": ("program", 8),
    "model.kv_heads": ("program", 2),
    "model.theta": ("program", 1000.0),
    "model.norm_epsilon": ("program", 0.01),
}
ALL_IN_FILES = {"adamw": IN_FILES, "sgd": IN_FILES_OF_SGD, "llama": IN_FILES_OF_LLAMA}
OF_TABLES = ("data.split", "data.subset", "data.column", "data.tokenizer")
OF_MAPS = tuple(f"map.{each.name}" for each in fields(SECTIONS["map"]))
ELSEWHERE = {
    **dict.fromkeys(OF_MAPS, "tests/jobs/test_maps.py; excludes `training`"),
    **dict.fromkeys(OF_TABLES, "tests/jobs/test_huggingface.py: the root of the data follows from them"),
    "checkpoint.interval": "test_checkpoint_interval__is_in_the_manifest_as_rounds",
    "data.dataset": "test_a_dataset__of_the_network__is_posted; excludes every other place",
    "data.arrays": "test_arrays__of_python__are_posted; no file can hold them",
    "model.architecture": "says which other keys of `model` there are: those of the first job are a gpt's, of the last a llama's",
    "market.decimals": "test_decimals__are_the_tokens_own: a claim about the token, checked against the chain",
    "market.custody_price": "test_custodians__are_asked_for_at_the_files_price_and_the_jobs_bytes",
    **{
        f"requirements.{key}": "test_requirements__are_one_word_of_the_terms_to_which_each_key_adds_its_part"
        for key in ("gpu_class", "vram_gb", "admitted", "tier", "hours", "region")
    },
    "checkpoint.storage": "one storage: nothing else can be said",
    "training.lr_scheduler_type": "tests/training/test_schedules.py: the rates in the data follow from it",
}
