# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
import torch
from mmengine.dataset import default_collate, pseudo_collate
from mmpretrain.datasets.transforms import PackInputs
from mmpretrain.structures import DataSample
from torch.testing import assert_close

from mmgeom.models.data_preprocessors.tabular_data_preprocessor import (
    TabularDataPreprocessor,
)
from mmgeom.registry import MODELS

MEAN = torch.tensor([1.0, -20.0, 3.0])
STD = torch.tensor([0.5, 10.0, 1.0])
TABLE = torch.tensor([[1.5, -20.0, 3.0], [0.0, 10.0, 3.0]])
EXPECTED = torch.tensor([[1.0, 0.0, 0.0], [-2.0, 3.0, 0.0]])
SEED = 1  # With which two rows change places.
MIXUP = dict(augments=dict(type='Mixup', alpha=1.0))


def build(fit=True, **options):
    module = MODELS.build(
        dict(type='mmgeom.TabularDataPreprocessor', in_channels=3) | options
    )
    if fit:
        module.set_input_statistics(MEAN, STD)
    return module


def batch(collate=default_collate, table=TABLE):
    pack = PackInputs()
    return collate(
        [
            pack.transform(
                dict(img=row, gt_score=[float(i)], sample_idx=7 + i)
            )
            for i, row in enumerate(table)
        ]
    )


@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
@pytest.mark.parametrize('training', [False, True])
def test_standardised(collate, training):
    result = build()(batch(collate), training)
    assert torch.equal(result['inputs'], EXPECTED)
    scores = [sample.gt_score.tolist() for sample in result['data_samples']]
    assert scores == [[0.0], [1.0]]


def test_rows_alone():
    result = build()(dict(inputs=TABLE))
    assert torch.equal(result['inputs'], EXPECTED)
    assert result['data_samples'] is None


@pytest.mark.parametrize(
    'dtype', [torch.int64, torch.uint8, torch.float16, torch.float64]
)
def test_any_number_becomes_float32(dtype):
    table = torch.tensor([[1, 20, 3], [0, 10, 3]]).to(dtype)
    plain = build(standardize=False, fit=False)
    rows = plain(dict(inputs=table))['inputs']
    assert rows.dtype == torch.float32
    assert torch.equal(rows, table.float())
    rows = build()(dict(inputs=table))['inputs']
    assert rows.dtype == torch.float32
    assert_close(rows, (table.float() - MEAN) / STD)


def test_without_standardisation():
    module = build(standardize=False)
    assert not module.uses_input_statistics
    assert not module.state_dict()
    assert torch.equal(module(batch(), True)['inputs'], TABLE)
    assert build().uses_input_statistics


def test_state_dict_is_enough():
    other = build(fit=False)
    other.load_state_dict(build().state_dict())
    assert torch.equal(other(batch(), True)['inputs'], EXPECTED)


def test_labels_are_kept_beside_targets():
    data = batch()
    for label, sample in enumerate(data['data_samples']):
        sample.set_gt_label(label)
    result = build()(data)
    labels = [int(sample.gt_label) for sample in result['data_samples']]
    assert labels == [0, 1]


def test_mixup_mixes_rows_and_targets_alike():
    module = build(batch_augments=MIXUP)
    np.random.seed(1)
    torch.manual_seed(SEED)
    result = module(batch(), True)
    np.random.seed(1)
    np.random.choice(1)  # The augmentation is drawn first.
    share = np.random.beta(1.0, 1.0)
    torch.manual_seed(SEED)
    order = torch.randperm(2)
    target = torch.tensor([[0.0], [1.0]])
    assert order.tolist() == [1, 0]
    assert_close(
        result['inputs'], share * EXPECTED + (1 - share) * EXPECTED[order]
    )
    mixed = torch.stack([s.gt_score for s in result['data_samples']])
    assert_close(mixed, share * target + (1 - share) * target[order])
    assert torch.equal(module(batch(), False)['inputs'], EXPECTED)


# Errors ----------------------------------------------------------------------
@pytest.mark.parametrize('value', [float('nan'), float('-inf')])
@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
def test_number_that_is_not_finite(value, collate):
    table = TABLE.clone()
    table[1, 2] = value
    with pytest.raises(
        ValueError, match=rf'the row of sample 8 holds {value} in column 2'
    ):
        build()(batch(collate, table))
    with pytest.raises(ValueError, match='the row at position 1 of the batch'):
        build()(dict(inputs=table))
    nameless = [DataSample(), DataSample()]
    with pytest.raises(ValueError, match='the row at position 1 of the batch'):
        build()(dict(inputs=table, data_samples=nameless))


@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
def test_wrong_width(collate):
    with pytest.raises(
        ValueError, match=r'a row .* shape \(4,\) .* in_channels=3'
    ):
        build()(batch(collate, torch.zeros(2, 4)))
    with pytest.raises(ValueError, match=r'a row .* shape \(3, 1\)'):
        build()(dict(inputs=torch.zeros(2, 3, 1)))
    ragged = [torch.zeros(3), torch.zeros(2)]
    with pytest.raises(ValueError, match=r'a row .* shape \(2,\)'):
        build()(dict(inputs=ragged))


def test_training_without_statistics():
    module = build(fit=False)
    with pytest.raises(
        RuntimeError, match="add dict\\(type='mmgeom.StandardizationHook'\\)"
    ):
        module(batch(), True)
    assert torch.equal(module(batch(), False)['inputs'], TABLE)
    module.set_input_statistics(MEAN, STD)
    assert torch.equal(module(batch(), True)['inputs'], EXPECTED)


def test_wrong_arguments():
    with pytest.raises(ValueError, match='in_channels must be positive'):
        TabularDataPreprocessor(0)
    for module in (build(), build(standardize=False)):
        with pytest.raises(
            ValueError, match='in_channels=3 .* 2 columns: set in_channels=2'
        ):
            module.set_input_statistics(torch.zeros(2), torch.ones(2))
