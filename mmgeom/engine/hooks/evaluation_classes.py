# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Whether evaluation data have the classes of the training data."""

from typing import Any

from mmgeom.distribution import LabelDistribution
from mmgeom.labels import dataset_class_names, dataset_labels, flat_labels


def check_evaluation_classes(
    dataset: Any, mode: str, distribution: LabelDistribution
) -> None:
    """Compare class names and labels of evaluation and training data.

    Folders are numbered in alphabetical order, so that a missing or renamed
    one shifts the labels of others, and accuracies become wrong in silence.

    Args:
        dataset (Any): Evaluation data.
        mode (str): ``'val'`` or ``'test'``, for the message.
        distribution (LabelDistribution): Of the training data.

    Raises:
        ValueError: When both know class names and these differ, or a label
            lies outside the classes of the training data.
    """
    trained, tested = distribution.class_names, dataset_class_names(dataset)
    if trained and tested and trained != tested:
        pairs = list(zip(trained, tested))
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        where = (
            f'{len(tested)} classes instead of {len(trained)}'
            if first is None
            else f'class {first} is {tested[first]!r} instead of '
            f'{trained[first]!r}'
        )
        raise ValueError(
            f'the {mode} data do not have the classes of the training data '
            f'({where}), so their labels mean something else: name the '
            'classes alike, or give metainfo=dict(classes=[...]) to both '
            'datasets.'
        )
    try:
        labels = flat_labels(dataset_labels(dataset))
    except TypeError:  # data that tell no labels beforehand
        return
    if labels.size and labels.max() >= distribution.num_classes:
        raise ValueError(
            f'label {int(labels.max())} of the {mode} data lies outside '
            f'[0, {distribution.num_classes}), the classes of the training '
            'data: correct the labels or the folders.'
        )
