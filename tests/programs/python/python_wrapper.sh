#!/bin/sh
# An interpreter for PYTHON_EXEC that can be distinguished from the usual one.
WRAPPED=1 exec /usr/bin/python3 "$@"
