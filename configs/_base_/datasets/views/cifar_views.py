# Three views of a 32x32 image in RGB: one for classification, with
# AutoAugment and Cutout, and two for contrast, drawn independently.
three_views = dict(
    type='MultiView',
    num_views=[1, 2],
    transforms=[
        [
            dict(type='RandomCrop', crop_size=32, padding=4),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            dict(type='mmgeom.CIFARAutoAugment', channel_order='rgb'),
            dict(type='Cutout', shape=16, prob=1.0),
        ],
        [
            dict(type='RandomResizedCrop', scale=32),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            dict(
                type='mmgeom.ColorJitter',
                brightness=0.4,
                contrast=0.4,
                saturation=0.4,
                hue=0.1,
                prob=0.8,
                channel_order='rgb',
            ),
            dict(
                type='RandomGrayscale',
                prob=0.2,
                keep_channels=True,
                channel_weights=(0.299, 0.587, 0.114),
                color_format='rgb',
            ),
        ],
    ],
)
