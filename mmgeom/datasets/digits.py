# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import numpy as np

from mmgeom.registry import DATASETS

from .array_dataset import ArrayDataset
from .checks import require_module, require_split


@DATASETS.register_module()
class Digits(ArrayDataset):
    """Handwritten digits that come with scikit-learn, without a download.

    1,797 grey images of 8x8 pixels in 10 classes of 174 to 183 images: the
    test part of "Optical Recognition of Handwritten Digits" (Alpaydin and
    Kaynak, UCI Machine Learning Repository, 1998). Values 0..16 are scaled
    to ``round(255 v / 16)``.

    The split is ours: from each class ``test_per_class`` images drawn by
    ``seed`` are the test set, all others the training set. By default that
    is 500 test images, 50 per class, and 1,297 training images, with

    ======== === === === === === === === === === ===
    class      0   1   2   3   4   5   6   7   8   9
    training 128 132 127 133 131 132 131 129 124 130
    ======== === === === === === === === === === ===

    Writers are not kept apart by it, so accuracy is higher than for the
    writer-disjoint split of the original data.

    Args:
        split (str): 'train' or 'test'. Defaults to 'train'.
        test_per_class (int): Number of test images of each class, in
            1..173, so that each class keeps a training image. Defaults to
            50.
        seed (int): Seed of the split. Train and test set need the same.
            Defaults to 0.
        metainfo (dict, optional): Meta information. Defaults to None.
        **kwargs: Other arguments of :class:`mmpretrain.datasets.BaseDataset`
            except ``ann_file``.

    Raises:
        ImportError: When scikit-learn is not installed.
        ValueError: When ``split`` or ``test_per_class`` is not allowed.
    """

    METAINFO = {'classes': tuple('0123456789')}

    def __init__(
        self,
        split: str = 'train',
        test_per_class: int = 50,
        seed: int = 0,
        metainfo: dict | None = None,
        **kwargs,
    ) -> None:
        require_split('Digits', split, ('train', 'test'))
        self.split = split
        self.test_per_class = test_per_class
        self.seed = seed
        super().__init__(metainfo=metainfo, **kwargs)

    def load_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """Load the images of the split.

        Returns:
            tuple[np.ndarray, np.ndarray]: Images ``(N, 8, 8)``, uint8, and
            labels ``(N,)``.
        """
        source = require_module('sklearn.datasets', 'scikit-learn', 'Digits')
        digits = source.load_digits()
        images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
        labels = digits.target.astype(np.int64)
        chosen = self._is_test(labels) == (self.split == 'test')
        return images[chosen], labels[chosen]

    def extra_repr(self) -> list[str]:
        """The split, for the printed form."""
        return [
            f'Split: \t{self.split} ({self.test_per_class} test images per '
            f'class, seed {self.seed})'
        ]

    def _is_test(self, labels: np.ndarray) -> np.ndarray:
        """Mark the samples that come first in their class in random order."""
        smallest = int(np.bincount(labels).min())
        if not 1 <= self.test_per_class < smallest:
            raise ValueError(
                f'Digits is given test_per_class={self.test_per_class}: it '
                f'must lie in 1..{smallest - 1}, since the smallest class '
                f'has {smallest} images.'
            )
        keys = np.random.default_rng(self.seed).random(len(labels))
        order = np.lexsort((keys, labels))
        ordered = labels[order]
        start = np.searchsorted(ordered, ordered)
        is_test = np.empty(len(labels), dtype=bool)
        is_test[order] = np.arange(len(labels)) - start < self.test_per_class
        return is_test
