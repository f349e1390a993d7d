# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Classifiers."""

from .multi_view_classifier import MultiViewClassifier

__all__ = ['MultiViewClassifier']
