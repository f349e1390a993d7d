# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Samples held as tensors behave as a list of the host's samples."""

import pickle

import pytest
import torch
from mmengine.dataset import default_collate, pseudo_collate
from mmengine.model import BaseDataPreprocessor
from mmpretrain.models.heads import ClsHead
from mmpretrain.structures import DataSample
from torch.utils.data._utils.pin_memory import pin_memory

from mmgeom.structures import (
    BatchSamples,
    CollatedBatch,
    batch_target,
    field_names,
    stacked_labels,
    stacked_scores,
)

LABELS = torch.tensor([3, 0, 2, 1])
SCORES = torch.arange(8.0).reshape(4, 2)


def make(**fields):
    fields = fields or dict(gt_label=LABELS, gt_score=SCORES)
    return BatchSamples(
        fields,
        dict(img_shape=(8, 8)),
        dict(sample_idx=[5, 6, 7, 8], img_path=['a', 'b', 'c', 'd']),
    )


def test_items_are_those_of_the_host():
    samples = make()
    assert len(samples) == 4
    assert field_names(samples) == ['gt_label', 'gt_score']
    for index, sample in enumerate(samples):
        assert isinstance(sample, DataSample)
        assert sample.gt_label.tolist() == [LABELS[index]]
        assert torch.equal(sample.gt_score, SCORES[index])
        assert sample.img_shape == (8, 8)
        assert sample.sample_idx == 5 + index
        assert sample.img_path == 'abcd'[index]
    assert samples[-1].sample_idx == 8
    with pytest.raises(IndexError):
        samples[4]
    assert set(samples.keys()) == {'gt_label', 'gt_score'}


def test_tensors_are_handed_over_without_samples():
    samples = make()
    assert samples.stacked('gt_label') is LABELS
    assert stacked_scores(samples) is SCORES
    assert batch_target(samples) is SCORES
    assert batch_target(make(gt_label=LABELS)) is LABELS


def test_what_the_host_writes_into_a_sample_stays():
    samples = make()
    samples[1].set_gt_label(9)
    for sample in samples:
        sample.set_pred_score(torch.ones(2))
    assert stacked_labels(samples).tolist() == [3, 9, 2, 1]
    assert all('pred_score' in sample for sample in samples)
    assert set(field_names(samples)) == {'gt_label', 'gt_score', 'pred_score'}


@pytest.mark.parametrize('peek', [False, True])
def test_slices(peek):
    samples = make()
    if peek:
        samples[2].set_gt_label(9)
    part = samples[1:3]
    assert part[1].sample_idx == 7
    assert stacked_labels(part).tolist() == [0, 9 if peek else 2]
    if peek:
        assert part[1] is samples[2]


@pytest.mark.parametrize('peek', [False, True])
def test_replaced_as_the_host_sets_scores(peek):
    host = [
        DataSample().set_gt_label(i).set_gt_score(s)
        for i, s in zip(LABELS, torch.eye(4))
    ]
    samples = make(gt_label=LABELS)
    if peek:
        samples[0]
    samples = samples.replaced(gt_score=torch.eye(4))
    for ours, theirs in zip(samples, host):
        assert torch.equal(ours.gt_score, theirs.gt_score)
        assert ours.num_classes == theirs.num_classes == 4
        assert ours.img_shape == (8, 8)
    assert torch.equal(stacked_scores(samples), torch.eye(4))


@pytest.mark.parametrize('peek', [False, True])
@pytest.mark.parametrize(
    'through', [lambda x: pickle.loads(pickle.dumps(x)), lambda x: x.to('cpu')]
)
def test_copies(peek, through):
    samples = make()
    if peek:
        samples[2].set_gt_label(9)
    copy = through(samples)
    assert stacked_labels(copy).tolist() == [3, 0, 9 if peek else 2, 1]
    assert copy[3].img_path == 'd'
    assert copy.metainfo == dict(img_shape=(8, 8))


def test_moves_to_a_device():
    moved = make().to('meta')
    assert moved.stacked('gt_label').device.type == 'meta'
    assert moved[0].gt_score.device.type == 'meta'


def test_host_copies_sequences_sample_by_sample():
    moved = BaseDataPreprocessor().cast_data(make())
    assert isinstance(moved, BatchSamples)
    assert torch.equal(stacked_labels(moved), LABELS)


def test_loss_of_a_host_head():
    head = ClsHead(loss=torch.nn.Identity())
    head.loss_module.forward = lambda score, target, avg_factor: target
    samples = make(gt_label=LABELS)
    found = head._get_loss(torch.zeros(4, 4), samples)['loss']
    assert torch.equal(found, LABELS)
    found = head._get_loss(torch.zeros(4, 4), make())['loss']
    assert torch.equal(found, SCORES)


def test_lists_of_samples():
    host = [DataSample().set_gt_label(i) for i in LABELS]
    assert field_names(host) == ['gt_label']
    assert torch.equal(batch_target(host), LABELS)
    with pytest.raises(AttributeError):
        stacked_scores(host)


def test_missing_field():
    with pytest.raises(AttributeError, match="no 'gt_score', only"):
        stacked_scores(make(gt_label=LABELS))


@pytest.mark.parametrize(
    'fields', [{}, dict(gt_label=LABELS, gt_score=SCORES[1:])]
)
def test_wrong_lengths(fields):
    with pytest.raises(ValueError, match='one entry a sample, got lengths'):
        BatchSamples(fields)


@pytest.mark.parametrize('collate', [default_collate, pseudo_collate])
def test_collate_functions_leave_a_batch(collate):
    samples = make()
    batch = CollatedBatch(inputs=SCORES, data_samples=samples)
    assert collate(batch) is batch
    # No sample was made by that.
    assert samples.stacked('gt_label') is LABELS
    assert set(batch) == {'inputs', 'data_samples'}
    with pytest.raises(KeyError):
        batch['other']


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a GPU')
def test_pinned_by_the_data_loader():
    batch = pin_memory(CollatedBatch(inputs=SCORES, data_samples=make()))
    assert batch['inputs'].is_pinned()
    assert batch['data_samples'].stacked('gt_label').is_pinned()
    on_device = CollatedBatch(inputs=SCORES.cuda())
    assert pin_memory(on_device)['inputs'].is_cuda
