# scikit-learn's handwritten digits (8x8, grey), made long-tailed.
data_preprocessor = dict(num_classes=10, mean=[127.5], std=[127.5])

train_pipeline = [
    dict(type='RandomCrop', crop_size=8, padding=1),
    dict(type='PackInputs'),
]
test_pipeline = [dict(type='PackInputs')]

train_dataloader = dict(
    batch_size=64,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(
        type='mmgeom.LongTailedDataset',
        imbalance_factor=20,
        dataset=dict(
            type='mmgeom.Digits', split='train', pipeline=train_pipeline
        ),
    ),
    sampler=dict(type='DefaultSampler', shuffle=True),
)

val_dataloader = dict(
    batch_size=256,
    num_workers=0,
    persistent_workers=False,
    dataset=dict(type='mmgeom.Digits', split='test', pipeline=test_pipeline),
    sampler=dict(type='DefaultSampler', shuffle=False),
)
# The set is small, so the groups are too: classes with more than 50 and
# with fewer than 20 training images.
val_evaluator = dict(
    type='mmgeom.ShotAccuracy', groups=dict(by='count', many=50, few=20)
)

test_dataloader = val_dataloader
test_evaluator = val_evaluator
