# FeatRecon: synthetic features where classes may lie, class temperatures.
_base_ = [
    '../_base_/datasets/cifar100_lt_views_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/cifar_contrast_200e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(
    batch_size=256, dataset=dict(dataset=dict(imbalance_factor=100))
)

model = dict(
    type='mmgeom.MultiViewClassifier',
    head=dict(
        _delete_=True,
        type='mmgeom.FeatReconHead',
        num_classes=100,
        in_channels=64,
    ),
)
