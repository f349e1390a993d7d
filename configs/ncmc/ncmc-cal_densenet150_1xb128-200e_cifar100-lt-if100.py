# NCMC, Class-Aware Loss: the rarer a class, the more fixed centres it has.
_base_ = [
    '../_base_/datasets/cifar100_lt_batched.py',
    '../_base_/models/cifar_densenet150.py',
    '../_base_/schedules/cifar_step10_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))

# As in the paper, the feature of the DenseNet is normalised first.
# A linear map from 510 to 2100 channels follows.
model = dict(
    head=dict(
        _delete_=True,
        type='mmgeom.MultiCenterHead',
        num_classes=100,
        in_channels=510,
        f=20,
        theta=0.2,
        normalize_input=True,
    )
)
