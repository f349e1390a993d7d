# SETF: fixed simplex classifier, dot-regression loss and Mixup.
_base_ = [
    '../_base_/datasets/cifar100_lt_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))

# SETF doubles the channels of ResNet-32 for CIFAR-100, so that 100 classes
# fit; do not compare with a ResNet-32 of 64 channels.
model = dict(
    backbone=dict(base_channels=32),
    train_cfg=dict(augments=dict(type='Mixup', alpha=1.0)),
    head=dict(
        _delete_=True,
        type='mmgeom.ETFHead',
        num_classes=100,
        in_channels=128,
    ),
)
