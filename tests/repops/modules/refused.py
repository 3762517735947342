"""What is refused, by a pattern of what the user reads: the reason, and the nearest way that works."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.repops.modules.case import Case, calling, drawn, of, tokens

X = drawn(3, 4)


def _branch(x: Tensor) -> Tensor:
    return x if x.sum() > 0 else -x


def _looped(x: Tensor) -> Tensor:
    while x.norm() > 1:
        x = x / 2
    return x


def _autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return (x @ x.t()).float()


def _in_place(m: nn.Module, x: Tensor) -> Tensor:
    x[:, 0] = 0.0
    return m(x)


def _hidden(**settings: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2, **settings))


def _experts() -> nn.Module:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    return MixtralForCausalLM(MixtralConfig(vocab_size=11, num_key_value_heads=1, num_local_experts=2, **sizes))


class Lion(torch.optim.Optimizer):
    """An optimizer of the user's own."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 1e-3})


CASES: dict[str, Case] = {
    "if on a tensor": of(_branch, refused="depend on data.*torch.where"),
    "while on a tensor": of(_looped, refused="depend on data.*torch.where"),
    "x.item()": of(lambda x: x * x.sum().item(), refused="depend on data.*keep the number in a tensor"),
    "torch.cond": of(
        lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), refused="torch.where on both results"
    ),
    "x[x > 0]": of(lambda x: x[x > 0], refused="depend on data.*mask of fixed shape"),
    "x.nonzero()": of(lambda x: x[x.nonzero()[:, 0]], refused="nonzero.*mask of fixed shape"),
    "x.masked_select()": of(lambda x: x.masked_select(x > 0), refused="multiply by the mask"),
    "x.masked_scatter()": of(lambda x: x.masked_scatter(x > 0, x * 2), refused="torch.where"),
    "x[mask] = tensor": of(lambda x: x.clone().index_put((x > 0,), x[0]), refused="torch.where"),
    "x.unique()": of(lambda x: x.unique() * x.sum(), refused="one_hot"),
    "x.bincount()": of(lambda x: x * x[0].long().bincount(minlength=4), refused="one_hot"),
    "torch.histc": of(lambda x: x * torch.histc(x, 4), refused="bucketize"),
    "x.mode()": of(lambda x: x.mode(-1).values, refused="one_hot"),
    "x.repeat_interleave(tensor)": of(lambda x: x.repeat_interleave(torch.tensor([1, 2, 1]), 0), refused="output_size"),
    'x.scatter_reduce("amax")': of(
        lambda x: x.scatter_reduce(1, torch.tensor([[0], [1], [1]]), x[:, :1], "amax"), refused="'sum' or 'mean'"
    ),
    "torch.fft.rfft": of(lambda x: torch.fft.rfft(x).abs(), refused="complex64.*cos and sin"),
    "torch.stft": of(
        lambda x: torch.stft(x.flatten(), 4, window=torch.ones(4), return_complex=True).abs(), refused="Instead: "
    ),
    "torch.view_as_complex": of(
        lambda x: torch.view_as_real(torch.view_as_complex(x.view(3, 2, 2)) ** 2), refused="complex64.*two tensors"
    ),
    "x.double()": of(lambda x: x.double().sin().float(), refused="float64.*leave out double"),
    "x.half()": of(lambda x: (x.half() * 2).float(), refused="float16.*leave out half"),
    "torch.autocast": of(_autocast, refused="bfloat16.*autocast"),
    "x.to(torch.uint8)": of(lambda x: x * (x.abs() * 3).to(torch.uint8).float(), refused="int32"),
    "integers beyond 32 bits": of(lambda x: x * (torch.full((), 2**40) > 3), refused="below 2\\^31"),
    "torch.linalg.svd": of(lambda x: torch.linalg.svd(x)[1], refused="Newton-Schulz"),
    "torch.linalg.inv": of(lambda x: torch.linalg.inv(x @ x.t()), refused="Newton-Schulz"),
    "torch.linalg.solve": of(lambda x: torch.linalg.solve(x @ x.t(), x), refused="Newton-Schulz"),
    "torch.linalg.cholesky": of(lambda x: torch.linalg.cholesky(x @ x.t()), refused="Newton-Schulz"),
    "torch.linalg.qr": of(lambda x: torch.linalg.qr(x)[0], refused="Newton-Schulz"),
    "torch.linalg.eigh": of(lambda x: torch.linalg.eigh(x @ x.t())[0], refused="Newton-Schulz"),
    "torch.linalg.det": of(lambda x: torch.linalg.det(x @ x.t()), refused="Newton-Schulz"),
    "torch.matrix_exp": of(lambda x: torch.matrix_exp(x @ x.t()), refused="Newton-Schulz"),
    "parametrizations.orthogonal": Case(
        lambda: nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), X, refused="Newton-Schulz"
    ),
    "torch.poisson": of(lambda x: torch.poisson(x.abs()), refused="pass other numbers as an input"),
    "F.fractional_max_pool2d": of(
        lambda x: functional.fractional_max_pool2d(x, 2, output_size=2), 1, 1, 4, 4, refused="max_pool2d"
    ),
    "F.adaptive_max_pool2d, uneven": of(
        lambda x: functional.adaptive_max_pool2d(x[None], (2, 2)), refused="sizes that divide"
    ),
    "x.lgamma()": of(lambda x: (x.abs() + 7).lgamma(), refused="Stirling"),
    "x.erfinv()": of(lambda x: (x.tanh() * 0.9).erfinv(), refused="normal quantile"),
    "an input changed in place": calling(
        lambda: nn.Linear(4, 4), _in_place, X, refused="changed in place.*clone it first"
    ),
    "nn.Embedding(max_norm=1.0)": Case(
        lambda: nn.Embedding(11, 3, max_norm=1.0), tokens(2, 3), refused="Embedding without max_norm"
    ),
    "nn.Embedding(sparse=True)": Case(lambda: nn.Embedding(11, 3, sparse=True), tokens(2, 3), refused="sparse=False"),
    "nn.Embedding(scale_grad_by_freq=True)": Case(
        lambda: nn.Embedding(11, 3, scale_grad_by_freq=True), tokens(2, 3), refused="leave it False"
    ),
    "nn.EmbeddingBag with offsets": calling(
        lambda: nn.EmbeddingBag(11, 3), lambda m, x: m(x, torch.tensor([0, 2])), tokens(5), refused="bags of one size"
    ),
    "pack_padded_sequence": calling(
        lambda: nn.LSTM(4, 3, batch_first=True),
        lambda m, x: m(nn.utils.rnn.pack_padded_sequence(x, [3, 2], batch_first=True))[0].data,
        drawn(2, 3, 4),
        refused="ignore_index",
    ),
    "nn.BatchNorm1d(momentum=None)": Case(lambda: nn.BatchNorm1d(4, momentum=None), X, refused="Instead: "),
    "vmap(hessian)": calling(
        lambda: nn.Linear(4, 4),
        lambda m, x: torch.vmap(torch.func.hessian(lambda z: m(z).tanh().sum()))(x),
        X,
        refused="grad or jacrev alone",
    ),
    "torch.compile inside forward": calling(
        lambda: nn.Linear(4, 4), lambda m, x: torch.compile(m)(x), X, refused="before torch.compile"
    ),
    "torch.jit.script": Case(
        lambda: torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU())), X, refused="the Python module"
    ),
    "a parameter in float64": Case(lambda: nn.Linear(4, 4).double(), X, refused="weight is torch.float64"),
    "F.cross_entropy of (N, T, V)": Case(
        lambda: nn.Embedding(11, 7),
        tokens(2, 3),
        tokens(2, 3, below=7),
        functional.cross_entropy,
        refused="flatten\\(0, -2\\)",
    ),
    "F.cross_entropy of a model without logits (GPT2Model)": Case(
        _hidden, tokens(2, 3), tokens(2, 3), functional.cross_entropy, refused="last_hidden_state"
    ),
    "MixtralForCausalLM, whose experts take what is sent to them": Case(
        _experts, tokens(2, 3), tokens(2, 3), functional.cross_entropy, refused="nonzero.*mask of fixed shape"
    ),
    "no loss, and a module that returns no logits": Case(
        lambda: nn.Linear(4, 4), X, X, None, refused="a loss, such as"
    ),
    "a loss that is no number": Case(
        lambda: nn.Linear(4, 4), X, X, lambda out, y: (out - y) ** 2, refused="return one float32 number"
    ),
    "an optimizer of the user's own": Case(
        lambda: nn.Linear(4, 4), X, X, functional.mse_loss, optimizer=Lion, refused="AdamW, RMSprop or Adagrad"
    ),
}
