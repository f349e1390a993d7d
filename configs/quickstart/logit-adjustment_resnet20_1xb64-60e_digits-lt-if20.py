# Handwritten digits that ship with scikit-learn, made long-tailed: trains on
# a CPU in a minute.
_base_ = [
    '../_base_/datasets/digits_lt.py',
    '../_base_/models/cifar_resnet32.py',
    '../_base_/default_runtime.py',
]

model = dict(
    backbone=dict(depth=20, in_channels=1),
    head=dict(loss=dict(_delete_=True, type='mmgeom.LogitAdjustedLoss')),
)

optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=5e-4)
)
# `end` is stated, so that a run that is first made shorter and then resumed
# follows the same schedule.
param_scheduler = dict(
    type='CosineAnnealingLR', by_epoch=True, T_max=60, end=60
)
train_cfg = dict(by_epoch=True, max_epochs=60, val_interval=10)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=64)
