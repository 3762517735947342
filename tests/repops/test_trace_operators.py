"""Each torch operator that tracing knows, with its gradient, against torch itself."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import repops

Function = Callable[[Tensor], Tensor]

ELEMENTWISE: dict[str, Function] = {
    "add_alpha": lambda x: torch.add(x, x * x, alpha=0.3),
    "sub_from_number": lambda x: 2.0 - x,
    "rsub_alpha": lambda x: torch.rsub(x, x * x, alpha=2.0),
    "div": lambda x: x / (x * x + 1.0),
    "div_number": lambda x: x / 3.0,
    "reciprocal": lambda x: (x.abs() + 1.0).reciprocal(),
    "neg_abs": lambda x: -x.abs(),
    "exp": torch.exp,
    "log": lambda x: torch.log(x.abs() + 0.1),
    "log1p": lambda x: torch.log1p(x.abs() * 0.01),
    "expm1": lambda x: torch.expm1(x * 0.1),
    "log2": lambda x: torch.log2(x.abs() + 0.5),
    "sqrt": lambda x: torch.sqrt(x.abs() + 0.1),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 0.1),
    "sin_cos": lambda x: x.sin() * x.cos(),
    "square": torch.square,
    "cube": lambda x: x**3,
    "fifth_power": lambda x: x**5,
    "half_power": lambda x: (x.abs() + 0.1) ** 0.5,
    "power_and_a_half": lambda x: (x.abs() + 0.1) ** 1.5,
    "inverse_square": lambda x: (x.abs() + 0.5) ** -2,
    "odd_power": lambda x: (x.abs() + 0.5) ** 0.3,
    "number_to_power": lambda x: 3.0**x,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "erf": torch.erf,
    "relu": torch.relu,
    "relu6": functional.relu6,
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "elu": functional.elu,
    "selu": functional.selu,
    "silu": functional.silu,
    "mish": functional.mish,
    "hardswish": functional.hardswish,
    "hardsigmoid": functional.hardsigmoid,
    "softplus": functional.softplus,
    "logsigmoid": functional.logsigmoid,
    "gelu_erf": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "glu": lambda x: functional.glu(x, -1),
    "clamp": lambda x: x.clamp(-0.5, 0.5),
    "clamp_min": lambda x: x.clamp_min(0.1),
    "maximum": lambda x: torch.maximum(x, x * x),
    "minimum": lambda x: torch.minimum(x, x * x),
    "where": lambda x: torch.where(x > 0.2, x * 2, x * x),
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.5),
    "floor_ceil_round": lambda x: x * (x * 3).floor() + x * (x * 3).ceil() + x * (x * 3).round(),
    "trunc_sign": lambda x: x * (x * 3).trunc() + x * x.sign(),
    "remainder": lambda x: x * torch.remainder(x * 7, 2.0).detach(),
    "lerp": lambda x: torch.lerp(x, x * x, 0.3),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x.abs() + 1.0, value=0.5),
    "isfinite": lambda x: x * torch.isfinite(x).float() + x * (~torch.isnan(x)).float(),
    "logic": lambda x: x * ((x > 0) & (x < 1) | (x == 0) ^ (x != 0)).float() + x * torch.logical_not(x >= 0.3).float(),
}
SHAPING: dict[str, Function] = {
    "transpose_reshape": lambda x: (x.t().reshape(2, -1) * 2).flatten(),
    "reshape_of_reshape": lambda x: (x.view(3, 2, 2).transpose(0, 1).reshape(6, 2) ** 2).sum(0),
    "permute": lambda x: (x.view(3, 2, 2).permute(2, 0, 1) * x.view(2, 3, 2)).reshape(-1),
    "cat": lambda x: torch.cat([x, x * 2, x[:1]], 0),
    "cat_of_split_axes": lambda x: torch.cat([x.view(3, 2, 2).transpose(0, 1).reshape(2, 6), x.view(2, 6)], 1) ** 2,
    "stack": lambda x: torch.stack([x, x * x], 1),
    "diagonal_below": lambda x: x.diagonal(-1) ** 2,
    "chunk": lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1],
    "slices": lambda x: x[1:, ::2] * x[:-1, 1::2],
    "select": lambda x: x[0] * x[:, 1].sum() + x[-1],
    "unbind": lambda x: x.unbind(0)[0] * x.unbind(0)[2],
    "expand": lambda x: x.unsqueeze(1).expand(3, 5, 4) * x.unsqueeze(1),
    "repeat": lambda x: x.repeat(2, 3) ** 2,
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1) ** 2,
    "flip": lambda x: x.flip(0, 1) * x,
    "roll": lambda x: x.roll(1, 1) * x,
    "pad": lambda x: functional.pad(x, (1, 2, 0, 1), value=0.5) ** 2,
    "pad_reflect": lambda x: functional.pad(x[None], (2, 1), mode="reflect") ** 2,
    "pad_circular": lambda x: functional.pad(x[None], (2, 1), mode="circular") ** 2,
    "crop": lambda x: functional.pad(x, (-1, 1)) ** 2,
    "tril_triu": lambda x: (x.tril() * 2 + x.triu(1)) ** 2,
    "diagonal": lambda x: x.diagonal(1) ** 2,
    "unfold": lambda x: x.unfold(1, 3, 1) ** 2,
    "assignment": lambda x: _assigned(x),
    "in_place": lambda x: (x * 2).add_(1).mul_(x).relu_(),
    "to_and_back": lambda x: x * x.long().float(),
}
REDUCTIONS: dict[str, Function] = {
    "sum_axes": lambda x: (x.sum(0) ** 2).sum() + (x.sum(1, keepdim=True) * x).sum(),
    "mean": lambda x: x.mean(1) * x.mean(),
    "var_std": lambda x: x.var(1) + x.std(0).sum() + x.var(1, unbiased=False),
    "amax_amin": lambda x: x.amax(1) - x.amin(1),
    "max_of_axis": lambda x: x.max(1).values * 2 + x.min(1).values,
    "max_of_all": lambda x: x.max() * x.min() * x.sum(),
    "argmax": lambda x: x * (x.argmax(1, keepdim=True) == torch.arange(4)).float(),
    "argmin": lambda x: x * (x.argmin(0) == torch.arange(3)[:, None]).float(),
    "cumsum": lambda x: x.cumsum(1) * x,
    "softmax": lambda x: x.softmax(-1) ** 2,
    "softmax_of_first_axis": lambda x: x.softmax(0) ** 2,
    "log_softmax": lambda x: x.log_softmax(-1) * x,
    "logsumexp": lambda x: x.logsumexp(1),
    "norms": lambda x: x.norm(dim=1) + x.norm() + torch.linalg.vector_norm(x, dim=1),
    "normalize": lambda x: functional.normalize(x, dim=1),
    "cosine": lambda x: functional.cosine_similarity(x, x * x, dim=1),
    "any_all": lambda x: x * (x > 0).any(1, keepdim=True).float() * (x > -9).all().float(),
    "prod": lambda x: x.prod(1),
}
CONTRACTIONS: dict[str, Function] = {
    "matmul": lambda x: x @ x.t(),
    "vector_product": lambda x: x @ x[0],
    "inner_product": lambda x: torch.dot(x[0], x[1]),
    "outer_product": lambda x: torch.outer(x[0], x[1]),
    "batched": lambda x: x.view(3, 2, 2) @ x.view(3, 2, 2).transpose(1, 2),
    "broadcast_matmul": lambda x: x.view(3, 1, 2, 2) @ x.view(1, 3, 2, 2),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x * 2),
    "einsum_of_four": lambda x: torch.einsum("abc,acd->bd", x.view(3, 2, 2), x.view(3, 2, 2)),
    "baddbmm": lambda x: torch.baddbmm(x.view(3, 2, 2), x.view(3, 2, 2), x.view(3, 2, 2), beta=0.5, alpha=2),
}
INDEXING: dict[str, Function] = {
    "gather": lambda x: x.gather(1, (x > 0).long()) ** 2,
    "gather_fewer_rows": lambda x: x.gather(0, torch.arange(2)[:, None].expand(2, 3)) ** 2,
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0, 2])) ** 2,
    "index": lambda x: x[torch.tensor([2, 0, 2])] ** 2,
    "index_of_column": lambda x: x[:, torch.tensor([[3, 0], [1, 3]])] ** 2,
    "index_of_pairs": lambda x: x[torch.arange(3), torch.tensor([3, 0, 3])] ** 2,
    "index_by_data": lambda x: x[(x[:, 0] > 0).long()] ** 2,
    "scatter": lambda x: torch.zeros(3, 4).scatter(1, (x > 0).long()[:, :1], x[:, 1:2]) * x,
    "scatter_add": lambda x: torch.zeros(3, 4).scatter_add(1, (x > 0).long(), x) * x,
    "index_add": lambda x: torch.zeros(3, 4).index_add(0, torch.tensor([1, 1, 0]), x) * x,
    "index_put": lambda x: x.clone().index_put((torch.tensor([0, 2]),), x[:2] * 2) ** 2,
    "one_hot": lambda x: x * functional.one_hot(torch.tensor([1, 0, 3]), 4).float(),
    "take_along_dim": lambda x: x.take_along_dim((x > 0).long(), 1) ** 2,
}
LOSSES: dict[str, Function] = {
    "mse": lambda x: functional.mse_loss(x, x.detach().flip(0)),
    "l1": lambda x: functional.l1_loss(x, torch.zeros_like(x)),
    "huber": lambda x: functional.huber_loss(x * 3, torch.zeros_like(x)),
    "smooth_l1": lambda x: functional.smooth_l1_loss(x * 3, torch.zeros_like(x)),
    "bce": lambda x: functional.binary_cross_entropy(x.sigmoid(), torch.full_like(x, 0.3)),
    "bce_with_logits": lambda x: functional.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.3)),
    "kl": lambda x: functional.kl_div(x.log_softmax(1), x.detach().flip(0).softmax(1), reduction="batchmean"),
    "nll": lambda x: functional.nll_loss(x, torch.tensor([1, 0, 3])),
    "cross_entropy": lambda x: functional.cross_entropy(x, torch.tensor([1, 0, 3])),
    "cross_entropy_sum": lambda x: functional.cross_entropy(x, torch.tensor([1, 0, 3]), reduction="sum"),
    "cross_entropy_each": lambda x: functional.cross_entropy(x, torch.tensor([1, 0, 3]), reduction="none") ** 2,
    "cross_entropy_ignoring": lambda x: functional.cross_entropy(x, torch.tensor([1, -100, 3])),
    "cross_entropy_weighted": lambda x: functional.cross_entropy(
        x, torch.tensor([1, 0, 3]), weight=torch.tensor([1.0, 2.0, 3.0, 0.5])
    ),
    "cross_entropy_smoothed": lambda x: functional.cross_entropy(x, torch.tensor([1, 0, 3]), label_smoothing=0.1),
    "cross_entropy_of_shares": lambda x: functional.cross_entropy(x, x.detach().flip(0).softmax(1)),
    "cross_entropy_of_sequences": lambda x: functional.cross_entropy(x.view(1, 3, 4), torch.tensor([[1, 0, 2, 1]])),
    "cross_entropy_of_one": lambda x: functional.cross_entropy(x[0], torch.tensor(2)),
}
LAYERS: dict[str, Function] = {
    "layer_norm": lambda x: functional.layer_norm(x, (4,), x[0], x[1]) * x,
    "layer_norm_of_two_axes": lambda x: functional.layer_norm(x, (3, 4)) * x,
    "rms_norm": lambda x: functional.rms_norm(x, (4,), x[0]) * x,
    "group_norm": lambda x: functional.group_norm(x.view(1, 6, 2), 3, x[:2, :3].reshape(6)) ** 2 * x.view(1, 6, 2),
    "instance_norm": lambda x: functional.instance_norm(x.view(1, 3, 4)) * x,
    "batch_norm": lambda x: functional.batch_norm(x, None, None, x[0], x[1], training=True) * x,
    "batch_norm_eval": lambda x: functional.batch_norm(x, torch.zeros(4), torch.full((4,), 0.5), x[0]) * x,
    "linear": lambda x: functional.linear(x, x, x[:, 0]),
    "embedding": lambda x: functional.embedding(torch.tensor([[2, 0], [2, 2]]), x) ** 2,
    "embedding_padding": lambda x: functional.embedding(torch.tensor([2, 0, 2]), x, padding_idx=0) ** 2,
    "attention": lambda x: functional.scaled_dot_product_attention(
        x.view(1, 3, 2, 2), x.view(1, 3, 2, 2) * 2, x.view(1, 3, 2, 2)
    ),
    "attention_bool_mask": lambda x: functional.scaled_dot_product_attention(
        x[None], x[None] * 2, x[None], attn_mask=torch.ones(3, 3, dtype=torch.bool).tril()
    ),
    "attention_float_mask": lambda x: functional.scaled_dot_product_attention(
        x[None], x[None] * 2, x[None], attn_mask=x @ x.t(), scale=0.7
    ),
}
IMAGES: dict[str, Function] = {
    "conv2d": lambda x: functional.conv2d(_image(x), _kernel(x, 2, 2, 3), x[0, :2]),
    "conv2d_padded": lambda x: functional.conv2d(_image(x), _kernel(x, 3, 2, 3), padding=1),
    "conv2d_strided": lambda x: functional.conv2d(_image(x), _kernel(x, 3, 2, 3), stride=2, padding=(2, 1)),
    "conv2d_dilated": lambda x: functional.conv2d(_image(x), _kernel(x, 3, 2, 2), dilation=2, stride=(1, 2)),
    "conv2d_grouped": lambda x: functional.conv2d(_image(x), _kernel(x, 4, 1, 3), groups=2, stride=3, padding=1),
    "conv2d_one_tap": lambda x: functional.conv2d(_image(x), _kernel(x, 3, 2, 1)),
    "conv2d_same": lambda x: functional.conv2d(_image(x), _kernel(x, 3, 2, 3), padding="same"),
    "conv1d": lambda x: functional.conv1d(x[None], x[:, :3].reshape(1, 3, 3), padding=1) * x[:1],
    "conv_transpose2d": lambda x: functional.conv_transpose2d(
        _image(x), _kernel(x, 2, 3, 3), stride=2, padding=1, output_padding=1
    ),
    "conv_transpose1d": lambda x: functional.conv_transpose1d(x[None], x[:, :4].reshape(3, 2, 2), stride=2),
    "max_pool": lambda x: functional.max_pool2d(_image(x), 2) ** 2,
    "max_pool_overlapping": lambda x: functional.max_pool2d(_image(x), 3, stride=2, padding=1) ** 2,
    "max_pool_ceil": lambda x: functional.max_pool2d(_image(x), 3, stride=2, ceil_mode=True) ** 2,
    "max_pool_indices": lambda x: x.sum() * functional.max_pool2d(_image(x), 2, return_indices=True)[1].float() * 0.01,
    "max_pool1d": lambda x: functional.max_pool1d(x[None], 2) ** 2,
    "avg_pool": lambda x: functional.avg_pool2d(_image(x), 2) ** 2,
    "avg_pool_overlapping": lambda x: functional.avg_pool2d(_image(x), 3, stride=1, padding=1) ** 2,
    "avg_pool1d": lambda x: functional.avg_pool1d(x[None], 2) ** 2,
    "adaptive_avg_pool": lambda x: functional.adaptive_avg_pool2d(_image(x), 3) ** 2,
    "adaptive_avg_pool_to_one": lambda x: functional.adaptive_avg_pool2d(_image(x), 1) ** 2,
    "adaptive_max_pool": lambda x: functional.adaptive_max_pool2d(_image(x), 3) ** 2,
    "pixel_shuffle": lambda x: functional.pixel_shuffle(x.view(1, 4, 1, 3), 2) ** 2,
}
FAMILIES = {
    "elementwise": ELEMENTWISE,
    "shaping": SHAPING,
    "reductions": REDUCTIONS,
    "contractions": CONTRACTIONS,
    "indexing": INDEXING,
    "losses": LOSSES,
    "layers": LAYERS,
    "images": IMAGES,
}


def _assigned(x: Tensor) -> Tensor:
    y = torch.zeros(3, 6)
    y[:, 1:5] = x * 2
    y[0] = 1.0
    y[:, 2] += x[:, 0]
    return y * y


def _image(x: Tensor) -> Tensor:
    """(2, 2, 6, 6) that depends on all of x in a different way everywhere."""
    return (
        x.reshape(-1).repeat(12).view(2, 2, 6, 6) * torch.arange(144).view(2, 2, 6, 6).float().mul(0.37).sin()
    ).contiguous()


def _kernel(x: Tensor, out: int, channels: int, size: int) -> Tensor:
    count = out * channels * size * size
    return (x.reshape(-1).repeat(-(-count // 12))[:count] * torch.arange(count).float().cos()).view(
        out, channels, size, size
    )


class Family(nn.Module):
    """Functions side by side, each of a parameter of its own: one program, yet a gradient for every function."""

    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.functions = functions
        self.x = nn.ParameterDict({name: nn.Parameter(torch.randn(3, 4, generator=generator)) for name in functions})

    def forward(self, scale: Tensor) -> list[Tensor]:
        return [_weighted(function(self.x[name] * scale)) for name, function in self.functions.items()]


def _weighted(out: Tensor) -> Tensor:
    """Each element counts differently, so that a wrong order shows."""
    weights = torch.arange(1, out.numel() + 1).view(out.shape).float() / out.numel()
    return (out * weights).sum()


def _joined(outs: list[Tensor], share: Tensor) -> Tensor:
    return torch.stack(outs).sum() * share


@pytest.mark.parametrize("family", FAMILIES)
def test_operators__one_step_of_plain_descent__agree_with_torch(family: str) -> None:
    module = Family(FAMILIES[family])
    batch = (torch.tensor(1.25), torch.tensor(0.5))
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    program = repops.trace(module, _joined, optimizer, batch)
    state, loss = program.step(program.initial_state(module), batch)
    expected = _joined(module(batch[0]), batch[1])
    expected.backward()
    np.testing.assert_allclose(float(loss), expected.item(), rtol=2e-5)
    for name, parameter in module.x.items():
        assert float(parameter.grad.abs().max()) > 0, name
        np.testing.assert_allclose(
            (parameter.detach() - state[f"x.{name}"]).numpy(),
            parameter.grad.numpy(),
            rtol=2e-5,
            atol=1e-5,
            err_msg=name,
        )
