# CIFAR-10-LT, the standard split of the long-tail literature.
data_preprocessor = dict(
    num_classes=10,
    mean=[125.307, 122.961, 113.8575],
    std=[51.5865, 50.847, 51.255],
    # the images are RGB already
    to_rgb=False,
)

# Count thresholds leave no few-shot class here, so the literature divides
# CIFAR-10 by index.
groups = dict(by='range', ranges=dict(many=(0, 3), medium=(3, 7), few=(7, 10)))

train_pipeline = [
    dict(type='RandomCrop', crop_size=32, padding=4),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
test_pipeline = [dict(type='PackInputs')]

train_dataloader = dict(
    batch_size=128,
    num_workers=2,
    dataset=dict(
        type='mmgeom.LongTailedDataset',
        imbalance_factor=100,
        protocol='ldam',
        dataset=dict(
            type='CIFAR10',
            data_root='data/cifar10',
            split='train',
            pipeline=train_pipeline,
        ),
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=256,
    num_workers=2,
    dataset=dict(
        type='CIFAR10',
        data_root='data/cifar10',
        split='test',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_evaluator = [
    dict(type='mmgeom.ShotAccuracy', groups=groups),
    dict(type='mmgeom.CalibrationError', groups=groups),
]

test_dataloader = val_dataloader
test_evaluator = val_evaluator
