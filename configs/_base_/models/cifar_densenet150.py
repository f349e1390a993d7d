# DenseNet-BC of depth 150 and growth rate 12, 510 channels. With
# growth_rate=32 there are 1360, which is in_channels of the head then.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='mmgeom.CIFARDenseNet', depth=150, growth_rate=12),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='mmgeom.LinearHead',
        num_classes=10,
        in_channels=510,
        loss=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
)
