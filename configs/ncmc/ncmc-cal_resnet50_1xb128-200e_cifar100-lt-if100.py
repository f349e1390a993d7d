# NCMC, Class-Aware Loss: the rarer a class, the more fixed centres it has.
_base_ = [
    '../_base_/datasets/cifar100_lt_batched.py',
    '../_base_/models/cifar_resnet50.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))

# (f + 1) K = 2100 directions need a linear map in front of the frame, which
# the head adds by itself.
model = dict(
    head=dict(
        _delete_=True,
        type='mmgeom.MultiCenterHead',
        num_classes=100,
        in_channels=2048,
        f=20,
        theta=0.2,
    )
)
