# AdamW at a constant learning rate, one batch an epoch.
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=1e-3, weight_decay=1e-2))
train_cfg = dict(by_epoch=True, max_epochs=40000, val_interval=500)
val_cfg = dict()
test_cfg = dict()
# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=10000)
