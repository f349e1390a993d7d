# SETF: fixed simplex classifier, dot-regression loss and Mixup.
_base_ = [
    '../_base_/datasets/imagenet_lt.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/imagenet_90e.py',
    '../_base_/default_runtime.py',
]

# A learning rate of 0.1 for a batch of 1024 and Mixup with alpha = 0.2, as in
# SETF's code. That code makes the last stage of the ResNet-50 twice as wide,
# 4096 channels, and does not normalise its features, which multiplies the
# loss of a sample by the norm of its feature, and adds 0.01 of that norm.
# Here the network is the usual one and the loss that of the other datasets.
train_dataloader = dict(batch_size=128)
auto_scale_lr = dict(base_batch_size=1024)

model = dict(
    train_cfg=dict(augments=dict(type='Mixup', alpha=0.2)),
    head=dict(
        _delete_=True,
        type='mmgeom.ETFHead',
        num_classes=1000,
        in_channels=2048,
    ),
)
