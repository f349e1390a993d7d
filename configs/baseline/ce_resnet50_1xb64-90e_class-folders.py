_base_ = [
    '../_base_/datasets/class_folders.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/imagenet_90e.py',
    '../_base_/default_runtime.py',
]

# Set num_classes to the number of class folders, here and for the data.
data_preprocessor = dict(num_classes=10)
model = dict(head=dict(num_classes=10))

# The schedule is meant for a batch of 256, this learning rate for 64.
optim_wrapper = dict(optimizer=dict(lr=0.025))
auto_scale_lr = dict(base_batch_size=64)
