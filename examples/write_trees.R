# Writes the trees that synthpop kept (syn(..., models = TRUE)) for bayes_risk: see docs/trees.md. Needs jsonlite.
write_trees <- function(made, file) {
  kept <- if (made$m == 1 && !is.null(names(made$models))) list(made$models) else made$models
  tree <- function(fit) {
    if (is.null(fit)) return(NULL)
    if (is.character(fit)) return(list(kind = fit[1]))
    if (!inherits(fit, "rpart")) return(list(kind = class(fit)[1]))
    nodes <- data.frame(node = as.integer(rownames(fit$frame)), var = as.character(fit$frame$var),
                        n = fit$frame$n, ncompete = fit$frame$ncompete, nsurrogate = fit$frame$nsurrogate)
    splits <- fit$splits
    if (!is.null(splits))
      splits <- data.frame(var = rownames(splits), ncat = splits[, "ncat"], index = splits[, "index"], row.names = NULL)
    list(kind = "rpart", method = fit$method, frame = nodes, splits = splits, csplit = fit$csplit,
         xlevels = attr(fit, "xlevels"), ylevels = attr(fit, "ylevels"), usesurrogate = fit$control$usesurrogate)
  }
  smoothed <- made$smoothing
  if (is.null(names(smoothed))) names(smoothed) <- names(made$method)[seq_along(smoothed)]
  everything <- list(m = made$m, method = as.list(made$method), visit_sequence = names(made$visit.sequence),
                     proper = made$proper, smoothing = as.list(smoothed), cont_na = made$cont.na, rules = made$rules,
                     predictors = colnames(made$predictor.matrix), predictor_matrix = unname(made$predictor.matrix),
                     models = lapply(kept, function(one) lapply(one, tree)))
  out <- gzfile(file, "w")
  on.exit(close(out))
  writeLines(jsonlite::toJSON(everything, auto_unbox = TRUE, digits = NA, na = "null", null = "null"), out)
}

# made <- syn(original, m = 2, models = TRUE, seed = 2021)
# write.syn(made, filename = "syn", filetype = "csv")
# write_trees(made, "models.json.gz")
