# Abalone of the UCI repository: 4,177 rows of 7 numbers and the sex (M, F, I),
# as csv file with header; the label is the number of rings, 1 to 29.
# The split is ours: validation and test data balanced over the label, all
# other rows, imbalanced as collected, for training (3,687, with 160 for
# validation and 330 for testing).
_base_ = '../default_runtime.py'

data_preprocessor = dict(type='mmgeom.TabularDataPreprocessor', in_channels=10)

# One bin for each number of rings: 29, of 0 to 689 rows.
label_bins = dict(width=1.0)

split = dict(
    type='mmgeom.ImbalancedRegressionDataset',
    dataset=dict(
        type='mmgeom.TabularDataset',
        ann_file='data/uci/abalone.csv',
        target='Rings',
        categorical=['Sex'],
        pipeline=[dict(type='PackInputs')],
    ),
    bins=label_bins,
    test_per_bin=20,
    val_per_bin=10,
)

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    persistent_workers=False,
    # Rows are handled in whole batches.
    dataset=dict(
        type='mmgeom.BatchedDataset', dataset=dict(split='train', **split)
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=256,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(split='val', **split),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_evaluator = dict(type='mmgeom.ShotError', groups=dict(by='thirds'))

test_dataloader = dict(
    batch_size=256,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(split='test', **split),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_evaluator = val_evaluator

default_hooks = dict(
    label_distribution=dict(bins=label_bins),
    checkpoint=dict(save_best='error/mae', rule='less'),
)
