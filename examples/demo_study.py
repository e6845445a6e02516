"""The demo study as a script: what `bayes-risk demo` does, step by step.

Run it with ``python examples/demo_study.py``; it writes ``demo-study.html``.
"""

import bayes_risk as br
from bayes_risk.demo import fair

SYNTHESISED = ["affairs", "children", "religious", "rate_marriage"]


def main(path="demo-study.html", draws=250, targets=None, refit_budget=10):
    df = fair()  # 6,366 women, nine categorical columns

    model = br.models.DPMPM(n_classes=30)
    fit = model.fit(df, draws=draws, tune=draws, random_seed=1)
    release = fit.synthesize(m=3, columns=SYNTHESISED, random_seed=2)

    # what would someone who knows everybody else learn about each woman?
    risk = br.attribute_risk(
        fit,
        release,
        intruder=br.Intruder(),
        guesses=br.Neighbourhood(1),
        targets=targets,
        refit_budget=refit_budget,
        random_seed=3,
    )
    print(risk)
    print(risk.worst(3))

    # would someone who knows age, education, years married, children and faith find her record?
    ident = br.identification_risk(
        df,
        release,
        known=["age", "educ", "yrs_married"],
        synthesized=["children", "religious"],
    )
    print(ident)

    br.report(risk, ident, path, title="Redbook survey of 1974", diagnostics=fit.diagnostics)
    return risk, ident


if __name__ == "__main__":
    main()
