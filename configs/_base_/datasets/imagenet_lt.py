# ImageNet-LT: 115,846 training images of 1,000 classes, 1,280 to 5 a class.
# ILSVRC 2012 (train/ and val/) and the list files of OLTR lie in
# data/imagenet.
data_preprocessor = dict(
    num_classes=1000,
    mean=[123.675, 116.28, 103.53],
    std=[58.395, 57.12, 57.375],
    # images are decoded as BGR
    to_rgb=True,
)

train_pipeline = [
    dict(type='mmgeom.LoadImage'),
    dict(type='RandomResizedCrop', scale=224),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='ColorJitter', brightness=0.4, contrast=0.4, saturation=0.4),
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
        type='mmgeom.ImageNetLT',
        data_root='data/imagenet',
        ann_file='ImageNet_LT_train.txt',
        pipeline=train_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='mmgeom.ImageNetLT',
        data_root='data/imagenet',
        ann_file='ImageNet_LT_val.txt',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_evaluator = [
    dict(type='mmgeom.ShotAccuracy'),
    dict(type='mmgeom.CalibrationError'),
]

# Select on the validation list, report on the test list.
test_dataloader = dict(
    batch_size=64,
    num_workers=8,
    dataset=dict(
        type='mmgeom.ImageNetLT',
        data_root='data/imagenet',
        ann_file='ImageNet_LT_test.txt',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
test_evaluator = val_evaluator
