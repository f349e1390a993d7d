# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Hand the training-label distribution to whoever needs it."""

import logging
from typing import Any

from mmengine.hooks import Hook
from mmengine.logging import print_log
from mmengine.runner import BaseLoop, Runner
from mmpretrain.models.heads import ClsHead
from mmpretrain.models.utils import ClsDataPreprocessor

from mmgeom.distribution import LabelDistribution
from mmgeom.labels import has_several_targets
from mmgeom.registry import DATASETS, HOOKS
from mmgeom.visualization.tables import distribution_table

from .checkpoint_check_hook import evaluated_models
from .evaluation_classes import check_evaluation_classes

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
    dataset of the config. A runner whose model has no head and asks for no
    labels is left alone, and so is a regression of several targets a sample,
    of which there is no distribution, unless ``bins`` are given.

    Args:
        bins (dict, optional): Bins of a regression label, the arguments of
            :meth:`mmgeom.binning.LabelBins.from_spec`. Defaults to None,
            which means classes.
        groups (dict, optional): Rule of the shot groups in the printed
            table, the arguments of
            :meth:`LabelDistribution.groups`. Defaults to None: the rule of
            the metrics, else more than 100, 20 to 100, fewer than 20
            samples.
        allow_empty_classes (bool): Train although a class has no sample.
            Defaults to False, since it is nearly always a mistake in the
            data or in the number of classes.
    """

    # After EMAHook, which may overwrite the model's buffers before training.
    priority = 'BELOW_NORMAL'

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
                number of classes, a label is out of range, a class has no
                sample, or the validation data have other classes.
        """
        if not _uses_labels(runner):
            return
        distribution = self._read_of(runner)
        if distribution is None:
            return
        if self.bins is None:
            self._check_classes(runner, distribution)
        self._check_evaluation(runner, distribution, 'val')
        table = distribution_table(distribution, self._shown_groups(runner))
        print_log(f'Training labels\n{table}', logger='current')
        for item in _takers(runner, 'val'):
            item.set_label_distribution(distribution)

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Write the distribution into the checkpoint.

        Args:
            runner (Runner): The runner.
            checkpoint (dict): Extended in place.
        """
        if not _uses_labels(runner):
            return
        distribution = self._read_of(runner)
        if distribution is not None:
            checkpoint[CHECKPOINT_KEY] = distribution.to_dict()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict) -> None:
        """Compare when resuming, hand out when testing.

        Training from the weights of a checkpoint takes nothing from it: the
        distribution of the new data comes before the first iteration.

        Args:
            runner (Runner): The runner.
            checkpoint (dict): As loaded.

        Raises:
            ValueError: When the training data of a resumed run differ from
                those of the checkpoint, or evaluated data have other
                classes.
        """
        state = checkpoint.get(CHECKPOINT_KEY)
        if state is None:
            return
        saved = LabelDistribution.from_dict(state)
        if not isinstance(runner._train_loop, BaseLoop):
            for item in _takers(runner, 'val', 'test'):
                item.set_label_distribution(saved)
            self._check_evaluation(runner, saved, 'val', 'test')
        elif runner._resume:
            self._check_unchanged(runner, saved)

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

    def _shown_groups(self, runner: Runner) -> dict:
        """The rule of the table: ours, else that of the metrics."""
        rules = [getattr(m, 'groups', None) for m in _metrics(runner, 'val')]
        return self.groups or next((rule for rule in rules if rule), {})

    def _read_of(self, runner: Runner) -> LabelDistribution | None:
        return self._read(runner, runner.train_loop.dataloader.dataset)

    def _read(self, runner: Runner, dataset: Any) -> LabelDistribution | None:
        """None for several targets a sample, if the model needs none."""
        try:
            return LabelDistribution.from_dataset(dataset, bins=self.bins)
        except TypeError:
            needed = _modules(runner, 'set_label_distribution')
            if self.bins is not None or needed:
                raise
            if not has_several_targets(dataset):
                raise
            return None

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

    def _check_evaluation(
        self, runner: Runner, distribution: LabelDistribution, *modes: str
    ) -> None:
        for mode in modes:
            loop = getattr(runner, f'_{mode}_loop', None)
            if self.bins is None and isinstance(loop, BaseLoop):
                check_evaluation_classes(
                    loop.dataloader.dataset, mode, distribution
                )

    def _check_unchanged(
        self, runner: Runner, saved: LabelDistribution
    ) -> None:
        current = self._read_of(runner)
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
        if not waiting:
            return
        distribution = self._read_training_data(runner)
        if distribution is None:
            return
        for item in waiting:
            item.set_label_distribution(distribution)

    def _read_training_data(self, runner: Runner) -> LabelDistribution | None:
        """Read what is trained on, or would be; a failure only warns."""
        if isinstance(runner._train_loop, BaseLoop):
            return self._read_of(runner)
        loader = runner.cfg.get('train_dataloader')
        if not loader:
            return None
        print_log(
            'The checkpoint tells no label distribution; counting the '
            'training dataset of the config.',
            logger='current',
        )
        try:
            dataset = loader['dataset']
            if isinstance(dataset, dict):
                dataset = DATASETS.build(dataset)
            return self._read(runner, dataset)
        # Testing goes on without, whatever a reader raises for lack of data.
        except Exception as error:
            print_log(
                'No label distribution, since the training dataset cannot be '
                f'read ({error}): restore it, or use a checkpoint of '
                'mmgeom.LabelDistributionHook.',
                logger='current',
                level=logging.WARNING,
            )
            return None


def _uses_labels(runner: Runner) -> bool:
    """Whether there is a head, or anything that asks for the labels.

    The host's tools run hooks on toy models with data that have no labels.
    """
    return bool(_modules(runner, 'head') or _takers(runner, 'val'))


def _takers(runner: Runner, *modes: str) -> list:
    """Modules of the model and metrics that take a distribution."""
    takers = _modules(runner, 'set_label_distribution')
    for mode in modes:
        takers += _metrics(runner, mode)
    return takers


def _modules(runner: Runner, attribute: str) -> list:
    """Modules that have an attribute, of the model and its averages."""
    return [
        module
        for root in evaluated_models(runner)
        for module in root.modules()
        if hasattr(module, attribute)
    ]


def _metrics(runner: Runner, mode: str) -> list:
    """Metrics of a loop that has been built that take a distribution."""
    loop = getattr(runner, f'_{mode}_loop', None)
    evaluator = getattr(loop, 'evaluator', None)
    return [
        metric
        for metric in getattr(evaluator, 'metrics', [])
        if hasattr(metric, 'set_label_distribution')
    ]
