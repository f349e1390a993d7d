# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""FeatRecon: contrast on a reconstructed feature space."""

from typing import Any

import torch
from torch import Tensor

from mmgeom.distribution import LabelDistribution
from mmgeom.geometry import (
    ClassStatistics,
    Reconstruction,
    StepGenerator,
    class_temperature,
    fill_numbers,
    kukleva_schedule,
    rank,
    reconstruct,
    reduce_sum_,
    sample_confidence_support,
    supervised_contrastive_loss,
    world_size,
)
from mmgeom.registry import MODELS

from .contrastive_head import ContrastiveHead
from .supcon_head import check_temperature

GROUPS = ('many', 'medium', 'few')


@MODELS.register_module()
class FeatReconHead(ContrastiveHead):
    r"""Contrast with synthetic features of a reconstructed feature space.

    At the end of an epoch, mean :math:`\hat\mu_k` and angular quantile
    :math:`\hat\theta_k` of each class's projected features are measured
    (Eq. 7); tail classes borrow from the ``q`` head classes nearest to them
    (Eq. 8 and 9); and a cap around each mean, no wider than half the angle
    between vertices of the regular simplex, is where the class may lie
    (Eq. 10). In the next epoch each batch is filled up with synthetic
    features of these caps, so that every class has as many keys in it, and
    the balanced optimum of the contrastive loss, a simplex, is that of the
    batch. They are keys only, and constants.

    .. math::
        L_{SC} = \frac{1}{M} \sum_i \frac{-1}{|P(i)|} \sum_{p \in P(i)} \log
        \frac{\exp(z_i \cdot z_p / \tau_{y_i})}
        {\sum_{l \ne i} \exp(z_i \cdot z_l / \tau_{y_i})}

    with the temperature of the anchor's class (Eq. 11), small for rare
    classes: :math:`\tau_k` rises from :math:`\tau_-` for the smallest class
    to :math:`\tau_+` for the largest.

    Source: *Geometry of Long-Tailed Representation Learning: Rebalancing
    Features for Skewed Distributions* (ICLR 2025, submitted as
    *Representation Learning for Long Tail Recognition via Feature Space
    Re-Construction*), of which no code is public. The
    paper does not state the rule of head classes, q, gamma, how many
    features are made, how often statistics are renewed, and the schedule's
    details; the defaults are choices of this package. The weights of Eq. 9
    use the head class's count, without which they do not sum to one.
    For ablations, ``tau_plus = tau_minus`` leaves out the class temperature,
    and ``gen_mode='none'`` the synthetic features; with both and
    :class:`~mmgeom.models.heads.SupConHead`'s temperature it is that head.

    Synthetic features are drawn from one seed on all ranks, so that several
    processes compute what one would.

    Args:
        num_classes (int): K, at least 2.
        in_channels (int): Width of the feature.
        alpha (float): Quantile :math:`\alpha`, in ``(0, 1]``. Defaults to
            0.99.
        q (int): Number of head classes a tail class borrows from. Defaults
            to 3.
        gamma (float): Weight of a tail class's own statistics, in
            ``[0, 1]``; 1 borrows nothing. Defaults to 0.5.
        head_rule (str | tuple): Which classes are head classes: ``'mean'``,
            of at least N / K samples; ``'many_shot'``, of more than 100; or
            ``('top', p)``, the share p of largest classes. Defaults to
            ``'mean'``.
        sampler (str): Law of the angle to the class mean: ``'truncnorm'``, a
            normal law fitted to the class's angles, ``'uniform_cap'``,
            uniform in the cap, or ``'uniform_angle'``. Defaults to
            ``'truncnorm'``.
        gen_mode (str): ``'fill'`` fills each class up to the largest of the
            batch, ``'const'`` makes ``gen_number`` of each, ``'none'`` makes
            no synthetic features. Defaults to ``'fill'``.
        gen_number (int | None): Synthetic features of a class in each batch
            with ``'const'``. Defaults to None: 1 from 1000 classes on, else
            8.
        gen_cap (int | None): Largest number of a class. Defaults to None, no
            limit.
        gen_classes (str): ``'all'``, or ``'tail'`` for classes that are not
            head classes. Defaults to ``'all'``.
        max_gen (int): Largest number of synthetic features in a batch; of
            classes drawn at random when exceeded. Defaults to 8192.
        syn_as_anchor (bool): Synthetic features are anchors, too. Defaults
            to False.
        tau_minus (float): :math:`\tau_-`, positive. Defaults to 0.1.
        tau_plus (float): :math:`\tau_+`, at least ``tau_minus``; with a
            schedule its largest value. Defaults to 1.0.
        tau_schedule (str): ``'kukleva'``, a cosine from ``tau_plus`` down to
            ``tau_minus``, or ``'constant'``. Defaults to ``'kukleva'``.
        tau_T (int | None): Epochs in which the cosine comes down; it goes up
            again after. Defaults to 200; None means all epochs.
        start_epoch (int): First epoch with synthetic features, at least 1,
            counted from 0. Defaults to 1.
        update_interval (int): Statistics are renewed at the end of every
            such epoch. Defaults to 1.
        stat_momentum (float): Weight of the old statistics, in ``[0, 1]``.
            Defaults to 0.0, which replaces them.
        feature_store (str): ``'exact'`` keeps the features of the epoch in
            half precision, ``'stream'`` sums and histograms only. Defaults
            to ``'exact'``.
        groups (dict, optional): Rule of the groups in the log, the arguments
            of :meth:`~mmgeom.distribution.LabelDistribution.groups`, which
            names some of ``many``, ``medium`` and ``few``. Defaults to None:
            more than 100, 20 to 100, fewer than 20 samples.
        seed (int): Seed of the synthetic features. Defaults to 0.
        **kwargs: Arguments of
            :class:`~mmgeom.models.heads.ContrastiveHead`.

    Raises:
        ValueError: When an argument is out of its range.
    """

    #: Buffers that a label distribution fills.
    distribution_buffers = ('counts', 'is_head', 'group_masks')

    def __init__(
        self,
        num_classes: int,
        in_channels: int,
        alpha: float = 0.99,
        q: int = 3,
        gamma: float = 0.5,
        head_rule: str | tuple[str, float] = 'mean',
        sampler: str = 'truncnorm',
        gen_mode: str = 'fill',
        gen_number: int | None = None,
        gen_cap: int | None = None,
        gen_classes: str = 'all',
        max_gen: int = 8192,
        syn_as_anchor: bool = False,
        tau_minus: float = 0.1,
        tau_plus: float = 1.0,
        tau_schedule: str = 'kukleva',
        tau_T: int | None = 200,
        start_epoch: int = 1,
        update_interval: int = 1,
        stat_momentum: float = 0.0,
        feature_store: str = 'exact',
        groups: dict | None = None,
        seed: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_classes, in_channels, **kwargs)
        self.q, self.gamma = q, gamma
        self.head_rule = head_rule
        self.sampler = sampler
        self.gen_mode, self.gen_number, self.gen_cap = (
            gen_mode,
            gen_number,
            gen_cap,
        )
        self.gen_classes, self.max_gen = gen_classes, max_gen
        self.syn_as_anchor = syn_as_anchor
        self.tau_minus, self.tau_plus = tau_minus, tau_plus
        self.tau_schedule, self.tau_T = tau_schedule, tau_T
        self.start_epoch, self.update_interval = start_epoch, update_interval
        self.groups = groups or dict(by='count', many=100, few=20)
        self._check()
        self.statistics = ClassStatistics(
            num_classes,
            self.projector.out_channels,
            alpha=alpha,
            store=feature_store,
            momentum=stat_momentum,
        )
        self.generator = StepGenerator(seed)
        self.register_buffer('counts', torch.zeros(num_classes))
        self.register_buffer(
            'is_head', torch.zeros(num_classes, dtype=torch.bool)
        )
        self.register_buffer(
            'group_masks', torch.zeros(len(GROUPS), num_classes)
        )
        # Derived at the start of each epoch from what is saved.
        self._epoch: int | None = None
        self._temperature: Tensor | None = None
        self._space: Reconstruction | None = None

    @property
    def needs_label_distribution(self) -> bool:
        """Whether the class counts are not known yet."""
        return not bool(self.counts.any())

    def set_label_distribution(self, distribution: LabelDistribution) -> None:
        """Take the class counts, from which the rest follows.

        Args:
            distribution (LabelDistribution): Over K classes.

        Raises:
            ValueError: When it has another number of classes.
        """
        if distribution.num_classes != self.num_classes:
            raise ValueError(
                f'the head has num_classes={self.num_classes} but the '
                f'training data has {distribution.num_classes} classes: set '
                'num_classes to the number of classes in the data.'
            )
        groups = distribution.groups(**self.groups)
        if not set(groups) <= set(GROUPS):
            raise ValueError(
                f'groups of FeatReconHead may be named {", ".join(GROUPS)}, '
                f'got {", ".join(groups)}: rename them.'
            )
        self.counts.copy_(distribution.counts)
        self.is_head.copy_(distribution.head_mask(self.head_rule))
        self.group_masks.zero_()
        for name, index in groups.items():
            self.group_masks[GROUPS.index(name), index] = 1

    def reset_epochs(self) -> None:
        """Forget statistics and random state before a new training."""
        self.statistics.reset()
        self.generator.reset()

    def forget_epoch(self) -> None:
        """Forget the features of an epoch that was cut short."""
        self.statistics.clear()

    def before_epoch(self, epoch: int, max_epochs: int) -> None:
        """Set the temperatures, and reconstruct the space anew.

        Args:
            epoch (int): Counted from 0.
            max_epochs (int): Length of the training.

        Raises:
            RuntimeError: When the class counts are not known.
        """
        if self.needs_label_distribution:
            raise RuntimeError(
                'FeatReconHead does not know the class counts: keep '
                'mmgeom.LabelDistributionHook in the config, or call '
                'set_label_distribution().'
            )
        self._epoch = epoch
        self._temperature = class_temperature(
            self.counts, self.tau_minus, self._largest_tau(epoch, max_epochs)
        )
        self._space = None
        if epoch >= self.start_epoch and bool(self.statistics.valid.any()):
            self._space = self._reconstruct()

    def after_epoch(self, epoch: int) -> None:
        """Renew the class statistics.

        Args:
            epoch (int): Counted from 0.
        """
        if self._renews(epoch):
            self.statistics.update()

    def contrast(self, features: Tensor, labels: Tensor) -> dict:
        """Contrast features with each other and with synthetic ones.

        Args:
            features (Tensor): Unit rows, shape ``(2 B, h)``.
            labels (Tensor): Their classes, shape ``(2 B,)``.

        Returns:
            dict: ``loss_contrast`` and monitored values.

        Raises:
            RuntimeError: When no epoch was started.
        """
        # Not by the epoch, for each of which a graph would be compiled.
        if self._temperature is None:
            raise RuntimeError(
                'FeatReconHead has not been told the epoch: add '
                "dict(type='mmgeom.EpochHook') to custom_hooks."
            )
        keys, key_labels, monitored = features[:0].detach(), labels[:0], {}
        if self.gen_mode != 'none':
            keys, key_labels, monitored = self._use_statistics(
                features.detach(), labels
            )
        loss = self.contrast_with(features, labels, keys, key_labels)
        return dict(loss_contrast=loss, **monitored)

    def contrast_with(
        self,
        features: Tensor,
        labels: Tensor,
        keys: Tensor,
        key_labels: Tensor,
    ) -> Tensor:
        """The loss with given synthetic features.

        Args:
            features (Tensor): Unit rows, shape ``(2 B, h)``.
            labels (Tensor): Their classes, shape ``(2 B,)``.
            keys (Tensor): Synthetic features, shape ``(G, h)``.
            key_labels (Tensor): Their classes, shape ``(G,)``.

        Returns:
            Tensor: The loss, not weighted.
        """
        if self.syn_as_anchor:
            own = slice(rank(), None, world_size())
            features = torch.cat([features, keys[own]])
            labels = torch.cat([labels, key_labels[own]])
            keys, key_labels = keys[:0], key_labels[:0]
        return supervised_contrastive_loss(
            features,
            labels,
            self._temperature,
            extra_keys=keys,
            extra_labels=key_labels,
            implementation=self.implementation,
            across_ranks=True,
        )

    # Random draws of a number that depends on the batch, and memory that
    # grows: torch.compile leaves its graph here, once in a step.
    @torch.compiler.disable
    def _use_statistics(
        self, features: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, dict]:
        """Synthesize by the statistics, and add a batch to the next ones."""
        synthetic = self._synthesize(labels)
        # Of both views of an image one: they are not independent.
        if self.training and self._renews(self._epoch):
            half = len(labels) // 2
            self.statistics.accumulate(features[:half], labels[:half])
        return synthetic

    def _synthesize(self, labels: Tensor) -> tuple[Tensor, Tensor, dict]:
        """Synthetic features for a batch, their classes, and the log."""
        space = self._space
        if space is None:
            empty = self.statistics.mean[:0]
            return empty, labels[:0], {}
        # Not by bincount, for which the host waits for the device.
        present = labels.new_zeros(self.num_classes)
        present.index_add_(0, labels, torch.ones_like(labels))
        reduce_sum_(present)
        generator = self.generator(labels.device)
        numbers = fill_numbers(
            present,
            space.valid,
            generator,
            cap=self.gen_cap,
            max_total=self.max_gen,
            mode=self.gen_mode,
            number=self.gen_number,
            eligible=~self.is_head if self.gen_classes == 'tail' else None,
        )
        keys, key_labels = sample_confidence_support(
            space.mean,
            space.cap,
            numbers,
            generator,
            space.angle_mean,
            space.angle_std,
            sampler=self.sampler,
        )
        used = self.group_masks @ numbers.to(self.group_masks)
        monitored = {
            f'synthetic_{name}': value
            for name, value in zip(GROUPS, used, strict=True)
        }
        valid = space.valid
        angle = torch.where(valid, space.angle, 0).sum()
        # Means that were borrowed may cancel and leave no class valid.
        angle = angle / valid.sum().clamp(min=1)
        monitored['angle'] = torch.rad2deg(angle)
        monitored['clipped_caps'] = (space.clipped & valid).sum().float()
        return keys, key_labels, monitored

    def _reconstruct(self) -> Reconstruction:
        own = self.statistics
        return reconstruct(
            own.mean,
            own.angle,
            own.angle_mean,
            own.angle_std,
            self.counts,
            self.is_head,
            own.valid,
            q=self.q,
            gamma=self.gamma,
        )

    def _largest_tau(self, epoch: int, max_epochs: int) -> float:
        if self.tau_schedule == 'constant':
            return self.tau_plus
        period = max_epochs if self.tau_T is None else self.tau_T
        return kukleva_schedule(epoch, self.tau_minus, self.tau_plus, period)

    def _renews(self, epoch: int) -> bool:
        """Whether the statistics of an epoch are taken."""
        wanted = self.gen_mode != 'none'
        return wanted and (epoch + 1) % self.update_interval == 0

    def _check(self) -> None:
        for name in ('tau_minus', 'tau_plus'):
            check_temperature(name, getattr(self, name))
        if self.tau_plus < self.tau_minus:
            raise ValueError(
                'tau_plus is the temperature of the largest class and must '
                f'not be below tau_minus={self.tau_minus}, got '
                f'{self.tau_plus}.'
            )
        for name, known in (
            ('sampler', ('truncnorm', 'uniform_cap', 'uniform_angle')),
            ('gen_mode', ('fill', 'const', 'none')),
            ('gen_classes', ('all', 'tail')),
            ('tau_schedule', ('kukleva', 'constant')),
        ):
            value = getattr(self, name)
            if value not in known:
                raise ValueError(
                    f'{name} must be one of {", ".join(map(repr, known))}, '
                    f'got {value!r}.'
                )
        for name in (
            'q',
            'gen_number',
            'gen_cap',
            'max_gen',
            'start_epoch',
            'update_interval',
        ):
            value = getattr(self, name)
            if value is None and name in ('gen_number', 'gen_cap'):
                continue
            if not isinstance(value, int) or value < 1:
                raise ValueError(
                    f'{name} must be a whole number of at least 1, got '
                    f'{value!r}.'
                )
        if self.tau_T is not None and not self.tau_T >= 1:
            raise ValueError(f'tau_T must be at least 1, got {self.tau_T}.')
        if self.gen_number is not None and self.gen_mode != 'const':
            raise ValueError(
                f"gen_number={self.gen_number} is for gen_mode='const', "
                f'but gen_mode is {self.gen_mode!r}: set gen_cap to limit '
                'what a class gets.'
            )
        if not 0 <= self.gamma <= 1:
            raise ValueError(f'gamma must lie in [0, 1], got {self.gamma}.')
