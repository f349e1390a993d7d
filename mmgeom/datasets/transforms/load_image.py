# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
from mmcv.transforms import LoadImageFromFile

from mmgeom.registry import TRANSFORMS


@TRANSFORMS.register_module()
class LoadImage(LoadImageFromFile):
    """Load an image from ``img_path``, naming the file when that fails.

    mmcv's ``LoadImageFromFile`` fails with an assertion for damaged files,
    which ``python -O`` removes, and for empty files with an error of the
    decoder that does not tell which file it was. Here each failure is one
    sentence with the path. Keys and arguments are those of mmcv's class.

    With ``ignore_empty=True`` every file that cannot be loaded is skipped
    instead: in training the dataset then draws another sample at random,
    which changes the label distribution. Results that hold an ``img``
    already, as those of the host's inferencer do, are returned as they are.

    Raises:
        FileNotFoundError: When the file is not there.
        ValueError: When the file cannot be read or decoded.
    """

    def transform(self, results: dict) -> dict | None:
        """Load the image.

        Args:
            results (dict): With ``img_path``.

        Returns:
            dict | None: The same with ``img``, ``img_shape`` and
            ``ori_shape``; ``None`` for a file that is to be skipped.
        """
        if 'img' in results and 'img_path' not in results:
            return results
        path = results['img_path']
        try:
            return super().transform(results)
        except FileNotFoundError as error:
            if self.ignore_empty:
                return None
            raise FileNotFoundError(
                f"Image file '{path}' does not exist: correct `data_root` "
                'and `data_prefix`, or get the image.'
            ) from error
        # What fails depends on storage and decoder, and so does the error.
        except Exception as error:
            if self.ignore_empty:
                return None
            raise ValueError(
                f"Image file '{path}' cannot be read or decoded: replace it "
                'or take it out of the list.'
            ) from error
