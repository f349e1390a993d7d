# Twice as long.
_base_ = './supcon_resnet32_1xb256-200e_cifar10-lt-if100.py'

param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=0.2,
        by_epoch=True,
        begin=0,
        end=5,
    ),
    dict(
        type='MultiStepLR',
        by_epoch=True,
        milestones=[320, 360],
        gamma=0.1,
        end=400,
    ),
]
train_cfg = dict(max_epochs=400, val_interval=10)
