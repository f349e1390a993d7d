# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Batches made as a whole against samples made one by one.

Timed is an epoch of CIFAR-like images from the dataset to what a head sees:
augmented and normalised images on the device, and labels as one tensor.
``samples`` is mmpretrain's path, with a pipeline for each image; ``batched``
that of ``mmgeom.BatchedDataset`` and ``mmgeom.BatchedDataPreprocessor`` with
the same random transforms. Both use no worker processes, so that the numbers
are those of one process.
"""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from harness import add_arguments, paired_times, report
from mmengine.dataset import default_collate
from mmengine.registry import DefaultScope
from torch.utils.data import DataLoader

import mmgeom.models.batch_augmentations  # noqa: F401
from mmgeom.apis.batched_data import batched
from mmgeom.datasets import ArrayDataset
from mmgeom.datasets.batched_dataset import BatchedDataset
from mmgeom.registry import DATASETS, MODELS
from mmgeom.structures import batch_target

BATCH, NUM_CLASSES = 128, 10
CROP = dict(type='RandomCrop', crop_size=32, padding=4)
FLIP = dict(type='RandomFlip', prob=0.5, direction='horizontal')
FIRST_VIEW = [
    CROP,
    FLIP,
    dict(type='mmgeom.CIFARAutoAugment', channel_order='rgb'),
    dict(type='Cutout', shape=16, prob=1.0),
]
OTHER_VIEWS = [
    dict(type='RandomResizedCrop', scale=32),
    FLIP,
    dict(
        type='mmgeom.ColorJitter',
        brightness=0.4,
        contrast=0.4,
        saturation=0.4,
        hue=0.1,
        prob=0.8,
        channel_order='rgb',
    ),
    dict(
        type='RandomGrayscale',
        prob=0.2,
        keep_channels=True,
        channel_weights=(0.299, 0.587, 0.114),
        color_format='rgb',
    ),
]
PIPELINES = {
    'crop and flip': [CROP, FLIP],
    'three views': [
        dict(
            type='MultiView',
            num_views=[1, 2],
            transforms=[FIRST_VIEW, OTHER_VIEWS],
        )
    ],
}
NORMALIZATION = dict(
    mean=[125.307, 122.961, 113.8575], std=[51.5865, 50.847, 51.255]
)


@DATASETS.register_module()
class RandomImages(ArrayDataset):
    """Images of the size of CIFAR's, of random pixels."""

    def __init__(self, number: int, **kwargs) -> None:
        self.number = number
        super().__init__(**kwargs)

    def load_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Draw them."""
        generator = np.random.default_rng(0)
        shape = (self.number, 32, 32, 3)
        images = generator.integers(0, 256, shape, dtype=np.uint8)
        return images, generator.integers(0, NUM_CLASSES, self.number)


def make_config(pipeline: list[dict], number: int) -> dict:
    """What a config says on training data."""
    views = pipeline[0]['type'] == 'MultiView'
    kind = 'mmgeom.MultiViewDataPreprocessor' if views else None
    return dict(
        train_dataloader=dict(
            dataset=dict(
                type='mmgeom.RandomImages',
                number=number,
                pipeline=[*pipeline, dict(type='PackInputs')],
            )
        ),
        data_preprocessor=dict(
            type=kind or 'ClsDataPreprocessor', **NORMALIZATION
        ),
    )


def epoch(
    dataset: object, preprocessor: dict, device: str
) -> Callable[[], None]:
    """Go through a dataset once."""
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        collate_fn=default_collate,
        pin_memory=device == 'cuda',
    )
    prepare = MODELS.build(preprocessor).to(device)

    def step() -> None:
        for batch in loader:
            prepared = prepare(batch, training=True)
            batch_target(prepared['data_samples'])

    return step


def measure(name: str, number: int, args: argparse.Namespace) -> dict:
    """A row of the table."""
    cfg = make_config(PIPELINES[name], number)
    _, changes = batched(cfg)
    plain = DATASETS.build(cfg['train_dataloader']['dataset'])
    quiet = batched(cfg)[0]['dataset']['dataset']
    device = args.device
    steps = dict(
        samples=epoch(plain, cfg['data_preprocessor'], device),
        batched=epoch(
            BatchedDataset(quiet, None if device == 'cpu' else device),
            {**cfg['data_preprocessor'], **changes},
            device,
        ),
    )
    times = paired_times(steps, args.repeats, device)
    row = dict(transforms=name, N=number, B=BATCH)
    row |= {f'{key}_us': 1e6 * t / number for key, t in times.items()}
    row |= {f'{key}_per_s': number / t for key, t in times.items()}
    row['time_ratio'] = times['samples'] / times['batched']
    return row


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_arguments(parser)
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    number = BATCH if args.smoke else 32 * BATCH
    DefaultScope.get_instance('data_path', scope_name='mmpretrain')
    rows = [measure(name, number, args) for name in PIPELINES]
    report(f'Data of an epoch, 32x32 images, {args.device}', rows, args)


if __name__ == '__main__':
    main()
