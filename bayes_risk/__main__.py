"""``python -m bayes_risk`` is the command ``bayes-risk``."""

import os
import sys

if __name__ == "__main__":
    # Python puts the current folder first; the command imports nothing from there
    sys.path[:] = [p for p in sys.path if p not in ("", os.getcwd())]
    from bayes_risk.app.cli import main

    main()
