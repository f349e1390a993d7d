# Adam at a constant learning rate over 30 epochs, for pairs of sentences.
optim_wrapper = dict(
    optimizer=dict(type='Adam', lr=2.5e-4), clip_grad=dict(max_norm=5.0)
)
train_cfg = dict(by_epoch=True, max_epochs=30, val_interval=1)
val_cfg = dict()
test_cfg = dict()
# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=16)
