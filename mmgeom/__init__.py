# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Geometric long-tailed recognition and imbalanced regression.

A plugin of mmengine and mmpretrain. Importing it checks the host packages
and repairs what current versions of torch and setuptools broke in them (see
:mod:`mmgeom.compat`); the components register themselves when a registry
first looks for one of them.
"""

from .compat import apply_compat, check_host
from .version import __version__

check_host()
apply_compat()

from .apis.paths import config_path  # noqa: E402

__all__ = ['__version__', 'config_path']
