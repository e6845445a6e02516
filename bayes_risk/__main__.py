"""``python -m bayes_risk`` is the command ``bayes-risk``."""

if __name__ == "__main__":
    from bayes_risk.app.cli import main

    main()
