# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmpretrain.structures import DataSample

import mmgeom
from mmgeom.binning import LabelBins
from mmgeom.datasets.image_regression_dataset import ImageRegressionDataset
from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_labels, dataset_values
from mmgeom.registry import DATASETS

LINES = [
    'age,path,split',
    '31,a/x.jpg,train',
    '59,"b/two, words.jpg",val',
    '1.5,a/y.jpg,train',
    '101,a/z.jpg,test',
]


@pytest.fixture
def root(tmp_path):
    """A folder with a list of four images."""
    write(tmp_path, LINES)
    for name in ('a/x', 'b/two, words', 'a/y', 'a/z'):
        path = tmp_path / f'{name}.jpg'
        path.parent.mkdir(exist_ok=True)
        cv2.imwrite(str(path), np.full((40, 50, 3), 100, dtype=np.uint8))
    return tmp_path


def write(root, lines, ending='\n', encoding='utf-8'):
    content = ending.join([*lines, '']).encode(encoding)
    (root / 'list.csv').write_bytes(content)


def build(root, **kwargs):
    return ImageRegressionDataset('list.csv', data_root=str(root), **kwargs)


@pytest.mark.parametrize('serialize_data', [True, False])
@pytest.mark.parametrize(
    ('split', 'ages', 'names'),
    [
        ('train', [31, 1.5], ['a/x.jpg', 'a/y.jpg']),
        ('val', [59], ['b/two, words.jpg']),
        ('test', [101], ['a/z.jpg']),
        (None, [31, 59, 1.5, 101], None),
    ],
)
def test_splits(root, split, ages, names, serialize_data):
    dataset = build(root, split=split, serialize_data=serialize_data)
    for _ in range(2):  # reading changes nothing
        infos = [dataset.get_data_info(i) for i in range(len(dataset))]
        assert [info['gt_score'].tolist() for info in infos] == [
            [age] for age in ages
        ]
    assert infos[0]['gt_score'].dtype == np.float32
    if names is not None:
        paths = [str(root / name) for name in names]
        assert [info['img_path'] for info in infos] == paths
    assert dataset.get_gt_values().dtype == np.float64
    assert dataset.get_gt_values().tolist() == ages
    assert dataset_values(dataset).tolist() == ages
    assert f'Split: \t{split or "all rows"}' in repr(dataset)


@pytest.mark.parametrize('ending', ['\n', '\r\n'])
@pytest.mark.parametrize('encoding', ['utf-8', 'utf-8-sig'])
def test_file_formats(root, ending, encoding):
    write(root, LINES, ending, encoding)
    assert build(root).get_gt_values().tolist() == [31, 59, 1.5, 101]


def test_other_columns(root):
    write(root, ['set,x,weight,file', 'a,9,0.1,a/x.jpg', 'b,9,0.2,a/y.jpg'])
    dataset = build(
        root,
        split='b',
        target_column='weight',
        path_column='file',
        split_column='set',
    )
    assert dataset.get_gt_values().tolist() == [0.2]
    # Without a split the file needs none.
    write(root, ['age,path', '7,a/x.jpg'])
    assert build(root).get_gt_values().tolist() == [7]


def test_registry_and_pipeline(root):
    cfg = Config.fromfile(
        mmgeom.config_path('_base_/datasets/agedb_dir.py')
    ).train_dataloader.dataset
    cfg.update(ann_file='list.csv', data_root=str(root))
    dataset = DATASETS.build(cfg)
    item = dataset[1]
    assert item['inputs'].shape == (3, 224, 224)
    assert item['inputs'].dtype == torch.uint8
    assert isinstance(item['data_samples'], DataSample)
    assert item['data_samples'].gt_score.tolist() == [1.5]
    assert item['data_samples'].gt_score.dtype == torch.float32
    assert item['data_samples'].sample_idx == 1


def test_subset_and_lazy(root):
    dataset = build(root, lazy_init=True)
    assert not dataset._fully_initialized
    assert dataset.get_gt_values().tolist() == [31, 59, 1.5, 101]
    part = dataset.get_subset([3, 1])
    assert part.get_gt_values().tolist() == [101, 59]
    assert build(root, indices=1).get_gt_values().tolist() == [31]


def test_no_classes(root):
    with pytest.raises(
        TypeError, match='for regression targets give the bins'
    ):
        dataset_labels(build(root))


@pytest.mark.parametrize('name', ['agedb_dir', 'imdb_wiki_dir'])
def test_bins_of_configs(root, name):
    cfg = Config.fromfile(mmgeom.config_path(f'_base_/datasets/{name}.py'))
    bins = cfg.default_hooks.label_distribution.bins
    distribution = LabelDistribution.from_dataset(build(root), bins=bins)
    assert isinstance(distribution.bins, LabelBins)
    assert len(distribution) == bins['stop'] + 1
    assert distribution.bins.centers[:3].tolist() == [0, 1, 2]
    assert distribution.counts[[2, 31, 59, 101]].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ('line', 'message'),
    [
        ('nan,a/x.jpg,train', "line 6 has age 'nan', which is not a finite"),
        ('inf,a/x.jpg,train', "line 6 has age 'inf', which is not a finite"),
        (',a/x.jpg,train', "line 6 has age '', which is not a finite"),
        ('old,a/x.jpg,train', "line 6 has age 'old', which is not a finite"),
        ('5,,train', 'line 6 has no path'),
    ],
)
def test_bad_line(root, line, message):
    write(root, [*LINES, line])
    with pytest.raises(ValueError, match=message):
        build(root, split='train')
    # Lines of other splits do not matter.
    assert len(build(root, split='val')) == 1


@pytest.mark.parametrize(
    ('lines', 'message'),
    [
        ([], r"columns \[\], not \['path', 'age', 'split'\]: add a header"),
        (['age,path', '5,a/x.jpg'], r"not \['split'\]"),
        (LINES[:1], 'holds no samples'),
    ],
)
def test_bad_file(root, lines, message):
    write(root, lines)
    with pytest.raises(ValueError, match=message):
        build(root, split='train')


def test_unknown_split(root):
    with pytest.raises(
        ValueError, match="no split 'dev': .* 'test', 'train', 'val'"
    ):
        build(root, split='dev')


def test_missing(root):
    with pytest.raises(FileNotFoundError, match=r'images.* `data_prefix`'):
        build(root, data_prefix='images')
    (root / 'list.csv').unlink()
    with pytest.raises(FileNotFoundError, match=r'list\.csv.*`ann_file`'):
        build(root)
