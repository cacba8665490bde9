"""The networks that examples of torch train on ImageNet, and a study of a cloud on tiny-imagenet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from primbench.problem.examples import TINY_IMAGENET
from primbench.suites.models._images import OfImages

if TYPE_CHECKING:
    from collections.abc import Iterable


class _OfExamples(OfImages):
    """As pytorch/examples imagenet trains them."""

    original = (
        "pytorch/examples imagenet: cross-entropy, SGD with a rate of 0.1, momentum of 0.9 and weight decay of 0.0001"
    )
    on_disk = TINY_IMAGENET

    rate = 0.1

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.SGD(parameters, lr=self.rate, momentum=0.9, weight_decay=1e-4)


def _conv(channels: int, width: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """With batch norm, without bias."""
    convolution = nn.Conv2d(channels, width, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width))


class _Residual(nn.Module):
    """What is added to its input, which a convolution of 1 x 1 fits to that where it has another shape."""

    def __init__(self, channels: int, width: int, stride: int, *, is_bottleneck: bool) -> None:
        super().__init__()
        out = 4 * width if is_bottleneck else width
        kernels = ((1, 1), (3, stride), (1, 1)) if is_bottleneck else ((3, stride), (3, 1))
        widths = (width, width, out) if is_bottleneck else (width, out)
        layers = list[nn.Module]()
        for (kernel, step), each in zip(kernels, widths, strict=True):
            layers += [_conv(channels if not layers else width, each, kernel, step), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers[:-1])
        fits = stride == 1 and channels == out
        self.shortcut = nn.Identity() if fits else _conv(channels, out, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        return self.relu(self.layers(x) + self.shortcut(x))


class _ResNet(_OfExamples):
    depths: tuple[int, ...]
    is_bottleneck: bool

    def module(self) -> Any:
        layers: list[nn.Module] = [_conv(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for stage, depth in enumerate(self.depths):
            for block in range(depth):
                width, stride = 64 << stage, 2 if stage and not block else 1
                layers.append(_Residual(channels, width, stride, is_bottleneck=self.is_bottleneck))
                channels = 4 * width if self.is_bottleneck else width
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


class ResNet18(_ResNet, name="resnet18"):
    """ResNet-18 for 224 x 224."""

    batch_size = 256
    depths, is_bottleneck = (2, 2, 2, 2), False
    multiply_adds = 1_814_073_344


class ResNet50(_ResNet, name="resnet50"):
    """ResNet-50 v1.5, the stride in the 3 x 3, for 224 x 224."""

    batch_size = 256
    depths, is_bottleneck = (3, 4, 6, 3), True
    multiply_adds = 4_089_184_256


class AlexNet(_OfExamples, name="alexnet"):
    """AlexNet of one tower, with dropout, for 224 x 224."""

    batch_size = 256
    original = (
        "pytorch/examples imagenet: cross-entropy, SGD with a rate of 0.01, as its README has it for this network, "
        "momentum of 0.9 and weight decay of 0.0001"
    )
    rate = 0.01
    learning_batch = 256
    """Of smaller ones, a training diverges now and then at this rate."""
    multiply_adds = 714_188_480

    def module(self) -> Any:
        layers, channels = list[nn.Module](), 3
        for width, kernel, stride, padding in (
            (64, 11, 4, 2),
            (192, 5, 1, 2),
            (384, 3, 1, 1),
            (256, 3, 1, 1),
            (256, 3, 1, 1),
        ):
            layers += [nn.Conv2d(channels, width, kernel, stride, padding), nn.ReLU(inplace=True)]
            layers += [nn.MaxPool2d(3, 2)] if width in (64, 192) else []
            channels = width
        return nn.Sequential(
            *layers, nn.MaxPool2d(3, 2), nn.Flatten(),
            self.dropout(0.5), nn.Linear(9216, 4096), nn.ReLU(inplace=True),
            self.dropout(0.5), nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1000),
        )  # fmt: skip
