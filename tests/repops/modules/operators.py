"""Sorting, running sums, sums over indices, reading and writing at indices, angles: each as one small function."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tests.repops.modules.case import Case, of

PLACES = torch.tensor([[1, 1], [0, 0], [2, 1]])
ROWS, COLUMNS = torch.tensor([0, 2]), torch.tensor([1, -1])


def _assigned(x: Tensor) -> Tensor:
    y = x * 1.0
    y[y < 0] = 0.0
    y[:, 0:3:2] = x[:, :2]
    y[ROWS] += 1.0
    return y * y


def _alone(x: Tensor) -> Tensor:
    """(2, 40), of which one in each row is finite."""
    return torch.cat([x[:, :1], torch.full((2, 39), float("-inf"))], 1)


def _finite(x: Tensor) -> Tensor:
    return torch.where(x > -1e9, x, 0.0)


CASES: dict[str, Case] = {
    "x.sort()": of(lambda x: x.sort(-1).values ** 2),
    "x.sort(dim=0, descending=True, stable=True)": of(
        lambda x: torch.sort(x, dim=0, descending=True, stable=True)[0] ** 2
    ),
    "x.sort() of equal elements keeps their order": of(
        lambda x: x * (x * 2).round().sort(dim=-1, stable=True).indices.float()
    ),
    "x.argsort() of integers": of(lambda x: x * (x * 3e8).long().argsort(dim=-1, stable=True).float()),
    "x.topk(2)": of(lambda x: x.topk(2).values ** 2 + x.topk(2).indices * x[:, :2]),
    "x.topk(2, largest=False)": of(lambda x: x.topk(2, 0, largest=False).values ** 2),
    "x.topk(2) of 40": of(lambda x: x.topk(2).values ** 2 + x.topk(2).indices * x[:, :2], 2, 40),
    "x.topk(2) where all but one are -inf": of(lambda x: _finite(_alone(x).topk(2).values), 2, 3),
    "x.median(), x.kthvalue()": of(lambda x: x.median(-1).values * x.kthvalue(2, -1).values),
    "x.quantile()": of(lambda x: x.quantile(0.3, dim=-1)),
    "torch.searchsorted, bucketize": of(
        lambda x: (
            x * (torch.searchsorted(torch.tensor([0.0, 1.0]), x) + torch.bucketize(x, torch.tensor([0.5]))).float()
        )
    ),
    "x.cumsum()": of(lambda x: x.cumsum(1) * x),
    "x.cumsum() of 70": of(lambda x: x.cumsum(0) * x, 70, 1),
    "x.cumprod()": of(lambda x: x.cumprod(1)),
    "x.cumprod() through a zero": of(lambda x: (x * torch.tensor([1.0, 0.0, 1.0, 1.0])).cumprod(1) * x),
    "x.prod()": of(lambda x: x.prod(1)),
    "x.cummax(), x.cummin()": of(lambda x: x.cummax(1).values ** 2 + x.cummin(1).values),
    "x.logcumsumexp()": of(lambda x: x.logcumsumexp(1)),
    "x.diff(), torch.trapezoid": of(lambda x: (x.diff(dim=1) ** 2, torch.trapezoid(x**2))),
    'torch.einsum("bij,bkj->bik")': of(lambda x: torch.einsum("bij,bkj->bik", x, x * 2), 2, 2, 3),
    'torch.einsum("bii->bi"), diagonals and traces': of(
        lambda x: (torch.einsum("bii->bi", x**2), torch.einsum("bii->b", x)), 2, 3, 3
    ),
    'torch.einsum("...ij,...jk->...ik")': of(lambda x: torch.einsum("...ij,...jk->...ik", x, x), 2, 3, 3),
    'torch.einsum("bi,ij,bj->b")': of(lambda x: torch.einsum("bi,ij,bj->b", x, x.t() @ x, x)),
    "torch.tensordot, kron": of(lambda x: (torch.tensordot(x, x, dims=([1], [1])), torch.kron(x, x[:, :1]))),
    "torch.cdist": of(lambda x: (torch.cdist(x, x * 2 + 1), torch.cdist(x, x * 2 + 1, p=1))),
    "F.bilinear": of(lambda x: functional.bilinear(x, x, (x[:2, :, None] * x[1:, None, :]))),
    "x.gather()": of(lambda x: x.gather(1, (x > 0).long()) ** 2),
    "x.scatter(), x.scatter_add()": of(
        lambda x: x.scatter(1, PLACES[:, :1], x[:, :1] * 3) + x.scatter_add(1, PLACES, x[:, :2])
    ),
    'x.scatter_reduce("sum"), ("mean")': of(
        lambda x: x.scatter_reduce(1, PLACES, x[:, :2], "sum") * x.scatter_reduce(1, PLACES, x[:, :2], "mean")
    ),
    "torch.where, masked_fill": of(lambda x: torch.where(x > 0, x * x, x.masked_fill(x < -1, 0.5))),
    "x[rows, columns], from the end too": of(lambda x: x[ROWS, COLUMNS] ** 2 + x[[-1]][:, 0]),
    "x[rows, :, columns]": of(lambda x: x[ROWS - 1, :, COLUMNS] ** 2, 2, 2, 3),
    "x[mask] = number, x[:, ::2] = y, x[rows] += y": of(_assigned),
    "x.index_copy(), index_fill(), index_add()": of(
        lambda x: x.index_copy(0, ROWS, x[:2] * 2) * x.index_fill(0, ROWS, 1.0) * x.index_add(0, ROWS, x[:2])
    ),
    "x.take(), x.put()": of(lambda x: x.take(torch.tensor([0, -2])).sum() * x.put(torch.tensor([1, 5]), x[0, :2])),
    "x.repeat_interleave(tensor, output_size=4)": of(
        lambda x: x.repeat_interleave(torch.tensor([1, 2, 1]), 0, output_size=4) ** 2
    ),
    "F.one_hot, torch.isin": of(
        lambda x: (
            x * functional.one_hot((x[:, 0] > 0).long(), 4).float() * torch.isin(x.long(), torch.tensor([0, 1])).float()
        )
    ),
    "x.as_strided()": of(lambda x: x.as_strided((2, 2), (4, 2), 1) ** 2),
    "x.atan(), torch.atan2": of(lambda x: x.atan() * torch.atan2(x, x.flip(0))),
    "x.asin(), x.acos(), x.tan()": of(lambda x: (x.tanh() * 0.9).asin() * (x.tanh() * 0.9).acos() + (x * 0.3).tan()),
    "x.sinh(), x.cosh(), x.asinh(), x.acosh(), x.atanh()": of(
        lambda x: x.sinh() + x.cosh() + x.asinh() + (x.abs() + 1.1).acosh() + (x.tanh() * 0.9).atanh()
    ),
    "x.log10(), x.exp2(), x.erfc(), x.expm1(), x.log1p()": of(
        lambda x: (x.abs() + 1).log10() + x.exp2() + x.erfc() + x.expm1() + x.abs().log1p()
    ),
    "torch.logaddexp, hypot, copysign, fmod, xlogy": of(
        lambda x: (
            torch.logaddexp(x, x * 2)
            + torch.hypot(x, x + 1)
            + torch.copysign(x, x - 1)
            + torch.fmod(x * 5, 2.0) * x
            + torch.xlogy(x.abs(), x.abs() + 1)
        )
    ),
    "integers: //, %, <<, >>, division towards zero": of(
        lambda x: (
            x
            * (
                ((x * 8).int() // 3) + ((x * 8).int() << 2 >> 1) + torch.div((x * 8).int(), 3, rounding_mode="trunc")
            ).float()
        )
    ),
    "x.norm(p=3), F.normalize, linalg.matrix_norm": of(
        lambda x: x.norm(p=3, dim=1).sum() + torch.linalg.matrix_norm(x) * functional.normalize(x, dim=1)
    ),
    "activations: rrelu in eval, softshrink, hardshrink, celu, prelu, glu": of(
        lambda x: (
            functional.softshrink(x)
            + functional.hardshrink(x)
            + functional.celu(x)
            + functional.prelu(x, x[0, :1])
            + functional.rrelu(x)
            + functional.glu(x, -1).repeat(1, 2)
        )
    ),
    "F.gumbel_softmax": of(functional.gumbel_softmax, chance=True),
    "torch.randperm, multinomial, rand_like, randn_like": of(
        lambda x: x[torch.randperm(3)] * torch.rand_like(x) + torch.randn_like(x) + torch.multinomial(x.softmax(-1), 1),
        chance=True,
    ),
    "F.alpha_dropout, F.rrelu": of(
        lambda x: functional.alpha_dropout(functional.rrelu(x, training=True), training=True), chance=True
    ),
}
