# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What a training step of each method is spent on.

The models, batch sizes and optimisers are those of the methods' configs, on
random images of the size of CIFAR's, or rows of numbers. ``preprocess`` is
the data preprocessor with its augmentations of batches, ``backbone`` its
forward and backward pass, ``head`` those of head and loss, ``optimizer`` the
update. ``rest``, what a whole step takes besides, is the host's: the optimiser
wrapper and the numbers for the log. All are shares of ``step_ms``. On a GPU
each part waits for the one before, which a whole step does not.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from harness import add_arguments, report
from mmengine.config import Config, ConfigDict
from mmengine.optim import OptimWrapper, build_optim_wrapper
from mmengine.registry import DefaultScope
from torch import nn

import mmgeom.models  # noqa: F401
from mmgeom.binning import LabelBins
from mmgeom.datasets.long_tailed_profile import long_tailed_counts
from mmgeom.distribution import LabelDistribution
from mmgeom.registry import MODELS
from mmgeom.structures import BatchSamples

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'
IMAGES = '_resnet32_1xb{}-200e_cifar100-lt-if100'
METHODS = {
    'CE': 'baseline/ce' + IMAGES.format(128),
    'LA': 'baseline/logit-adjustment' + IMAGES.format(128),
    'NCMC': 'ncmc/ncmc-cal' + IMAGES.format(128),
    'SETF': 'setf/setf' + IMAGES.format(128),
    'RBL': 'rbl/rbl' + IMAGES.format(128),
    'SupCon': 'supcon/supcon' + IMAGES.format(256),
    'BCL': 'bcl/bcl' + IMAGES.format(256),
    'FeatRecon': 'featrecon/featrecon' + IMAGES.format(256),
    'SRL': 'srl/srl_mlp_1xb64-200e_uci-concrete-dir',
}
PARTS = ('preprocess', 'backbone', 'head', 'optimizer')
SIZE = 32


def class_counts(number: int) -> torch.Tensor:
    """Numbers of training samples of classes or bins, from 500 to 5."""
    return torch.from_numpy(long_tailed_counts(number, 500, 100))


def make_model(cfg: Config, device: str) -> nn.Module:
    """The model of a config, which has been told about its data."""
    torch.manual_seed(0)
    config = ConfigDict(cfg.model)
    if 'data_preprocessor' in cfg:
        config.setdefault('data_preprocessor', cfg.data_preprocessor)
    model = MODELS.build(config).to(device).train()
    number, bins = config.head.get('num_classes'), None
    if number is None:
        number = config.head.num_bins
        bins = LabelBins(torch.arange(number + 1.0))
    distribution = LabelDistribution(class_counts(number), bins=bins)
    for module in model.modules():
        if hasattr(module, 'set_label_distribution'):
            module.set_label_distribution(distribution)
        if hasattr(module, 'set_input_statistics'):
            dim = config.backbone.in_channels
            module.set_input_statistics(torch.zeros(dim), torch.ones(dim))
    return model


def make_data(cfg: Config, batch: int, device: str) -> dict:
    """A batch as its dataset gives it."""
    rng = torch.Generator().manual_seed(1)
    head, backbone = cfg.model.head, cfg.model.backbone
    number = head.get('num_classes', head.get('num_bins'))
    shares = class_counts(number).double()
    labels = shares.multinomial(batch, True, generator=rng)
    if 'num_bins' in head:
        inputs = torch.randn(batch, backbone.in_channels, generator=rng)
        fields = dict(gt_score=labels[:, None] + 0.5)
    else:
        shape = batch, backbone.get('in_channels', 3), SIZE, SIZE
        inputs = torch.randint(256, shape, dtype=torch.uint8, generator=rng)
        fields = dict(gt_label=labels)
    samples = BatchSamples(fields).to(device)
    return dict(inputs=inputs.to(device), data_samples=samples)


def make_epoch(model: nn.Module, step: Callable[[], object]) -> None:
    """Go through an epoch of one step, and start the next one."""
    for epoch in range(2):
        for module in model.modules():
            if hasattr(module, 'before_epoch'):
                module.before_epoch(epoch, 200)
        step()
        if epoch:
            return
        for module in model.modules():
            if hasattr(module, 'after_epoch'):
                module.after_epoch(epoch)


def whole_step(
    model: nn.Module, data: Mapping, optimizer: OptimWrapper
) -> Callable[[], object]:
    """A training step as the host's loop takes it."""
    return lambda: model.train_step(dict(data), optimizer)


def partial_times(
    model: nn.Module, data: Mapping, optimizer: OptimWrapper, device: str
) -> dict[str, float]:
    """Seconds of the parts of a step, which takes the same way in pieces."""
    clock = _Clock(device)
    batch = model.data_preprocessor(dict(data), True)
    clock.stop('preprocess')
    (feature,) = model.extract_feat(batch['inputs'])
    clock.stop('backbone')
    leaf = feature.detach().requires_grad_()
    losses = model.head.loss((leaf,), batch['data_samples'])
    sum(v for k, v in losses.items() if 'loss' in k).backward()
    clock.stop('head')
    feature.backward(leaf.grad)
    clock.stop('backbone')
    optimizer.step()
    optimizer.zero_grad()
    clock.stop('optimizer')
    return clock.times


class _Clock:
    """Adds up seconds since the last stop, by the part they belong to."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.times: dict[str, float] = {}
        self.start = self._now()

    def stop(self, part: str) -> None:
        now = self._now()
        self.times[part] = self.times.get(part, 0.0) + now - self.start
        self.start = now

    def _now(self) -> float:
        if self.device == 'cuda':
            torch.cuda.synchronize()
        return time.perf_counter()


def measure(method: str, args: argparse.Namespace) -> dict:
    """A row of the table."""
    cfg = Config.fromfile(CONFIGS / f'{METHODS[method]}.py')
    batch = 8 if args.smoke else cfg.train_dataloader.batch_size
    if args.smoke and 'depth' in cfg.model.backbone:
        cfg.model.backbone.depth = 8
    model = make_model(cfg, args.device)
    data = make_data(cfg, batch, args.device)
    optimizer = build_optim_wrapper(model, cfg.optim_wrapper)
    step = whole_step(model, data, optimizer)
    make_epoch(model, step)
    whole, parts = [], []
    for _ in range(args.repeats):
        clock = _Clock(args.device)
        step()
        clock.stop('step')
        whole.append(clock.times['step'])
        parts.append(partial_times(model, data, optimizer, args.device))
    total = statistics.median(whole)
    row = dict(method=method, batch=batch, step_ms=1000 * total)
    for name in PARTS:
        row[name] = statistics.median(part[name] for part in parts) / total
    # Of another run than the parts: noise may leave it below zero.
    row['rest'] = 1 - sum(row[name] for name in PARTS)
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    parser.add_argument(
        '--methods',
        nargs='+',
        choices=METHODS,
        default=list(METHODS),
        help='default all',
    )
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    DefaultScope.get_instance('profile_step', scope_name='mmpretrain')
    rows = [measure(method, args) for method in args.methods]
    report(f'Parts of a training step, {args.device}', rows, args)


if __name__ == '__main__':
    main()
