"""Audio: a Conformer block with relative positions, and one-dimensional layers."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.repops.modules.case import Case, calling, drawn

SOUND, FRAMES = drawn(2, 2, 8), drawn(2, 4, 4)


class Relative(nn.Module):
    """Transformer-XL's attention: a term for content, one for distance, shifted into place by padding and reshaping."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.places, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.u, self.w = (nn.Parameter(torch.full((heads, self.size), 0.1)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (f(x).view(batch, length, self.heads, self.size) for f in (self.q, self.k, self.v))
        distance = torch.arange(length - 1, -length, -1.0)[:, None]
        rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        places = torch.cat([(distance * rates).sin(), (distance * rates).cos()], 1)
        p = self.places(places).view(-1, self.heads, self.size)
        content = (q + self.u).transpose(1, 2) @ k.permute(0, 2, 3, 1)
        position = (q + self.w).transpose(1, 2) @ p.permute(1, 2, 0)
        shifted = functional.pad(position, (1, 0)).view(batch, self.heads, 2 * length, length)[:, :, 1:]
        position = shifted.reshape(batch, self.heads, length, 2 * length - 1)[..., :length]
        weights = ((content + position) / math.sqrt(self.size)).softmax(-1)
        return self.out((weights @ v.transpose(1, 2)).transpose(1, 2).reshape(batch, length, width))


class Conformer(nn.Module):
    """Half an MLP, relative attention, a convolution module (GLU, depthwise, BatchNorm1d, swish), half an MLP."""

    def __init__(self, width: int = 4, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.last = (self.mlp(width, dropout) for _ in range(2))
        self.norm, self.attention = nn.LayerNorm(width), Relative(width, 2)
        self.convolution = nn.Sequential(
            nn.Conv1d(width, 2 * width, 1),
            nn.GLU(1),
            nn.Conv1d(width, width, 3, padding=1, groups=width),
            nn.BatchNorm1d(width),
            nn.SiLU(),
            nn.Conv1d(width, width, 1),
        )
        self.end = nn.LayerNorm(width)

    @staticmethod
    def mlp(width: int, dropout: float) -> nn.Module:
        return nn.Sequential(
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(2 * width, width),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        x = x + self.attention(self.norm(x))
        x = x + self.convolution(x.transpose(1, 2)).transpose(1, 2)
        return self.end(x + 0.5 * self.last(x))


def spectrum(m: nn.Module, x: Tensor) -> Tensor:
    """A spectrogram by matrices: frames, a window, cosines and sines, then what the module makes of its logarithm."""
    frames = x.unfold(-1, 4, 2) * torch.hann_window(4)
    angles = torch.arange(3.0)[:, None] * torch.arange(4.0) * (2 * math.pi / 4)
    power = (frames @ angles.cos().T) ** 2 + (frames @ angles.sin().T) ** 2
    return m(torch.log(power + 1e-3))


CASES: dict[str, Case] = {
    "Conformer block: relative attention, GLU, depthwise convolution, BatchNorm1d": Case(Conformer, FRAMES),
    "Conformer block with dropout": Case(lambda: Conformer(dropout=0.2), FRAMES, chance=True),
    "a spectrogram by matrices": calling(lambda: nn.Linear(3, 2), spectrum, SOUND),
    "nn.Conv1d(dilation, groups)": Case(lambda: nn.Conv1d(2, 4, 3, dilation=2, padding=2, groups=2), SOUND),
    "nn.ConvTranspose1d(stride, output_padding)": Case(
        lambda: nn.ConvTranspose1d(2, 4, 3, stride=2, groups=2, output_padding=1), SOUND
    ),
    'nn.Conv1d(padding_mode="circular")': Case(lambda: nn.Conv1d(2, 2, 3, padding=1, padding_mode="circular"), SOUND),
    "nn.BatchNorm1d": Case(lambda: nn.BatchNorm1d(2), SOUND),
    "nn.RMSNorm": Case(lambda: nn.RMSNorm(4), FRAMES),
    "F.max_pool1d, F.avg_pool1d": calling(
        lambda: nn.Conv1d(2, 2, 1),
        lambda m, x: (functional.max_pool1d(m(x), 2), functional.avg_pool1d(m(x), 3, 2)),
        SOUND,
    ),
    'F.interpolate(mode="linear")': calling(
        lambda: nn.Conv1d(2, 2, 1), lambda m, x: functional.interpolate(m(x), size=13, mode="linear"), SOUND
    ),
}
