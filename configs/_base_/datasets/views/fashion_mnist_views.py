# Three views of a grey 28x28 image: one for classification, with Cutout, and
# two for contrast, drawn independently.
three_views = dict(
    type='MultiView',
    num_views=[1, 2],
    transforms=[
        [
            dict(type='RandomCrop', crop_size=28, padding=2),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            # black, as the background
            dict(type='Cutout', shape=8, pad_val=0, prob=1.0),
        ],
        [
            dict(
                type='RandomResizedCrop',
                scale=28,
                crop_ratio_range=(0.4, 1.0),
            ),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            dict(
                type='mmgeom.ColorJitter',
                brightness=0.4,
                contrast=0.4,
                prob=0.8,
            ),
        ],
    ],
)
