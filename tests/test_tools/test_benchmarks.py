# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The benchmark scripts run and write what they print."""

import json
import math
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
