# Three views of a loaded image, in BGR, at 224x224: one for classification,
# with RandAugment, and two for contrast, drawn independently. As in BCL.

# The original ranges of RandAugment. At magnitude 10 colour, contrast,
# brightness and sharpness are enhanced by 1.9, four bits are kept, and only
# the brightest pixels are inverted. The host's preset 'timm_increasing' would
# keep no bit there, so that one image in some thirty would be black.
rand_augment_policies = [
    dict(type='AutoContrast'),
    dict(type='Equalize'),
    dict(type='Invert'),
    dict(type='Rotate', magnitude_range=(0, 30)),
    dict(type='Posterize', magnitude_range=(0, 4)),
    dict(type='Solarize', magnitude_range=(0, 256)),
    dict(type='SolarizeAdd', magnitude_range=(0, 110)),
    dict(
        type='ColorTransform',
        magnitude_range=(-0.9, 0.9),
        random_negative_prob=0.0,
    ),
    dict(
        type='Contrast', magnitude_range=(-0.9, 0.9), random_negative_prob=0.0
    ),
    dict(
        type='Brightness',
        magnitude_range=(-0.9, 0.9),
        random_negative_prob=0.0,
    ),
    dict(
        type='Sharpness',
        magnitude_range=(-0.9, 0.9),
        random_negative_prob=0.0,
    ),
    dict(type='Shear', magnitude_range=(0, 0.3), direction='horizontal'),
    dict(type='Shear', magnitude_range=(0, 0.3), direction='vertical'),
    dict(type='Translate', magnitude_range=(0, 0.45), direction='horizontal'),
    dict(type='Translate', magnitude_range=(0, 0.45), direction='vertical'),
]

three_views = dict(
    type='MultiView',
    num_views=[1, 2],
    transforms=[
        [
            dict(type='RandomResizedCrop', scale=224),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            dict(
                type='mmgeom.ColorJitter',
                brightness=0.4,
                contrast=0.4,
                saturation=0.4,
                channel_order='bgr',
            ),
            dict(
                type='RandAugment',
                policies=rand_augment_policies,
                num_policies=2,
                magnitude_level=10,
                magnitude_std=0.5,
                # mean of ImageNet, in BGR
                hparams=dict(pad_val=[104, 116, 124]),
            ),
        ],
        [
            dict(type='RandomResizedCrop', scale=224),
            dict(type='RandomFlip', prob=0.5, direction='horizontal'),
            dict(
                type='mmgeom.ColorJitter',
                brightness=0.4,
                contrast=0.4,
                saturation=0.4,
                hue=0.1,
                prob=0.8,
                channel_order='bgr',
            ),
            dict(
                type='RandomGrayscale',
                prob=0.2,
                keep_channels=True,
                channel_weights=(0.114, 0.587, 0.299),
                color_format='bgr',
            ),
        ],
    ],
)
