# Your own images: one folder a class below data/custom/train and
# data/custom/val, with the same class names in both.
data_preprocessor = dict(
    num_classes=10,
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    # images are decoded as BGR
    to_rgb=True,
)

train_pipeline = [
    dict(type='mmgeom.LoadImage'),
    dict(type='RandomResizedCrop', scale=224),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [
    dict(type='mmgeom.LoadImage'),
    dict(type='ResizeEdge', scale=256, edge='short'),
    dict(type='CenterCrop', crop_size=224),
    dict(type='PackInputs'),
]

train_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='CustomDataset',
        data_root='data/custom/train',
        pipeline=train_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='CustomDataset',
        data_root='data/custom/val',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_evaluator = [
    dict(type='mmgeom.ShotAccuracy'),
    dict(type='mmgeom.CalibrationError'),
]

test_dataloader = val_dataloader
test_evaluator = val_evaluator
