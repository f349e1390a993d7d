# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import io
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex

from mmgeom.distribution import LabelDistribution
from mmgeom.visualization.distribution_figure import (
    COLORS,
    OTHER_COLOR,
    draw_distribution,
)


def legend(figure):
    (axes,) = figure.axes
    return [text.get_text() for text in axes.get_legend().get_texts()]


def png(figure):
    file = io.BytesIO()
    figure.savefig(file, format='png', dpi=30)
    return file.getvalue()


@pytest.mark.parametrize('num_classes', [1, 2, 30, 31, 100, 101, 8142])
def test_any_number_of_classes(num_classes):
    counts = np.geomspace(1000, 2, num_classes).astype(int)
    figure = draw_distribution(
        LabelDistribution(counts), test_counts=[3] * num_classes
    )
    assert png(figure).startswith(b'\x89PNG')
    (axes,) = figure.axes
    assert axes.get_yscale() == 'log'
    assert len(axes.patches) <= 101
    assert legend(figure)[-1] == f'test ({3 * num_classes:,} samples)'


def test_bars_are_sorted_and_named():
    distribution = LabelDistribution(
        [5, 500, 50], class_names=['cat', 'dog', 'a' * 40]
    )
    figure = draw_distribution(distribution, test_counts=[7, 8, 0])
    (axes,) = figure.axes
    tops = [b.get_height() + b.get_y() for c in axes.containers for b in c]
    assert tops == pytest.approx([500, 50, 5])
    names = [text.get_text() for text in axes.get_xticklabels()]
    assert names == ['dog', 'a' * 18 + '…', 'cat']
    line = axes.patches[-1].get_data().values
    assert np.array_equal(line, [8, np.nan, 7], equal_nan=True)
    assert legend(figure)[:3] == [
        'many (1 class)',
        'medium (1 class)',
        'few (1 class)',
    ]


def test_title_and_imbalance_factor():
    distribution = LabelDistribution([400, 4, 0])
    (axes,) = draw_distribution(distribution).axes
    assert axes.get_title('left') == 'Training labels'
    assert axes.texts[0].get_text() == (
        '404 samples, 3 classes, imbalance factor 100, 1 empty'
    )
    (axes,) = draw_distribution(distribution, title='birds').axes
    assert axes.get_title('left') == 'birds'


def test_given_groups_and_the_rest():
    groups = dict(by='given', groups=dict(a=[0, 2]))
    figure = draw_distribution(LabelDistribution([9, 8, 7]), groups)
    assert legend(figure) == ['a (2 classes)', 'in no group (1 class)']
    handles = figure.axes[0].get_legend().legend_handles
    colors = [to_hex(h.get_facecolor()).upper() for h in handles]
    assert colors == [COLORS[0], OTHER_COLOR]


def test_bins_stay_in_label_order():
    distribution = LabelDistribution.from_values(
        [1.0] * 2 + [3.0] * 30 + [4.0], dict(width=1.0)
    )
    figure = draw_distribution(distribution, test_counts=[1, 0, 2, 3])
    (axes,) = figure.axes
    assert axes.get_xlabel() == 'label'
    bars = [b for container in axes.containers for b in container]
    heights = {
        b.get_x() + b.get_width() / 2: b.get_y() + b.get_height() for b in bars
    }
    assert heights == pytest.approx({1.0: 2, 3.0: 30, 4.0: 1})
    assert legend(figure)[0] == 'many (0 bins)'
    assert '4 bins' in axes.texts[0].get_text()


def test_all_empty():
    assert png(draw_distribution(LabelDistribution([0, 0])))


def test_pyplot_is_left_alone(monkeypatch):
    monkeypatch.delitem(sys.modules, 'matplotlib.pyplot', raising=False)
    png(draw_distribution(LabelDistribution([3, 2])))
    assert 'matplotlib.pyplot' not in sys.modules


def test_wrong_test_counts():
    with pytest.raises(ValueError, match=r'2 training counts .* shape \(3,\)'):
        draw_distribution(LabelDistribution([3, 2]), test_counts=[1, 1, 1])
