"""What tf_cnn_benchmarks times: the networks as they were in 2017, with that tool's loss and optimiser."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from primbench.problem.examples import IMAGENET
from primbench.suites.models._images import OfImages

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DECAY = 4e-5
OUTPUTS = 1001


class _OfTool(OfImages):
    """Cross-entropy, and the squares of all variables."""

    on_disk = IMAGENET
    rate = 0.005
    original = (
        "tensorflow/benchmarks of November 2017, tf_cnn_benchmarks: cross-entropy, 0.00004 times half the squares of "
        "all variables, SGD with a rate of 0.005, of ResNet-50 0.1, as for its first 30 epochs, and no momentum"
    )

    def loss(self, module: Any, *inputs: Any) -> Any:
        squares = torch.stack(torch._foreach_norm(list(module.parameters()))).square().sum()  # noqa: SLF001 - as foreach
        return super().loss(module, *inputs) + DECAY / 2 * squares

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=self.rate)


class _Concatenated(nn.Module):
    """Columns beside one another, of which one may end in two."""

    def __init__(self, *columns: nn.Module) -> None:
        super().__init__()
        self.columns = nn.ModuleList(columns)

    def forward(self, x: Any) -> Any:
        return torch.cat([column(x) for column in self.columns], 1)


def _conv(channels: int, width: int, kernel: int | tuple[int, int], stride: int = 1, *, same: bool = True) -> nn.Module:
    """With a batch norm that has no scale, and ReLU. same: padded so that a stride of 1 keeps the size."""
    rows, columns = (kernel, kernel) if isinstance(kernel, int) else kernel
    padding = (rows // 2, columns // 2) if same else 0
    norm = nn.BatchNorm2d(width, eps=1e-3, momentum=1e-3)
    del norm.weight
    norm.register_buffer("weight", torch.ones(width))
    convolution = nn.Conv2d(channels, width, (rows, columns), stride, padding, bias=False)
    return nn.Sequential(convolution, norm, nn.ReLU(inplace=True))


def _chain(channels: int, *layers: tuple[int, int | tuple[int, int]]) -> nn.Module:
    made = []
    for width, kernel in layers:
        made.append(_conv(channels, width, kernel))
        channels = width
    return nn.Sequential(*made)


def _average(channels: int, width: int) -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), _conv(channels, width, 1))


def _mixed_35(channels: int, pooled: int) -> nn.Module:
    return _Concatenated(
        _conv(channels, 64, 1), _chain(channels, (48, 1), (64, 5)), _chain(channels, (64, 1), (96, 3), (96, 3)),
        _average(channels, pooled),
    )  # fmt: skip


def _mixed_17(width: int) -> nn.Module:
    row, column = (1, 7), (7, 1)
    return _Concatenated(
        _conv(768, 192, 1),
        _chain(768, (width, 1), (width, row), (192, column)),
        _chain(768, (width, 1), (width, column), (width, row), (width, column), (192, row)),
        _average(768, 192),
    )


def _mixed_8(channels: int, pool: nn.Module) -> nn.Module:
    def in_two(channels: int) -> nn.Module:
        return _Concatenated(_conv(channels, 384, (1, 3)), _conv(channels, 384, (3, 1)))

    return _Concatenated(
        _conv(channels, 320, 1),
        nn.Sequential(_conv(channels, 384, 1), in_two(384)),
        nn.Sequential(_conv(channels, 448, 1), _conv(448, 384, 3), in_two(384)),
        nn.Sequential(pool, _conv(channels, 192, 1)),
    )


class Inception3(_OfTool, name="tf_cnn_inception3"):
    """Inception v3 without auxiliary head for 299 x 299, its last pool a maximum."""

    batch_size = 32
    side = 299
    multiply_adds = 5_713_218_144

    def module(self) -> Any:
        stem = [
            _conv(3, 32, 3, 2, same=False), _conv(32, 32, 3, same=False), _conv(32, 64, 3), nn.MaxPool2d(3, 2),
            _conv(64, 80, 1), _conv(80, 192, 3, same=False), nn.MaxPool2d(3, 2),
        ]  # fmt: skip
        to_17 = _Concatenated(
            _conv(288, 384, 3, 2, same=False),
            nn.Sequential(_chain(288, (64, 1), (96, 3)), _conv(96, 96, 3, 2, same=False)),
            nn.MaxPool2d(3, 2),
        )
        to_8 = _Concatenated(
            nn.Sequential(_conv(768, 192, 1), _conv(192, 320, 3, 2, same=False)),
            nn.Sequential(_chain(768, (192, 1), (192, (1, 7)), (192, (7, 1))), _conv(192, 192, 3, 2, same=False)),
            nn.MaxPool2d(3, 2),
        )
        return nn.Sequential(
            *stem, _mixed_35(192, 32), _mixed_35(256, 64), _mixed_35(288, 64), to_17,
            _mixed_17(128), _mixed_17(160), _mixed_17(160), _mixed_17(192), to_8,
            _mixed_8(1280, nn.AvgPool2d(3, 1, 1)), _mixed_8(2048, nn.MaxPool2d(3, 1, 1)),
            nn.AvgPool2d(8), nn.Flatten(), nn.Linear(2048, OUTPUTS),
        )  # fmt: skip


class _Bottleneck(nn.Module):
    """Version 1: the first convolution has the stride."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        shapes = ((channels, width, 1, stride), (width, width, 3, 1), (width, 4 * width, 1, 1))
        self.layers = _normed(shapes)
        fits = channels == 4 * width
        self.shortcut = nn.Identity() if fits else _normed([(channels, 4 * width, 1, stride)])
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.relu(self.layers(x) + self.shortcut(x))


def _normed(shapes: Sequence[tuple[int, int, int, int]]) -> nn.Module:
    """Channels, width, kernel and stride of each; ReLU between them."""
    layers = list[nn.Module]()
    for channels, width, kernel, stride in shapes:
        layers += [nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)]
        layers += [nn.BatchNorm2d(width, eps=1e-5, momentum=3e-3), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers[:-1])


class ResNet50(_OfTool, name="tf_cnn_resnet50"):
    """ResNet-50 v1 for 224 x 224, its first stage at 55 x 55: the pool before it is not padded."""

    batch_size = 64
    rate = 0.1
    multiply_adds = 3_834_333_184

    def module(self) -> Any:
        layers: list[nn.Module] = [_normed([(3, 64, 7, 2)]), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)]
        channels = 64
        for stage, depth in enumerate((3, 4, 6, 3)):
            for block in range(depth):
                layers.append(_Bottleneck(channels, 64 << stage, 2 if stage and not block else 1))
                channels = 256 << stage
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, OUTPUTS))


class AlexNet(_OfTool, name="tf_cnn_alexnet"):
    """AlexNet of one tower with 384 and 256 channels at the end, for 227 x 227."""

    batch_size = 512
    learning_steps = 500
    side = 227
    multiply_adds = 838_792_896

    def module(self) -> Any:
        layers, channels = [nn.Conv2d(3, 64, 11, 4), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2)], 64
        for width, kernel in ((192, 5), (384, 3), (384, 3), (256, 3)):
            layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(3, 2)] if width in (192, 256) else []
            channels = width
        return nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(inplace=True), self.dropout(0.5),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), self.dropout(0.5), nn.Linear(4096, OUTPUTS),
        )  # fmt: skip
