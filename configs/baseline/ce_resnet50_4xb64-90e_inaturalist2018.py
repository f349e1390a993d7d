_base_ = [
    '../_base_/datasets/inaturalist2018.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/imagenet_90e.py',
    '../_base_/default_runtime.py',
]

model = dict(head=dict(num_classes=8142))

optim_wrapper = dict(optimizer=dict(weight_decay=1e-4))
