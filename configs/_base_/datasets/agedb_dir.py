# AgeDB-DIR: 12,208 training, 2,140 validation and 2,140 test faces of ages
# 1 to 101. agedb.csv of Yang et al. (ICML 2021) and the folder AgeDB lie in
# data/agedb.
_base_ = '../default_runtime.py'

data_preprocessor = dict(
    mean=[127.5, 127.5, 127.5],
    std=[127.5, 127.5, 127.5],
    # images are decoded as BGR
    to_rgb=True,
)

# One bin a year.
label_bins = dict(width=1, start=0, stop=101)

train_pipeline = [
    dict(type='mmgeom.LoadImage'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='RandomCrop', crop_size=224, padding=16),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='mmgeom.LoadImage'),
    dict(type='Resize', scale=(224, 224)),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='mmgeom.ImageRegressionDataset',
        data_root='data/agedb',
        ann_file='agedb.csv',
        split='train',
        pipeline=train_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='mmgeom.ImageRegressionDataset',
        data_root='data/agedb',
        ann_file='agedb.csv',
        split='val',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
# Many-shot ages have more than 100 training images, few-shot ages fewer than
# 20.
val_evaluator = dict(type='mmgeom.ShotError')

# Select on the validation images, report on the test images.
test_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='mmgeom.ImageRegressionDataset',
        data_root='data/agedb',
        ann_file='agedb.csv',
        split='test',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_evaluator = val_evaluator

default_hooks = dict(
    label_distribution=dict(bins=label_bins),
    checkpoint=dict(save_best='error/mae', rule='less'),
)
