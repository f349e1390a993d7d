# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os
from pathlib import Path

import pytest
from mmengine.config import Config

import mmgeom
from mmgeom.apis.paths import config_path


def test_path_of_a_shipped_config():
    path = config_path('_base_/default_runtime.py')
    assert os.path.isabs(path)
    assert Path(path).is_file()
    assert mmgeom.config_path is config_path
    assert Config.fromfile(path).default_scope == 'mmpretrain'


def test_spelling_for_foreign_projects(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path('mine.py').write_text(
        "_base_ = [__import__('mmgeom').config_path("
        "'_base_/default_runtime.py')]\n"
        'work_dir = "here"\n'
    )
    cfg = Config.fromfile('mine.py')
    assert cfg.work_dir == 'here'
    assert cfg.default_scope == 'mmpretrain'


@pytest.mark.parametrize(
    ('name', 'match'),
    [
        (
            '_base_/gone.py',
            r"no config '_base_/gone.py': that folder holds \['default_runt",
        ),
        (
            'gone/gone.py',
            r"no config 'gone/gone.py': the folders are \['_base_', 'basel",
        ),
        ('_base_', "no config '_base_': the folders are"),
        ('', 'the folders are'),
        ('../setup.py', 'the folders are'),
        ('_base_/../../setup.py', 'the folders are'),
        (os.path.abspath(__file__), 'the folders are'),
    ],
)
def test_unknown_configs(name, match):
    with pytest.raises(FileNotFoundError, match=match) as caught:
        config_path(name)
    assert '\n' not in str(caught.value)
