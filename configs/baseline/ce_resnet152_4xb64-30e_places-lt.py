_base_ = [
    '../_base_/datasets/places_lt.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/places_30e.py',
    '../_base_/default_runtime.py',
]

# As usual for Places-LT, the network starts from ImageNet weights.
model = dict(
    backbone=dict(
        depth=152,
        init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet152'),
    ),
    head=dict(num_classes=365),
)
