# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from mmcv.cnn import build_norm_layer
from mmengine.model import BaseModule
from mmpretrain.models.backbones.base_backbone import BaseBackbone
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from mmgeom.registry import MODELS

from .memory_order import fast_order

NUM_BLOCKS = 3
#: Channels between the two convolutions of a layer, in growth rates.
BOTTLENECK_WIDTH = 4


class BottleneckLayer(BaseModule):
    """BN-ReLU-1x1 convolution, then BN-ReLU-3x3 convolution.

    Args:
        in_channels (int): Number of channels of all maps that come in.
        growth_rate (int): Number of new channels k; there are 4k between the
            convolutions.
        norm_cfg (dict): Config of the norm layers.
        memory_efficient (bool): Recompute the first half in the backward
            pass.
    """

    def __init__(
        self,
        in_channels: int,
        growth_rate: int,
        norm_cfg: dict,
        memory_efficient: bool,
    ) -> None:
        super().__init__()
        width = BOTTLENECK_WIDTH * growth_rate
        self.norm1 = build_norm_layer(norm_cfg, in_channels)[1]
        self.conv1 = nn.Conv2d(in_channels, width, 1, bias=False)
        self.norm2 = build_norm_layer(norm_cfg, width)[1]
        self.conv2 = nn.Conv2d(width, growth_rate, 3, padding=1, bias=False)
        self.memory_efficient = memory_efficient

    def bottleneck(self, *maps: Tensor) -> Tensor:
        """Join the maps and reduce them to 4k channels."""
        x = torch.cat(maps, dim=1)
        return self.conv1(F.relu(self.norm1(x), inplace=True))

    def forward(self, maps: list[Tensor]) -> Tensor:
        """Map N x C_i x H x W each to the new N x k x H x W."""
        if self.memory_efficient and torch.is_grad_enabled():
            x = checkpoint(
                self.bottleneck,
                *maps,
                use_reentrant=False,
                preserve_rng_state=False,
                context_fn=self._contexts,
            )
        else:
            x = self.bottleneck(*maps)
        return self.conv2(F.relu(self.norm2(x), inplace=True))

    def _contexts(self) -> tuple:
        """Contexts of the first and of the second computation."""
        return nullcontext(), _without_statistics(self.norm1)


class DenseBlock(nn.ModuleList):
    """Layers of which each sees the maps of all layers before it.

    Args:
        num_layers (int): Number of layers.
        in_channels (int): Number of input channels.
        growth_rate (int): Number of channels that a layer adds.
        norm_cfg (dict): Config of the norm layers.
        memory_efficient (bool): As of :class:`BottleneckLayer`.
    """

    def __init__(
        self,
        num_layers: int,
        in_channels: int,
        growth_rate: int,
        norm_cfg: dict,
        memory_efficient: bool,
    ) -> None:
        super().__init__(
            BottleneckLayer(
                in_channels + i * growth_rate,
                growth_rate,
                norm_cfg,
                memory_efficient,
            )
            for i in range(num_layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C + num_layers * k, H, W)."""
        maps = [x]
        for layer in self:
            maps.append(layer(maps))
        return torch.cat(maps, dim=1)


class Transition(BaseModule):
    """BN-ReLU-1x1 convolution and average pooling by two.

    Args:
        in_channels (int): Number of input channels.
        out_channels (int): Number of output channels.
        norm_cfg (dict): Config of the norm layer.
    """

    def __init__(
        self, in_channels: int, out_channels: int, norm_cfg: dict
    ) -> None:
        super().__init__()
        self.norm = build_norm_layer(norm_cfg, in_channels)[1]
        self.conv = nn.Conv2d(in_channels, out_channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map (N, C, H, W) to (N, C', H // 2, W // 2)."""
        return F.avg_pool2d(self.conv(F.relu(self.norm(x), inplace=True)), 2)


@MODELS.register_module()
class CIFARDenseNet(BaseBackbone):
    r"""DenseNet-BC for CIFAR-sized images.

    A 3x3 convolution to :math:`2k` channels, then three dense blocks of
    :math:`n = \lfloor (\mathrm{depth} - 4)/6 \rfloor` bottleneck layers with
    transitions between them, and a final norm and ReLU. A layer adds
    :math:`k` channels, a transition keeps the share ``reduction`` of them
    and halves the map. With :math:`C_0 = 2k` the blocks end with

    .. math::
        C_b = \lfloor r\, C_{b-1} \rfloor + n k
        \quad (r = 1 \text{ for the first}),

    of which :attr:`out_channels` is the last: 342 for depth 100 and growth
    rate 12, 510 for depth 150 and growth rate 12, 1360 for depth 150 and
    growth rate 32. Depth 150, which SETF and NCMC use, is no :math:`6n + 4`;
    it means :math:`n = 24` and therefore 148 layers with weights.

    Maps are concatenated anew in each layer, so the memory of training grows
    with :math:`n^2`; ``memory_efficient`` makes it linear.

    Source: Huang et al., Densely Connected Convolutional Networks, CVPR
    2017, Section 3 and 4.2.

    Args:
        depth (int): At least 10. Defaults to 150.
        growth_rate (int): Channels :math:`k` that a layer adds. Defaults to
            12.
        reduction (float): Share :math:`r` of the channels that a transition
            keeps, in (0, 1]. Defaults to 0.5.
        in_channels (int): Number of channels of the images. Defaults to 3.
        memory_efficient (bool): Concatenate, normalise and reduce again in
            the backward pass instead of keeping the results (Pleiss et al.,
            Memory-Efficient Implementation of DenseNets, 2017). Values,
            gradients and running statistics stay the same. Defaults to
            False.
        norm_cfg (dict, optional): Config of the norm layers. Defaults to
            None, which means ``dict(type='BN')``.
        init_cfg (dict | list[dict], optional): Initialisation. Defaults to
            None, which means normal weights of variance 2 / fan-out for
            convolutions, as in the authors' code, and ones for the scales of
            norm layers.

    Raises:
        ValueError: If ``depth``, ``growth_rate``, ``reduction`` or
            ``in_channels`` is outside its range.

    Examples:
        >>> import torch
        >>> backbone = CIFARDenseNet(depth=22)
        >>> [tuple(x.shape) for x in backbone(torch.zeros(1, 3, 32, 32))]
        [(1, 69, 8, 8)]
    """

    def __init__(
        self,
        depth: int = 150,
        growth_rate: int = 12,
        reduction: float = 0.5,
        in_channels: int = 3,
        memory_efficient: bool = False,
        norm_cfg: dict | None = None,
        init_cfg: dict | list[dict] | None = None,
    ) -> None:
        if norm_cfg is None:
            norm_cfg = dict(type='BN')
        if init_cfg is None:
            init_cfg = [
                dict(type='Kaiming', layer='Conv2d', mode='fan_out'),
                dict(
                    type='Constant', layer=['_BatchNorm', 'GroupNorm'], val=1
                ),
            ]
        super().__init__(init_cfg)
        _check_arguments(depth, growth_rate, reduction, in_channels)
        num_layers = (depth - 4) // 6

        width = 2 * growth_rate
        self.conv1 = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
        for i in range(1, NUM_BLOCKS + 1):
            if i > 1:
                reduced = _reduced(width, reduction)
                transition = Transition(width, reduced, norm_cfg)
                self.add_module(f'transition{i - 1}', transition)
                width = reduced
            block = DenseBlock(
                num_layers, width, growth_rate, norm_cfg, memory_efficient
            )
            self.add_module(f'block{i}', block)
            width += num_layers * growth_rate
        self.norm = build_norm_layer(norm_cfg, width)[1]
        self.out_channels = width

    def forward(self, x: Tensor) -> tuple[Tensor]:
        """Compute the final map.

        Args:
            x (Tensor): Images of shape (N, in_channels, H, W), with H and W
                of at least 4.

        Returns:
            tuple[Tensor]: One map of shape (N, out_channels, H', W'), with
            H' and W' halved twice and rounded down each time.
        """
        x = self.block1(fast_order(self.conv1(x)))
        x = self.block2(self.transition1(x))
        x = self.block3(self.transition2(x))
        return (F.relu(self.norm(x), inplace=True),)

    def train(self, mode: bool = True) -> 'CIFARDenseNet':
        """Set the mode; unlike the host's, this returns the module.

        Args:
            mode (bool): Whether to set training mode. Defaults to True.

        Returns:
            CIFARDenseNet: The module itself.
        """
        super().train(mode)
        return self


@contextmanager
def _without_statistics(norm: nn.Module) -> Iterator[None]:
    """Keep a batch norm from counting the same batch a second time."""
    if not isinstance(norm, _BatchNorm) or not norm.training:
        yield
        return
    momentum, norm.momentum = norm.momentum, 0.0
    try:
        yield
    finally:
        norm.momentum = momentum
        if norm.num_batches_tracked is not None:
            norm.num_batches_tracked.sub_(1)


def _reduced(width: int, reduction: float) -> int:
    reduced = math.floor(width * reduction)
    if reduced < 1:
        raise ValueError(
            f'reduction={reduction} leaves none of {width} channels: raise '
            'it or growth_rate.'
        )
    return reduced


def _check_arguments(
    depth: int, growth_rate: int, reduction: float, in_channels: int
) -> None:
    if depth < 10:
        raise ValueError(
            'depth must be at least 10, one layer in each of the three '
            f'blocks, got {depth}.'
        )
    for name, value in (
        ('growth_rate', growth_rate),
        ('in_channels', in_channels),
    ):
        if value < 1:
            raise ValueError(f'{name} must be at least 1, got {value}.')
    if not 0 < reduction <= 1:
        raise ValueError(
            'reduction is the share of channels that a transition keeps and '
            f'must lie in (0, 1], got {reduction}.'
        )
