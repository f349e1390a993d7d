# NCMC, Class-Aware Loss: the rarer a class, the more fixed centres it has.
_base_ = [
    '../_base_/datasets/svhn_lt_batched.py',
    '../_base_/models/cifar_densenet150.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# The imbalance factor stands twice in the dataset part, for `train` and for
# `extra`. As in the paper, the feature is normalised first on this dataset.
# Growth rate 32 as in the paper. backbone=dict(memory_efficient=True) trains
# the same network on a smaller device.
model = dict(
    backbone=dict(growth_rate=32),
    head=dict(
        _delete_=True,
        type='mmgeom.MultiCenterHead',
        num_classes=10,
        in_channels=1360,
        f=20,
        theta=0.2,
        normalize_input=True,
    ),
)
