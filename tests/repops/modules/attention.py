"""Attention in every mode, and the transformer layers of torch.nn."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from tests.repops.modules.case import Case, calling, drawn, of

X, MEMORY = drawn(2, 4, 6), drawn(2, 3, 6, seed=4)
QUERY = (2, 4, 3, 2)
FUTURE = torch.ones(4, 4, dtype=torch.bool).triu(1)
CAUSAL = nn.Transformer.generate_square_subsequent_mask(4)
PADDING = torch.tensor([[False, False, False, True], [False, False, True, True]])
BLIND = torch.tensor([[False, False, False], [True, False, False], [True, True, False]])
attend = functional.scaled_dot_product_attention


def mha(*, weights: bool = True, **settings: object) -> Case:
    """Self-attention; settings: of the layer, and of its call where they are masks."""
    masks = {
        key: settings.pop(key)
        for key in ("attn_mask", "key_padding_mask", "is_causal", "average_attn_weights")
        if key in settings
    }
    return calling(
        lambda: nn.MultiheadAttention(6, 2, **{"batch_first": True, **settings}),  # type: ignore[arg-type]
        lambda m, x: m(x, x, x, need_weights=weights, **masks),
        X,
    )


def layer(kind: type[nn.Module] = nn.TransformerEncoderLayer, dropout: float = 0.0, **settings: object) -> nn.Module:
    return kind(6, 2, 8, dropout, **{"batch_first": True, **settings})


def encoder(norm: bool = True, **settings: object) -> nn.Module:
    return nn.TransformerEncoder(layer(norm_first=True), 1, nn.LayerNorm(6) if norm else None, **settings)  # type: ignore[arg-type]


CASES: dict[str, Case] = {
    "F.scaled_dot_product_attention": of(lambda x: attend(x, x * 2, x), *QUERY),
    "F.scaled_dot_product_attention(is_causal=True)": of(lambda x: attend(x, x * 2, x, is_causal=True), *QUERY),
    "F.scaled_dot_product_attention(attn_mask=bool)": of(
        lambda x: attend(x, x * 2, x, attn_mask=~FUTURE[:3, :3]), *QUERY
    ),
    "F.scaled_dot_product_attention, a row that a mask hides altogether": of(
        lambda x: attend(x, x * 2, x, attn_mask=BLIND), *QUERY
    ),
    "F.scaled_dot_product_attention(attn_mask=float)": of(lambda x: attend(x, x * 2, x, attn_mask=x @ x.mT), *QUERY),
    "F.scaled_dot_product_attention(enable_gqa=True)": of(
        lambda x: attend(x, x[:, :2] * 2, x[:, :2], enable_gqa=True), *QUERY
    ),
    "F.scaled_dot_product_attention(scale=0.3)": of(lambda x: attend(x, x * 2, x, scale=0.3), *QUERY),
    "F.scaled_dot_product_attention(dropout_p=0.2)": of(
        lambda x: attend(x, x * 2, x, dropout_p=0.2), *QUERY, chance=True
    ),
    "nn.MultiheadAttention": mha(),
    "nn.MultiheadAttention(batch_first=False)": mha(batch_first=False),
    "nn.MultiheadAttention, need_weights=False": mha(weights=False),
    "nn.MultiheadAttention, average_attn_weights=False": mha(average_attn_weights=False),
    "nn.MultiheadAttention(bias=False)": mha(bias=False),
    "nn.MultiheadAttention(add_bias_kv=True)": mha(add_bias_kv=True),
    "nn.MultiheadAttention(add_bias_kv=True), need_weights=False": mha(add_bias_kv=True, weights=False),
    "nn.MultiheadAttention(add_zero_attn=True)": mha(add_zero_attn=True),
    "nn.MultiheadAttention(kdim, vdim)": calling(
        lambda: nn.MultiheadAttention(6, 2, kdim=3, vdim=5, batch_first=True),
        lambda m, q, k, v: m(q, k, v),
        X,
        drawn(2, 3, 3),
        drawn(2, 3, 5),
    ),
    "nn.MultiheadAttention, attn_mask bool": mha(attn_mask=FUTURE),
    "nn.MultiheadAttention, attn_mask bool, need_weights=False": mha(attn_mask=FUTURE, weights=False),
    "nn.MultiheadAttention, attn_mask float": mha(attn_mask=CAUSAL),
    "nn.MultiheadAttention, is_causal": mha(attn_mask=CAUSAL, is_causal=True, weights=False),
    "nn.MultiheadAttention, key_padding_mask": mha(key_padding_mask=PADDING),
    "nn.MultiheadAttention, both masks, need_weights=False": mha(
        key_padding_mask=PADDING, attn_mask=FUTURE, weights=False
    ),
    "nn.MultiheadAttention(dropout=0.1)": calling(
        lambda: nn.MultiheadAttention(6, 2, 0.1), lambda m, x: m(x, x, x), X, chance=True
    ),
    "nn.TransformerEncoderLayer": Case(layer, X),
    "nn.TransformerEncoderLayer(norm_first=True)": Case(lambda: layer(norm_first=True), X),
    'nn.TransformerEncoderLayer(activation="gelu")': Case(lambda: layer(activation="gelu"), X),
    "nn.TransformerEncoderLayer(batch_first=False)": Case(lambda: layer(batch_first=False), X),
    "nn.TransformerEncoderLayer(dropout=0.1, norm_first=True)": Case(
        lambda: layer(dropout=0.1, norm_first=True), X, chance=True
    ),
    "nn.TransformerEncoderLayer, in eval mode": Case(lambda: layer(norm_first=True).eval(), X),
    "nn.TransformerDecoderLayer": Case(lambda: layer(nn.TransformerDecoderLayer), (X, MEMORY)),
    "nn.TransformerDecoderLayer(norm_first=True)": Case(
        lambda: layer(nn.TransformerDecoderLayer, norm_first=True), (X, MEMORY)
    ),
    "nn.TransformerEncoder": Case(encoder, X),
    "nn.TransformerEncoder, a causal mask without a hint": calling(encoder, lambda m, x: m(x, mask=CAUSAL), X),
    "nn.TransformerEncoder, mask and is_causal": calling(
        encoder, lambda m, x: m(x, mask=nn.Transformer.generate_square_subsequent_mask(x.shape[1]), is_causal=True), X
    ),
    "nn.TransformerEncoder, src_key_padding_mask of the batch": calling(
        encoder, lambda m, x, padding: m(x, src_key_padding_mask=padding), X, PADDING
    ),
    "nn.TransformerDecoder, tgt_mask": calling(
        lambda: nn.TransformerDecoder(layer(nn.TransformerDecoderLayer), 1),  # type: ignore[arg-type]
        lambda m, x, memory: m(x, memory, tgt_mask=CAUSAL),
        X,
        MEMORY,
    ),
    "nn.Transformer": Case(lambda: nn.Transformer(6, 2, 1, 1, 8, 0.0, batch_first=True), (X, MEMORY)),
}
