"""Of the Fathom suite (rdadolf/fathom, 2016) the networks for ImageNet, as the code is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from primbench.problem.examples import IMAGENET
from primbench.suites.models._images import OfImages

if TYPE_CHECKING:
    from collections.abc import Iterable

OUTPUTS = 1001


class _OfFathom(OfImages):
    on_disk = IMAGENET
    rate: float

    def optimiser(self, parameters: Iterable[Any]) -> Any:
        return torch.optim.Adam(parameters, lr=self.rate)


class AlexNet(_OfFathom, name="fathom_alexnet"):
    """AlexNet with local response normalisation and without dropout, for 224 x 224."""

    batch_size = 64
    original = "rdadolf/fathom alexnet: cross-entropy, Adam with a rate of 0.001; weights begin as torch has them"
    rate = 1e-3
    multiply_adds = 716_771_328

    def module(self) -> Any:
        return nn.Sequential(
            nn.ZeroPad2d((3, 4, 3, 4)), nn.Conv2d(3, 64, 11, 4), nn.ReLU(), nn.MaxPool2d(3, 2), _normalised(),
            nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2), _normalised(),
            nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(), nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Flatten(),
            nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, OUTPUTS),
        )  # fmt: skip


def _normalised() -> nn.Module:
    """TensorFlow's depth_radius of 4 is a size of 9, by which torch divides alpha, and TensorFlow does not."""
    return nn.LocalResponseNorm(9, alpha=0.001, beta=0.75, k=1.0)


class Vgg(_OfFathom, name="fathom_vgg"):
    """Twelve convolutions and three dense layers, called VGG-19, for 224 x 224."""

    batch_size = 8
    original = (
        "rdadolf/fathom vgg: cross-entropy of logits that passed ReLU, Adam with a rate of 0.0001; weights begin as "
        "those of He et al. 2015: by the code's deviation of 0.1 numbers grow from layer to layer, and of torch's own "
        "the logits hardly depend on the image, and it learns nothing"
    )
    rate = 1e-4
    multiply_adds = 13_620_580_352

    def module(self) -> Any:
        layers, channels = list[nn.Module](), 3
        for widths in ((64, 64), (128, 128), (256, 256), (512, 512, 512), (512, 512, 512)):
            for width in widths:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
                channels = width
            layers.append(nn.MaxPool2d(2))
        module = nn.Sequential(
            *layers, nn.Flatten(), nn.Linear(25088, 4096), nn.ReLU(), self.dropout(0.2),
            nn.Linear(4096, 4096), nn.ReLU(), self.dropout(0.2), nn.Linear(4096, OUTPUTS), nn.ReLU(),
        )  # fmt: skip
        return module.apply(_begun)


def _begun(layer: nn.Module) -> None:
    """So that what passes ReLU stays as large from layer to layer (He et al. 2015)."""
    if isinstance(layer, nn.Conv2d | nn.Linear):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)


class _Bottleneck(nn.Module):
    """Without batch norm, and without ReLU after the sum."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, width, 1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, channels, 1), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


class Residual(_OfFathom, name="fathom_residual"):
    """Twelve bottlenecks without batch norm, all at 56 x 56.

    It does not learn in as many steps as others. Of images of 32 x 32, without batch norm, the rate of the code takes
    its loss from 7 to 10^8 in two steps, and 40 leave it as often right as by guessing; of 224 x 224 it begins alike.
    The same with a quarter of the channels is right about all that it was trained on after 100 steps. At full width it
    is then right about 41 % with the code's first weights, normal with a deviation of 0.02, and about 86 % with those
    of He et al. (one seed each).
    """

    batch_size = 16
    original = (
        "rdadolf/fathom residual: cross-entropy, Adam with a rate of 0.01, at which a training diverges; weights begin "
        "as torch has them; no ResNet of the paper"
    )
    rate = 1e-2
    multiply_adds = 16_223_527_936

    def module(self) -> Any:
        layers: list[nn.Module] = [
            nn.ZeroPad2d((2, 3, 2, 3)), nn.Conv2d(3, 64, 7, 2), nn.ReLU(),
            nn.ZeroPad2d((0, 1, 0, 1)), nn.MaxPool2d(3, 2), nn.Conv2d(64, 128, 1),
        ]  # fmt: skip
        for width in (32, 64, 128, 256):
            layers += [_Bottleneck(4 * width, width) for _ in range(3)]
            layers += [nn.Conv2d(4 * width, 8 * width, 1, bias=False)] if width < 256 else []
        return nn.Sequential(*layers, nn.AvgPool2d(56), nn.Flatten(), nn.Linear(1024, OUTPUTS, bias=False))
