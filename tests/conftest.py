# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Fixtures shared by the tests: small runs that do not see each other."""

import copy
import importlib.util
import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from isolation import isolated
from mmengine.config import Config
from mmengine.runner import Runner

import mmgeom

ROOT = Path(__file__).resolve().parents[1]
QUICKSTART = 'quickstart/logit-adjustment_resnet20_1xb64-60e_digits-lt-if20.py'
DIGITS = '_base_/datasets/digits_lt.py'
PIPELINE = 'train_dataloader.dataset.dataset.pipeline'

# A few hundred weights, two epochs, no randomness but that of the seed.
TINY = {
    'model.backbone.depth': 8,
    'model.backbone.base_channels': 4,
    'model.head.in_channels': 16,
    'data_preprocessor.augmentations': [],
    'train_cfg.max_epochs': 2,
    'train_cfg.val_interval': 1,
    'param_scheduler.T_max': 4,
    'default_hooks.checkpoint.max_keep_ckpts': -1,
    'default_hooks.logger.interval': 1,
}

# What a user writes to change the quickstart: inherits ours by name.
CONFIG = """
_base_ = [
    'mmgeom::quickstart/'
    'logit-adjustment_resnet20_1xb64-60e_digits-lt-if20.py'
]
model = dict(
    backbone=dict(depth=8, base_channels=4), head=dict(in_channels=16)
)
param_scheduler = dict(T_max=2)
train_cfg = dict(max_epochs=2, val_interval=1)
default_hooks = dict(logger=dict(interval=1))
"""


@pytest.fixture(autouse=True)
def _isolated() -> Iterator[None]:
    with isolated():
        yield


@pytest.fixture(scope='session', autouse=True)
def _fast_start() -> Iterator[None]:
    """Leave out what takes long in tiny runs.

    That is the report on the machine, a second a runner, and threads, which
    wait longer for each other than they compute.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr('mmengine.runner.runner.collect_env', dict)
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope='session')
def runner_config() -> Callable[..., Config]:
    """Make the config of a tiny run on digits.

    Call it with the work directory and dotted settings, which are merged
    into the quickstart config after :data:`TINY`. Without ``batched``, its
    training images are handled one by one, by the host's path.
    """

    names = itertools.count()

    def make(
        work_dir: Path, options: dict | None = None, batched: bool = True
    ) -> Config:
        cfg = Config.fromfile(mmgeom.config_path(QUICKSTART))
        # Merging takes `_delete_` out of what it is given.
        cfg.merge_from_dict(copy.deepcopy(TINY))
        if not batched:
            plain = Config.fromfile(mmgeom.config_path(DIGITS))
            cfg.train_dataloader = plain.train_dataloader
            cfg.data_preprocessor = plain.data_preprocessor
            cfg.merge_from_dict({PIPELINE: [dict(type='PackInputs')]})
        cfg.merge_from_dict(copy.deepcopy(options or {}))
        cfg.work_dir = str(work_dir)
        # Two runners of one second would share their log otherwise.
        cfg.experiment_name = f'tiny_{next(names)}'
        return cfg

    return make


@pytest.fixture(scope='session')
def train(runner_config) -> Callable[..., Runner]:
    """Train a tiny run; arguments as of ``runner_config``."""

    def run(
        work_dir: Path, options: dict | None = None, batched: bool = True
    ) -> Runner:
        runner = Runner.from_cfg(runner_config(work_dir, options, batched))
        runner.train()
        return runner

    return run


@pytest.fixture(scope='session')
def evaluate(runner_config) -> Callable[..., tuple[dict, Runner]]:
    """Test a checkpoint; returns the metrics and the runner."""

    def run(
        work_dir: Path,
        checkpoint: Path,
        options: dict | None = None,
        batched: bool = True,
    ) -> tuple[dict, Runner]:
        cfg = runner_config(work_dir, options, batched)
        cfg.load_from = str(checkpoint)
        runner = Runner.from_cfg(cfg)
        return runner.test(), runner

    return run


@pytest.fixture(scope='session')
def trained(tmp_path_factory, train) -> Path:
    """Work directory of a tiny run of two epochs, not to be written to."""
    folder = tmp_path_factory.mktemp('trained')
    with isolated():
        train(folder)
    return folder


@pytest.fixture(scope='session')
def read_log() -> Callable[[Path], str]:
    """Text of all log files below a work directory, oldest first."""

    def read(work_dir: Path) -> str:
        files = sorted(Path(work_dir).glob('*/*.log'))
        return '\n'.join(file.read_text() for file in files)

    return read


@pytest.fixture(scope='session')
def logged_metrics() -> Callable[[Path], list[dict]]:
    """Metrics of each validation or test below a work directory."""

    def read(work_dir: Path) -> list[dict]:
        lines = []
        for file in sorted(Path(work_dir).glob('*/*/scalars.json')):
            lines += [json.loads(line) for line in file.open()]
        return [
            {key: value for key, value in line.items() if '/' in key}
            for line in lines
            if 'shot/accuracy' in line
        ]

    return read


@pytest.fixture(scope='session')
def load() -> Callable[[Path], dict]:
    """Load a checkpoint that a test wrote, whatever it holds."""
    return lambda path: torch.load(path, weights_only=False)


@pytest.fixture(scope='session')
def command() -> Callable[..., subprocess.CompletedProcess]:
    """Run a command in a folder, with this Python first on the path."""

    def run(
        *words: object, cwd: Path, check: bool = True, **variables: str
    ) -> subprocess.CompletedProcess:
        environment = {
            **os.environ,
            'PATH': os.pathsep.join(
                [str(Path(sys.executable).parent), os.environ['PATH']]
            ),
            'PYTHONPATH': str(ROOT),
            # Two processes on two cores are slower with more threads.
            'OMP_NUM_THREADS': '1',
            **variables,
        }
        result = subprocess.run(
            [str(word) for word in words],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        if check and result.returncode:
            pytest.fail(
                f'{words} failed:\n{result.stdout[-3000:]}\n'
                f'{result.stderr[-3000:]}'
            )
        return result

    return run


@pytest.fixture
def free_port() -> str:
    """A TCP port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return str(probe.getsockname()[1])


@pytest.fixture(scope='session')
def write_config() -> Callable[..., Path]:
    """Write a config of a tiny run, which another may inherit and change."""

    def write(folder: Path, changes: str = '') -> Path:
        path = folder / 'tiny.py'
        path.write_text(CONFIG)
        if changes:
            path.rename(folder / 'tiny_base.py')
            path.write_text("_base_ = ['./tiny_base.py']\n" + changes)
        return path

    return write


@pytest.fixture(scope='session')
def script() -> Callable[[str], ModuleType]:
    """Import a script of ``tools/`` as a module."""

    def load_script(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(
            f'tools_{name}', ROOT / 'tools' / f'{name}.py'
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load_script


@pytest.fixture
def tool(script, monkeypatch, tmp_path) -> Callable[..., None]:
    """Run a script of ``tools/`` in this process, as from a shell.

    The current folder is the test's.
    """
    monkeypatch.chdir(tmp_path)

    def run(name: str, *words: object) -> None:
        monkeypatch.setattr(
            sys, 'argv', [f'{name}.py', *(str(word) for word in words)]
        )
        script(name).main()

    return run
