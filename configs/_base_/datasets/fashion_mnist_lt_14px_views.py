# Half-size Fashion-MNIST-LT with three training views of each image: the
# first as in plain training, two for contrast, drawn independently.
_base_ = './fashion_mnist_lt_14px.py'

data_preprocessor = dict(type='mmgeom.MultiViewDataPreprocessor')

train_pipeline = [
    dict(
        type='MultiView',
        num_views=[1, 2],
        transforms=[
            _base_.train_pipeline[:-1],
            [
                dict(
                    type='RandomResizedCrop',
                    scale=14,
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
    ),
    dict(type='PackInputs'),
]
train_dataloader = dict(dataset=dict(dataset=dict(pipeline=train_pipeline)))
