# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from mmpretrain.structures import DataSample
from tabular_runs import StandInRows, tabular_config

from mmgeom.apis.models import get_model, list_models
from mmgeom.apis.regression_inferencer import RegressionInferencer
from mmgeom.registry import MODELS

TEXT = 'size,sex,age\n' + ''.join(
    f'{i / 4},{"FIM"[i % 3]},{20 + 3 * (i % 3) + i}\n' for i in range(24)
)
PIPELINE = [
    dict(type='mmgeom.LoadImage'),
    dict(type='Resize', scale=(8, 8)),
    dict(type='PackInputs'),
]


def tabular(tmp_path_factory, targets):
    folder = tmp_path_factory.mktemp(f'rows{targets}')
    cfg = tabular_config(
        folder,
        {
            'train_dataloader.dataset.num_targets': targets,
            'model.head.num_targets': targets,
        },
    )
    runner = Runner.from_cfg(cfg)
    runner.train()
    return folder, cfg, runner.model.eval()


@pytest.fixture(scope='module', params=[1, 2])
def trained(request, tmp_path_factory):
    from isolation import isolated

    with isolated():
        return tabular(tmp_path_factory, request.param)


def expected(model, rows):
    with torch.no_grad():
        rows = torch.as_tensor(np.asarray(rows), dtype=torch.float32)
        scale = model.data_preprocessor.input_scale
        return model(scale(rows.reshape(-1, 3))).tolist()


def image_config(**dataset):
    return Config(
        dict(
            default_scope='mmpretrain',
            model=dict(
                type='mmgeom.ImageRegressor',
                backbone=dict(
                    type='mmgeom.CIFARResNet', depth=8, base_channels=4
                ),
                neck=dict(type='GlobalAveragePooling'),
                head=dict(
                    type='mmgeom.RegressorHead',
                    in_channels=16,
                    init_cfg=dict(type='Normal', layer='Linear', std=1.0),
                ),
            ),
            data_preprocessor=dict(
                mean=[127.5] * 3, std=[127.5] * 3, to_rgb=True
            ),
            test_dataloader=dict(
                dataset=dict(
                    type='CustomDataset', pipeline=PIPELINE, **dataset
                )
            ),
        )
    )


def image_model(**dataset):
    model = get_model(image_config(**dataset))
    model.head.set_target_statistics(torch.tensor([40.0]), torch.tensor([9.0]))
    return model


def image(seed=0, shape=(10, 12, 3)):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


# Rows ------------------------------------------------------------------------
def test_from_a_config_and_a_checkpoint(trained):
    folder, cfg, model = trained
    path = folder / 'model.py'
    cfg.dump(path)
    checkpoint = str(folder / 'epoch_2.pth')
    rows = StandInRows(7).table
    for source in (str(path), cfg):
        predict = RegressionInferencer(source, checkpoint)
        assert predict.is_tabular
        results = predict(rows, batch_size=3)
        values = [result['pred_score'] for result in results]
        np.testing.assert_allclose(values, expected(model, rows), rtol=1e-6)
    loaded = get_model(cfg)
    predict = RegressionInferencer(loaded, checkpoint)
    np.testing.assert_allclose(predict(rows)[0]['pred_score'], values[0])


def test_results(trained):
    _, _, model = trained
    predict = RegressionInferencer(model)
    row = StandInRows(1).table[0]
    result = predict(row)[0]
    assert isinstance(result['pred_score'], list)
    if model.head.num_targets == 1:
        assert result['pred_value'] == result['pred_score'][0]
        assert isinstance(result['pred_value'], float)
    else:
        assert set(result) == {'pred_score'}
    (sample,) = predict(row, return_datasamples=True)
    assert isinstance(sample, DataSample)
    assert sample.pred_score.tolist() == result['pred_score']
    # In original units, unlike the output of the layer.
    assert 20 < result['pred_score'][0] < 80


@pytest.mark.parametrize(
    'given',
    [
        lambda rows: rows,
        lambda rows: rows.tolist(),
        lambda rows: list(rows),
        lambda rows: tuple(rows.astype(np.float32)),
        lambda rows: torch.from_numpy(rows),
        lambda rows: list(torch.from_numpy(rows)),
        lambda rows: [rows[0].tolist(), rows[1], torch.from_numpy(rows[2])],
    ],
)
@pytest.mark.parametrize('batch_size', [1, 2, 10])
def test_forms_of_inputs(trained, given, batch_size):
    predict = RegressionInferencer(trained[2])
    rows = StandInRows(3).table
    results = predict(given(rows), batch_size=batch_size)
    values = [result['pred_score'] for result in results]
    np.testing.assert_allclose(values, expected(trained[2], rows), rtol=1e-6)


def test_one_row(trained):
    predict = RegressionInferencer(trained[2])
    row = StandInRows(1).table[0]
    for given in (row, row.tolist(), torch.from_numpy(row)):
        assert len(predict(given)) == 1


@pytest.mark.parametrize(
    'inputs, message',
    [
        (np.zeros((1, 2, 3)), r'shape \(d,\) or \(N, d\), got \(1, 2, 3\)'),
        ([[1.0, 2.0, 3.0], [1.0]], 'no table of numbers'),
        ('rows.csv', 'no table of numbers'),
        (np.zeros((2, 4)), r'shape \(4,\) .* in_channels=3'),
        ([0.0, float('nan'), 1.0], 'position 0 of the batch holds nan'),
    ],
)
def test_wrong_rows(trained, inputs, message):
    predict = RegressionInferencer(trained[2])
    with pytest.raises(ValueError, match=message):
        predict(inputs)


def test_unknown_arguments(trained):
    with pytest.raises(ValueError, match='unknown argument'):
        RegressionInferencer(trained[2])(np.zeros(3), show=True)


# Images ----------------------------------------------------------------------
def test_images(tmp_path):
    model = image_model()
    predict = RegressionInferencer(model)
    assert not predict.is_tabular
    one, two = image(0), image(1, (20, 9, 3))
    cv2.imwrite(str(tmp_path / 'two.png'), two)
    results = predict([one, str(tmp_path / 'two.png')], batch_size=2)
    for source, result in zip((one, two), results):
        small = cv2.resize(source, (8, 8))
        rgb = torch.from_numpy(small[..., ::-1].copy()).permute(2, 0, 1)
        with torch.no_grad():
            value = model((rgb[None].float() - 127.5) / 127.5).item()
        np.testing.assert_allclose(result['pred_value'], value, rtol=1e-5)
    assert results[0]['pred_value'] != results[1]['pred_value']
    assert predict(str(tmp_path))[0] == results[1]  # A folder.
    assert predict(one)[0]['pred_value'] == pytest.approx(
        results[0]['pred_value']
    )


def test_pipeline_of_a_wrapped_dataset():
    cfg = image_config()
    inner = cfg.test_dataloader.dataset
    cfg.test_dataloader.dataset = dict(type='RepeatDataset', dataset=inner)
    wrapped, plain = get_model(cfg), image_model()
    wrapped.load_state_dict(plain.state_dict())
    assert RegressionInferencer(wrapped)(image()) == (
        RegressionInferencer(plain)(image())
    )


def test_image_that_cannot_be_read(tmp_path):
    predict = RegressionInferencer(image_model())
    (tmp_path / 'a.png').write_text('no image')
    with pytest.raises(ValueError, match="the image '.*a.png' cannot be read"):
        predict(str(tmp_path / 'a.png'))
    with pytest.raises(FileNotFoundError, match='missing.png'):
        predict(str(tmp_path / 'missing.png'))


def test_model_without_a_config():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(image_config().model)
    model.head.set_target_statistics(torch.tensor([40.0]), torch.tensor([9.0]))
    with pytest.raises(ValueError, match=r'no config with test_dataloader'):
        RegressionInferencer(model)


# Rows as in the file ---------------------------------------------------------
@pytest.fixture(scope='module')
def named(tmp_path_factory):
    """Config, checkpoint and dataset of a file with a categorical column."""
    from isolation import isolated

    folder = tmp_path_factory.mktemp('named')
    (folder / 'rows.csv').write_text(TEXT)
    rows = dict(
        _delete_=True,
        type='mmgeom.TabularDataset',
        ann_file=str(folder / 'rows.csv'),
        categorical=['sex'],
    )
    with isolated():
        cfg = tabular_config(
            folder,
            {
                'train_dataloader.dataset': rows,
                'data_preprocessor.in_channels': 4,
                'model.backbone.in_channels': 4,
            },
        )
        runner = Runner.from_cfg(cfg)
        runner.train()
    dataset = runner.train_dataloader.dataset
    return cfg, str(folder / 'epoch_2.pth'), dataset


def test_rows_as_in_the_file(named):
    cfg, checkpoint, dataset = named
    predict = RegressionInferencer(cfg, checkpoint)
    assert predict.encoder.columns == ['size', 'sex']
    expected = predict(dataset.get_inputs())
    lines = [line.split(',') for line in TEXT.splitlines()]
    dicts = [dict(zip(lines[0], line)) for line in lines[1:]]
    lists = [[float(line[0]), line[1]] for line in lines[1:]]
    assert predict(dicts, batch_size=5) == expected
    assert predict(lists, batch_size=5) == expected
    assert predict(np.array(lists, dtype=object), batch_size=5) == expected
    assert predict(dicts[4]) == predict(lists[4]) == [expected[4]]
    assert len({result['pred_value'] for result in expected}) == 24
    # The same from a model that is built.
    loaded = get_model(cfg, checkpoint)
    assert RegressionInferencer(loaded)(dicts[4]) == [expected[4]]


@pytest.mark.parametrize(
    ('rows', 'message'),
    [
        ([[1.0, 'X']], "row 0, column 'sex' holds 'X'"),
        ([[1.0, 'F'], [1.0]], "row 1 has 1 values.*'size', 'sex'"),
        (dict(size=1.0), r"no value of \['sex'\]"),
        ('rows.csv', "'rows.csv' is no row"),
        ([[float('nan'), 'F']], 'position 0 of the batch holds nan'),
    ],
)
def test_bad_rows_as_in_the_file(named, rows, message):
    predict = RegressionInferencer(*named[:2])
    with pytest.raises(ValueError, match=message):
        predict(rows)


def test_names_without_a_checkpoint_that_tells_them(trained):
    predict = RegressionInferencer(trained[2])
    with pytest.raises(ValueError, match='from a checkpoint of mmgeom.Tabul'):
        predict(dict(size=1.0, sex='F'))


# Weights that cannot be used -------------------------------------------------
@pytest.mark.parametrize('pretrained', [False, True])
def test_a_model_that_is_not_trained(trained, pretrained):
    with pytest.raises(ValueError, match='not trained.*give pretrained='):
        RegressionInferencer(trained[1], pretrained)
    with pytest.raises(ValueError, match='input_scale has no statistics'):
        RegressionInferencer(get_model(trained[1]), pretrained)


def test_weights_of_the_config(trained):
    folder, cfg, model = trained
    cfg = Config(cfg.to_dict())
    cfg.load_from = str(folder / 'epoch_2.pth')
    row = StandInRows(1).table[0]
    values = RegressionInferencer(cfg)(row)[0]['pred_score']
    np.testing.assert_allclose([values], expected(model, row), rtol=1e-6)


def test_a_model_without_statistics_may_be_random(trained):
    cfg = Config(trained[1].to_dict())
    cfg.model.head.scale_targets = False
    cfg.data_preprocessor.standardize = False
    with pytest.raises(ValueError, match='neither its name nor load_from'):
        RegressionInferencer(cfg)
    assert len(RegressionInferencer(cfg, pretrained=False)(np.zeros(3))) == 1


def test_checkpoint_of_another_model(trained, named, load, tmp_path):
    checkpoint = str(trained[0] / 'epoch_2.pth')
    with pytest.raises(
        ValueError, match=r"epoch_2.pth' does not belong .*\(3,\) instead of"
    ):
        RegressionInferencer(named[0], checkpoint)
    with pytest.raises(ValueError, match='does not belong .*re missing'):
        RegressionInferencer(get_model(image_config()), checkpoint)
    state = load(checkpoint)['state_dict']
    del state['head.fc.bias']
    torch.save(dict(state_dict=state), tmp_path / 'part.pth')
    with pytest.raises(ValueError, match='first: head.fc.bias is missing'):
        RegressionInferencer(trained[1], str(tmp_path / 'part.pth'))
    with pytest.raises(FileNotFoundError):
        RegressionInferencer(trained[1], 'missing.pth')


def test_a_classifier_is_refused_first():
    name = 'logit-adjustment_resnet32_1xb128-200e_cifar10-lt-if100'
    with pytest.raises(TypeError, match='ImageClassifier, not a regressor'):
        RegressionInferencer(name, 'missing.pth')
    with pytest.raises(TypeError, match='not a regressor'):
        RegressionInferencer(get_model(name))


def test_names():
    with pytest.raises(ValueError, match='Failed to find model "nothing"'):
        RegressionInferencer('nothing')
    names = RegressionInferencer.list_models()
    assert names == sorted(names)
    expected = [
        name for name in list_models() if name.startswith(('srl', 'vanilla'))
    ]
    assert len(expected) >= 25
    assert names == expected
    assert RegressionInferencer.list_models('*diabetes*') == [
        'srl_mlp_1xb16-60e_diabetes-dir',
        'vanilla_mlp_1xb16-60e_diabetes-dir',
    ]
