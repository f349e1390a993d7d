# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import importlib.util
import json
import os
import subprocess
import sys
from importlib import metadata

import mmengine
import mmengine.config.config
import mmengine.hub.hub
import mmengine.utils
import mmengine.utils.package_utils
import pytest
from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.runner import checkpoint
from mmpretrain.utils import dependency

from mmgeom import compat

LOOKUPS = [
    mmengine.config.config,
    mmengine.utils,
    mmengine.utils.package_utils,
    mmengine.hub.hub,
]


def run(code, **environment):
    """What a fresh process prints as JSON in its last line."""
    result = subprocess.run(
        [sys.executable, '-c', code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(result.stdout.splitlines()[-1])


# What is repaired -----------------------------------------------------------
PROBE = """
import json
import mmgeom
import mmengine.config.config, mmengine.hub.hub, mmengine.utils
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.runner import checkpoint
print(json.dumps(dict(
    listed='mmgeom' in MODULE2PACKAGE,
    lookups=sorted({
        function.__module__
        for module in (
            mmengine.config.config, mmengine.hub.hub, mmengine.utils,
            mmengine.utils.package_utils,
        )
        for name in ('is_installed', 'get_installed_path')
        if (function := getattr(module, name, None)) is not None
    }),
    loaders=sorted({
        loader.__module__
        for loader in (
            checkpoint.load_from_local, checkpoint.load_from_http,
            checkpoint.CheckpointLoader._schemes[''],
            checkpoint.CheckpointLoader._schemes['https://'],
        )
    }),
)))
"""


def test_switched_off_it_leaves_the_host_alone():
    assert run(PROBE, MMGEOM_NO_COMPAT='1') == dict(
        listed=False,
        lookups=['mmengine.utils.package_utils'],
        loaders=['mmengine.runner.checkpoint'],
    )


def test_switched_on_by_default():
    assert run(PROBE, MMGEOM_NO_COMPAT='') == dict(
        listed=True, lookups=['mmgeom.compat'], loaders=['mmgeom.checkpoint']
    )


@pytest.mark.parametrize(
    ('value', 'is_on'),
    [(None, True), ('', True), ('0', True), ('1', False), ('true', False)],
)
def test_values_of_the_switch(monkeypatch, value, is_on):
    calls = []
    for name in (
        '_allow_inheritance',
        '_repair_package_lookup',
        '_repair_checkpoint_loading',
        '_skip_broken_multimodal',
    ):
        monkeypatch.setattr(compat, name, lambda name=name: calls.append(name))
    monkeypatch.setattr(compat, '_applied', False)
    if value is None:
        monkeypatch.delenv('MMGEOM_NO_COMPAT', raising=False)
    else:
        monkeypatch.setenv('MMGEOM_NO_COMPAT', value)
    compat.apply_compat()
    compat.apply_compat()
    assert len(calls) == (4 if is_on else 0)


def test_a_second_call_does_nothing():
    def state():
        return [
            vars(module).get(name)
            for module in [*LOOKUPS, checkpoint]
            for name in (
                'is_installed',
                'get_installed_path',
                'load_from_local',
            )
        ] + list(checkpoint.CheckpointLoader._schemes.items())

    before = state()
    compat.apply_compat()
    compat.apply_compat()
    assert state() == before
    assert list(MODULE2PACKAGE).count('mmgeom') == 1


def test_package_lookup():
    for module in LOOKUPS:
        if not hasattr(module, 'is_installed'):
            continue
        assert module.is_installed('mmgeom')
        assert module.is_installed('mmengine')
        assert module.is_installed('mmcv-lite')
        assert not module.is_installed('no-such-package')
        assert not module.is_installed('no_such_package')
    find = mmengine.utils.get_installed_path
    assert find('mmgeom') == os.path.dirname(compat.__file__)
    assert find('mmengine') == os.path.dirname(mmengine.__file__)
    assert os.path.basename(find('mmcv-lite')) == 'mmcv'
    with pytest.raises(Exception, match='no-such-package|pkg_resources'):
        find('no-such-package')


def test_inheritance_by_package_name(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text("_base_ = ['mmgeom::_base_/default_runtime.py']\n")
    cfg = Config.fromfile(str(path))
    assert cfg.default_scope == 'mmpretrain'


# The host check -------------------------------------------------------------
def test_the_installed_host_passes():
    compat.check_host()


@pytest.mark.parametrize('package', ['mmengine', 'mmcv', 'mmpretrain'])
def test_missing_package(monkeypatch, package):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        'find_spec',
        lambda name, *args: None if name == package else find(name, *args),
    )
    with pytest.raises(ImportError) as caught:
        compat.check_host()
    message = str(caught.value)
    assert f'mmgeom needs {package}, which is not installed' in message
    assert 'pip install "mmgeom[lite]"' in message
    assert 'pip install "mmgeom[full]"' in message
    assert '\n' not in message


def fake_versions(monkeypatch, **versions):
    real = metadata.version

    def version(name):
        if name not in versions:
            return real(name)
        if versions[name] is None:
            raise metadata.PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(metadata, 'version', version)


@pytest.mark.parametrize(
    ('package', 'version', 'limits'),
    [
        ('mmengine', '0.9.1', '>=0.10.0,<1.0.0'),
        ('mmengine', '1.0.0', '>=0.10.0,<1.0.0'),
        ('mmcv', '1.7.2', '>=2.0.0,<2.4.0'),
        ('mmcv', '2.4.0', '>=2.0.0,<2.4.0'),
        ('mmpretrain', '1.1.9', '>=1.2.0,<2.0.0'),
        ('mmpretrain', '1.2.0rc1+cpu', None),
        ('mmengine', '0.11.0rc3', None),
        ('mmengine', '0.10.12', None),
        ('mmcv', '2.3.6+cu128', None),
        ('mmcv', '2.10.0', '>=2.0.0,<2.4.0'),
    ],
)
def test_versions(monkeypatch, package, version, limits):
    fake_versions(monkeypatch, **{package: version})
    if limits is None:
        compat.check_host()
        return
    with pytest.raises(
        ImportError,
        match=f'mmgeom works with {package}{limits}, but {package}=='
        f'{version} is installed: install mmgeom',
    ):
        compat.check_host()


def test_other_distributions_provide_the_same_module(monkeypatch):
    fake_versions(
        monkeypatch, **{'mmengine': None, 'onedl-mmengine': '0.10.12'}
    )
    compat.check_host()
    fake_versions(monkeypatch, **{'mmengine': None, 'onedl-mmengine': '2.0'})
    with pytest.raises(ImportError, match='mmengine==2.0 is installed'):
        compat.check_host()


# Optional multimodal models -------------------------------------------------
@pytest.mark.parametrize(
    ('present', 'version', 'expected'),
    [
        (('transformers', 'pycocotools'), '5.24.0', False),
        (('transformers', 'pycocotools'), '4.57.1', True),
        (('transformers',), '5.24.0', True),
        (('pycocotools',), '5.24.0', True),
        ((), '5.24.0', True),
    ],
)
def test_broken_multimodal_models_are_left_out(
    monkeypatch, caplog, present, version, expected
):
    find = importlib.util.find_spec
    optional = ('transformers', 'pycocotools')
    monkeypatch.setattr(
        importlib.util,
        'find_spec',
        lambda name, *args: (
            (object() if name in present else None)
            if name in optional
            else find(name, *args)
        ),
    )
    fake_versions(monkeypatch, transformers=version)
    monkeypatch.setattr(dependency, 'WITH_MULTIMODAL', True)
    notes = []
    monkeypatch.setattr(
        'mmengine.logging.print_log',
        lambda message, **kwargs: notes.append(message),
    )
    compat._skip_broken_multimodal()
    assert dependency.WITH_MULTIMODAL is expected
    assert len(notes) == (0 if expected else 1)
    if notes:
        assert f'transformers {version}' in notes[0]
        assert 'Install transformers<5' in notes[0]
