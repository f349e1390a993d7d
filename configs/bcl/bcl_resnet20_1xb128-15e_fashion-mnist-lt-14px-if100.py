_base_ = [
    '../_base_/datasets/fashion_mnist_lt_14px_views_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/short_15e.py',
    '../_base_/default_runtime.py',
]

# n_max / n_min of the training set
train_dataloader = dict(dataset=dict(dataset=dict(imbalance_factor=100)))

model = dict(
    type='mmgeom.MultiViewClassifier',
    backbone=dict(depth=20, in_channels=1),
    head=dict(
        _delete_=True,
        type='mmgeom.BCLHead',
        num_classes=10,
        in_channels=64,
        # as in the configs without contrast
        classifier=dict(type='mmgeom.LinearHead'),
    ),
)

# Half of the baselines', since the cross-entropy counts twice.
optim_wrapper = dict(optimizer=dict(lr=0.05))
