# Contrastive learning on CIFAR-LT: 0.03, 0.06, ..., 0.15 in the first 5
# epochs, then x0.1 at epochs 160 and 180.
optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=0.15, momentum=0.9, weight_decay=5e-4)
)
param_scheduler = [
    dict(
        type='LinearLR',
        start_factor=0.2,
        by_epoch=True,
        begin=0,
        end=5,
    ),
    # `end` is stated, so that a run that is first made shorter and then
    # resumed follows the same schedule.
    dict(
        type='MultiStepLR',
        by_epoch=True,
        milestones=[160, 180],
        gamma=0.1,
        end=200,
    ),
]

train_cfg = dict(by_epoch=True, max_epochs=200, val_interval=5)
val_cfg = dict()
test_cfg = dict()

# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=256)
