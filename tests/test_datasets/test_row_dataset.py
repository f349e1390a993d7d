# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pickle

import numpy as np
import pytest
import torch
from mmengine.dataset import default_collate
from torch.utils.data import DataLoader, Subset

from mmgeom.datasets.row_dataset import RowDataset, require_finite
from mmgeom.labels import dataset_labels, dataset_values

INPUTS = np.arange(15.0).reshape(5, 3) / 7
TARGETS = np.array([0.1, -2.0, 3.5, 4.25, 0.7])


class Rows(RowDataset):
    def __init__(self, inputs=INPUTS, targets=TARGETS, **kwargs):
        self.given = inputs, targets
        super().__init__(**kwargs)

    def load_rows(self):
        return self.given


@pytest.mark.parametrize('serialize_data', [True, False])
def test_arrays(serialize_data):
    dataset = Rows(serialize_data=serialize_data)
    assert len(dataset) == 5
    assert dataset.inputs.dtype == dataset.targets.dtype == np.float32
    assert np.array_equal(dataset.inputs, INPUTS.astype(np.float32))
    assert dataset.targets.shape == (5, 1)
    # Nothing is rounded on the way to statistics.
    assert np.array_equal(dataset.get_inputs(), INPUTS)
    assert np.array_equal(dataset.get_gt_values(), TARGETS)
    assert np.array_equal(dataset_values(dataset), TARGETS)
    with pytest.raises(ValueError, match='read-only'):
        dataset.inputs[0, 0] = 1


@pytest.mark.parametrize('serialize_data', [True, False])
def test_sample(serialize_data):
    dataset = Rows(serialize_data=serialize_data)
    info = dataset.get_data_info(-1)
    assert info['img'].dtype == torch.float32
    assert info['img'].tolist() == INPUTS[4].astype(np.float32).tolist()
    assert info['gt_score'].dtype == np.float32
    assert info['gt_score'].shape == (1,)
    assert info['sample_idx'] == 4
    info['img'] += 1
    info['gt_score'] += 1
    assert np.array_equal(dataset.get_inputs(), INPUTS)
    assert np.array_equal(dataset.get_gt_values(), TARGETS)


@pytest.mark.parametrize('workers', [0, 2])
def test_batch(workers):
    loader = DataLoader(
        Rows(), batch_size=5, num_workers=workers, collate_fn=default_collate
    )
    (batch,) = loader
    assert batch['inputs'].dtype == torch.float32
    assert batch['inputs'].tolist() == INPUTS.astype(np.float32).tolist()
    scores = [sample.gt_score for sample in batch['data_samples']]
    assert (
        torch.stack(scores).tolist()
        == TARGETS[:, None].astype(np.float32).tolist()
    )


def test_several_targets():
    targets = np.stack([TARGETS, -TARGETS], axis=1)
    dataset = Rows(targets=targets)
    assert np.array_equal(dataset.get_gt_values(), targets)
    assert dataset[1]['data_samples'].gt_score.tolist() == [-2.0, 2.0]


@pytest.mark.parametrize('serialize_data', [True, False])
def test_parts(serialize_data):
    dataset = Rows(indices=[3, 1, 4], serialize_data=serialize_data)
    chosen = [3, 1, 4]
    assert np.array_equal(dataset.get_inputs(), INPUTS[chosen])
    assert np.array_equal(dataset.targets[:, 0], TARGETS[chosen].astype('f4'))
    part = dataset.get_subset([2, 0])
    assert part._inputs is dataset._inputs
    assert part.get_gt_values().tolist() == TARGETS[[4, 3]].tolist()
    assert part[0]['data_samples'].sample_idx == 0
    dataset.get_subset_(1)
    assert dataset.get_gt_values().tolist() == [TARGETS[3]]
    subset = Subset(Rows(), [2, 2])
    assert dataset_values(subset).tolist() == [3.5, 3.5]


def test_small_items_and_pickle():
    dataset = Rows()
    assert dataset.data_bytes.nbytes == 8 * 5
    other = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(other.get_inputs(), INPUTS)


def test_lazy():
    dataset = Rows(lazy_init=True)
    assert dataset._inputs is None
    assert dataset.inputs.shape == (5, 3)


def test_no_classes():
    with pytest.raises(TypeError, match='regression targets give the bins'):
        dataset_labels(Rows())


@pytest.mark.parametrize(
    ('inputs', 'targets', 'message'),
    [
        (INPUTS[0], TARGETS, r'inputs of shape \(3,\) and .*\(5,\): give'),
        (INPUTS, np.zeros((5, 1, 1)), r'targets of shape \(5, 1, 1\): give'),
        (INPUTS[:4], TARGETS, '4 rows of inputs but 5 targets'),
        (INPUTS[:0], TARGETS[:0], 'Rows holds no samples'),
        (INPUTS, np.array([0, 1, np.nan, 1, np.inf]), 'Rows row 2 .* targets'),
        (
            np.where(INPUTS > 1.9, np.inf, INPUTS),
            TARGETS,
            'row 4 .* in its inp',
        ),
    ],
)
def test_bad_rows(inputs, targets, message):
    with pytest.raises(ValueError, match=message):
        Rows(inputs=inputs, targets=targets)


def test_require_finite_counts():
    array = np.array([[0.0, np.nan], [1.0, 2.0], [-np.inf, np.nan]])
    with pytest.raises(ValueError, match=r'x row 0 .*its u .*\(2 such rows\)'):
        require_finite('x', v=np.zeros(3), u=array)
