# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""The mathematics: functions of tensors, and small modules with buffers.

Nothing here knows mmengine, mmpretrain or a registry.
"""

from .allocation import allocate_centers
from .center_loss import (
    center_regression_loss,
    cosine_center_loss,
    dot_regression_loss,
    norm_penalty,
)
from .class_statistics import ClassStatistics
from .class_temperature import class_temperature, kukleva_schedule
from .collapse import nc1, nc2, nc3, nc4, second_pass
from .collapse_centers import (
    center_distance,
    class_mean_gram,
    cosine_statistics,
    variability,
)
from .collapse_statistics import CollapseStatistics
from .collectives import (
    all_gather_rows,
    all_reduce_sum,
    broadcast_,
    rank,
    reduce_sum_,
    remote_rows,
    row_counts,
    world_size,
)
from .contrast import supervised_contrastive_loss
from .frames import MultiCenterFrame, OwnTerms
from .orthonormal import orthonormal_rows, simplex_etf, simplex_vertices
from .precision import at_least_float32, unit_vectors
from .prior import LogPrior, adjust_logits
from .reconstruction import (
    Reconstruction,
    head_weights,
    reconstruct,
    simplex_half_angle,
)
from .segments import segment_quantile
from .soft_target import soft_cross_entropy
from .sphere import (
    SpanSample,
    few_shot_share,
    nearest_vectors,
    sample_span,
    uniform_points,
)
from .sphere_points import SpherePoints
from .standardization import Standardizer
from .step_generator import StepGenerator
from .surrogate import Surrogate
from .synthetic import fill_numbers, sample_confidence_support
from .trace import (
    batch_centroids,
    bin_sums,
    centroid_contrast,
    centroids_from_sums,
    enveloping_loss,
    homogeneity_loss,
    tube_volume,
)
from .trace_loss import TraceLoss
from .walsh_hadamard import RandomHadamard, walsh_hadamard

__all__ = [
    'SpherePoints',
    'TraceLoss',
    'sample_confidence_support',
    'fill_numbers',
    'Standardizer',
    'StepGenerator',
    'segment_quantile',
    'simplex_half_angle',
    'reconstruct',
    'head_weights',
    'Reconstruction',
    'kukleva_schedule',
    'class_temperature',
    'ClassStatistics',
    'world_size',
    'reduce_sum_',
    'remote_rows',
    'row_counts',
    'rank',
    'broadcast_',
    'all_reduce_sum',
    'all_gather_rows',
    'CollapseStatistics',
    'LogPrior',
    'MultiCenterFrame',
    'OwnTerms',
    'RandomHadamard',
    'SpanSample',
    'Surrogate',
    'adjust_logits',
    'allocate_centers',
    'at_least_float32',
    'batch_centroids',
    'bin_sums',
    'center_distance',
    'center_regression_loss',
    'centroid_contrast',
    'centroids_from_sums',
    'class_mean_gram',
    'cosine_center_loss',
    'cosine_statistics',
    'dot_regression_loss',
    'enveloping_loss',
    'few_shot_share',
    'homogeneity_loss',
    'nc1',
    'nc2',
    'nc3',
    'nc4',
    'nearest_vectors',
    'norm_penalty',
    'orthonormal_rows',
    'sample_span',
    'second_pass',
    'simplex_etf',
    'simplex_vertices',
    'soft_cross_entropy',
    'supervised_contrastive_loss',
    'tube_volume',
    'uniform_points',
    'unit_vectors',
    'variability',
    'walsh_hadamard',
]
