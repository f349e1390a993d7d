# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The benchmarks of the data path run and write what they print."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / 'tools' / 'benchmark'
RATIOS = {
    'data_path': ('time_ratio', 'samples_us', 'batched_us', 2),
    'tabular_step': ('batched_ratio', 'batched_ms', 'bare_ms', 1),
}


@pytest.mark.parametrize('name', list(RATIOS))
def test_smoke(name, tmp_path, command):
    words = ('--smoke', '--repeats', 1, '--json', 'rows.json')
    result = command('python', BENCHMARKS / f'{name}.py', *words, cwd=tmp_path)
    content = json.loads((tmp_path / 'rows.json').read_text())
    assert content['title'] in result.stdout
    ratio, above, below, number = RATIOS[name]
    assert len(content['rows']) == number
    for row in content['rows']:
        assert row[ratio] == pytest.approx(row[above] / row[below])
        assert row[below] > 0
