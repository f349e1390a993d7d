_base_ = [
    '../_base_/datasets/imagenet_lt.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/imagenet_90e.py',
    '../_base_/default_runtime.py',
]
