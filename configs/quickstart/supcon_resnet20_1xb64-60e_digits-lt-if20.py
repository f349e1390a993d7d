# Supervised contrast beside logit-adjusted cross-entropy,
# on the digits of the quickstart.
_base_ = [
    '../_base_/datasets/digits_lt_views_batched.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/schedules/digits_60e.py',
    '../_base_/default_runtime.py',
]

model = dict(
    type='mmgeom.MultiViewClassifier',
    backbone=dict(depth=20, in_channels=1),
    head=dict(
        _delete_=True,
        type='mmgeom.SupConHead',
        num_classes=10,
        in_channels=64,
        # as in the configs without contrast
        classifier=dict(type='mmgeom.LinearHead'),
    ),
)

# Half of the other quickstarts', since the cross-entropy counts twice.
optim_wrapper = dict(optimizer=dict(lr=0.05))
