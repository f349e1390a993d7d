# SGD with a cosine schedule over 15 epochs, for comparisons on a CPU.
optim_wrapper = dict(
    optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=5e-4)
)
# `end` is stated, so that a run that is first made shorter and then resumed
# follows the same schedule.
param_scheduler = dict(
    type='CosineAnnealingLR', by_epoch=True, T_max=15, end=15
)
train_cfg = dict(by_epoch=True, max_epochs=15, val_interval=15)
val_cfg = dict()
test_cfg = dict()
# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=128)
