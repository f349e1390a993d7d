# NCMC, Class-Aware Loss: the rarer a class, the more fixed centres it has.
_base_ = [
    '../_base_/datasets/svhn_lt_batched.py',
    '../_base_/models/cifar_resnet50.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# The imbalance factor stands twice in the dataset part, for `train` and for
# `extra`. As in the paper, the feature is normalised first on this dataset.
model = dict(
    head=dict(
        _delete_=True,
        type='mmgeom.MultiCenterHead',
        num_classes=10,
        in_channels=2048,
        f=20,
        theta=0.2,
        normalize_input=True,
    )
)
