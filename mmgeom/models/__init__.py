# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Backbones, heads and losses."""

from .backbones import *  # noqa: F403
from .heads import *  # noqa: F403
from .losses import *  # noqa: F403
