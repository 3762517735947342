"""Models by name: an architecture, its sizes and a starting learning rate. No torch.

Published models have their exact sizes and parameter counts, but not their tokenizers: text is bytes, which use the ids
below 256. For tokens of a tokenizer, give the data as an array `tokens` (docs/reference/job-file.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from repops.fields import BadField, nearest
from zoo_compute.models import ARCHITECTURES, DecoderSection


class Preset(NamedTuple):
    """sizes: keys of a `model:` section. learning_rate: AdamW's peak, from the source if it names one."""

    sizes: dict[str, Any]
    learning_rate: float
    source: str


def _gpt(layers: int, heads: int, width: int, context: int) -> Preset:
    sizes = {"architecture": "gpt", "layers": layers, "heads": heads, "width": width, "context": context}
    return Preset(sizes, 1e-3, "bytes, vocabulary of 256")


def _gpt2(layers: int, heads: int, width: int, learning_rate: float) -> Preset:
    sizes = {"architecture": "gpt", "layers": layers, "heads": heads, "width": width, "context": 1_024, "vocab": 50_257}
    return Preset(sizes, learning_rate, "Radford et al. 2019; rates of Brown et al. 2020, table 2.1, by size")


def _llama(
    layers: int, heads: int, width: int, hidden: int, context: int, learning_rate: float, source: str, **others: Any
) -> Preset:
    sizes = {"architecture": "llama", "layers": layers, "heads": heads, "width": width, "hidden": hidden}
    return Preset({**sizes, "context": context, **others}, learning_rate, source)


_LLAMA = "Touvron et al. 2023, table 2"
_MIAO = "Miao et al. 2024 (SpecInfer), JackFram/llama on Hugging Face"
_DANUBE = "Pfeiffer et al. 2024 (H2O-Danube3-500M)"
_STORIES = "Karpathy 2023, llama2.c, TinyStories"

MODELS: dict[str, Preset] = {
    "gpt-100k": _gpt(2, 2, 64, 64),
    "gpt-1m": _gpt(4, 4, 128, 128),
    "gpt-10m": _gpt(6, 6, 384, 256),
    "gpt-85m": _gpt(12, 12, 768, 512),
    "gpt-300m": _gpt(24, 16, 1_024, 1_024),
    "gpt2": _gpt2(12, 12, 768, 6e-4),
    "gpt2-medium": _gpt2(24, 16, 1_024, 3e-4),
    "gpt2-large": _gpt2(36, 20, 1_280, 2.5e-4),
    "gpt2-xl": _gpt2(48, 25, 1_600, 2e-4),
    "llama-100k": _llama(2, 4, 64, 176, 64, 1e-3, "bytes, vocabulary of 256", kv_heads=2, vocab=256, tied=True),
    "llama-1m": _llama(5, 4, 128, 352, 128, 1e-3, "bytes, vocabulary of 256", kv_heads=2, vocab=256, tied=True),
    "llama-15m": _llama(6, 6, 288, 768, 256, 5e-4, _STORIES, tied=True),
    "llama-42m": _llama(8, 8, 512, 1_376, 1_024, 5e-4, _STORIES, tied=True),
    "llama-68m": _llama(2, 12, 768, 3_072, 2_048, 3e-4, _MIAO, norm_epsilon=1e-6),
    "llama-110m": _llama(12, 12, 768, 2_048, 1_024, 5e-4, _STORIES, tied=True),
    "llama-160m": _llama(12, 12, 768, 3_072, 2_048, 3e-4, _MIAO, norm_epsilon=1e-6),
    "llama-500m": _llama(16, 16, 1_536, 4_096, 8_192, 3e-4, _DANUBE, kv_heads=8, theta=100_000.0),
    "llama-1b": _llama(22, 32, 2_048, 5_632, 2_048, 4e-4, "Zhang et al. 2024 (TinyLlama-1.1B)", kv_heads=4),
    "llama-3b": _llama(26, 32, 3_200, 8_640, 2_048, 3e-4, "Geng and Liu 2023 (OpenLLaMA)", norm_epsilon=1e-6),
    "llama-7b": _llama(32, 32, 4_096, 11_008, 2_048, 3e-4, _LLAMA, norm_epsilon=1e-6),
    "llama-13b": _llama(40, 40, 5_120, 13_824, 2_048, 3e-4, _LLAMA, norm_epsilon=1e-6),
    "llama-70b": _llama(80, 64, 8_192, 28_672, 4_096, 1.5e-4, "Touvron et al. 2023 (Llama 2), table 1", kv_heads=8),
}


def preset(name: object) -> Preset:
    """Raises BadField, with the nearest name."""
    if not isinstance(name, str) or name not in MODELS:
        raise BadField(f"model.name: unknown model {name!r}; {nearest(str(name), MODELS)}")
    return MODELS[name]


def sized(section: Mapping[str, Any]) -> dict[str, Any]:
    """A `model:` section with `name` replaced by its sizes; the other keys override them. Raises BadField."""
    if "name" not in section:
        return dict(section)
    if "architecture" in section:
        raise BadField("model: name and architecture exclude each other; the name sets the architecture")
    others = {key: value for key, value in section.items() if key != "name"}
    return {**preset(section["name"]).sizes, **others}


def section_of(name: str) -> DecoderSection:
    """The checked section of a name."""
    sizes = preset(name).sizes
    return ARCHITECTURES[sizes["architecture"]](**sizes)
