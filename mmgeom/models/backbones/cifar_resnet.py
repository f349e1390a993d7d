# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from collections.abc import Sequence

import torch
from mmcv.cnn import build_norm_layer
from mmengine.model import BaseModule
from mmpretrain.models.backbones.base_backbone import BaseBackbone
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from mmgeom.registry import MODELS

from .memory_order import fast_order

NUM_STAGES = 3


class BasicBlock(BaseModule):
    """Two 3x3 convolutions with a parameter-free (option A) shortcut.

    Where the shape changes, the shortcut takes every ``stride``-th row and
    column and pads the new channels with zeros, half of them on either side.

    Args:
        in_channels (int): Number of input channels.
        out_channels (int): Number of output channels, not fewer.
        stride (int): Stride of the first convolution.
        norm_cfg (dict): Config of the norm layers.
    """

    def __init__(
        self, in_channels: int, out_channels: int, stride: int, norm_cfg: dict
    ) -> None:
        super().__init__()
        self.conv1 = _conv3x3(in_channels, out_channels, stride)
        self.norm1_name = _add_norm(self, norm_cfg, out_channels, 1)
        self.conv2 = _conv3x3(out_channels, out_channels)
        self.norm2_name = _add_norm(self, norm_cfg, out_channels, 2)
        self.relu = nn.ReLU(inplace=True)
        self.stride = stride
        extra = out_channels - in_channels
        self.channel_padding = (extra // 2, extra - extra // 2)

    def shortcut(self, x: torch.Tensor) -> torch.Tensor:
        """Bring the input to the shape of the output without parameters."""
        if self.stride > 1:
            x = x[:, :, :: self.stride, :: self.stride]
        if any(self.channel_padding):
            x = F.pad(x, (0, 0, 0, 0, *self.channel_padding))
        return x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, C, H, W) to (N, C', ceil(H / stride), ceil(W / stride))."""
        out = self.relu(getattr(self, self.norm1_name)(self.conv1(x)))
        out = getattr(self, self.norm2_name)(self.conv2(out))
        return self.relu(out + self.shortcut(x))


@MODELS.register_module()
class CIFARResNet(BaseBackbone):
    r"""ResNet for CIFAR-sized images, the ResNet-32 of long-tail papers.

    A 3x3 convolution, then three stages of :math:`n` basic blocks with
    :math:`b, 2b, 4b` channels and strides 1, 2, 2; the depth is
    :math:`6n + 2` with the stem and the classifier. Shortcuts are identities
    without parameters (option A). With :math:`b = 16`, three input channels
    and a 10-class linear classifier ResNet-32 has 464,154 parameters, of
    which 463,504 are here.

    It is not mmpretrain's ``ResNet_CIFAR``, which has four stages, 64 to 512
    channels and projection shortcuts. Layers carry the names ``conv1``,
    ``bn1``, ``layer1`` to ``layer3``.

    Source: He et al., Deep Residual Learning for Image Recognition, CVPR
    2016, Section 4.2.

    Args:
        depth (int): Depth :math:`6n + 2`: 20, 32, 44, 56, 110 and so on.
            Defaults to 32.
        in_channels (int): Number of channels of the images. Defaults to 3.
        base_channels (int): Number of channels :math:`b` of the stem and of
            the first stage. Defaults to 16.
        out_indices (Sequence[int]): Stages, from 0 to 2, whose maps are
            returned. Defaults to (2, ).
        norm_cfg (dict, optional): Config of the norm layers. Defaults to
            None, which means ``dict(type='BN')``.
        norm_eval (bool): Whether batch norm layers stay in evaluation mode
            during training, that is, keep their running statistics.
            Defaults to False.
        init_cfg (dict | list[dict], optional): Initialisation. Defaults to
            None, which means normal weights of variance 2 / fan-in for
            convolutions (He et al., Delving Deep into Rectifiers, ICCV 2015,
            Eq. 10; as the CIFAR ResNets of the long-tail literature since
            LDAM-DRW, Cao et al., NeurIPS 2019) and ones for the scales of
            norm layers.

    Raises:
        ValueError: If ``depth``, ``in_channels``, ``base_channels`` or
            ``out_indices`` is outside its range.
        TypeError: If ``out_indices`` is a single number.

    Examples:
        >>> import torch
        >>> backbone = CIFARResNet(depth=32, out_indices=(0, 1, 2))
        >>> [tuple(x.shape) for x in backbone(torch.zeros(1, 3, 32, 32))]
        [(1, 16, 32, 32), (1, 32, 16, 16), (1, 64, 8, 8)]
    """

    def __init__(
        self,
        depth: int = 32,
        in_channels: int = 3,
        base_channels: int = 16,
        out_indices: Sequence[int] = (2,),
        norm_cfg: dict | None = None,
        norm_eval: bool = False,
        init_cfg: dict | list[dict] | None = None,
    ) -> None:
        if norm_cfg is None:
            norm_cfg = dict(type='BN')
        if init_cfg is None:
            init_cfg = [
                dict(type='Kaiming', layer='Conv2d', mode='fan_in'),
                dict(
                    type='Constant', layer=['_BatchNorm', 'GroupNorm'], val=1
                ),
            ]
        super().__init__(init_cfg)
        _check_arguments(depth, in_channels, base_channels, out_indices)
        self.depth = depth
        self.out_indices = tuple(out_indices)
        self.norm_eval = norm_eval

        self.conv1 = _conv3x3(in_channels, base_channels)
        self.norm1_name = _add_norm(self, norm_cfg, base_channels, 1)
        self.relu = nn.ReLU(inplace=True)
        width = base_channels
        for stage in range(NUM_STAGES):
            out_width = base_channels * 2**stage
            blocks = [
                BasicBlock(
                    width if block == 0 else out_width,
                    out_width,
                    stride=2 if stage > 0 and block == 0 else 1,
                    norm_cfg=norm_cfg,
                )
                for block in range((depth - 2) // 6)
            ]
            self.add_module(f'layer{stage + 1}', nn.Sequential(*blocks))
            width = out_width

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Compute the maps of the stages in ``out_indices``.

        Args:
            x (torch.Tensor): Images of shape (N, in_channels, H, W).

        Returns:
            tuple[torch.Tensor]: For stage ``s``, in ascending order, a map
            of shape (N, base_channels * 2^s, ceil(H / 2^s), ceil(W / 2^s)).
        """
        x = fast_order(self.conv1(x))
        x = self.relu(getattr(self, self.norm1_name)(x))
        outs = []
        for stage in range(NUM_STAGES):
            x = getattr(self, f'layer{stage + 1}')(x)
            if stage in self.out_indices:
                outs.append(x)
        return tuple(outs)

    def train(self, mode: bool = True) -> 'CIFARResNet':
        """Set the mode; ``norm_eval`` keeps batch norms in evaluation.

        Args:
            mode (bool): Whether to set training mode. Defaults to True.

        Returns:
            CIFARResNet: The module itself.
        """
        super().train(mode)
        if mode and self.norm_eval:
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self


def _conv3x3(
    in_channels: int, out_channels: int, stride: int = 1
) -> nn.Conv2d:
    return nn.Conv2d(
        in_channels, out_channels, 3, stride=stride, padding=1, bias=False
    )


def _add_norm(
    module: nn.Module, norm_cfg: dict, num_features: int, postfix: int
) -> str:
    name, norm = build_norm_layer(norm_cfg, num_features, postfix=postfix)
    module.add_module(name, norm)
    return name


def _check_arguments(
    depth: int, in_channels: int, base_channels: int, out_indices: Sequence
) -> None:
    if depth < 8 or depth % 6 != 2:
        raise ValueError(
            'depth must be 6n + 2 with n >= 1, such as 20, 32, 44, 56 or '
            f'110, got {depth}.'
        )
    for name, value in (
        ('in_channels', in_channels),
        ('base_channels', base_channels),
    ):
        if value < 1:
            raise ValueError(f'{name} must be at least 1, got {value}.')
    if isinstance(out_indices, int):
        raise TypeError(
            f'out_indices must be a sequence of stages, got {out_indices}; '
            f'write ({out_indices},).'
        )
    if not out_indices or not set(out_indices) <= set(range(NUM_STAGES)):
        raise ValueError(
            'out_indices must name at least one of the stages 0, 1, 2, '
            f'got {tuple(out_indices)}.'
        )
