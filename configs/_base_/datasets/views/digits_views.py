# Three views of a grey 8x8 image, shifted independently: one for
# classification and two for contrast. Changes of brightness and contrast were
# tried for the latter and made the classifier worse: batch norm sees all
# views, and test images are unchanged.
three_views = dict(
    type='MultiView',
    num_views=[3],
    transforms=[[dict(type='RandomCrop', crop_size=8, padding=1)]],
)
