# NCMC, Class-Aware Loss: the rarer a class, the more fixed centres it has.
_base_ = [
    '../_base_/datasets/imagenet_lt.py',
    '../_base_/models/resnet50.py',
    '../_base_/schedules/imagenet_200e.py',
    '../_base_/default_runtime.py',
]

# 20,000 centres and 1,000 class directions are orthogonal only in 21,000
# dimensions. A dense random frame would be a matrix of 1.8 GB in every
# process and checkpoint, so the frame is a fast Hadamard rotation, which
# stores no matrix and whose directions are as dense. Its width is the next
# power of two, and the linear map of 2048 to 32768 channels in front has 67 M
# weights, three times the backbone; expand_groups=8 makes them 8.4 M. With
# frame='axis' the map ends at 21,000 channels (43 M weights), but each class
# then owns coordinates that batch norm rescales one by one.
model = dict(
    head=dict(
        _delete_=True,
        type='mmgeom.MultiCenterHead',
        num_classes=1000,
        in_channels=2048,
        f=20,
        theta=0.2,
        frame='hadamard',
    )
)
