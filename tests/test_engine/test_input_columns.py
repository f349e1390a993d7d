# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np
import pytest
from mmengine.dataset import RepeatDataset
from mmengine.runner import Runner
from tabular_runs import tabular_config

import mmgeom.datasets  # noqa: F401
from mmgeom.datasets.tabular_dataset import TabularDataset
from mmgeom.engine.hooks.input_columns import (
    InputColumns,
    check_columns,
    dataset_columns,
)
from mmgeom.registry import DATASETS

TEXT = 'a,sex,b,y\n1,F,2,3\n2,M,1,4\n3,M,5,1\n4,F,0,2\n'
FAULTS = [
    # Text, arguments, message.
    (
        'a,sex,b,y\n1,F,2,3\n2,I,1,4\n',
        dict(categorical=['sex']),
        r"other.csv' do not have .*'sex' has the categories \['F', 'I'\] "
        r"instead of \['F', 'M'\]; give every dataset categorical=",
    ),
    (
        'b,sex,a,y\n1,F,2,3\n2,M,1,4\n',
        dict(categorical=['sex']),
        "input 0 is 'b' instead of 'a'",
    ),
    (
        'a,sex,c,y\n1,F,2,3\n2,M,1,4\n',
        dict(categorical=['sex']),
        "input 3 is 'c' instead of 'b'",
    ),
    (
        'a,sex,y\n1,F,3\n2,M,4\n',
        dict(categorical=['sex']),
        "input 3, 'b', is missing",
    ),
    (
        'a,sex,b,c,y\n1,F,3,5,5\n2,M,4,5,5\n',
        dict(categorical=['sex']),
        "input 4, 'c', is additional",
    ),
    ('a,sex,b,y\n1,1,2,3\n2,0,1,4\n', {}, "input 1 is 'sex' instead of 'sex="),
]


def rows(folder, name, text, **kwargs):
    (folder / name).write_text(text)
    return dict(
        type='mmgeom.TabularDataset', ann_file=str(folder / name), **kwargs
    )


@pytest.fixture
def train_set(tmp_path):
    return rows(tmp_path, 'train.csv', TEXT, categorical=['sex'])


def loader(dataset):
    return dict(
        dataset=dataset,
        sampler=dict(type='DefaultSampler', shuffle=False),
        batch_size=2,
        num_workers=0,
        collate_fn=dict(type='default_collate'),
    )


def config(folder, train_set, **parts):
    """A run of one epoch; ``parts`` are datasets of val and test."""
    cfg = tabular_config(
        folder / 'run',
        {
            'train_dataloader.dataset': dict(train_set, _delete_=True),
            'data_preprocessor.in_channels': 4,
            'model.backbone.in_channels': 4,
            'train_cfg.max_epochs': 1,
        },
    )
    for mode, dataset in parts.items():
        cfg[f'{mode}_dataloader'] = loader(dataset)
        cfg[f'{mode}_cfg'] = {}
        cfg[f'{mode}_evaluator'] = dict(
            type='DumpResults', out_file_path=str(folder / f'{mode}.pkl')
        )
    return cfg


def evaluating_runner(cfg, checkpoint):
    for key in list(cfg):
        if key.startswith(('train_', 'optim_')):
            cfg.pop(key)
    cfg.load_from = checkpoint
    return Runner.from_cfg(cfg)


@pytest.mark.parametrize(('text', 'options', 'message'), FAULTS)
def test_other_columns(tmp_path, train_set, text, options, message):
    other = rows(tmp_path, 'other.csv', text, **options)
    trained = dataset_columns(DATASETS.build(train_set))[0]
    with pytest.raises(ValueError, match=message):
        check_columns(DATASETS.build(other), 'val', trained)


def test_validation_data_before_an_epoch_is_trained(tmp_path, train_set):
    other = rows(tmp_path, 'other.csv', *FAULTS[1][:1], categorical=['sex'])
    runner = Runner.from_cfg(config(tmp_path, train_set, val=other))
    with pytest.raises(ValueError, match='the val data .*other.csv'):
        runner.train()
    assert runner.iter == 0


def test_a_test_after_the_training(tmp_path, train_set):
    other = rows(tmp_path, 'other.csv', *FAULTS[0][:1], categorical=['sex'])
    runner = Runner.from_cfg(
        config(tmp_path, train_set, val=train_set, test=other)
    )
    runner.train()
    with pytest.raises(ValueError, match="the test data .*'F', 'I'"):
        runner.test()


def test_from_a_checkpoint(tmp_path, train_set):
    Runner.from_cfg(config(tmp_path, train_set)).train()
    checkpoint = str(tmp_path / 'run' / 'epoch_1.pth')
    cfg = config(tmp_path, train_set, test=train_set)
    evaluating_runner(cfg, checkpoint).test()
    assert (tmp_path / 'test.pkl').is_file()
    text, _, message = FAULTS[0]
    other = rows(tmp_path, 'other.csv', text, categorical=['sex'])
    for mode in ('val', 'test'):
        runner = evaluating_runner(
            config(tmp_path, train_set, **{mode: other}), checkpoint
        )
        with pytest.raises(ValueError, match=message):
            getattr(runner, mode)()
    # A resumed run is not to go on with other columns, a new one may.
    cfg = config(tmp_path, other)
    cfg.load_from, cfg.resume = checkpoint, True
    with pytest.raises(ValueError, match='the train data .*other.csv'):
        Runner.from_cfg(cfg).train()
    cfg = config(tmp_path, other)
    cfg.load_from = checkpoint
    Runner.from_cfg(cfg).train()


def test_stated_categories_agree(tmp_path, train_set):
    stated = dict(sex=['M', 'F', 'I'])
    parts = [
        TabularDataset(
            rows(tmp_path, name, text)['ann_file'], categorical=stated
        )
        for name, text in (('a.csv', TEXT), ('b.csv', FAULTS[0][0]))
    ]
    check_columns(parts[1], 'val', dataset_columns(parts[0])[0])


def test_wrappers(tmp_path, train_set):
    other = rows(tmp_path, 'other.csv', *FAULTS[1][:1], categorical=['sex'])
    twice = RepeatDataset(DATASETS.build(other), times=2)
    trained = dataset_columns(DATASETS.build(train_set))[0]
    assert trained.names == ['a', 'sex=F', 'sex=M', 'b']
    assert trained.categories == dict(sex=['F', 'M'])
    with pytest.raises(ValueError, match="is 'b' instead of 'a'"):
        check_columns(twice, 'val', trained)
    part = dict(
        type='mmgeom.ImbalancedRegressionDataset',
        dataset=train_set,
        bins=dict(edges=[0, 2.5, 5]),
        test_per_bin=1,
        split='train',
    )
    (found,) = dataset_columns(DATASETS.build(part))
    assert found == trained


def test_data_without_names(tmp_path, train_set):
    assert InputColumns.from_metainfo(None) is None
    assert InputColumns.from_metainfo(dict(classes=['a'])) is None
    trained = dataset_columns(DATASETS.build(train_set))[0]
    for data in ([1, 2], np.ones((3, 2))):
        assert dataset_columns(data) == []
        check_columns(data, 'val', trained)
