# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import io
import zipfile
from collections.abc import Mapping

import numpy as np
from mmengine.fileio import get

from mmgeom.registry import DATASETS

from .checks import require_path, require_samples, require_split
from .row_dataset import RowDataset, require_finite

_TOOL = 'tools/dataset_converters/embed_text_pairs.py'


@DATASETS.register_module()
class TextPairDataset(RowDataset):
    r"""Pairs of texts and a score for each, from precomputed embeddings.

    With the embeddings :math:`u, v \in \mathbb{R}^e` of the two texts the
    input is

    .. math:: x = [u;\, v;\, |u - v|;\, u \odot v] \in \mathbb{R}^{4e},

    as in Wang et al., "GLUE", ICLR 2019, and in STS-B-DIR of Yang et al.,
    "Delving into Deep Imbalanced Regression", ICML 2021. The encoder of the
    texts is frozen: ``tools/dataset_converters/embed_text_pairs.py`` runs it
    once and writes the file.

    Args:
        ann_file (str): A ``.npz`` file with ``u`` and ``v``, shape
            ``(N, e)``, ``score``, shape ``(N,)``, and perhaps ``split``,
            strings of shape ``(N,)``; relative to ``data_root``.
        data_root (str): Root of ``ann_file``. Defaults to ''.
        split (str, optional): Keep the pairs whose ``split`` is this.
            Defaults to None, which means all.
        **kwargs: Other arguments of :class:`RowDataset`.

    Raises:
        FileNotFoundError: When the file is not there.
        ValueError: When the file is no ``.npz`` file, an array is missing or
            does not fit the others, a value is not finite (the message names
            the row), or nothing is left.
    """

    def __init__(
        self,
        ann_file: str,
        data_root: str = '',
        split: str | None = None,
        **kwargs,
    ) -> None:
        self.split = split
        super().__init__(data_root=data_root, ann_file=ann_file, **kwargs)

    def load_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Read the file and combine the embeddings.

        Returns:
            tuple[np.ndarray, np.ndarray]: Inputs ``(N, 4e)`` and scores
            ``(N,)``.
        """
        require_path(self.ann_file, f'make it with {_TOOL}')
        arrays = self._read()
        u, v, score = (arrays[name] for name in ('u', 'v', 'score'))
        if u.ndim != 2 or u.shape != v.shape or score.shape != u.shape[:1]:
            raise ValueError(
                f"'{self.ann_file}' has u of shape {u.shape}, v of shape "
                f'{v.shape} and score of shape {score.shape}: give (N, e), '
                '(N, e) and (N,).'
            )
        for name in ('u', 'v', 'score'):
            if not np.issubdtype(arrays[name].dtype, np.floating):
                raise ValueError(
                    f"'{self.ann_file}' has {name} of dtype "
                    f'{arrays[name].dtype}: give floats.'
                )
        require_finite(f"'{self.ann_file}'", u=u, v=v, score=score)
        if self.split is not None:
            kept = self._kept(arrays, len(u))
            u, v, score = u[kept], v[kept], score[kept]
        require_samples(len(u), f"'{self.ann_file}'")
        return np.hstack([u, v, np.abs(u - v), u * v]), score

    def extra_repr(self) -> list[str]:
        """File and split, for the printed form."""
        return [*super().extra_repr(), f'Split: \t{self.split or "all pairs"}']

    def _read(self) -> dict[str, np.ndarray]:
        try:
            file = np.load(io.BytesIO(get(self.ann_file)))
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise ValueError('it holds one array')
            arrays = dict(file)
        except (zipfile.BadZipFile, EOFError, ValueError) as error:
            raise ValueError(
                f"'{self.ann_file}' is not an intact .npz file of plain "
                f'arrays ({error}): make it with {_TOOL}.'
            ) from error
        needed = ['u', 'v', 'score'] + ['split'] * (self.split is not None)
        missing = [name for name in needed if name not in arrays]
        if missing:
            raise ValueError(
                f"'{self.ann_file}' holds the arrays {sorted(arrays)}, not "
                f'{missing}: make it with {_TOOL}.'
            )
        return arrays

    def _kept(
        self, arrays: Mapping[str, np.ndarray], length: int
    ) -> np.ndarray:
        splits = arrays['split']
        if splits.shape != (length,):
            raise ValueError(
                f"'{self.ann_file}' has {length} pairs but split of shape "
                f'{splits.shape}: give one name for each pair.'
            )
        names = np.unique(splits).tolist()
        require_split(f"'{self.ann_file}'", self.split, names)
        return splits == self.split
