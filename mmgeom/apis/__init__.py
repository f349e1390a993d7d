# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Front-door helpers; submodules are imported where they are needed."""
