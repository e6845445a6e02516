"""``python -m bayes_risk`` is the command ``bayes-risk``."""

from bayes_risk.app.cli import main

if __name__ == "__main__":
    main()
