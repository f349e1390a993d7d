# SGD with a cosine schedule over 60 epochs, for small data.
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
# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=64)
