"""Vision: blocks of ResNet, ConvNeXt and ViT written as torchvision writes them, and the layers they are made of.

torchvision itself is no dependency: its wheels load beside a torch of the same build alone, and break transformers elsewhere.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.repops.modules.case import Case, calling, drawn

IMAGE, SMALL, VOLUME = drawn(2, 3, 6, 6), drawn(1, 2, 4, 4), drawn(1, 1, 4, 4, 4)


class Residual(nn.Module):
    """ResNet's basic block: two 3 x 3 convolutions with batch norm, a strided shortcut."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1, self.relu = nn.BatchNorm2d(outside), nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False), nn.BatchNorm2d(outside)
        self.downsample = nn.Sequential(nn.Conv2d(inside, outside, 1, stride, bias=False), nn.BatchNorm2d(outside))

    def forward(self, x: Tensor) -> Tensor:
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        out += self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 2, 3, 2, 1, bias=False), nn.BatchNorm2d(2)
        self.maxpool, self.layer = nn.MaxPool2d(3, 2, 1), Residual(2, 3, 1)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(3, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layer(self.maxpool(functional.relu(self.bn1(self.conv1(x)), inplace=True)))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = functional.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


def stochastic_depth(x: Tensor, p: float, training: bool) -> Tensor:
    """torchvision.ops.stochastic_depth in "row" mode."""
    if not training or p == 0.0:
        return x
    noise = torch.empty([x.shape[0]] + [1] * (x.dim() - 1)).bernoulli_(1.0 - p)
    noise.div_(1.0 - p)
    return x * noise


class ConvNeXtBlock(nn.Module):
    """A depthwise 3 x 3 convolution, LayerNorm over channels, an MLP, layer scale, stochastic depth."""

    def __init__(self, width: int, drop: float) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.scale, self.drop = nn.Parameter(torch.full((width, 1, 1), 0.5)), drop

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.down(functional.gelu(self.up(y))).permute(0, 3, 1, 2)
        return x + stochastic_depth(self.scale * y, self.drop, self.training)


def convnext(drop: float) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 2, stride=2), LayerNorm2d(4), ConvNeXtBlock(4, drop), nn.AdaptiveAvgPool2d(1), nn.Flatten(1)
    )


class ViT(nn.Module):
    """Patches by a convolution, a class token, learned positions, torchvision's encoder block."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 4, 3, stride=3)
        self.token, self.positions = nn.Parameter(torch.zeros(1, 1, 4)), nn.Parameter(torch.randn(1, 5, 4) * 0.02)
        self.ln1, self.ln2, self.ln = nn.LayerNorm(4), nn.LayerNorm(4), nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).permute(0, 2, 1)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        y = self.ln1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.ln2(x))
        return self.head(self.ln(x)[:, 0])


def after(function: object, shape: Tensor = SMALL) -> Case:
    """A function of a 1 x 1 convolution's output."""
    channels = shape.shape[1]
    return calling(lambda: nn.Conv2d(channels, channels, 1), lambda m, x: function(m(x)), shape)  # type: ignore[operator]


def resized(**settings: object) -> Case:
    return after(lambda x: functional.interpolate(x, **settings))


CASES: dict[str, Case] = {
    "ResNet: basic block, batch norm in train mode": Case(ResNet, IMAGE),
    "ResNet in eval mode": Case(lambda: ResNet().eval(), IMAGE),
    "ConvNeXt: depthwise, LayerNorm2d, layer scale": Case(lambda: convnext(0.0), IMAGE),
    "ConvNeXt with stochastic depth": Case(lambda: convnext(0.3), IMAGE, chance=True),
    "ViT: patches, class token, encoder block": Case(ViT, IMAGE),
    "nn.Conv2d(groups, dilation, stride)": Case(lambda: nn.Conv2d(2, 4, 2, 2, 1, 2, groups=2), SMALL),
    'nn.Conv2d(padding_mode="reflect")': Case(lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"), SMALL),
    'nn.Conv2d(padding_mode="replicate")': Case(lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="replicate"), SMALL),
    "nn.ConvTranspose2d(groups, dilation)": Case(
        lambda: nn.ConvTranspose2d(2, 4, 2, stride=2, dilation=2, groups=2, output_padding=1), SMALL
    ),
    "nn.Conv3d": Case(lambda: nn.Conv3d(1, 2, 2), VOLUME),
    "nn.BatchNorm2d": Case(lambda: nn.BatchNorm2d(2), SMALL),
    "nn.InstanceNorm2d(track_running_stats=True)": Case(
        lambda: nn.InstanceNorm2d(2, affine=True, track_running_stats=True), SMALL
    ),
    "nn.GroupNorm": Case(lambda: nn.GroupNorm(2, 2), SMALL),
    "nn.LocalResponseNorm": calling(
        lambda: nn.Conv2d(2, 2, 1), lambda m, x: functional.local_response_norm(m(x), 2), SMALL
    ),
    "F.interpolate(scale_factor=2)": resized(scale_factor=2),
    "F.interpolate(size), nearest": resized(size=(3, 5)),
    'F.interpolate(mode="nearest-exact")': resized(size=(3, 5), mode="nearest-exact"),
    'F.interpolate(mode="bilinear")': resized(scale_factor=2, mode="bilinear"),
    'F.interpolate(mode="bilinear", align_corners=True)': resized(size=(3, 6), mode="bilinear", align_corners=True),
    'F.interpolate(mode="bilinear", antialias=True)': resized(size=(2, 3), mode="bilinear", antialias=True),
    'F.interpolate(mode="bicubic")': resized(size=(3, 6), mode="bicubic"),
    'F.interpolate(mode="area")': resized(size=(2, 3), mode="area"),
    "F.adaptive_avg_pool2d, any sizes": after(lambda x: functional.adaptive_avg_pool2d(x, (3, 2))),
    "F.adaptive_max_pool2d": after(lambda x: functional.adaptive_max_pool2d(x, 2)),
    "F.avg_pool2d(ceil_mode=True)": after(lambda x: functional.avg_pool2d(x, 3, 2, ceil_mode=True)),
    "F.avg_pool2d(count_include_pad=False)": after(
        lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False)
    ),
    "F.max_pool2d(3, 2, 1)": after(lambda x: functional.max_pool2d(x, 3, 2, 1)),
    "F.max_pool3d, F.avg_pool3d": calling(
        lambda: nn.Conv3d(1, 1, 1),
        lambda m, x: (functional.max_pool3d(m(x), 2), functional.avg_pool3d(m(x), 2)),
        VOLUME,
    ),
    "F.max_unpool2d": after(lambda x: functional.max_unpool2d(*functional.max_pool2d(x, 2, return_indices=True), 2)),
    "F.lp_pool2d": after(lambda x: functional.lp_pool2d(x.abs() + 0.1, 3, 2)),
    "F.grid_sample": after(
        lambda x: functional.grid_sample(
            x,
            functional.affine_grid(torch.eye(2, 3)[None] * 0.7, [1, 2, 3, 3], align_corners=False),
            align_corners=False,
        )
    ),
    "F.pixel_unshuffle, F.channel_shuffle": after(
        lambda x: functional.channel_shuffle(functional.pixel_unshuffle(x, 2), 2)
    ),
    "F.unfold, F.fold": after(lambda x: functional.fold(functional.unfold(x, 3, padding=1), (4, 4), 3, padding=1)),
    "F.dropout2d": calling(
        lambda: nn.Conv2d(2, 2, 1), lambda m, x: functional.dropout2d(m(x), 0.4), SMALL, chance=True
    ),
}
