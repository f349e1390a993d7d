# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from pathlib import Path

import mmengine
import pytest

from mmgeom.evaluation import ShotAccuracy

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope='module')
def config(tmp_path_factory, write_config):
    return write_config(tmp_path_factory.mktemp('config'))


@pytest.fixture(scope='module')
def checkpoint(trained):
    return trained / 'epoch_2.pth'


@pytest.fixture(scope='module')
def metrics(trained, logged_metrics):
    """Metrics of the checkpoint, as logged when it was trained."""
    return logged_metrics(trained)[-1]


def test_command(tmp_path, config, checkpoint, metrics, command):
    out = tmp_path / 'metrics.json'
    result = command(
        'python',
        ROOT / 'tools' / 'test.py',
        config,
        checkpoint,
        '--out',
        out,
        '--out-item',
        'metrics',
        '--work-dir',
        tmp_path / 'work',
        '--cfg-options',
        'test_dataloader.num_workers=2',
        cwd=tmp_path,
    )
    assert mmengine.load(out) == pytest.approx(metrics)
    assert 'ShotAccuracy in percent' in result.stdout + result.stderr


@pytest.mark.parametrize('words', [(), ('--out-item', 'pred')])
def test_predictions(tmp_path, config, checkpoint, metrics, tool, words):
    out = tmp_path / 'pred.pkl'
    work_dir = ('--work-dir', tmp_path / 'work')
    tool('test', config, checkpoint, '--out', out, *words, *work_dir)
    samples = mmengine.load(out)
    assert len(samples) == 500
    computed = ShotAccuracy.calculate(
        [int(sample['pred_label']) for sample in samples],
        [int(sample['gt_label']) for sample in samples],
    )
    assert computed['accuracy'] == pytest.approx(metrics['shot/accuracy'])


def test_out_item_needs_out(config, checkpoint, tool, capsys):
    with pytest.raises(SystemExit) as stop:
        tool('test', config, checkpoint, '--out-item', 'pred')
    assert stop.value.code == 2
    assert '--out-item needs --out' in capsys.readouterr().err


def test_time_augmentation(tmp_path, config, checkpoint, metrics, tool):
    out = tmp_path / 'metrics.json'
    words = ('--tta', '--out', out, '--out-item', 'metrics')
    tool('test', config, checkpoint, *words, '--work-dir', tmp_path / 'work')
    augmented = mmengine.load(out)
    assert set(augmented) == set(metrics)
    # Mirrored digits are other digits, so that the average differs.
    assert augmented != pytest.approx(metrics)


def test_own_time_augmentation(
    tmp_path, write_config, checkpoint, metrics, tool
):
    """The config's ``tta_pipeline`` has precedence; here it does nothing."""
    more = """
tta_model = dict(type='AverageClsScoreTTA')
tta_pipeline = [
    dict(
        type='TestTimeAug',
        transforms=[
            [dict(type='RandomFlip', prob=0.0)],
            [dict(type='PackInputs')],
        ],
    )
]
"""
    out = tmp_path / 'metrics.json'
    words = ('--tta', '--out', out, '--out-item', 'metrics')
    config = write_config(tmp_path, more)
    tool('test', config, checkpoint, *words, '--work-dir', tmp_path / 'work')
    assert mmengine.load(out) == pytest.approx(metrics)


def test_time_augmentation_of_a_wrapper(
    tmp_path, write_config, checkpoint, tool
):
    more = """
test_dataloader = dict(
    dataset=dict(
        _delete_=True,
        type='RepeatDataset',
        times=1,
        dataset=dict(
            type='mmgeom.Digits',
            split='test',
            pipeline=[dict(type='PackInputs')],
        ),
    )
)
"""
    config = write_config(tmp_path, more)
    message = '^--tta changes the pipeline .* RepeatDataset has none: do not'
    with pytest.raises(ValueError, match=message):
        tool('test', config, checkpoint, '--tta', '--work-dir', tmp_path)


def test_pictures(tmp_path, config, checkpoint, tool):
    words = ('--show-dir', 'pictures', '--interval', '250')
    tool('test', config, checkpoint, *words)
    files = [file.name for file in (tmp_path / 'pictures').iterdir()]
    assert sorted(files) == ['0_0.png', '250_0.png']


def test_pictures_need_the_hook(tmp_path, write_config, checkpoint, tool):
    more = 'default_hooks = dict(_delete_=True)\n'
    config = write_config(tmp_path, more)
    with pytest.raises(ValueError, match='need a VisualizationHook named'):
        tool('test', config, checkpoint, '--show-dir', 'pictures')


def test_mixed_precision(tmp_path, config, checkpoint, metrics, tool):
    """Testing in mixed precision works on the CPU, in bfloat16."""
    out = tmp_path / 'metrics.json'
    words = ('--amp', '--out', out, '--out-item', 'metrics')
    tool('test', config, checkpoint, *words, '--work-dir', tmp_path / 'work')
    assert mmengine.load(out)['shot/accuracy'] == pytest.approx(
        metrics['shot/accuracy'], abs=3
    )
