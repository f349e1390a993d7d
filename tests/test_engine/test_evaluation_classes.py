# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
from mmpretrain.datasets import BaseDataset

from mmgeom.distribution import LabelDistribution
from mmgeom.engine.hooks.evaluation_classes import check_evaluation_classes

DATASET = 'val_dataloader.dataset'
TRAINED = LabelDistribution([3, 2, 1], class_names=['a', 'b', 'c'])


class Labels(BaseDataset):
    """Labels and, perhaps, class names."""

    def __init__(self, labels, classes=None):
        self.labels = labels
        super().__init__(ann_file='', classes=classes)

    def load_data_list(self):
        return [dict(gt_label=label) for label in self.labels]


@pytest.mark.parametrize(
    ('labels', 'classes', 'message'),
    [
        ([0, 1], ['b', 'c'], "class 0 is 'b' instead of 'a'"),
        ([0, 1], ['a', 'b'], '2 classes instead of 3'),
        ([0, 2], ['a', 'b', 'd'], "class 2 is 'd' instead of 'c'"),
        ([0, 3], None, r'label 3 of the val data lies outside \[0, 3\)'),
    ],
)
def test_other_classes(labels, classes, message):
    with pytest.raises(ValueError, match=message):
        check_evaluation_classes(Labels(labels, classes), 'val', TRAINED)


@pytest.mark.parametrize('classes', [None, ['a', 'b', 'c']])
def test_same_classes(classes):
    dataset = Labels([0, 2], classes)
    assert check_evaluation_classes(dataset, 'val', TRAINED) is None
    unnamed = LabelDistribution([3, 2, 1])
    assert check_evaluation_classes(dataset, 'val', unnamed) is None


RENAMED = {f'{DATASET}.metainfo': dict(classes=tuple('abcdefghij'))}


def test_training_refuses_them_before_it_starts(tmp_path, train):
    with pytest.raises(ValueError, match="class 0 is 'a' instead of '0'"):
        train(tmp_path, RENAMED)
    assert not (tmp_path / 'epoch_1.pth').exists()


def test_testing_refuses_them(tmp_path, trained, evaluate):
    names = dict(classes=tuple('abcdefghij'))
    with pytest.raises(ValueError, match='the test data do not have the'):
        evaluate(
            tmp_path,
            trained / 'epoch_2.pth',
            {'test_dataloader.dataset.metainfo': names},
        )
