# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest

from mmgeom.datasets.label_density import label_density

LABELS = np.array([-2.0, 0.0, 1.0, 5.0])


def half(labels, factor=0.5):
    """A density for the dotted name below."""
    return np.full(len(labels), factor)


@pytest.mark.parametrize(
    ('spec', 'expected'),
    [
        (dict(type='uniform'), [1, 1, 1, 1]),
        (
            dict(type='normal', mean=1, std=2),
            np.exp(-((LABELS - 1) ** 2) / 8),
        ),
        (dict(type='exponential', scale=3), np.exp(-LABELS / 3)),
        (dict(type='exponential', scale=-3), np.exp(LABELS / 3)),
        (dict(type='power', exponent=2), (1 + abs(LABELS)) ** -2),
        (
            dict(type='power', exponent=1.5, start=1, scale=4),
            (1 + abs(LABELS - 1) / 4) ** -1.5,
        ),
        (
            dict(type='piecewise', edges=[0, 5], weights=[3, 0, 2]),
            [3, 0, 0, 2],
        ),
        (dict(type='piecewise', edges=[], weights=[7]), [7, 7, 7, 7]),
        (dict(type='function', function=half, factor=2), [2, 2, 2, 2]),
        (dict(type='function', function='numpy.exp'), np.exp(LABELS)),
        (half, [0.5, 0.5, 0.5, 0.5]),
    ],
)
def test_formulas(spec, expected):
    weights = label_density(spec)(LABELS)
    assert weights.dtype == np.float64
    expected = np.asarray(expected, dtype=np.float64)
    assert weights / weights.max() == pytest.approx(expected / expected.max())


def test_far_labels_do_not_underflow():
    density = label_density(dict(type='normal', mean=0, std=1))
    weights = density(np.array([100.0, 101.0]))
    assert weights == pytest.approx([1, np.exp(-100.5)])


@pytest.mark.parametrize(
    ('spec', 'message'),
    [
        (dict(type='gamma'), 'unknown: give a dict whose type is one of'),
        ('normal', "label density 'normal' is unknown"),
        (dict(type='normal', mean=0), r"does not take the arguments \['mean"),
        (dict(type='uniform', mean=0), 'does not take the arguments'),
        (dict(type='normal', mean=0, std=0), 'std of a normal .* positive'),
        (dict(type='exponential', scale=0), 'must be finite and not 0, got 0'),
        (dict(type='power', exponent=-1), 'exponent of a power .* got -1'),
        (
            dict(type='piecewise', edges=[1, 2], weights=[1, 2]),
            'one weight more than edges',
        ),
        (
            dict(type='piecewise', edges=[2, 1], weights=[1, 2, 3]),
            'increasing edges',
        ),
        (
            dict(type='piecewise', edges=[1], weights=[1, -1]),
            'gives -1.0 for label',
        ),
        (
            dict(type='piecewise', edges=[1], weights=[np.nan, 1]),
            'gives nan for label',
        ),
        (
            dict(type='function', function='mmgeom.no_such_function'),
            'cannot be imported',
        ),
    ],
)
def test_bad_descriptions(spec, message):
    with pytest.raises(ValueError, match=message):
        label_density(spec)


def test_bad_weights_of_a_function():
    with pytest.raises(ValueError, match='gives -2.0 for label -2.0'):
        label_density(lambda labels: labels)(LABELS)
    with pytest.raises(ValueError, match=r'shape \(1,\) for labels of shape'):
        label_density(lambda labels: labels[:1])(LABELS)
