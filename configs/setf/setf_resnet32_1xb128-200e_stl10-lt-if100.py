# SETF: fixed simplex classifier, dot-regression loss and Mixup.
_base_ = [
    '../_base_/datasets/stl10_lt_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))

# As in SETF's code, Mixup is the only augmentation.
model = dict(
    train_cfg=dict(augments=dict(type='Mixup', alpha=1.0)),
    head=dict(
        _delete_=True,
        type='mmgeom.ETFHead',
        num_classes=10,
        in_channels=64,
    ),
)
