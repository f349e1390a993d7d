# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import itertools
import json
import math
import os
import sys
from pathlib import Path

import mmengine
import pytest

SHORT = ('--cfg-options', 'train_cfg.max_epochs=1')

# Stand-ins of train.py and test.py: write what they were asked to do.
FAKE_TRAIN = """
import sys
from pathlib import Path

words = sys.argv[1:]
folder = Path(words[words.index('--work-dir') + 1])
seed = int(words[-1].removeprefix('randomness.seed='))
assert '--resume' in words
if seed == 7:
    sys.exit('out of luck')
with (folder / 'trained').open('a') as file:
    file.write('once ')
(folder / 'epoch_3.pth').touch()
(folder / 'last_checkpoint').write_text('elsewhere/epoch_3.pth')
"""
FAKE_TEST = """
import json
import sys
from pathlib import Path

words = sys.argv[1:]
assert Path(words[1]).name == 'epoch_3.pth' and Path(words[1]).exists()
seed = int(words[-1].removeprefix('randomness.seed='))
out = Path(words[words.index('--out') + 1])
out.write_text(json.dumps({'shot/accuracy': 90.0 + seed}))
"""


@pytest.fixture
def seeds(script, tmp_path, monkeypatch):
    """Run the script with stand-ins; returns its module and the call."""
    module = script('train_seeds')
    tools = tmp_path / 'tools'
    tools.mkdir()
    (tools / 'train.py').write_text(FAKE_TRAIN)
    (tools / 'test.py').write_text(FAKE_TEST)
    monkeypatch.setattr(module, 'TOOLS', tools)
    monkeypatch.chdir(tmp_path)

    def run(*words):
        arguments = ['train_seeds.py', *(str(word) for word in words)]
        monkeypatch.setattr(sys, 'argv', arguments)
        module.main()

    return run


def test_real_runs(
    tmp_path, write_config, script, monkeypatch, logged_metrics, capsys
):
    """train.py and test.py themselves, without the start of processes."""
    config = write_config(tmp_path)
    module = script('train_seeds')
    numbers = itertools.count()

    def call(args, folder, name, *words):
        # Two runners of one second would share their log otherwise.
        last = f'experiment_name=run{next(numbers)}'
        argv = [name, *(str(word) for word in words), last]
        monkeypatch.setattr(sys, 'argv', argv)
        script(Path(name).stem).main()

    monkeypatch.setattr(module, '_call', call)
    monkeypatch.chdir(tmp_path)
    words = ['train_seeds.py', str(config), '--seeds', '0', '1', *SHORT]
    monkeypatch.setattr(sys, 'argv', words)
    module.main()

    root = tmp_path / 'work_dirs' / 'tiny_seeds'
    singles = []
    for seed in (0, 1):
        folder = root / f'seed{seed}'
        recipe = mmengine.load(folder / 'recipe.json')
        assert recipe['options'] == [SHORT[1], f'randomness.seed={seed}']
        # What training logged for the checkpoint that was tested.
        metrics = logged_metrics(folder)[0]
        tested = mmengine.load(folder / 'metrics.json')
        assert tested == pytest.approx(metrics)
        assert not (folder / 'epoch_2.pth').exists()
        singles.append(metrics['shot/accuracy'])
    printed = capsys.readouterr().out
    assert 'tiny (last checkpoint)' in printed
    (row,) = [
        line for line in printed.splitlines() if ' shot/accuracy ' in line
    ]
    assert float(row.split()[1]) == pytest.approx(sum(singles) / 2, abs=0.01)


def test_finished_runs_are_not_repeated(seeds, tmp_path, capsys):
    seeds('a.py', '--seeds', 1, 2)
    seeds('a.py', '--seeds', 1, 2, 3)
    root = tmp_path / 'work_dirs' / 'a_seeds'
    for seed in (1, 2, 3):
        assert (root / f'seed{seed}' / 'trained').read_text() == 'once '
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last == ['shot/accuracy', '92', '1', '91', '92', '93']


def test_runs_at_the_same_time(seeds, capsys):
    seeds('a.py', '--seeds', 3, 1, '--jobs', 2)
    last = capsys.readouterr().out.splitlines()[-1].split()
    assert last == ['shot/accuracy', '92', '1.4', '93', '91']


@pytest.mark.parametrize(
    'words',
    [
        ('b.py',),
        ('a.py', '--cfg-options', 'model.head.f=5'),
        ('a.py', '--checkpoint', 'best'),
    ],
)
def test_folder_of_another_run(seeds, words):
    seeds('a.py', '--seeds', 1, '--work-dir', 'runs')
    with pytest.raises(SystemExit) as stop:
        seeds(*words, '--seeds', 1, '--work-dir', 'runs')
    message = str(stop.value)
    assert 'seed1 holds a run of another recipe (' in message
    assert ' instead of ' in message
    assert 'give another --work-dir' in message


def test_failed_run(seeds, tmp_path):
    with pytest.raises(SystemExit) as stop:
        seeds('a.py', '--seeds', 7)
    log = Path('work_dirs') / 'a_seeds' / 'seed7' / 'train.py.log'
    assert str(stop.value).startswith(f'error: train.py failed, see {log}: ')
    assert 'out of luck' in str(stop.value)
    assert 'out of luck' in (tmp_path / log).read_text()
    assert not (tmp_path / log).with_name('metrics.json').exists()


@pytest.mark.parametrize(
    'words, message',
    [
        (('--jobs', '0'), '--jobs must be at least 1, got 0'),
        (('--seeds', '1', '1'), '--seeds must differ'),
    ],
)
def test_flags(seeds, words, message, capsys):
    with pytest.raises(SystemExit) as stop:
        seeds('a.py', *words)
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


def test_find_checkpoint(script, tmp_path):
    find = script('train_seeds').find_checkpoint
    for which in ('last', 'best'):
        with pytest.raises(RuntimeError, match=f'has no {which} checkpoint'):
            find(tmp_path, which)
    # The folder may have been moved since.
    (tmp_path / 'last_checkpoint').write_text('/gone/epoch_9.pth\n')
    assert find(tmp_path, 'last') == tmp_path / 'epoch_9.pth'
    # By time: epoch 10 is later than epoch 9, but not in the alphabet.
    for age, epoch in enumerate((10, 9)):
        path = tmp_path / f'best_shot_accuracy_epoch_{epoch}.pth'
        path.touch()
        os.utime(path, (1000 - age, 1000 - age))
    assert find(tmp_path, 'best').name == 'best_shot_accuracy_epoch_10.pth'


def test_summarize(script):
    summarize = script('train_seeds').summarize
    results = [
        {'a': 1.0, 'b': 50.0},
        {'a': 2.0, 'b': 50.0},
        {'a': 6.0, 'b': 50.0},
    ]
    deviation = math.sqrt((4 + 1 + 9) / 2)
    assert summarize(results) == [
        ['a', '3', f'{deviation:.2g}', '1 2 6'],
        ['b', '50', '0', '50 50 50'],
    ]
    # One seed has no spread.
    assert summarize([json.loads('{"a": 1.5}')]) == [
        ['a', '1.5', 'nan', '1.5']
    ]
