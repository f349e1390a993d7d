# mmpretrain's ResNet-50 for small images: 3x3 stem without pooling, four
# stages, 2048 channels.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet_CIFAR', depth=50, out_indices=(3,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='mmgeom.LinearHead',
        num_classes=10,
        in_channels=2048,
        loss=dict(type='CrossEntropyLoss', loss_weight=1.0),
    ),
)
