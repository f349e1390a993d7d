# OL-DIR, linear: the integral of a random function up to a location. 10,000
# training rows, most of them in the middle of [0, 1]; 10,000 validation and
# 100,000 test rows spread evenly.
_base_ = '../default_runtime.py'

data_preprocessor = dict(
    type='mmgeom.TabularDataPreprocessor', in_channels=101
)

# 100 bins over [-2.8, 2.8].
label_bins = dict(edges=[-2.8 + 0.056 * k for k in range(101)])

# The training set is one batch.
train_dataloader = dict(
    batch_size=10000,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        type='mmgeom.BatchedDataset',
        dataset=dict(
            type='mmgeom.OperatorLearningDataset', kind='linear', split='train'
        ),
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)

val_dataloader = dict(
    batch_size=10000,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        type='mmgeom.BatchedDataset',
        dataset=dict(
            type='mmgeom.OperatorLearningDataset', kind='linear', split='val'
        ),
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
# Groups are by location: few training rows lie near 0 and 1.
val_evaluator = dict(
    type='mmgeom.ShotError',
    items=('mae', 'mse'),
    group_by='group_value',
    intervals=dict(
        many=[[0.2, 0.8]],
        medium=[[0.1, 0.2], [0.8, 0.9]],
        few=[[0.0, 0.1], [0.9, 1.0]],
    ),
)

# Select on the validation rows, report on the test rows.
test_dataloader = dict(
    batch_size=10000,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        type='mmgeom.BatchedDataset',
        dataset=dict(
            type='mmgeom.OperatorLearningDataset', kind='linear', split='test'
        ),
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_evaluator = val_evaluator

default_hooks = dict(
    label_distribution=dict(bins=label_bins),
    checkpoint=dict(save_best='error/mae', rule='less'),
)
