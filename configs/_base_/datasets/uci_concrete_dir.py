# Concrete compressive strength of the UCI repository: 1,030 rows of 8 numbers;
# the strength in MPa is the last column of a csv file without header.
# The split is ours: validation and test data balanced over the label, all
# other rows, imbalanced as collected, for training (about 750, with 90
# for validation and 190 for testing).
_base_ = '../default_runtime.py'

data_preprocessor = dict(type='mmgeom.TabularDataPreprocessor', in_channels=8)

# 41 bins of 2 MPa, of 1 to 63 rows: with 1 MPa, most bins would hold too few
# rows to tell frequent labels from rare ones. They follow the labels, so it
# does not matter if these were centered.
label_bins = dict(width=2.0)

split = dict(
    type='mmgeom.ImbalancedRegressionDataset',
    dataset=dict(
        type='mmgeom.TabularDataset',
        ann_file='data/uci/concrete.csv',
        header=False,
        pipeline=[dict(type='PackInputs')],
    ),
    bins=label_bins,
    test_per_bin=6,
    val_per_bin=3,
)

train_dataloader = dict(
    batch_size=16,
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
