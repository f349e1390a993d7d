# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.runner import Runner
from torch import nn

from mmgeom.engine.hooks.checkpoint_check_hook import compare_state


def rewrite(source, target, change):
    """Copy a checkpoint, with changes."""
    checkpoint = torch.load(source, weights_only=False)
    change(checkpoint)
    torch.save(checkpoint, target)
    return target


WIDER = {
    'model.backbone.base_channels': 8,
    'model.head.in_channels': 32,
}


def test_resume(tmp_path, trained, train):
    message = (
        r'^the checkpoint does not belong to the model of this config '
        r'\(0 entries are missing and \d+ have another shape, first: '
        r'backbone.conv1.weight has shape '
        r'\(4, 1, 3, 3\) instead of \(8, 1, 3, 3\)\): give the config it '
        r'was trained with\.$'
    )
    options = {
        'load_from': str(trained / 'epoch_1.pth'),
        'resume': True,
        **WIDER,
    }
    with pytest.raises(ValueError, match=message):
        train(tmp_path, options)


def test_test(tmp_path, trained, evaluate):
    with pytest.raises(ValueError, match='does not belong to the model'):
        evaluate(tmp_path, trained / 'epoch_1.pth', WIDER)


def test_missing_weights(tmp_path, trained, evaluate):
    def change(checkpoint):
        del checkpoint['state_dict']['head.fc.bias']

    other = rewrite(trained / 'epoch_1.pth', tmp_path / 'x.pth', change)
    with pytest.raises(ValueError, match='first: head.fc.bias is missing'):
        evaluate(tmp_path / 'run', other)


def test_load_from(tmp_path, train):
    path = tmp_path / 'other.pth'
    torch.save({'state_dict': {'stem.weight': torch.zeros(3)}}, path)
    message = r"shares no weight .* \(its first entry is 'stem.weight'\)"
    with pytest.raises(ValueError, match=message):
        train(tmp_path / 'run', {'load_from': str(path)})


def test_load_from_new_head(tmp_path, trained, train, load):
    runner = train(
        tmp_path,
        {
            'load_from': str(trained / 'epoch_2.pth'),
            'model.head.type': 'mmgeom.CosineHead',
            'train_cfg.max_epochs': 1,
            'optim_wrapper.optimizer.lr': 0.0,
        },
    )
    state = load(trained / 'epoch_2.pth')['state_dict']
    assert torch.equal(
        runner.model.backbone.conv1.weight, state['backbone.conv1.weight']
    )
    assert runner.model.head.weight.shape == (10, 16)


def test_extra_state_is_no_tensor():
    class WithState(nn.Linear):
        def get_extra_state(self):
            return {'step': 1}

    model = nn.Sequential(WithState(2, 2))
    missing, reshaped, fitting = compare_state(model, model.state_dict())
    assert (missing, reshaped) == ([], [])
    assert '0._extra_state' in fitting


def test_prefix_of_a_wrapper(tmp_path, trained, evaluate):
    def change(checkpoint):
        checkpoint['state_dict'] = {
            f'module.{name}': value
            for name, value in checkpoint['state_dict'].items()
        }

    other = rewrite(trained / 'epoch_2.pth', tmp_path / 'x.pth', change)
    with_prefix, _ = evaluate(tmp_path / 'a', other)
    without, _ = evaluate(tmp_path / 'b', trained / 'epoch_2.pth')
    assert with_prefix == without


def test_test_time_augmentation(tmp_path, trained, runner_config):
    def run(name, options):
        cfg = runner_config(tmp_path / name, options)
        cfg.model = ConfigDict(type='AverageClsScoreTTA', module=cfg.model)
        flips = [dict(type='RandomFlip', prob=p) for p in (0.0, 1.0)]
        pack = [dict(type='PackInputs')]
        cfg.test_dataloader.dataset.pipeline = [
            dict(type='TestTimeAug', transforms=[flips, pack])
        ]
        cfg.load_from = str(trained / 'epoch_2.pth')
        return Runner.from_cfg(cfg).test()

    assert 'shot/accuracy_few' in run('good', {})
    with pytest.raises(ValueError, match='does not belong to the model'):
        run('bad', WIDER)
