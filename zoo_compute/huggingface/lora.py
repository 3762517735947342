"""LoRA (Hu et al. 2021): beside each frozen weight W trains the product of two thin matrices, W + alpha / r * B A.

The base model's tensors are part of the job's state, which its root commits to, and no step changes them: only A and B travel.
Their names begin with `adapter.`, so that they lie side by side in a checkpoint's file, and its other blocks never change.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from repops.commitments import Array
from repops.fields import BadField, between
from zoo_compute.errors import UserError

ADAPTER = "adapter."
ALPHA = ADAPTER + "alpha"
ALL_LINEAR = "all-linear"
PEFT_PREFIX = "base_model.model."


@dataclass(frozen=True)
class LoraSection:
    """`lora:` of a model of `transformers`, by the names of `peft`. r: the rank. target_modules: names of layers, or their ends; by
    default every linear layer except the output's."""

    r: int = 8
    alpha: float = 16.0
    target_modules: str | list[str] = ALL_LINEAR

    def __post_init__(self) -> None:
        between("model.lora.r", self.r, 1, 4096)
        between("model.lora.alpha", self.alpha, 1e-6, 1e6)
        if isinstance(self.target_modules, str) and self.target_modules != ALL_LINEAR:
            raise BadField(f"model.lora.target_modules: expected {ALL_LINEAR!r} or a list, got {self.target_modules!r}")


def add_adapters(model: Any, section: LoraSection) -> None:
    """Freeze the model and add trainable adapters to its layers, drawn from torch's generator. Raises UserError."""
    import torch

    model.requires_grad_(False)
    layers = _targets(model, section.target_modules)
    adapters = torch.nn.ModuleDict({name.replace(".", "/"): _adapter(layer, section) for name, layer in layers.items()})
    adapters.register_buffer("alpha", torch.tensor(float(section.alpha)))
    model.add_module(ADAPTER[:-1], adapters)
    for name, layer in layers.items():
        _hook(layer, adapters, name.replace(".", "/"), section.r)


def _adapter(layer: Any, section: LoraSection) -> Any:
    """A (r, inputs) random, B (outputs, r) zero: at first the layer computes what it did."""
    import torch

    outputs, inputs = _shape(layer)
    made = torch.nn.Module()
    made.A = torch.nn.Parameter(torch.empty(section.r, inputs))
    made.B = torch.nn.Parameter(torch.zeros(outputs, section.r))
    torch.nn.init.kaiming_uniform_(made.A, a=math.sqrt(5))
    return made


def _hook(layer: Any, adapters: Any, name: str, r: int) -> None:
    from torch.nn import functional

    def add(_: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        own = adapters[name]
        low = functional.linear(functional.linear(inputs[0], own.A), own.B)
        return output + low * (adapters.alpha / r)

    layer.register_forward_hook(add)


def _is_transposed(layer: Any) -> bool:
    """Whether its weight is (inputs, outputs), as in GPT-2."""
    return type(layer).__name__ == "Conv1D"


def _is_linear(layer: Any) -> bool:
    import torch

    return isinstance(layer, torch.nn.Linear) or _is_transposed(layer)


def _shape(layer: Any) -> tuple[int, int]:
    """outputs, inputs"""
    first, second = layer.weight.shape
    return (second, first) if _is_transposed(layer) else (first, second)


def _targets(model: Any, wanted: str | list[str]) -> dict[str, Any]:
    head = model.get_output_embeddings()
    linear = {name: layer for name, layer in model.named_modules() if _is_linear(layer)}
    if isinstance(wanted, str):
        return {name: layer for name, layer in linear.items() if layer is not head}
    for each in wanted:
        if not any(_is_named(name, each) for name in linear):
            ends = sorted({name.rpartition(".")[2] for name in linear})
            raise UserError(
                f"model.lora.target_modules: no linear layer is named {each!r}; there are {', '.join(ends)}"
            )
    chosen = {name: layer for name, layer in linear.items() if any(_is_named(name, each) for each in wanted)}
    if head in chosen.values() and head.weight is model.get_input_embeddings().weight:
        raise UserError(
            "model.lora.target_modules: the output layer shares its weight with the embedding; leave it out"
        )
    return chosen


def _is_named(name: str, wanted: str) -> bool:
    return name == wanted or name.endswith("." + wanted)


def is_adapter(tensors: Mapping[str, Array]) -> bool:
    """Whether these are a result of a job with `lora`."""
    return ALPHA in tensors


def describe(tensors: Mapping[str, Array], *, merge: bool) -> str:
    """What a model card says of the adapters; nothing of a whole model."""
    if not is_adapter(tensors):
        return ""
    own = Trained.of(tensors)
    merged = ", added to the weights" if merge else ""
    return f"LoRA of rank {own.r} with alpha {own.alpha:g} on {len(own.layers)} layers{merged}"


@dataclass(frozen=True)
class Trained:
    """The adapters of a result. layers: name -> (A, B)."""

    alpha: float
    layers: Mapping[str, tuple[Array, Array]]

    @classmethod
    def of(cls, tensors: Mapping[str, Array]) -> Trained:
        names = [name.removeprefix(ADAPTER).removesuffix(".A") for name in tensors if name.startswith(ADAPTER) and name.endswith(".A")]  # fmt: skip
        layers = {
            name.replace("/", "."): (tensors[f"{ADAPTER}{name}.A"], tensors[f"{ADAPTER}{name}.B"]) for name in names
        }
        return cls(float(tensors[ALPHA]), layers)

    @property
    def r(self) -> int:
        return len(next(iter(self.layers.values()))[0])


def merged(tensors: Mapping[str, Array], model: Any) -> dict[str, Array]:
    """The base model's tensors with the adapters added to its weights. model: of `transformers`, of the same configuration."""
    own, layers = Trained.of(tensors), dict(model.named_modules())
    made = {name: array for name, array in tensors.items() if not name.startswith(ADAPTER)}
    for name, (a, b) in own.layers.items():
        if name not in layers or f"{name}.weight" not in made:
            raise UserError(f"the result does not fit the model: it has no layer {name!r}")
        change = (own.alpha / own.r) * (b.astype(np.float64) @ a.astype(np.float64))
        weight = made[f"{name}.weight"]
        made[f"{name}.weight"] = (weight + (change.T if _is_transposed(layers[name]) else change)).astype(np.float32)
    return made


def write_adapter(tensors: Mapping[str, Array], model: Any, base: str, folder: Path) -> None:
    """Write what `peft.PeftModel.from_pretrained` loads. base: what the model that was started from is called."""
    from safetensors.numpy import save_file

    own, layers = Trained.of(tensors), dict(model.named_modules())
    strange = sorted(set(own.layers) - set(layers))
    if strange:
        raise UserError(f"the result does not fit the model: it has no layer {strange[0]!r}")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": own.r,
        "lora_alpha": own.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(_is_transposed(layers[name]) for name in own.layers),
        "target_modules": sorted(own.layers),
        "inference_mode": True,
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2, sort_keys=True))
    pairs = {"lora_A": 0, "lora_B": 1}
    arrays = {f"{PEFT_PREFIX}{name}.{part}.weight": np.ascontiguousarray(layer[at]) for name, layer in own.layers.items() for part, at in pairs.items()}  # fmt: skip
    save_file(arrays, folder / "adapter_model.safetensors", metadata={"format": "pt"})
