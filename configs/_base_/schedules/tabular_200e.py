# AdamW at a constant learning rate over 200 epochs, for rows of numbers.
optim_wrapper = dict(optimizer=dict(type='AdamW', lr=3e-3, weight_decay=1e-2))
train_cfg = dict(by_epoch=True, max_epochs=200, val_interval=10)
val_cfg = dict()
test_cfg = dict()
# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=64)
