"""Causal models of Hugging Face as they are, with torch's cross entropy or without a loss; recurrent networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.repops.modules.case import Case, calling, drawn, tokens

VOCABULARY = 11
IDS, NEXT = tokens(2, 5), tokens(2, 5, seed=4)
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 8,
    "intermediate_size": 12,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 8,
}
STILL = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


def eager(out: Any, targets: Tensor) -> Tensor:
    """What a user writes by hand."""
    return functional.cross_entropy(out.logits.reshape(-1, VOCABULARY), targets.reshape(-1))


def bare(kind: str, loss: Any = functional.cross_entropy, chance: bool = False, **settings: Any) -> Case:
    def make() -> nn.Module:
        import transformers

        model = getattr(transformers, kind)
        return model(model.config_class(**settings)).train()

    return Case(make, IDS, NEXT, loss, eager, chance)


def gpt2(loss: Any = functional.cross_entropy, chance: bool = False, **settings: Any) -> Case:
    sizes = {"vocab_size": VOCABULARY, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2}
    return bare("GPT2LMHeadModel", loss, chance, **{**sizes, **STILL, **settings})


def recurrent(make: Callable[[], nn.Module], chance: bool = False) -> Case:
    return calling(make, lambda m, x: m(x)[0], drawn(2, 3, 4), chance=chance)


CASES: dict[str, Case] = {
    "GPT2LMHeadModel": gpt2(),
    "GPT2LMHeadModel, loss None": gpt2(None),
    "GPT2LMHeadModel, nn.CrossEntropyLoss()": gpt2(nn.CrossEntropyLoss()),
    "GPT2LMHeadModel, loss of out.logits": gpt2(eager),
    "GPT2LMHeadModel with its dropout": gpt2(resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1, chance=True),
    'GPT2LMHeadModel(attn_implementation="eager")': gpt2(attn_implementation="eager"),
    "LlamaForCausalLM": bare("LlamaForCausalLM", **SIZES),
    "Qwen2ForCausalLM": bare("Qwen2ForCausalLM", **SIZES),
    "Qwen3ForCausalLM": bare("Qwen3ForCausalLM", **SIZES, head_dim=2),
    "MistralForCausalLM": bare("MistralForCausalLM", **SIZES),
    "MistralForCausalLM(sliding_window=2)": bare("MistralForCausalLM", **SIZES, sliding_window=2),
    "GemmaForCausalLM": bare("GemmaForCausalLM", **SIZES, head_dim=2),
    "Phi3ForCausalLM": bare("Phi3ForCausalLM", **SIZES, pad_token_id=0),
    "GPTNeoXForCausalLM": bare("GPTNeoXForCausalLM", **SIZES),
    "FalconForCausalLM": bare(
        "FalconForCausalLM", vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=1, num_attention_heads=2
    ),
    "BloomForCausalLM": bare("BloomForCausalLM", vocab_size=VOCABULARY, hidden_size=8, n_layer=1, n_head=2),
    "BertForMaskedLM": bare("BertForMaskedLM", **SIZES, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0),
    "MambaForCausalLM (the slow path)": bare(
        "MambaForCausalLM", vocab_size=VOCABULARY, hidden_size=8, num_hidden_layers=1, state_size=2
    ),
    "nn.LSTM": recurrent(lambda: nn.LSTM(4, 3, batch_first=True)),
    "nn.LSTM(num_layers=2, bidirectional=True)": recurrent(lambda: nn.LSTM(4, 3, 2, bidirectional=True)),
    "nn.LSTM(proj_size=2)": recurrent(lambda: nn.LSTM(4, 3, proj_size=2)),
    "nn.LSTM(num_layers=2, dropout=0.5)": recurrent(lambda: nn.LSTM(4, 3, 2, dropout=0.5), chance=True),
    "nn.GRU(num_layers=2)": recurrent(lambda: nn.GRU(4, 3, 2)),
    "nn.RNN": recurrent(lambda: nn.RNN(4, 3)),
    "nn.LSTMCell": calling(lambda: nn.LSTMCell(4, 3), lambda m, x: m(x), drawn(2, 4)),
    "nn.GRUCell": calling(lambda: nn.GRUCell(4, 3), lambda m, x: m(x), drawn(2, 4)),
    "nn.EmbeddingBag(mode='sum')": Case(lambda: nn.EmbeddingBag(11, 3, mode="sum"), IDS),
    "nn.EmbeddingBag(mode='mean', padding_idx=0)": Case(lambda: nn.EmbeddingBag(11, 3, padding_idx=0), IDS),
    "nn.EmbeddingBag(mode='max')": Case(lambda: nn.EmbeddingBag(11, 3, mode="max"), IDS),
    "nn.Embedding(padding_idx=0)": Case(lambda: nn.Embedding(11, 3, padding_idx=0), IDS),
    "nn.AdaptiveLogSoftmaxWithLoss, its log_prob": calling(
        lambda: nn.AdaptiveLogSoftmaxWithLoss(4, 8, [3, 5]), lambda m, x: m.log_prob(x), drawn(3, 4)
    ),
    "tied embedding and head": calling(
        lambda: nn.Embedding(11, 4), lambda m, ids: torch.tanh(m(ids)) @ m.weight.t(), IDS
    ),
}
