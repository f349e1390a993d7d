# BCL: class averages and prototypes in the contrast.
_base_ = [
    '../_base_/datasets/cifar10_lt_views_batched.py',
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
        type='mmgeom.BCLHead',
        num_classes=10,
        in_channels=64,
    ),
)
