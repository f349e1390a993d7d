# Adam with two steps over 90 epochs, the recipe of SRL for IMDB-WIKI-DIR.
optim_wrapper = dict(optimizer=dict(type='Adam', lr=1e-3))
param_scheduler = dict(
    type='MultiStepLR', by_epoch=True, milestones=[60, 80], gamma=0.1
)
train_cfg = dict(by_epoch=True, max_epochs=90, val_interval=1)
val_cfg = dict()
test_cfg = dict()
# The learning rate is meant for this total batch size.
auto_scale_lr = dict(base_batch_size=256)
