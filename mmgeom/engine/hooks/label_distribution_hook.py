# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hand the training-label distribution to whoever needs it."""

import logging
from typing import Any

from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.model import is_model_wrapper
from mmengine.runner import BaseLoop, Runner
from mmpretrain.models.heads import ClsHead
from mmpretrain.models.utils import ClsDataPreprocessor

from mmgeom.distribution import LabelDistribution
from mmgeom.registry import DATASETS, HOOKS
from mmgeom.visualization.tables import distribution_table

#: Key of the distribution in a checkpoint.
CHECKPOINT_KEY = 'label_distribution'


@HOOKS.register_module()
class LabelDistributionHook(Hook):
    """Read the label distribution once and hand it to model and metrics.

    Before training it counts the labels of the training dataset, prints a
    short table, and calls ``set_label_distribution`` of every module of the
    model and every metric that has it. The distribution is written into each
    checkpoint; resuming with other training data is an error, and testing
    takes it from the checkpoint, so that shot groups always come from the
    training data. Testing a checkpoint without one counts the training
    dataset of the config.

    Args:
        bins (dict, optional): Bins of a regression label, the arguments of
            :meth:`mmgeom.binning.LabelBins.from_spec`. Defaults to None,
            which means classes.
        groups (dict, optional): Rule of the shot groups in the printed
            table, the arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: more than
            100, 20 to 100, fewer than 20 samples.
        allow_empty_classes (bool): Train although a class has no sample.
            Defaults to False, since it is nearly always a mistake in the
            data or in the number of classes.
    """

    priority = 'NORMAL'

    def __init__(
        self,
        bins: dict | None = None,
        groups: dict | None = None,
        allow_empty_classes: bool = False,
    ) -> None:
        self.bins = bins
        self.groups = groups or {}
        self.allow_empty_classes = allow_empty_classes

    def before_train(self, runner: Runner) -> None:
        """Read the training data, check, print, and hand out.

        Args:
            runner (Runner): The runner, weights loaded.

        Raises:
            ValueError: When the data and the model disagree about the
                number of classes, a label is out of range, or a class has
                no sample.
        """
        distribution = self._read(runner.train_loop.dataloader.dataset)
        if self.bins is None:
            self._check_classes(runner, distribution)
        table = distribution_table(distribution, self.groups)
        print_log(f'Training labels\n{table}', logger='current')
        for module in _modules(runner, 'set_label_distribution'):
            module.set_label_distribution(distribution)
        for metric in _metrics(runner, 'val'):
            metric.set_label_distribution(distribution)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Write the distribution into the checkpoint.

        Args:
            runner (Runner): The runner.
            checkpoint (dict): Extended in place.
        """
        distribution = self._read(runner.train_loop.dataloader.dataset)
        checkpoint[CHECKPOINT_KEY] = distribution.to_dict()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare when resuming, hand to the metrics when testing.

        Args:
            runner (Runner): The runner.
            checkpoint (dict): As loaded.

        Raises:
            ValueError: When the training data of a resumed run differ from
                those of the checkpoint.
        """
        state = checkpoint.get(CHECKPOINT_KEY)
        if state is None:
            return
        saved = LabelDistribution.from_dict(state)
        if runner._resume and isinstance(runner._train_loop, BaseLoop):
            self._check_unchanged(runner, saved)
        for mode in ('val', 'test'):
            for metric in _metrics(runner, mode):
                metric.set_label_distribution(saved)

    def before_val(self, runner: Runner) -> None:
        """Make sure that everything knows the training data.

        Args:
            runner (Runner): The runner.
        """
        self._fill_missing(runner, 'val')

    def before_test(self, runner: Runner) -> None:
        """Make sure that everything knows the training data.

        Args:
            runner (Runner): The runner.
        """
        self._fill_missing(runner, 'test')

    def _read(self, dataset: Any) -> LabelDistribution:
        return LabelDistribution.from_dataset(dataset, bins=self.bins)

    def _check_classes(
        self, runner: Runner, distribution: LabelDistribution
    ) -> None:
        for module in _modules(runner, 'num_classes'):
            if not isinstance(module, (ClsHead, ClsDataPreprocessor)):
                continue
            expected = module.num_classes
            if expected not in (None, distribution.num_classes):
                raise ValueError(
                    f'{type(module).__name__} has num_classes={expected} but '
                    f'the training data has {distribution.num_classes} '
                    'classes: set num_classes of the head and of the data '
                    'preprocessor to the number of classes in the data.'
                )
        empty = distribution.empty.tolist()
        if empty and not self.allow_empty_classes:
            raise ValueError(
                f'{len(empty)} of {distribution.num_classes} classes have no '
                f'training sample, among them {empty[:8]}: remove them from '
                'the data, or set allow_empty_classes=True of '
                'LabelDistributionHook.'
            )

    def _check_unchanged(
        self, runner: Runner, saved: LabelDistribution
    ) -> None:
        current = self._read(runner.train_loop.dataloader.dataset)
        if current != saved:
            raise ValueError(
                'cannot resume: the training data of the checkpoint had '
                f'{saved!r}, the config now gives {current!r}; restore the '
                'data, or start anew from its weights with load_from.'
            )

    def _fill_missing(self, runner: Runner, mode: str) -> None:
        """Count the config's training data where no checkpoint told."""
        waiting = [
            metric
            for metric in _metrics(runner, mode)
            if metric.label_distribution is None
        ]
        waiting += [
            module
            for module in _modules(runner, 'needs_label_distribution')
            if module.needs_label_distribution
        ]
        loader = runner.cfg.get('train_dataloader')
        if not waiting or not loader:
            return
        print_log(
            'The checkpoint tells no label distribution; counting the '
            'training dataset of the config.',
            logger='current',
        )
        try:
            distribution = self._read(DATASETS.build(loader['dataset']))
        except OSError as error:
            print_log(
                f'No label distribution, since {error}',
                logger='current',
                level=logging.WARNING,
            )
            return
        for item in waiting:
            item.set_label_distribution(distribution)


def _modules(runner: Runner, attribute: str) -> list:
    """Modules of the unwrapped model that have an attribute."""
    model = runner.model
    if is_model_wrapper(model):
        model = model.module
    return [m for m in model.modules() if hasattr(m, attribute)]


def _metrics(runner: Runner, mode: str) -> list:
    """Metrics of a loop that has been built that take a distribution."""
    loop = getattr(runner, f'_{mode}_loop', None)
    evaluator = getattr(loop, 'evaluator', None)
    return [
        metric
        for metric in getattr(evaluator, 'metrics', [])
        if hasattr(metric, 'set_label_distribution')
    ]
