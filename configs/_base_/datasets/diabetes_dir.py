# The diabetes data that come with scikit-learn, without a download: 442 rows
# of 10 numbers; the label is the progression of the disease, 25 to 346.
# The split is ours: validation and test data balanced over the label, all
# other rows, imbalanced as collected, for training (289, with 46 for
# validation and 107 for testing).
_base_ = '../default_runtime.py'

data_preprocessor = dict(type='mmgeom.TabularDataPreprocessor', in_channels=10)

# 33 bins of width 10, of 1 to 30 rows: a dozen on average, so that their
# counts tell frequent labels from rare ones.
label_bins = dict(width=10.0)

split = dict(
    type='mmgeom.ImbalancedRegressionDataset',
    dataset=dict(
        type='mmgeom.TabularDataset',
        source='sklearn:diabetes',
        pipeline=[dict(type='PackInputs')],
    ),
    bins=label_bins,
    test_per_bin=4,
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
