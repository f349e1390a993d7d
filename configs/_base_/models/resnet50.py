model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=50, out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='mmgeom.LinearHead',
        num_classes=1000,
        in_channels=2048,
        loss=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
)
