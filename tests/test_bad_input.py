# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Wrong configs and data: one clear sentence before training starts."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

DATASET = 'train_dataloader.dataset'
SELECTION = f'{DATASET}.dataset'
PREFIX = r'^(class `\w+` in [\w/.]+: )*'


@pytest.fixture
def check_fails(tmp_path, train, read_log):
    """Train with changes; returns the sentence it fails with."""

    def run(error, message, options):
        work_dir = tmp_path / 'work'
        with pytest.raises(error) as caught:
            train(work_dir, options)
        text = str(caught.value)
        assert re.search(PREFIX + message + '$', text), text
        assert '\n' not in text
        assert 'Epoch(train)' not in read_log(work_dir)
        assert not list(work_dir.glob('*.pth'))

    return run


def folder_of_images(root: Path, labels: list[int]) -> dict:
    """Settings that train on colour images, listed in a file."""
    lines = []
    for index, label in enumerate(labels):
        image = np.full((8, 8, 3), index, dtype=np.uint8)
        cv2.imwrite(str(root / f'{index}.png'), image)
        lines.append(f'{index}.png {label}\n')
    (root / 'list.txt').write_text(''.join(lines))
    return {
        'model.backbone.in_channels': 3,
        'data_preprocessor.mean': [127.5] * 3,
        'data_preprocessor.std': [127.5] * 3,
        DATASET: dict(
            _delete_=True,
            type='mmgeom.ListFileDataset',
            data_root=str(root),
            ann_file='list.txt',
            num_classes=10,
            pipeline=[
                dict(type='mmgeom.LoadImage'),
                dict(type='PackInputs'),
            ],
        ),
        'train_cfg.val_interval': 5,
        'val_cfg': None,
        'val_dataloader': None,
        'val_evaluator': None,
    }


def test_good_images_train(tmp_path, train):
    """The settings that the tests below spoil are good."""
    train(tmp_path / 'work', folder_of_images(tmp_path, list(range(10))))
    assert (tmp_path / 'work' / 'epoch_2.pth').exists()


@pytest.mark.parametrize('label', [10, -1])
def test_label_outside_in_a_list(tmp_path, check_fails, label):
    options = folder_of_images(tmp_path, [*range(10), label])
    message = (
        rf"'{tmp_path}/list.txt' line 11 has label {label}, outside \[0, "
        r'10\): correct the label or the number of classes\.'
    )
    check_fails(ValueError, message, options)


@pytest.mark.parametrize('label', [12, -1])
def test_label_outside_in_a_host_dataset(tmp_path, check_fails, label):
    """A dataset of mmpretrain does not look at its labels."""
    options = folder_of_images(tmp_path, [*range(10), label])
    dataset = options[DATASET]
    dataset['type'] = 'CustomDataset'
    del dataset['num_classes']
    dataset['metainfo'] = dict(classes=[str(k) for k in range(10)])
    message = rf'label {label} .*\[0, 10\).*\.'
    check_fails(ValueError, message, options)


def test_head_of_other_size(check_fails):
    message = (
        'LinearHead has num_classes=9 but the training data has 10 classes: '
        r'set num_classes of the head .*\.'
    )
    check_fails(ValueError, message, {'model.head.num_classes': 9})


def test_preprocessor_of_other_size(check_fails):
    message = (
        'BatchedDataPreprocessor has num_classes=11 but the training data has '
        r'10 classes: set num_classes of the head and of the data .*\.'
    )
    check_fails(ValueError, message, {'data_preprocessor.num_classes': 11})


def test_head_of_the_host_of_other_size(check_fails):
    head = dict(
        _delete_=True, type='LinearClsHead', num_classes=12, in_channels=16
    )
    message = r'LinearClsHead has num_classes=12 but .* 10 classes: .*\.'
    check_fails(ValueError, message, {'model.head': head})


def test_loss_of_other_size(check_fails):
    message = (
        'the head has num_classes=10 but its loss has num_classes=11: leave '
        r'it out of the loss\.'
    )
    check_fails(ValueError, message, {'model.head.loss.num_classes': 11})


class TestSamples:
    def test_empty_selection(self, check_fails):
        options = {f'{SELECTION}.counts': [0] * 10}
        options[f'{SELECTION}.imbalance_factor'] = None
        message = r'LongTailedDataset keeps no sample at all: raise .*\.'
        check_fails(ValueError, message, options)

    def test_empty_list(self, tmp_path, check_fails):
        options = folder_of_images(tmp_path, [])
        message = (
            rf"'{tmp_path}/list.txt' holds no samples: give a file with .*\."
        )
        check_fails(ValueError, message, options)

    @pytest.mark.parametrize('options', [{}, {f'{SELECTION}.profile': 'step'}])
    def test_class_without_samples(self, check_fails, options):
        options[f'{SELECTION}.imbalance_factor'] = 10000
        message = (
            r'\d of 10 classes have no training sample, among them \[.*9\]: '
            'remove them from the data, or set allow_empty_classes=True of '
            r'LabelDistributionHook\.'
        )
        check_fails(ValueError, message, options)

    def test_imbalance_factor_below_one(self, check_fails):
        message = (
            'imbalance_factor is the largest class .* at least 1, got 0.01; '
            r'a ratio such as 0.01 is written as its inverse, 100\.'
        )
        check_fails(
            ValueError, message, {f'{SELECTION}.imbalance_factor': 0.01}
        )

    def test_unknown_split(self, check_fails):
        options = {f'{SELECTION}.dataset.split': 'valid'}
        message = r"Digits has no split 'valid': choose one of .*\."
        check_fails(ValueError, message, options)


class TestFiles:
    def test_missing_list(self, tmp_path, check_fails):
        options = folder_of_images(tmp_path, list(range(10)))
        options[DATASET]['ann_file'] = 'other.txt'
        message = (
            rf"'{tmp_path}/other.txt' does not exist: correct `data_root` "
            r'and `ann_file`\.'
        )
        check_fails(FileNotFoundError, message, options)

    def test_missing_image(self, tmp_path, check_fails):
        options = folder_of_images(tmp_path, list(range(10)))
        (tmp_path / '4.png').unlink()
        message = rf"Image file '{tmp_path}/4.png' does not exist: .*\."
        check_fails(FileNotFoundError, message, options)

    @pytest.mark.parametrize('content', [b'', b'no image at all'])
    def test_unreadable_image(self, tmp_path, check_fails, content):
        options = folder_of_images(tmp_path, list(range(10)))
        (tmp_path / '4.png').write_bytes(content)
        message = (
            rf"Image file '{tmp_path}/4.png' cannot be read or decoded: .*\."
        )
        check_fails(ValueError, message, options)

    def test_unreadable_image_in_a_worker(self, tmp_path, train):
        """A worker's error has its traceback in the message."""
        options = folder_of_images(tmp_path, list(range(10)))
        options['train_dataloader.num_workers'] = 1
        (tmp_path / '4.png').write_bytes(b'')
        message = rf"Image file '{tmp_path}/4.png' cannot be read or decoded"
        with pytest.raises(ValueError, match=message):
            train(tmp_path / 'work', options)


WIDER = {'model.backbone.base_channels': 8, 'model.head.in_channels': 32}
WRONG = r'the checkpoint does not belong to the model of this config .*\.'


class TestCheckpoints:
    def test_resume(self, trained, check_fails):
        options = {'load_from': str(trained / 'epoch_1.pth'), 'resume': True}
        check_fails(ValueError, WRONG, {**options, **WIDER})

    def test_test(self, tmp_path, trained, evaluate):
        with pytest.raises(ValueError, match=f'^{WRONG}$'):
            evaluate(tmp_path, trained / 'epoch_1.pth', WIDER)

    def test_load_from(self, tmp_path, check_fails):
        torch.save({'state_dict': {'a': torch.ones(1)}}, tmp_path / 'a.pth')
        message = r'load_from names a checkpoint that shares no weight .*\.'
        check_fails(
            ValueError, message, {'load_from': str(tmp_path / 'a.pth')}
        )

    @pytest.mark.parametrize('resume', [True, False])
    def test_missing(self, tmp_path, check_fails, resume):
        path = str(tmp_path / 'nothing.pth')
        message = rf'checkpoint {path} does not exist: check the path\.'
        options = {'load_from': path, 'resume': resume}
        check_fails(FileNotFoundError, message, options)

    def test_no_checkpoint(self, tmp_path, check_fails):
        path = tmp_path / 'text.pth'
        path.write_text('something else')
        message = rf'.*{path} .*\.'
        check_fails(RuntimeError, message, {'load_from': str(path)})


def test_priors_without_hook(check_fails):
    message = (
        'the class priors are not set: keep mmgeom.LabelDistributionHook in '
        r'the config, load a checkpoint trained with it, or call .*\.'
    )
    options = {'default_hooks': dict(_delete_=True)}
    check_fails(RuntimeError, message, options)
