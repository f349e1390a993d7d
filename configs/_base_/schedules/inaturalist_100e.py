# SGD with a cosine schedule over 100 epochs.
optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=0.2, momentum=0.9, weight_decay=1e-4)
)
# `end` is stated, so that a run that is first made shorter and then resumed
# follows the same schedule.
param_scheduler = dict(
    type='CosineAnnealingLR', by_epoch=True, T_max=100, end=100
)

train_cfg = dict(by_epoch=True, max_epochs=100, val_interval=5)
val_cfg = dict()
test_cfg = dict()

# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=256)
