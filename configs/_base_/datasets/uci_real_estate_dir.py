# Real estate valuation of the UCI repository: 414 rows of 6 numbers (X1 to X6)
# behind a row number; the house price of unit area, 7.6 to 117.5, is the last
# column. Save the published spreadsheet as csv file with its header.
# The split is ours: validation and test data balanced over the label, all
# other rows, imbalanced as collected, for training.
_base_ = '../default_runtime.py'

data_preprocessor = dict(type='mmgeom.TabularDataPreprocessor', in_channels=6)

# 56 bins of width 2 over the range of the label: half a dozen rows each on
# average, some two dozen in the frequent ones, none or one in the tail.
label_bins = dict(width=2.0)

split = dict(
    type='mmgeom.ImbalancedRegressionDataset',
    dataset=dict(
        type='mmgeom.TabularDataset',
        ann_file='data/uci/real_estate.csv',
        ignore_columns=['No'],
        pipeline=[dict(type='PackInputs')],
    ),
    bins=label_bins,
    test_per_bin=3,
    val_per_bin=2,
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
