# STS-B-DIR: 5,249 training, 1,000 validation and 1,000 test pairs of
# sentences, scored 0 to 5 for how similar they are. From the .tsv files of
# Yang et al. (ICML 2021), tools/dataset_converters/embed_text_pairs.py writes
# train_new.npz, dev_new.npz and test_new.npz to data/sts_b.
_base_ = '../default_runtime.py'

# Four times the size of an embedding.
data_preprocessor = dict(
    type='mmgeom.TabularDataPreprocessor', in_channels=1536
)

# 50 bins over [0, 5]. Many scores are tenths, which rounding would put on
# either side of an edge at a tenth, so edges lie a little below.
label_bins = dict(edges=[k / 10 - 1e-4 for k in range(50)] + [5.0])

# The groups with which Yang et al. report, lists and not a rule.
shot_groups = dict(
    many=[0, *range(10, 50, 2), 49],
    medium=[2, 4, 6, 8, 27, 35, 37],
    few=[*range(1, 27, 2), 29, 31, 33, *range(39, 49, 2)],
)

train_dataloader = dict(
    batch_size=16,
    num_workers=0,
    persistent_workers=False,
    # Rows are handled in whole batches.
    dataset=dict(
        type='mmgeom.BatchedDataset',
        dataset=dict(
            type='mmgeom.TextPairDataset',
            data_root='data/sts_b',
            ann_file='train_new.npz',
        ),
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=256,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        type='mmgeom.TextPairDataset',
        data_root='data/sts_b',
        ann_file='dev_new.npz',
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_evaluator = dict(
    type='mmgeom.ShotError',
    items=('mse', 'mae', 'pearson', 'spearman'),
    groups=dict(by='given', groups=shot_groups),
)

# Select on the validation pairs, report on the test pairs.
test_dataloader = dict(
    batch_size=256,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        type='mmgeom.TextPairDataset',
        data_root='data/sts_b',
        ann_file='test_new.npz',
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_evaluator = val_evaluator

default_hooks = dict(
    label_distribution=dict(bins=label_bins),
    checkpoint=dict(save_best='error/mse', rule='less'),
)
