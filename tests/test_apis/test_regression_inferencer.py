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

from mmgeom.apis.models import get_model
from mmgeom.apis.regression_inferencer import RegressionInferencer
from mmgeom.registry import MODELS

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
    model = get_model(image_config())
    model.head.set_target_statistics(torch.tensor([40.0]), torch.tensor([9.0]))
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
    wrapped, plain = get_model(cfg), get_model(image_config())
    wrapped.load_state_dict(plain.state_dict())
    assert RegressionInferencer(wrapped)(image()) == (
        RegressionInferencer(plain)(image())
    )


def test_image_that_cannot_be_read(tmp_path):
    predict = RegressionInferencer(get_model(image_config()))
    (tmp_path / 'a.png').write_text('no image')
    with pytest.raises(ValueError, match="the image '.*a.png' cannot be read"):
        predict(str(tmp_path / 'a.png'))
    with pytest.raises(FileNotFoundError, match='missing.png'):
        predict(str(tmp_path / 'missing.png'))


def test_model_without_a_config():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        model = MODELS.build(image_config().model)
    with pytest.raises(ValueError, match=r'no config with test_dataloader'):
        RegressionInferencer(model)


def test_names():
    with pytest.raises(ValueError, match='Failed to find model "nothing"'):
        RegressionInferencer('nothing')
    names = RegressionInferencer.list_models()
    assert 'resnet50_8xb32_in1k' not in names
    assert names == sorted(names)
