# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
import os.path as osp

from mmengine.fileio import get_file_backend, load
from mmpretrain.datasets import BaseDataset

from mmgeom.registry import DATASETS

from .checks import declared_num_classes, require_path, require_samples

_PAGE = 'https://github.com/visipedia/inat_comp/tree/master/2018'


@DATASETS.register_module()
class INaturalist2018(BaseDataset):
    """iNaturalist 2018: 437,513 training images of 8,142 species.

    The long-tailed data of Van Horn et al., "The iNaturalist Species
    Classification and Detection Dataset", CVPR 2018, in its 2018 edition,
    whose 24,426 validation images serve as the test set. The annotation
    file has the lists ``images`` (``id``, ``file_name``), ``annotations``
    (``image_id``, ``category_id``), one for each image, and ``categories``
    (``id``, ``name``). Labels are ``0..K-1`` in the order of the category
    ids; K and the class names are read from the file.

    Args:
        ann_file (str): The json file, relative to ``data_root``. Defaults to
            'train2018.json'.
        data_root (str): Root of ``ann_file`` and ``data_prefix``. Defaults
            to ''.
        data_prefix (str | dict): Folder that holds ``train_val2018``,
            relative to ``data_root``. Defaults to ''.
        metainfo (dict, optional): Meta information; ``classes`` in it has
            precedence over the names of the file. Defaults to None.
        **kwargs: Other arguments of
            :class:`mmpretrain.datasets.BaseDataset`.

    Raises:
        FileNotFoundError: When the file or the folder is not there.
        ValueError: When the file is no such json file, holds no samples, an
            image lacks its annotation or an annotation its image or
            category, an id occurs twice, or the number of class names given
            differs from that of the categories.
    """

    def __init__(
        self,
        ann_file: str = 'train2018.json',
        data_root: str = '',
        data_prefix: str | dict = '',
        metainfo: dict | None = None,
        **kwargs,
    ) -> None:
        super().__init__(
            ann_file=ann_file,
            data_root=osp.expanduser(data_root),
            data_prefix=data_prefix,
            metainfo=metainfo,
            **kwargs,
        )

    def load_data_list(self) -> list[dict]:
        """Read the annotation file.

        Returns:
            list[dict]: A dict of ``img_path`` and ``gt_label`` per image, in
            the file's order of images.
        """
        require_path(self.ann_file, f'get it from {_PAGE}')
        if self.img_prefix:
            require_path(self.img_prefix, f'get the images from {_PAGE}')
        content = self._load_json()
        files = self._column(content, 'images', 'id', 'file_name')
        require_samples(len(files), f"'{self.ann_file}'")
        names = self._column(content, 'categories', 'id', 'name')
        categories = self._column(
            content, 'annotations', 'image_id', 'category_id'
        )
        self._check_ids(files, categories, names)
        self._declare_classes(names)
        labels = {key: label for label, key in enumerate(sorted(names))}
        backend = get_file_backend(self.img_prefix, enable_singleton=True)
        return [
            {
                'img_path': backend.join_path(self.img_prefix, file_name),
                'gt_label': labels[categories[image_id]],
            }
            for image_id, file_name in files.items()
        ]

    def _load_json(self) -> dict:
        try:
            content = load(self.ann_file, file_format='json')
        except ValueError as error:
            raise ValueError(
                f"'{self.ann_file}' is not an intact json file ({error}): "
                f'get it again from {_PAGE}.'
            ) from error
        for key in ('images', 'annotations', 'categories'):
            if not isinstance(content, dict) or key not in content:
                raise ValueError(
                    f"'{self.ann_file}' has no list {key!r}: give a training "
                    f'or validation file as published at {_PAGE}.'
                )
        return content

    def _column(self, content: dict, name: str, key: str, value: str) -> dict:
        """One value of each entry of a list of the file, by the entry's id."""
        entries = content[name]
        try:
            column = {entry[key]: entry[value] for entry in entries}
        except KeyError as error:
            raise ValueError(
                f"'{self.ann_file}' has an entry without {error} in "
                f'{name!r}: each needs {key!r} and {value!r}.'
            ) from error
        if len(column) < len(entries):
            raise ValueError(
                f"'{self.ann_file}' has {len(entries)} entries in {name!r} "
                f'but {len(column)} different values of {key!r}: give each '
                'its own.'
            )
        return column

    def _check_ids(self, files: dict, categories: dict, names: dict) -> None:
        """Check that images, annotations and categories belong together."""
        for image_id, category_id in categories.items():
            if image_id not in files:
                raise self._error(f'annotates image id {image_id}', 'images')
            if category_id not in names:
                raise self._error(
                    f'gives image id {image_id} the category id {category_id}',
                    'categories',
                )
        for image_id in files:
            if image_id not in categories:
                raise self._error(f'has image id {image_id}', 'annotations')

    def _error(self, what: str, where: str) -> ValueError:
        return ValueError(
            f"'{self.ann_file}' {what}, which is not in {where!r}: correct "
            f'the file or get it again from {_PAGE}.'
        )

    def _declare_classes(self, names: dict) -> None:
        """Put the class names in the metainfo, unless some are given."""
        ordered = tuple(str(names[key]) for key in sorted(names))
        self._metainfo.setdefault('classes', ordered)
        declared_num_classes(type(self).__name__, self._metainfo, len(names))
