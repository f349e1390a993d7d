# Three views of a grey 8x8 image: one for classification, and two for
# contrast, drawn independently.
three_views = dict(
    type='MultiView',
    num_views=[1, 2],
    transforms=[
        [dict(type='RandomCrop', crop_size=8, padding=1)],
        [
            dict(type='RandomCrop', crop_size=8, padding=1),
            dict(
                type='mmgeom.ColorJitter',
                brightness=0.4,
                contrast=0.4,
                prob=0.8,
            ),
        ],
    ],
)
