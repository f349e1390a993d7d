# Copyright (c) mmgeom contributors. Licensed under Apache-2.0.
"""Tables and figures."""
