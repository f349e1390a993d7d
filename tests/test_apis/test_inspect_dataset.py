# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.registry import DATASETS, DefaultScope

from mmgeom.apis.inspect_dataset import (
    format_inspection,
    inspect_dataset,
    one_sentence,
)

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / 'tools' / 'inspect_dataset.py'


class FloatTargets(BaseDataset):
    """Regression labels and nothing else."""

    def __init__(self, values):
        self.values = values
        super().__init__()

    def load_data_list(self):
        return [dict(gt_score=[value]) for value in self.values]


@pytest.fixture
def dataset(tmp_path):
    """A dataset config with the given number of samples of each class."""

    def build(counts, names=None, name=None):
        if isinstance(counts, list):
            counts = dict(enumerate(counts))
        labels = [k for k, n in counts.items() for _ in range(n)]
        number = len(list(tmp_path.glob('*.txt')))
        path = tmp_path / f'{number}.txt'
        path.write_text('\n'.join(f'x.png {label}' for label in labels))
        cfg = dict(
            type='CustomDataset',
            data_prefix=str(tmp_path),
            ann_file=str(path),
            pipeline=[],
        )
        if names is not None:
            cfg['metainfo'] = dict(classes=[f'class{i}' for i in range(names)])
        return cfg

    return build


def config(train, val=None, test=None, **kwargs):
    cfg = dict(
        default_scope='mmpretrain', train_dataloader=dict(dataset=train)
    )
    for split, data in (('val', val), ('test', test)):
        if data is not None:
            cfg[f'{split}_dataloader'] = dict(dataset=data)
    return Config({**cfg, **kwargs})


def model(num_classes):
    # A type nobody knows: the model must not be built.
    return dict(type='Nothing', head=dict(num_classes=num_classes))


def test_clean(dataset):
    cfg = config(
        dataset([40, 20, 2], names=3),
        val=dataset([5, 5, 5], names=3),
        test=dataset([6, 6, 6], names=3),
        model=model(3),
        data_preprocessor=dict(num_classes=3),
    )
    found = inspect_dataset(cfg)
    assert found.distribution.counts.tolist() == [40, 20, 2]
    assert found.distribution.class_names[2] == 'class2'
    assert found.test_counts == {'val': [5, 5, 5], 'test': [6, 6, 6]}
    assert found.warnings == []
    assert found.notes == []
    text = format_inspection(found)
    assert 'imbalance factor 20' in text
    assert '2 class2' in text
    assert 'warning' not in text


def test_same_data_for_val_and_test_are_read_once(dataset):
    data = dataset([5, 5])
    found = inspect_dataset(config(dataset([9, 3]), data, data))
    assert found.test_counts == {'test': [5, 5]}


def test_scope_is_left_as_it_was(dataset):
    before = DefaultScope.get_current_instance()
    inspect_dataset(config(dataset([9, 3])))
    after = DefaultScope.get_current_instance()
    assert getattr(before, 'scope_name', None) == getattr(
        after, 'scope_name', None
    )


@pytest.mark.parametrize(
    'counts, match',
    [
        ([9, 0, 0, 3], '2 of 4 classes have no training sample, namely 1, 2'),
        ([9, 1, 3, 3], '1 of 4 classes have a single training sample'),
        ([3, 3, 3, 3], 'balanced (imbalance factor 1)'),
        ({0: 5, 3: 2, 2: 3, 1: 2, 4: 7}, '7 training labels lie outside'),
        ({0: 5, 3: 2, 2: 3, 1: 2, -1: 1}, '1 training labels lie outside'),
    ],
)
def test_training_warnings(counts, match, dataset):
    found = inspect_dataset(config(dataset(counts, names=4)))
    assert len(found.warnings) == 1
    assert match in found.warnings[0]
    assert f'warning: {found.warnings[0]}' in format_inspection(found)


@pytest.mark.parametrize(
    'counts, match',
    [
        ([9, 9, 3], 'test data is long-tailed too (imbalance factor 3)'),
        ([5, 0, 5], '1 of 3 classes have no test sample, namely 1'),
        ({0: 5, 1: 5, 2: 5, 9: 1}, '1 test labels lie outside [0, 3)'),
    ],
)
def test_test_warnings(counts, match, dataset):
    found = inspect_dataset(
        config(dataset([9, 5, 3], names=3), test=dataset(counts))
    )
    assert len(found.warnings) == 1
    assert match in found.warnings[0]


def test_test_imbalance_of_two_is_tolerated(dataset):
    cfg = config(dataset([9, 5]), test=dataset([10, 5]))
    assert inspect_dataset(cfg).warnings == []


@pytest.mark.parametrize(
    'names, kwargs, match',
    [
        (3, dict(model=model(5)), 'model.head.num_classes=5 but'),
        (
            3,
            dict(data_preprocessor=dict(num_classes=2)),
            'data_preprocessor.num_classes=2 but',
        ),
        (
            3,
            dict(model=dict(data_preprocessor=dict(num_classes=2))),
            'model.data_preprocessor.num_classes=2 but',
        ),
        (
            3,
            dict(model=dict(head=dict(heads=[dict(num_classes=4)]))),
            'model.head.heads.0.num_classes=4 but',
        ),
    ],
)
def test_disagreement_with_the_model(names, kwargs, match, dataset):
    found = inspect_dataset(config(dataset([9, 5, 3], names), **kwargs))
    assert len(found.warnings) == 1
    assert match in found.warnings[0]
    assert len(found.distribution) == 3


def test_undeclared_classes_are_those_of_the_head(dataset):
    fewer = inspect_dataset(config(dataset([9, 5, 3]), model=model(2)))
    assert fewer.distribution.counts.tolist() == [9, 5]
    assert '3 training labels lie outside [0, 2)' in fewer.warnings[0]
    more = inspect_dataset(config(dataset([9, 5, 3]), model=model(4)))
    assert len(more.distribution) == 4
    assert any('counts 3 classes and not 4' in text for text in more.warnings)


def test_missing_test_data_is_a_note(dataset):
    missing = dict(type='CustomDataset', ann_file='nowhere.txt', pipeline=[])
    found = inspect_dataset(config(dataset([9, 5]), test=missing))
    assert found.test_counts == {}
    assert len(found.notes) == 1
    assert 'test data could not be read' in found.notes[0]
    assert 'nowhere.txt' in found.notes[0]


def test_groups_of_the_hook(dataset):
    groups = dict(by='count', many=8, few=4)
    hook = dict(type='mmgeom.LabelDistributionHook', groups=groups)
    train = dataset([9, 5, 3])
    for kwargs in (
        dict(default_hooks=dict(a=dict(type='B'), labels=hook)),
        dict(custom_hooks=[dict(type='B'), hook]),
        dict(val_evaluator=dict(type='Accuracy', groups=groups)),
        dict(test_evaluator=[dict(), dict(groups=groups)]),
    ):
        found = inspect_dataset(config(train, **kwargs))
        assert found.groups == groups
        assert 'many' in format_inspection(found)
    wrong = dict(type='mmgeom.LabelDistributionHook', groups=dict(by='half'))
    with pytest.raises(ValueError, match="'half' is unknown"):
        inspect_dataset(config(train, custom_hooks=[wrong]))


@pytest.fixture
def regression(monkeypatch):
    """Inspect regression data given by their labels."""
    monkeypatch.setitem(DATASETS.module_dict, 'FloatTargets', FloatTargets)

    def inspect(train, test=None, bins=dict(width=1.0), **kwargs):
        data = [
            None
            if values is None
            else dict(type='FloatTargets', values=values)
            for values in (train, test)
        ]
        hook = dict(type='LabelDistributionHook', bins=bins)
        return inspect_dataset(
            config(data[0], test=data[1], custom_hooks=[hook], **kwargs)
        )

    return inspect


def test_bins_of_the_hook(regression):
    found = regression([1.0, 1.2, 3.0], [1.0, 9.0, 3.0, float('nan')])
    assert found.distribution.bins.centers.tolist() == [1, 2, 3]
    assert found.distribution.counts.tolist() == [2, 0, 1]
    assert found.test_counts == {'test': [1, 0, 2]}
    assert found.notes == ['1 of 3 label bins have no training sample.']
    assert '1 test targets are not finite' in found.warnings[0]
    assert '1 test targets lie outside the bins' in found.warnings[1]
    assert len(found.warnings) == 2


def test_report_on_bins(regression):
    found = regression([0.0, 1.0, 1.0, 2.0], [2.0, 2.0])
    expected = dict(smallest=0, median=1, mean=1, largest=2)
    expected['standard deviation'] = 0.5**0.5
    assert found.statistics['training'] == pytest.approx(expected)
    assert found.statistics['test']['standard deviation'] == 0
    rows = [line.split() for line in format_inspection(found).splitlines()]
    assert ['1.5', 'to', '2.5', '1', 'few', '1', '2'] in rows
    assert ['training', '0', '1', '1', '2', '0.7071'] in rows
    assert ['test', '2', '2', '2', '2', '0'] in rows


def test_test_labels_that_are_all_unknown(regression):
    found = regression([0.0, 1.0, 1.0], [float('nan')])
    assert found.statistics['test'] == {}
    assert found.test_counts == {'test': [0, 0]}
    assert '1 test targets are not finite' in format_inspection(found)


@pytest.mark.parametrize(
    'values, bins, match',
    [
        ([1.0, 1.2], dict(width=1.0), 'all 2 training labels lie in one bin'),
        ([1.0, 1.2, 3.0], dict(unique=True), 'none of the 3 bins'),
        ([1.0, 1.2, 5, 5], dict(width=1.0), 'as many (imbalance factor 1)'),
    ],
)
def test_bins_that_do_not_suit(values, bins, match, regression):
    found = regression(values, bins=bins)
    assert len(found.warnings) == 1
    assert match in found.warnings[0]


def test_shot_groups_that_would_be_empty(regression):
    metric = dict(type='mmgeom.ShotError')
    train = [0.0] * 21 + [1.0]
    found = regression(train, [0.0], val_evaluator=metric)
    assert found.grouped
    assert len(found.warnings) == 2
    assert 'no label bin is in the shot groups many,' in found.warnings[0]
    assert 'no test sample is in the shot groups few,' in found.warnings[1]
    given = dict(by='given', groups=dict(low=[0], high=[1]))
    metric = dict(type='mmgeom.ShotError', groups=given)
    found = regression(train, [0.0, 1.0], val_evaluator=[metric])
    assert found.groups == given
    assert found.warnings == []
    found = regression(train, [0.0], val_evaluator=dict(type='MAE'))
    assert not found.grouped
    assert found.warnings == []


def test_groups_by_another_number(regression):
    metric = dict(
        type='mmgeom.ShotError', group_by='y', intervals=dict(a=[[0, 1]])
    )
    found = regression(
        [0.0, 0.0, 1.0], [0.0], val_evaluator=metric, test_evaluator=metric
    )
    assert found.warnings == []
    assert found.notes == [
        "a ShotError groups test samples by their 'y' and not by label bins."
    ]


def test_no_usable_training_data(dataset, tmp_path):
    with pytest.raises(ValueError, match='no train_dataloader'):
        inspect_dataset(Config(dict(model=dict())))
    with pytest.raises(ValueError, match=r'none of the 4 training labels'):
        inspect_dataset(config(dataset({7: 4}, names=3)))
    with pytest.raises(FileNotFoundError):
        inspect_dataset(
            config(dict(type='CustomDataset', ann_file='a.txt', pipeline=[]))
        )


def test_one_sentence():
    assert one_sentence(KeyError('a is\n  not there')) == 'a is not there'
    assert one_sentence(ValueError()) == 'ValueError'


def run(*arguments, cwd):
    environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
    )


def test_script(dataset, tmp_path):
    path = tmp_path / 'birds.py'
    config(dataset([9, 5, 0], names=3), dataset([5, 5, 5])).dump(path)
    result = run(path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert 'warning: 1 of 3 classes have no training' in result.stdout
    picture = tmp_path / 'work_dirs' / 'birds' / 'label_distribution.png'
    assert picture.read_bytes().startswith(b'\x89PNG')
    out = tmp_path / 'new' / 'figure.pdf'
    changed = 'train_dataloader.dataset.ann_file=nowhere.txt'
    result = run(path, '--out', out, '--cfg-options', changed, cwd=tmp_path)
    assert result.returncode == 1
    assert result.stderr.startswith('error: cannot read the training data: ')
    assert 'nowhere.txt' in result.stderr
    assert 'Traceback' not in result.stderr
    assert not out.exists()


def test_several_targets_have_no_distribution():
    dataset = dict(type='mmgeom.TabularDataset', source='sklearn:linnerud')
    cfg = Config(
        dict(
            default_scope='mmpretrain',
            train_dataloader=dict(dataset=dataset),
        )
    )
    with pytest.raises(ValueError, match='several targets a sample, of which'):
        inspect_dataset(cfg)
