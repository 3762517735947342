"""The decoding step of a causal model of `transformers`, with a cache of keys and values of ours in place of the library's.

Shape legend: as zoo_compute.models.generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zoo_compute.errors import UserError
from zoo_compute.huggingface import library
from zoo_compute.huggingface.models import KEY

if TYPE_CHECKING:
    from torch import Tensor

    from zoo_compute.models.generation import CacheShape, CacheView, Decode


def is_pretrained(module: Any) -> bool:
    """Whether a module is a model of `transformers`."""
    return hasattr(module, "save_pretrained") and hasattr(module, "config")


def decoding_of(model: Any, context: int) -> tuple[Decode, CacheShape]:
    """The model's step and the shape of its cache for texts of so many tokens, as the model itself shows on one token.

    Raises UserError for a model that keeps anything but keys and values of all positions.
    """
    import torch

    from zoo_compute.models.generation import CacheShape

    _check(model, context)
    with torch.no_grad():
        kept = getattr(model(input_ids=torch.zeros(1, 1, dtype=torch.int64), use_cache=True), "past_key_values", None)
    layers = getattr(kept, "layers", None)
    if not layers or any(getattr(each, "keys", None) is None or each.keys.shape[2] != 1 for each in layers):
        raise _uncached(model)
    shapes = [tuple(each.keys.shape[1::2]) for each in layers]
    if any(each.values.shape != each.keys.shape for each in layers):
        raise _uncached(model)

    def decode(x_B: Tensor, cache: CacheView) -> Tensor:
        positions_B1 = cache.positions_B[:, None]
        output = model(
            input_ids=x_B[:, None],
            attention_mask=cache.mask(),
            position_ids=positions_B1,
            past_key_values=_adapted(cache),
            cache_position=cache.positions_B[:1],
            use_cache=True,
        )
        logits_BV: Tensor = output.logits[:, -1]
        return logits_BV

    return decode, CacheShape(tuple(shapes), context)


def _check(model: Any, context: int) -> None:
    config = model.config.get_text_config()
    most = getattr(config, "max_position_embeddings", None)
    if isinstance(most, int) and 0 < most < context:
        raise UserError(f"map.generate: prompt and text take {context:,} tokens, the model has {most:,} positions")
    window = getattr(config, "sliding_window", None)
    if window and window < context and getattr(config, "use_sliding_window", True):
        raise UserError(
            f"map.generate: the model's attention slides over {window:,} tokens, and prompt and text take {context:,}",
            hint="give shorter prompts or fewer tokens",
        )
    if getattr(config, "is_encoder_decoder", False):
        raise _uncached(model)


def _uncached(model: Any) -> UserError:
    return UserError(
        f"{KEY}: {type(model).__name__} keeps no keys and values of each layer that a decoding step could go on with",
        hint="a causal model whose layers all attend to the whole text, such as GPT-2, LLaMA or Qwen2",
    )


def _adapted(cache: CacheView) -> Any:
    """The cache as the library's models know one."""
    transformers: Any = library("transformers", KEY)
    mixin: Any = transformers.cache_utils.CacheLayerMixin

    class Layer(mixin):
        is_sliding, is_compileable = False, True

        def __init__(self, at: int) -> None:
            super().__init__()
            self.at = at

        def lazy_initialization(self, key_states: Tensor) -> None:
            """The cache's tensors are there."""

        def update(self, key_states: Tensor, value_states: Tensor, cache_kwargs: Any = None) -> tuple[Tensor, Tensor]:
            return cache.keep(self.at)(key_states, value_states)

        def get_mask_sizes(self, cache_position: Tensor) -> tuple[int, int]:
            return cache.cache.shape.context, 0

        def get_seq_length(self) -> int:
            return 0

        def get_max_cache_shape(self) -> int:
            return cache.cache.shape.context

    return transformers.Cache(layers=[Layer(at) for at in range(len(cache.cache.shape.layers))])
