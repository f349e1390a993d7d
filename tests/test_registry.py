# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import ast
import json
import subprocess
import sys
from pathlib import Path

import mmpretrain.registry as host
import pytest
from mmengine.registry import DefaultScope
from mmengine.registry import root as mmengine_root

import mmgeom
from mmgeom import registry

PACKAGE = Path(mmgeom.__file__).parent
NODES = (
    'RUNNERS',
    'RUNNER_CONSTRUCTORS',
    'LOOPS',
    'HOOKS',
    'LOG_PROCESSORS',
    'OPTIMIZERS',
    'OPTIM_WRAPPERS',
    'OPTIM_WRAPPER_CONSTRUCTORS',
    'PARAM_SCHEDULERS',
    'DATASETS',
    'DATA_SAMPLERS',
    'TRANSFORMS',
    'MODELS',
    'MODEL_WRAPPERS',
    'WEIGHT_INITIALIZERS',
    'BATCH_AUGMENTS',
    'TASK_UTILS',
    'METRICS',
    'EVALUATORS',
    'VISUALIZERS',
    'VISBACKENDS',
)


def run(code):
    """What a fresh process that only imports mmgeom prints as JSON."""
    result = subprocess.run(
        [sys.executable, '-c', f'import json, mmgeom\n{code}'],
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def test_every_node_of_the_host_has_a_child():
    assert len(NODES) == 21
    assert set(registry.__all__) == set(host.__all__) == set(NODES)


@pytest.mark.parametrize('name', NODES)
def test_parent_scope_and_locations(name):
    node, parent = getattr(registry, name), getattr(host, name)
    assert node.parent is parent
    assert parent.children['mmgeom'] is node
    assert node.scope == 'mmgeom'
    assert node.name == parent.name
    assert set(parent._locations) <= set(node._locations)
    own = [p for p in node._locations if p.startswith('mmgeom.')]
    assert len(own) == 1
    folder = PACKAGE / own[0].split('.')[1]
    assert (folder / '__init__.py').is_file() or (
        folder.with_suffix('.py').is_file()
    )


FRESH = """
import sys
found = dict(loaded=list(sys.modules))
from mmengine.registry import DefaultScope
from mmengine.registry import root
import mmpretrain.registry as host
from mmgeom import registry
"""


@pytest.mark.parametrize('scope', ['mmpretrain', 'mmgeom'])
def test_both_scopes_see_both_packages_without_imports(scope):
    ours = dict(
        MODELS='mmgeom.LogitAdjustedLoss',
        DATASETS='mmgeom.LongTailedDataset',
        HOOKS='mmgeom.LabelDistributionHook',
        DATA_SAMPLERS='mmgeom.RebalancedSampler',
        METRICS='mmgeom.ShotAccuracy',
        TRANSFORMS='mmgeom.LoadImage',
    )
    theirs = dict(
        MODELS='ImageClassifier',
        DATASETS='CIFAR10',
        HOOKS='EMAHook',
        DATA_SAMPLERS='DefaultSampler',
        METRICS='Accuracy',
        TRANSFORMS='PackInputs',
        VISUALIZERS='UniversalVisualizer',
        BATCH_AUGMENTS='Mixup',
        OPTIMIZERS='SGD',
        PARAM_SCHEDULERS='CosineAnnealingLR',
        LOOPS='EpochBasedTrainLoop',
        EVALUATORS='Evaluator',
        RUNNERS='Runner',
        LOG_PROCESSORS='LogProcessor',
        VISBACKENDS='LocalVisBackend',
        OPTIM_WRAPPERS='OptimWrapper',
        OPTIM_WRAPPER_CONSTRUCTORS='DefaultOptimWrapperConstructor',
        MODEL_WRAPPERS='MMDistributedDataParallel',
        WEIGHT_INITIALIZERS='Kaiming',
    )
    found = run(
        FRESH
        + f"""
DefaultScope.get_instance('test', scope_name={scope!r})
for names in ({ours!r}, {theirs!r}):
    for node, name in names.items():
        # As a runner looks: from the root, through the default scope.
        start = getattr(root, node, getattr(host, node))
        with start.switch_scope_and_registry(None) as registry_:
            cls = registry_.get(name)
        found[name] = None if cls is None else cls.__module__
print(json.dumps(found))
"""
    )
    components = {
        f'{package}.{name}'
        for package in ('mmpretrain', 'mmgeom')
        for name in ('models', 'datasets', 'evaluation', 'engine', 'registry')
    }
    assert 'mmgeom' in found['loaded']
    assert not components & set(found['loaded'])
    for name in ours.values():
        assert found[name] and found[name].startswith('mmgeom.'), name
    for name in theirs.values():
        assert found[name] and not found[name].startswith('mmgeom.'), name


def test_a_foreign_scope_resolves_ours_by_prefix():
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        loss = mmengine_root.MODELS.build(
            dict(type='mmgeom.LogitAdjustedLoss', num_classes=3)
        )
    assert type(loss).__module__.startswith('mmgeom.')
    stamped = host.MODELS.build(
        dict(type='CrossEntropyLoss', _scope_='mmgeom')
    )
    assert type(stamped).__module__.startswith('mmpretrain.')


# The floors -----------------------------------------------------------------
GROUND_FLOOR = [
    PACKAGE / f'{name}.py'
    for name in ('distribution', 'binning', 'grouping', 'labels')
] + sorted((PACKAGE / 'geometry').rglob('*.py'))
UPPER = {
    'registry',
    'models',
    'datasets',
    'engine',
    'evaluation',
    'visualization',
    'apis',
    'checkpoint',
    'compat',
}


def imported(path):
    """Absolute names of all modules that a file imports, anywhere in it."""
    package = ['mmgeom', *path.relative_to(PACKAGE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level]
            prefix = base if node.level else []
            module = '.'.join(prefix + ([node.module] if node.module else []))
            yield module
            yield from (f'{module}.{alias.name}' for alias in node.names)


@pytest.mark.parametrize(
    'path', GROUND_FLOOR, ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_mathematics_knows_no_host_and_no_upper_floor(path):
    for name in imported(path):
        parts = name.split('.')
        assert parts[0] not in ('mmengine', 'mmpretrain', 'mmcv'), name
        if parts[0] == 'mmgeom' and len(parts) > 1:
            assert parts[1] not in UPPER, name


def test_the_scan_of_imports_sees_relative_ones():
    names = set(imported(PACKAGE / 'geometry' / 'prior.py'))
    assert 'mmgeom.distribution.LabelDistribution' in names
    assert 'mmgeom.geometry.precision' in names
    assert 'torch' in names
    upper = set(imported(PACKAGE / 'models' / 'heads' / 'prior_head.py'))
    assert {'mmgeom.registry', 'mmpretrain.models.heads'} <= upper
