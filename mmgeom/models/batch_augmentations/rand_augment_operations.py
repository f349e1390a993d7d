# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The operations of RandAugment, from the dicts that describe them."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from . import opencv_operations as opencv
from . import pixel_operations as pixel
from .arguments import check_probability, fill_for, fill_values

# Arguments of each operation, besides 'type' and 'prob', with the defaults
# of the host's transform of that name. All that have a random sign have the
# argument 'random_negative_prob'.
_SIGNED = dict(magnitude_range=None, random_negative_prob=0.5)
_WARP = dict(pad_val=128, interpolation='nearest', **_SIGNED)
_ARGUMENTS: dict[str, dict[str, Any]] = {
    'AutoContrast': {},
    'Equalize': {},
    'Invert': {},
    'Rotate': _WARP,
    'Shear': dict(_WARP, interpolation='bicubic', direction='horizontal'),
    'Translate': dict(_WARP, direction='horizontal'),
    'Posterize': dict(magnitude_range=None),
    'Solarize': dict(magnitude_range=None),
    'SolarizeAdd': dict(magnitude_range=None, thr=128),
    'ColorTransform': _SIGNED,
    'Contrast': _SIGNED,
    'Brightness': _SIGNED,
    'Sharpness': _SIGNED,
}
_CHOICES = dict(
    interpolation=opencv.INTERPOLATIONS,
    direction=('horizontal', 'vertical'),
)


class RandAugmentOperation(NamedTuple):
    """One operation of RandAugment.

    Args:
        apply (Callable): Takes images (B, C, H, W), magnitudes (B,) and a
            fill value, and gives images.
        magnitude_range (tuple[float, float]): Magnitudes at the levels zero
            and ``total_level``.
        prob (float): Probability that it is done where it is chosen.
        negative_prob (float): Probability of a negative sign.
        fill (Tensor): Value outside the images, of shape (1 or C, 1, 1).
    """

    apply: Callable[[Tensor, Tensor, Tensor], Tensor]
    magnitude_range: tuple[float, float]
    prob: float
    negative_prob: float
    fill: Tensor


def parse_policy(
    policy: dict, hparams: dict, channel_order: str
) -> RandAugmentOperation:
    """Make an operation of the dict that describes it.

    Args:
        policy (dict): With ``type`` and arguments of the host's transform of
            that name.
        hparams (dict): Arguments for all operations that have them, where
            the policy gives no other.
        channel_order (str): 'rgb' or 'bgr'.

    Returns:
        RandAugmentOperation: The operation.

    Raises:
        TypeError: When the policy is not a dict with ``type``.
        ValueError: When the operation or an argument is not known, or an
            argument is out of its range.
    """
    if not isinstance(policy, dict) or 'type' not in policy:
        raise TypeError(
            f'a policy must be a dict with the key type, got {policy!r}.'
        )
    # Configs inherited by `mmgeom::` have a scope in each dict.
    policy = {k: v for k, v in policy.items() if k != '_scope_'}
    name = policy.pop('type').rpartition('.')[2]
    prob = policy.pop('prob', 0.5)
    if name not in _ARGUMENTS:
        raise ValueError(
            f'policies of batches have the types {list(_ARGUMENTS)}, got '
            f'{name!r}.'
        )
    arguments = dict(_ARGUMENTS[name])
    unknown = sorted(set(policy) - set(arguments))
    if unknown:
        raise ValueError(
            f'{name} takes the arguments {sorted(arguments)} in a batch, got '
            f'{unknown}.'
        )
    arguments.update({k: v for k, v in hparams.items() if k in arguments})
    arguments.update(policy)
    _check_choices(name, arguments)
    return RandAugmentOperation(
        _operation(name, arguments, channel_order),
        _magnitude_range(name, arguments),
        check_probability(prob),
        check_probability(arguments.get('random_negative_prob', 0.0)),
        fill_values(arguments.get('pad_val', 0)),
    )


def _check_choices(name: str, arguments: dict[str, Any]) -> None:
    """Check arguments that take one of some words."""
    for key, words in _CHOICES.items():
        if key in arguments and arguments[key] not in words:
            raise ValueError(
                f'{key} of {name} must be one of {words} in a batch, got '
                f'{arguments[key]!r}.'
            )


def _magnitude_range(
    name: str, arguments: dict[str, Any]
) -> tuple[float, float]:
    """The range of magnitudes; zeros where there is no magnitude."""
    if 'magnitude_range' not in arguments:
        return 0.0, 0.0
    bounds = arguments['magnitude_range']
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise ValueError(
            f'{name} needs magnitude_range, the magnitudes at the lowest and '
            f'the highest level, got {bounds!r}.'
        )
    if name == 'Posterize' and (min(bounds) < 0 or max(bounds) > 8):
        raise ValueError(
            'magnitude_range of Posterize are numbers of bits in 0..8, got '
            f'{bounds!r}.'
        )
    return float(bounds[0]), float(bounds[1])


def _operation(
    name: str, arguments: dict[str, Any], channel_order: str
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The function of images, magnitudes and a fill value."""
    warp = {key: arguments[key] for key in _CHOICES if key in arguments}
    warps: dict[str, Callable[..., Tensor]] = dict(
        Rotate=opencv.rotate, Shear=opencv.shear, Translate=opencv.translate
    )
    if name in warps:
        return partial(_with_fill, function=partial(warps[name], **warp))
    coloured = dict(channel_order=channel_order)
    functions: dict[str, Callable[..., Tensor]] = {
        'AutoContrast': partial(_by_itself, function=pixel.auto_contrast),
        'Equalize': partial(_by_itself, function=pixel.equalize),
        'Invert': partial(_by_itself, function=pixel.invert),
        'Posterize': _posterize,
        'Solarize': pixel.solarize,
        'SolarizeAdd': partial(
            pixel.solarize_add, threshold=arguments.get('thr', 128)
        ),
        'ColorTransform': partial(opencv.adjust_colour, **coloured),
        'Contrast': partial(opencv.adjust_contrast, **coloured),
        'Brightness': _brightness,
        'Sharpness': opencv.adjust_sharpness,
    }
    return partial(_without_fill, function=functions[name])


# Functions of their own, since models are pickled.


def _with_fill(
    images: Tensor,
    magnitudes: Tensor,
    fill: Tensor,
    function: Callable[..., Tensor],
) -> Tensor:
    return function(images, magnitudes, fill_for(fill, images))


def _without_fill(
    images: Tensor,
    magnitudes: Tensor,
    fill: Tensor,
    function: Callable[..., Tensor],
) -> Tensor:
    return function(images, magnitudes)


def _by_itself(
    images: Tensor, magnitudes: Tensor, function: Callable[..., Tensor]
) -> Tensor:
    return function(images)


def _posterize(images: Tensor, magnitudes: Tensor) -> Tensor:
    # As the host, which rounds up.
    return pixel.posterize(images, magnitudes.ceil())


def _brightness(images: Tensor, magnitudes: Tensor) -> Tensor:
    return pixel.adjust_brightness(images, 1 + magnitudes)
