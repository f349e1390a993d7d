# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Wheel and source distribution, installed and used from somewhere else."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import mmpretrain
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CONFIG = 'logit-adjustment_resnet20_1xb64-60e_digits-lt-if20.py'
UNPACKAGED = shutil.ignore_patterns(
    '.git',
    '.*_cache',
    '.venv',
    '__pycache__',
    '*.egg-info',
    'build',
    'data',
    'dist',
    'venv',
    'work_dirs',
)


@pytest.fixture(scope='module')
def source(tmp_path_factory):
    """A copy of the tree as git gives it, with its links."""
    if importlib.util.find_spec('pip') is None:
        pytest.skip('pip is not installed')
    folder = tmp_path_factory.mktemp('source') / 'mmgeom'
    shutil.copytree(ROOT, folder, symlinks=True, ignore=UNPACKAGED)
    assert (folder / 'mmgeom' / '.mim' / 'configs').is_symlink()
    return folder


def build(command, folder, target):
    """Build a wheel."""
    words = ('--no-deps', '--no-build-isolation', '--no-index', '-w', target)
    command(sys.executable, '-m', 'pip', 'wheel', *words, folder, cwd=target)
    (wheel,) = target.glob('*.whl')
    return wheel


@pytest.fixture(scope='module')
def wheel(tmp_path_factory, source, command):
    return build(command, source, tmp_path_factory.mktemp('wheel'))


@pytest.fixture(scope='module')
def sdist(tmp_path_factory, source, command):
    folder = tmp_path_factory.mktemp('sdist')
    words = ('setup.py', '-q', 'sdist', '-d', folder)
    command(sys.executable, *words, cwd=source)
    (archive,) = folder.glob('*.tar.gz')
    return archive


def files_below(folder, *suffixes):
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob('*')
        if path.suffix in suffixes and '.mim' not in path.parts
    }


def expected_files():
    """What a user needs, by its path in the wheel."""
    shipped = files_below('configs', '.py', '.yml', '.md')
    shipped |= files_below('tools', '.py', '.sh') | {'model-index.yml'}
    return files_below('mmgeom', '.py') | {
        f'mmgeom/.mim/{name}' for name in shipped
    }


def names_in_wheel(path):
    with zipfile.ZipFile(path) as archive:
        return set(archive.namelist())


def test_wheel(wheel):
    names = names_in_wheel(wheel)
    assert expected_files() - names == set()
    others = names - expected_files()
    assert all('.dist-info/' in name for name in others), others
    assert any(name.endswith('/LICENSE') for name in others)
    (metadata,) = (name for name in others if name.endswith('/METADATA'))
    with zipfile.ZipFile(wheel) as archive:
        lines = archive.read(metadata).decode().splitlines()
    required = [line for line in lines if line.startswith('Requires-Dist:')]
    always = [line for line in required if 'extra ==' not in line]
    assert any('mmpretrain' in line for line in always)
    # mmcv and mmcv-lite own the same module: the user chooses one.
    assert not any('mmcv' in line for line in always)
    for extra in ('lite', 'full', 'mim', 'tests', 'optional', 'all'):
        assert f'Provides-Extra: {extra}' in lines


def test_sdist(sdist):
    with tarfile.open(sdist) as archive:
        members = archive.getmembers()
    # Links into other folders would not survive being unpacked elsewhere.
    assert not any(member.issym() or member.islnk() for member in members)
    names = {member.name.partition('/')[2] for member in members}
    assert expected_files() - names == set()
    required = {
        'LICENSE',
        'README.md',
        'setup.py',
        'pyproject.toml',
        'model-index.yml',
        'requirements/runtime.txt',
    }
    assert required <= names
    assert not any(name.startswith('tests') for name in names)


def test_wheel_of_the_sdist(tmp_path, sdist, wheel, command):
    """What pip does with the source distribution."""
    assert names_in_wheel(build(command, sdist, tmp_path)) == (
        names_in_wheel(wheel)
    )


def test_checkout_without_links(tmp_path, source, command):
    """Where git cannot make links it writes their targets into files."""
    copy = tmp_path / 'mmgeom'
    shutil.copytree(source, copy, symlinks=True, ignore=UNPACKAGED)
    mim = copy / 'mmgeom' / '.mim'
    for name in ('configs', 'tools', 'model-index.yml'):
        target = os.readlink(mim / name)
        (mim / name).unlink()
        (mim / name).write_text(target)
    for marker in ('first', 'second'):
        marked = copy / 'configs' / 'quickstart' / CONFIG
        marked.write_text(f'# {marker}\n')
        command(sys.executable, 'setup.py', '-q', '--version', cwd=copy)
        copied = mim / 'configs' / 'quickstart' / CONFIG
        assert copied.read_text() == f'# {marker}\n'
    assert not (mim / 'configs').is_symlink()
    assert (mim / 'tools' / 'train.py').is_file()
    assert 'Import' in yaml.safe_load((mim / 'model-index.yml').read_text())


def test_metafiles_list_the_configs():
    on_disk = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.glob('configs/*/*.py')
        if path.parent.name != '_base_'
    }
    index = yaml.safe_load((ROOT / 'model-index.yml').read_text())
    folders = {Path(name).parent.name for name in index['Import']}
    assert folders == {Path(name).parent.name for name in on_disk}
    collections, listed = set(), []
    for name in index['Import']:
        content = yaml.safe_load((ROOT / name).read_text())
        for entry in content.get('Collections', []):
            collections.add(entry['Name'])
        listed += content['Models']
    assert len(listed) == len(on_disk)
    assert {entry['Config'] for entry in listed} == on_disk
    for entry in listed:
        assert entry['Name'] == Path(entry['Config']).stem
        assert entry['In Collection'] in collections
        # Weights are not published, and results only when trained by us.
        assert 'Weights' not in entry


class Environment:
    """A virtual environment that has the wheel, and the parent's packages."""

    def __init__(self, folder, command):
        venv.create(folder, symlinks=True)
        (packages,) = folder.glob('lib/python*/site-packages')
        parent = Path(mmpretrain.__file__).parents[1]
        (packages / 'parent.pth').write_text(f'{parent}\n')
        self.packages = packages
        self.python = folder / 'bin' / 'python'
        self._command = command
        self._bin = folder / 'bin'

    def run(self, *words, cwd, check=True):
        """Run a command that finds this environment and not the tree."""
        return self._command(
            *words,
            cwd=cwd,
            check=check,
            PATH=os.pathsep.join([str(self._bin), os.environ['PATH']]),
            PYTHONPATH='',
        )


@pytest.fixture(scope='module')
def environment(tmp_path_factory, wheel, command):
    folder = tmp_path_factory.mktemp('environment')
    environment = Environment(folder, command)
    install = ('-m', 'pip', 'install', '-q', '--no-deps', '--no-index')
    environment.run(environment.python, *install, wheel, cwd=folder)
    code = 'import mmgeom; print(mmgeom.__file__)'
    result = environment.run(environment.python, '-c', code, cwd=folder)
    assert result.stdout.strip().startswith(str(environment.packages))
    return environment


@pytest.fixture(scope='module')
def mim(environment, tmp_path_factory):
    """The environment, once ``mim`` is installed in it too."""
    words = ('-q', '--timeout', '15', '--retries', '1')
    # Later versions of openxlab pin packages that torch needs newer.
    packages = ('openmim', 'openxlab==0.0.11')
    try:
        result = environment.run(
            environment.python,
            *('-m', 'pip', 'install', *words, *packages),
            cwd=tmp_path_factory.mktemp('mim'),
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip('openmim cannot be installed here: no answer')
    if result.returncode:
        reason = result.stderr.strip().splitlines()[-1]
        pytest.skip(f'openmim cannot be installed here: {reason}')
    return environment


@pytest.mark.slow
def test_mim_search(tmp_path, mim):
    result = mim.run('mim', 'search', 'mmgeom', cwd=tmp_path)
    assert f'config id: {Path(CONFIG).stem}' in result.stdout
    words = ('--model', 'logit adjustment', '--field', 'epochs', 'parameters')
    result = mim.run('mim', 'search', 'mmgeom', *words, cwd=tmp_path)
    assert Path(CONFIG).stem in result.stdout
    assert 'ce_resnet20' not in result.stdout


@pytest.mark.slow
def test_mim_train_and_test(tmp_path, mim):
    options = ('--cfg-options', 'train_cfg.max_epochs=1')
    words = (CONFIG, '--gpus', 0, '--work-dir', 'work', *options)
    mim.run('mim', 'train', 'mmgeom', *words, cwd=tmp_path)
    checkpoint = tmp_path / 'work' / 'epoch_1.pth'
    assert checkpoint.exists()
    words = (CONFIG, '--checkpoint', checkpoint, '--gpus', 0)
    mim.run('mim', 'test', 'mmgeom', *words, cwd=tmp_path)


BASES = {
    'mmgeom': f"['mmgeom::quickstart/{CONFIG}']",
    'mmpretrain': (
        f"[__import__('mmgeom').config_path('quickstart/{CONFIG}')]"
    ),
}


@pytest.mark.parametrize('owner', list(BASES))
def test_downstream_project(
    tmp_path, environment, owner, read_log, logged_metrics
):
    """A project elsewhere inherits a config, by either spelling.

    The first one needs our script, the second one works with the host's.
    """
    packages = environment.packages
    if owner == 'mmpretrain':
        packages = Path(mmpretrain.__file__).parents[1]
    tools = packages / owner / '.mim' / 'tools'
    config = tmp_path / 'mine.py'
    config.write_text(
        f'_base_ = {BASES[owner]}\n'
        'model = dict(\n'
        '    backbone=dict(depth=8, base_channels=4),\n'
        '    head=dict(in_channels=16),\n'
        ')\n'
        'train_cfg = dict(max_epochs=1, val_interval=1)\n'
    )
    train = (environment.python, tools / 'train.py', config)
    environment.run(*train, cwd=tmp_path)
    work_dir = tmp_path / 'work_dirs' / 'mine'
    assert 'Training labels' in read_log(work_dir)

    more = ('--resume', '--cfg-options', 'train_cfg.max_epochs=2')
    environment.run(*train, *more, cwd=tmp_path)
    assert 'resumed epoch: 1, iter: 7' in read_log(work_dir)
    validated = logged_metrics(work_dir)[-1]
    assert 'shot/accuracy_few' in validated

    checkpoint = work_dir / 'epoch_2.pth'
    test = (environment.python, tools / 'test.py', config, checkpoint)
    out = ('--out', 'metrics.json', '--out-item', 'metrics')
    environment.run(*test, *out, cwd=tmp_path)
    metrics = yaml.safe_load((tmp_path / 'metrics.json').read_text())
    assert metrics == pytest.approx(validated)
