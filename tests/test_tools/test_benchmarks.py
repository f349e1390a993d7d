# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The benchmark scripts run and write what they print."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).resolve().parents[2] / 'tools' / 'benchmark'

# How the memory of a process is measured without a GPU.
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() and not Path('/proc/self/status').exists(),
    reason='memory of a process is read from /proc',
)


def test_frames(tmp_path, command):
    result = command(
        'python',
        BENCHMARKS / 'frames.py',
        '--smoke',
        '--json',
        'rows.json',
        cwd=tmp_path,
    )
    content = json.loads((tmp_path / 'rows.json').read_text())
    assert result.stdout.startswith(content['title'])
    (row,) = content['rows']
    # 10 classes with 20 centres and a direction each, a batch of 128.
    assert (row['K'], row['d']) == (10, 210)
    assert row['batch_mb'] == 128 * 210 * 4 / 2**20
    for name in ('axis', 'hadamard', 'dense'):
        assert row[f'{name}_ms'] > 0
        assert row[f'{name}_mb'] >= 0
        # The table has the numbers of the file.
        (line,) = [x for x in result.stdout.split('\n') if f'{name}_ms' in x]
        assert line.split()[1] == f'{row[f"{name}_ms"]:.2f}'
    # The matrix counts as memory of the dense form.
    assert row['dense_mb'] >= 200 * 210 * 4 / 2**20
    assert row['time_ratio'] == pytest.approx(row['dense_ms'] / row['axis_ms'])
    assert math.isfinite(row['memory_ratio'])


@pytest.mark.parametrize('name', ['contrast', 'srl'])
def test_losses(name, tmp_path, command):
    result = command(
        'python',
        BENCHMARKS / f'{name}.py',
        '--smoke',
        '--json',
        'rows.json',
        cwd=tmp_path,
    )
    content = json.loads((tmp_path / 'rows.json').read_text())
    assert content['title'] in result.stdout
    for row in content['rows']:
        times = [value for key, value in row.items() if key.endswith('_ms')]
        assert times
        assert all(value > 0 for value in times if value != '-')


def test_class_statistics(tmp_path, command):
    command(
        'python',
        BENCHMARKS / 'class_statistics.py',
        '--smoke',
        '--json',
        'rows.json',
        cwd=tmp_path,
    )
    (row,) = json.loads((tmp_path / 'rows.json').read_text())['rows']
    total = row['means_ms'] + row['update_ms']
    assert row['ratio'] == pytest.approx(total / row['read_ms'])
    assert row['sum_ratio'] == pytest.approx(total / row['sum_ms'])
    assert row['update_ratio'] == pytest.approx(
        row['update_ms'] / row['read_ms']
    )


def test_profile_step(tmp_path, command):
    command(
        'python',
        BENCHMARKS / 'profile_step.py',
        *('--smoke', '--repeats', '1', '--methods', 'NCMC', 'BCL', 'SRL'),
        *('--device', 'cpu', '--json', 'rows.json'),
        cwd=tmp_path,
    )
    rows = json.loads((tmp_path / 'rows.json').read_text())['rows']
    assert [row['method'] for row in rows] == ['NCMC', 'BCL', 'SRL']
    parts = 'preprocess', 'backbone', 'head', 'optimizer'
    for row in rows:
        assert row['step_ms'] > 0
        shares = [row[part] for part in parts]
        assert min(shares) > 0
        assert sum(shares) + row['rest'] == pytest.approx(1)


def test_every_method_is_profiled(load):
    profile_step = load('profile_step')
    for path in profile_step.METHODS.values():
        assert (profile_step.CONFIGS / f'{path}.py').is_file()


def test_quickstart(tmp_path, command):
    command(
        'python',
        BENCHMARKS / 'quickstart.py',
        '--smoke',
        '--device',
        'cpu',
        '--json',
        'rows.json',
        cwd=tmp_path,
    )
    (row,) = json.loads((tmp_path / 'rows.json').read_text())['rows']
    assert row['epochs'] == 1
    assert row['time_ratio'] == pytest.approx(
        row['samples_s'] / row['batched_s']
    )


def test_run_all_writes_a_page(tmp_path, command):
    result = command(
        'python',
        BENCHMARKS / 'run_all.py',
        *('--smoke', '--threads', '1', '--only', 'head_step', 'growth'),
        *('--output', 'docs/performance.md', '--json', 'all.json'),
        cwd=tmp_path,
    )
    content = json.loads((tmp_path / 'all.json').read_text())
    page = (tmp_path / 'docs' / 'performance.md').read_text()
    scripts = [part['script'] for part in content['results']]
    assert scripts == ['head_step', 'growth', 'growth']
    for part in content['results']:
        assert f'## {part["title"]}\n' in page
    heads = content['results'][0]['rows']
    assert [row['head'] for row in heads] == ['NCMC', 'SETF', 'RBL']
    for row, aim in zip(heads, content['aims'], strict=True):
        assert row['ratio'] == pytest.approx(row['own_ms'] / row['linear_ms'])
        assert aim['measured'] == row['ratio']
        assert f'| {aim["measured"]:.2f} | {aim["result"]} |' in page
    assert aim['result'] in result.stdout
    assert f'| PyTorch | {torch.__version__} |' in page
    assert '| threads | 1 |' in page
    assert 'images/growth.png' in page
    picture = tmp_path / 'docs' / 'images' / 'growth.png'
    assert picture.read_bytes()[1:4] == b'PNG'


def test_run_all_says_which_benchmark_failed(tmp_path, command):
    result = command(
        'python',
        BENCHMARKS / 'run_all.py',
        *('--smoke', '--device', 'nowhere', '--only', 'growth'),
        cwd=tmp_path,
        check=False,
    )
    assert result.returncode == 1
    assert 'growth.py failed with status 1' in result.stderr


@pytest.fixture
def load(monkeypatch):
    """Import a benchmark script by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    known = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - known:
        if (BENCHMARKS / f'{name}.py').exists():
            del sys.modules[name]


def test_aims_are_compared_with_what_was_measured(load):
    rows = [
        dict(head='NCMC', ratio=1.03),
        dict(head='SETF', ratio=1.021),
        dict(head='other', ratio=9.0),
    ]
    results = [
        dict(script='head_step', rows=rows),
        dict(script='frames', rows=[dict(N=437_513, ratio=1.0)]),
        dict(
            script='srl',
            rows=[
                dict(K=102, d=9, time_ratio=1.0),
                dict(K=102, d=128, time_ratio=3.9),
            ],
        ),
        dict(script='contrast', rows=[dict(N=4096, ours_ms=1.0)]),
        dict(script='contrast', rows=[dict(N=8192, time_ratio=8.0)]),
    ]
    aims = load('aims').check_aims(results)
    assert [aim['result'] for aim in aims] == [
        *('met', 'missed', 'met', 'missed'),
    ]
    assert [aim['measured'] for aim in aims] == [1.03, 1.021, 8.0, 3.9]
    assert [aim['aim'] for aim in aims[1:3]] == [
        *('at most 1.02', 'at least 8.00'),
    ]


def test_notes_by_hand_stay(load, tmp_path):
    page = load('page')
    path = tmp_path / 'performance.md'
    assert page.hand_written(path) == ''
    text = page.make_page([], [], dict(cores='2'), False)
    path.write_text(f'{text}\n## Why\n')
    assert page.hand_written(path) == '\n## Why\n'


def test_every_benchmark_is_run(load):
    run_all = load('run_all')
    scripts = {path.stem for path in BENCHMARKS.glob('*.py')}
    known = {benchmark.script for benchmark in run_all.BENCHMARKS}
    parts = {'harness', 'machine', 'run_all', 'aims', 'page'}
    assert known == scripts - parts
    assert {aim.script for aim in load('aims').AIMS} <= known


def test_exponents_of_growth(load):
    growth = load('growth')
    rows = [
        dict(size=10, time_ms=1.0, memory_mb=0.0),
        dict(size=20, time_ms=4.0, memory_mb=3.0),
        dict(size=60, time_ms=12.0, memory_mb=3.0),
    ]
    growth.add_exponents(rows)
    assert [row['time_exponent'] for row in rows[1:]] == pytest.approx([2, 1])
    # The first is not known.
    assert [row['memory_exponent'] for row in rows] == ['-', '-', 0]


def test_warm_up_round_is_not_timed(load):
    harness = load('harness')
    calls = []
    steps = dict(first=lambda: calls.append(1), second=lambda: calls.append(2))
    times = harness.paired_times(steps, 2, 'cpu')
    assert calls == [1, 2] * 3
    assert set(times) == {'first', 'second'}
    calls.clear()
    harness.paired_times(steps, 2, 'cpu', warm_up=False)
    assert calls == [1, 2] * 2
