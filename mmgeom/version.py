# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The version of the package, the only place it is written."""

__version__ = '0.1.0'
