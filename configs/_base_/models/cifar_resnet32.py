# The ResNet-32 of the long-tail literature: 16-32-64 channels, 0.46 M
# parameters.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='mmgeom.CIFARResNet', depth=32),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='mmgeom.LinearHead',
        num_classes=10,
        in_channels=64,
        loss=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
)
