# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Where the package keeps its config files."""

from pathlib import Path

_CONFIGS = Path(__file__).resolve().parents[1] / '.mim' / 'configs'


def config_path(name: str) -> str:
    """Absolute path of a config that is shipped with the package.

    Lets any project inherit our configs, whichever script starts it, since
    mmengine evaluates ``_base_`` as an expression::

        _base_ = [__import__('mmgeom').config_path('baseline/NAME.py')]

    Args:
        name (str): Path below ``configs/``, e.g.
            ``'_base_/default_runtime.py'``.

    Returns:
        str: The absolute path.

    Raises:
        FileNotFoundError: When no such config exists; the message lists the
            configs of the same folder.
    """
    path = _CONFIGS / name
    is_inside = _CONFIGS in path.parents and '..' not in path.parts
    if not (is_inside and path.is_file()):
        folder = path.parent if is_inside else _CONFIGS
        near = sorted(p.name for p in folder.glob('*.py'))
        hint = (
            f'that folder holds {near}'
            if near
            else f'the folders are {sorted(_folders())}'
        )
        raise FileNotFoundError(f'mmgeom ships no config {name!r}: {hint}.')
    return str(path)


def _folders() -> list[str]:
    return [p.name for p in _CONFIGS.iterdir() if p.is_dir()]
