"""The JSON Schema of a job's file, for editors: `zoo job schema`. No torch.

It is made from the sections and their keys, so it has every key, its type, its range, its default and its meaning. Rules between keys (a
quorum above the slots) are left to `zoo quote`.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from zoo_compute.config_keys import DRAFT, section_schema
from zoo_compute.huggingface.lora import LoraSection
from zoo_compute.jobs.keys import ABOUT, KEYS, LORA
from zoo_compute.jobs.sections import BUDGET, SECTIONS
from zoo_compute.models import LlamaSection

SIZES = ("layers", "heads", "width", "context")  # what a built-in model without a name needs
KINDS = ("transformers", "module", "program", "name")  # of models, beside a built-in one without a name
_NOT_IN_FILES = {"arrays"}  # from Python only
_AMOUNT: dict[str, Any] = {"type": ["string", "number", "null"]}


def job_schema() -> dict[str, Any]:
    """The schema, of draft 7."""
    sections = {name: _section(name, cls) for name, cls in SECTIONS.items() if name != "model"}
    budget = {**_AMOUNT, "description": "the most that posting may take, in whole tokens; instead of --max-budget"}
    properties = {"model": _model(), **sections, BUDGET: budget}
    return {
        "$schema": DRAFT,
        "title": "A job of Zoo Compute",
        "type": "object",
        "additionalProperties": False,
        "required": ["model"],
        "oneOf": [{"required": ["training"]}, {"required": ["map"]}],
        "properties": properties,
    }


def _section(name: str, cls: type) -> dict[str, Any]:
    keys = {key: each for key, each in KEYS[name].items() if key not in _NOT_IN_FILES}
    assert {f.name for f in fields(cls)} - _NOT_IN_FILES == keys.keys(), f"zoo_compute/jobs/keys.py: {name}"
    return {**section_schema(cls, keys), "description": ABOUT[name]}


def _model() -> dict[str, Any]:
    """One of five kinds. Beside `module` any key may be: it is an argument of the function."""
    keys = KEYS["model"]
    sizes = {f.name: keys[f.name] for f in fields(LlamaSection)}  # those of a gpt among them
    texts = {name: {"type": "string", "description": keys[name].meaning} for name in KINDS if name != "name"}
    name = {"enum": [*keys["name"].words], "description": keys["name"].meaning}
    return {
        "type": "object",
        "description": ABOUT["model"],
        "properties": {**texts, "name": name, "lora": section_schema(LoraSection, LORA)},
        "oneOf": [
            *({"required": [kind]} for kind in KINDS),
            {"required": [*SIZES], "not": {"anyOf": [{"required": [kind]} for kind in KINDS]}},
        ],
        "if": {"required": ["module"]},
        "else": {"properties": section_schema(LlamaSection, sizes)["properties"], "propertyNames": {"enum": [*keys]}},
    }
