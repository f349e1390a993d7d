# SVHN-LT as in SETF: the profile is applied to `train` and to `extra`, each
# with n_max = N/10, and the two are joined. No augmentation.
data_preprocessor = dict(
    num_classes=10,
    mean=[127.5, 127.5, 127.5],
    std=[127.5, 127.5, 127.5],
    # the images are RGB already
    to_rgb=False,
)

pipeline = [dict(type='PackInputs')]

train_dataloader = dict(
    batch_size=128,
    num_workers=2,
    dataset=dict(
        type='ConcatDataset',
        datasets=[
            dict(
                type='mmgeom.LongTailedDataset',
                imbalance_factor=100,
                protocol='ldam',
                dataset=dict(
                    type='mmgeom.SVHN',
                    data_root='data/svhn',
                    split='train',
                    pipeline=pipeline,
                ),
            ),
            dict(
                type='mmgeom.LongTailedDataset',
                imbalance_factor=100,
                protocol='ldam',
                dataset=dict(
                    type='mmgeom.SVHN',
                    data_root='data/svhn',
                    split='extra',
                    pipeline=pipeline,
                ),
            ),
        ],
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=256,
    num_workers=2,
    dataset=dict(
        type='mmgeom.SVHN',
        data_root='data/svhn',
        split='test',
        pipeline=pipeline,
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
