"""A causal model of `transformers` as a job's module: next-token prediction, from pretrained weights or new ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from zoo_compute.errors import UserError
from zoo_compute.huggingface import library, reason
from zoo_compute.huggingface.lora import LoraSection, add_adapters
from zoo_compute.huggingface.places import Place

KEY = "model.transformers"


def build(source: Any, lora: LoraSection | None = None, **rule: Any) -> tuple[Any, Any, Any]:
    """The return value of a job's module function. source: a Place, or a model. rule: the keys of RuleSection."""
    from torch.nn import functional

    from zoo_compute.models.decoder import optimizer_of

    model = (_load(source) if isinstance(source, Place) else copy.deepcopy(source)).float().train()
    if lora is not None:
        add_adapters(model, lora)
    return model, functional.cross_entropy, optimizer_of(model, **rule)


def config_of(source: Any) -> Any:
    """The configuration of a Place or a model. Raises UserError."""
    if not isinstance(source, Place):
        return source.config
    transformers = library("transformers", KEY)
    try:
        return transformers.AutoConfig.from_pretrained(source.location, **source.options)
    except (OSError, ValueError) as error:
        raise UserError(f"{KEY}: {source.said}: {reason(error)}", hint="the folder needs a config.json") from error


def configs_of(module: Any) -> tuple[Any, ...]:
    """What a model of `transformers` is made and generates from; of other modules nothing."""
    if not hasattr(module, "save_pretrained"):
        return ()
    return tuple(each for each in (module.config, getattr(module, "generation_config", None)) if each is not None)


def context_of(source: Any) -> int | None:
    """How many positions the model has, if its configuration says so."""
    positions = getattr(config_of(source), "max_position_embeddings", None)
    return positions if isinstance(positions, int) and positions > 0 else None


def vocabulary_of(source: Any) -> int:
    return int(config_of(source).vocab_size)


def _load(place: Place) -> Any:
    """With the place's weights; with new ones from torch's generator if it is a folder without weights."""
    transformers = library("transformers", KEY)
    loader = transformers.AutoModelForCausalLM
    try:
        if place.is_local and not any(Path(place.location).glob("*.safetensors")):
            _refuse_pickles(place)
            return loader.from_config(config_of(place), dtype="float32", trust_remote_code=False)
        return loader.from_pretrained(place.location, use_safetensors=True, dtype="float32", **place.options)
    except (OSError, ValueError) as error:
        raise UserError(f"{KEY}: {place.said}: {reason(error)}") from error


def _refuse_pickles(place: Place) -> None:
    """A pickle runs code when it is read; taken for a folder without weights it would be left out silently."""
    for path in sorted(Path(place.location).glob("*.bin")):
        raise UserError(
            f"{KEY}: {place.said} has its weights in {path.name}, a pickle, which is not read",
            hint="load it once with transformers and write it again: `model.save_pretrained(FOLDER)`",
        )
