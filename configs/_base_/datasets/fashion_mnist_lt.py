# Fashion-MNIST (28x28, grey), made long-tailed.
data_preprocessor = dict(num_classes=10, mean=[72.94], std=[90.02])

train_pipeline = [
    dict(type='RandomCrop', crop_size=28, padding=2),
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
            type='mmgeom.FashionMNIST',
            data_root='data/fashion-mnist',
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
        type='mmgeom.FashionMNIST',
        data_root='data/fashion-mnist',
        split='test',
        pipeline=test_pipeline,
    ),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
val_evaluator = dict(
    type='mmgeom.ShotAccuracy',
    groups=dict(
        by='range', ranges=dict(many=(0, 3), medium=(3, 7), few=(7, 10))
    ),
)

test_dataloader = val_dataloader
test_evaluator = val_evaluator
