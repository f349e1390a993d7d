# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""What runs beside the model: hooks."""

from .hooks import *  # noqa: F403
