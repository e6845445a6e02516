"""Binary data: the worst case of a synthesiser against what an intruder learns, exactly.

McClure & Reiter (2012) take n binary records, a Beta(a, a) prior, and a release of n draws from the
posterior predictive, and ask how the epsilon of differential privacy relates to the probabilities
of an intruder who knows all records but one. Their finding, as Hu (2019, section 5) reports it: the
two "are not easily reconciled", and risks can be small where epsilon is large. Their tables are not
at hand, so the study is built anew from the closed form, and every figure is exact: all releases
and all data are enumerated. ``privacy_loss`` and ``attribute_evidence`` are run on one release of
each setting, to stand beside the closed form.

Run ``python examples/papers/mcclure_reiter_2012.py``.
"""

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import betabinom

import bayes_risk as br

SETTINGS = [(20, 1.0), (100, 1.0), (100, 10.0), (1000, 1.0), (1000, 10.0)]
SHARES = {"balanced": 0.5, "one in ten": 0.1, "a single one": 0.0}


def log_odds(n, a, s, z):
    """log p(z | y_i = 1) / p(z | y_i = 0), s ones among the n - 1 known, z among the n released."""
    return np.log((a + s + z) / (a + s)) + np.log((a + n - 1 - s) / (a + 2 * n - 1 - s - z))


def worst_case(n, a):
    """Epsilon over all data and all releases: every s and z."""
    s, z = np.arange(n)[:, None], np.arange(n + 1)[None, :]
    return np.abs(log_odds(n, a, s, z)).max()


def realised(n, a, share):
    """Loss and posterior of the one record's truth (a one), over all releases of these data."""
    s = max(round(share * n) - 1, 0)  # the other ones
    z = np.arange(n + 1)
    p = betabinom(n, a + s + 1, a + n - s - 1).pmf(z)  # releases of the data, this one included
    odds = log_odds(n, a, s, z)
    loss, posterior = np.abs(odds), expit(odds)  # at even odds beforehand
    order = np.argsort(loss)
    q95 = loss[order][np.searchsorted(p[order].cumsum(), 0.95)]
    prior = (a + s) / (2 * a + n - 1)  # what the known records say of the next one
    informed = expit(np.log(prior / (1 - prior)) + odds)
    return {
        "mean loss": p @ loss,
        "95 % of losses below": q95,
        "Pr(truth), even odds": p @ posterior,
        "in 1 of 20 above": _upper(posterior, p),
        "Pr(truth), predictive prior": p @ informed,
        "without the release": prior,
    }


def _upper(values, p, q=0.95):
    order = np.argsort(values)
    return values[order][np.searchsorted(p[order].cumsum(), q)]


def by_library(n, a, seed=1):
    """Realised loss of record 0 by `privacy_loss`, and by the closed form."""
    levels = ["no", "yes"]
    ones = max(n // 10, 1)
    codes = (np.arange(n) < ones).astype(int)
    df = pd.DataFrame({"answer": pd.Categorical.from_codes(codes, levels)})
    model = br.models.DPMPM(n_classes=1, level_prior=a)
    fit = model.fit(df, draws=10, tune=0, thin=1, random_seed=seed)
    release = fit.synthesize(1, random_seed=seed)
    loss = br.privacy_loss(br.attribute_evidence(fit, release, random_seed=seed))
    z = int((release.datasets[0]["answer"] == "yes").sum())
    return loss.records["privacy_loss"].iloc[0], abs(log_odds(n, a, ones - 1, z))


def main(settings=SETTINGS):
    rows = {}
    for n, a in settings:
        found, exact = by_library(n, a)
        rows[n, a] = {
            "log(1 + n/a)": np.log1p(n / a),
            "all s, z": worst_case(n, a),
            "one release, privacy_loss": found,
            "one release, closed form": exact,
        }
    worst = pd.DataFrame.from_dict(rows, orient="index").rename_axis(["n", "a"])
    print("Worst case over data and releases, and the loss of one release (one in ten)")
    print(worst.round(4).to_string(), end="\n\n")
    table = pd.DataFrame(
        {
            (n, a, words): {"worst case": np.log1p(n / a)} | realised(n, a, share)
            for n, a in settings
            for words, share in SHARES.items()
        }
    ).T.rename_axis(["n", "a", "data"])
    print("What is realised, over all releases of the data; the target holds a one")
    print(table.round(4).to_string())
    return worst, table


if __name__ == "__main__":
    main()
