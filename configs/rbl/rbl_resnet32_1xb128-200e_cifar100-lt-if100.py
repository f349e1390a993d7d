# RBL: simplex classifier whose rotation is learned, with logits adjusted at
# test time. Backbone and schedule are those of SETF.
_base_ = [
    '../_base_/datasets/cifar100_lt_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))

# A simplex of 100 classes needs 99 channels, the usual ResNet-32 has 64.
model = dict(
    backbone=dict(base_channels=32),
    head=dict(
        _delete_=True,
        type='mmgeom.RotatedETFHead',
        num_classes=100,
        in_channels=128,
    ),
)

# The rotation is orthogonal by a parametrisation. Weight decay would not
# shrink it but turn it back to where it began.
optim_wrapper = dict(
    paramwise_cfg=dict(custom_keys={'head.rotation': dict(decay_mult=0)})
)
