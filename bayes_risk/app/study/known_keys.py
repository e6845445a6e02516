"""Names of keys of a study file by section, of models by kind.

``TEXT`` is made from the sections by `docs/generate_study_file.py`.
"""

import re

TEXT = """\
study: title random_seed data model release attribute history identification utility context
    bounds membership full_table reweight sweep compare thresholds output
data: path demo columns index person household relate head household_variables missing
    missing_codes na days coarsen separator decimal encoding levels
release: m n columns classes parameters files
attribute: evidence target_mcse max_doublings refit_budget before by guesses prior knows_columns
    intruder targets guess_budget privacy_loss
history: same_table evidence transition
identification: known synthesized radius shape closed missing population strategy fallback
    corresponds by members
utility: columns numbers groups missing permutations analyses rules confidence
context: keys target groups distances holdout lookups
bounds: patterns m how numbers
membership: prior_odds comparisons alternatives refit_budget held_out others records
    knows_records
full_table: targets prior draws keep
reweight: until share rounds c g floor steps
sweep: priors knows_records knows_columns guesses classes parameters evidence m model
    combinations
thresholds: attribute_gain attribute_log_bayes_factor share_not_audited group_gain
    true_match_rate household_match_rate identical_records unique_values replicated_uniques
    linked_records certain_persons public share_unreliable rhat membership_auc
    membership_log_bayes_factor accept_simulated utility
output: folder confidential release keep_labels redact min_count
attribute.intruder: knows_records largest other knows_totals groups in_file household
model.CART: kind order min_leaf bootstrap smoothing floor missing_numbers weights models
model.Chain: kind parts draws tune chains missing_numbers weights
model.DPMPM: kind n_classes concentration_prior level_prior impossible columns draws tune chains
    thin splits weights
model.Forest: kind order n_trees min_leaf votes dirichlet chain
model.Marginals: kind level_prior columns weights
model.Mixture: kind families n_classes exposure rounded scales concentration_prior level_prior
    rate_prior normal_prior zeros columns draws tune chains thin splits missing_numbers weights
model.NestedDPMPM: kind n_classes n_members spouse impossible concentration_prior level_prior
    draws tune chains thin
model.PMM: kind order identifying threshold cuts models constraints donors later selection
model.PoissonMixture: kind n_classes synthesizer quantile concentration_prior rate_prior zeros
    covariates exposure level_prior draws tune chains thin splits weights
model.PyMCModel: kind build columns draws tune chains nuts_sampler weights
model.Regression: kind formulas families prior priors draws tune chains nuts_sampler weights
model.Simulator: kind generator command columns runs share seconds missing_numbers
"""
KEYS = {of.split(":")[0]: of.split(":")[1].split() for of in re.split(r"\n(?=\S)", TEXT.strip())}
